"""From runs to figures and words: intervals, verdicts, soaks, tails. Prints nothing."""
