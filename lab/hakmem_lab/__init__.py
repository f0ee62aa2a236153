"""Measures memory allocators: interleaved runs, intervals, tables."""

__version__ = "0.1.0"
