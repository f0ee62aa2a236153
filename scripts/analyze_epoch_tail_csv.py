#!/usr/bin/env python3
"""The slow tail of a soak: scripts/analyze_epoch_tail_csv.py --help."""

from in_lab import enter_lab

if __name__ == "__main__":
    enter_lab("numpy", "scipy")
    from hakmem_lab.cli.soak_scripts import analyze_epoch_tail

    analyze_epoch_tail()
