"""Recorded allocations: reading a trace, pairing its events, replaying it."""
