"""Measures memory allocators: interleaved runs, intervals, tables.

From the bottom up: base, run, trace, analysis, report, scorecard, cli. Imports go downwards only.
"""

__version__ = "0.2.0"
