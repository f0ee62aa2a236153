#!/usr/bin/env python3
"""Percentiles of a column of numbers: scripts/calculate_percentiles.py --help."""

from in_lab import enter_lab

if __name__ == "__main__":
    enter_lab("numpy", "scipy")
    from hakmem_lab.cli.soak_scripts import calculate_percentiles

    calculate_percentiles()
