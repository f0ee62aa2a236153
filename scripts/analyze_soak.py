#!/usr/bin/env python3
"""Sums soaks up and judges them by rule R4: scripts/analyze_soak.py --help."""

import sys

from in_lab import enter_lab

if __name__ == "__main__":
    # matplotlib only for a picture: without one, Debian's own packages do.
    plot = any(word.startswith("--plot") for word in sys.argv)
    enter_lab("numpy", "scipy", *(["matplotlib"] if plot else []))
    from hakmem_lab.cli.soak_scripts import analyze_soak

    analyze_soak()
