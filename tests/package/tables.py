#!/usr/bin/env python3
"""Small variables of a built library lie together: no table is among them, and cmake/layout.ld.in names no variable that is not there.

Usage: tables.py [--nm NM] LAYOUT LIBRARY

A table in `.bss` keeps the variables on both of its sides on pages of their own; they belong into `.bss.tables`, by name. A name
that is no variable's any more is a table that was renamed, or one that is gone.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

TABLE = 4096


def variables(nm: str, library: Path) -> dict[str, tuple[str, int]]:
    """Section and size of each variable without an initial value."""
    text = subprocess.run([nm, "--format=sysv", library], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 7 and fields[6].startswith(".bss") and fields[4]:
            found[fields[0]] = (fields[6], int(fields[4], 16))
    return found


def named(layout: str) -> list[str]:
    """The variables that a linker script puts among the tables, without those that have a pattern."""
    return re.findall(r"\*\(\.bss\.(\w+)[ )]", layout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("layout", type=Path)
    parser.add_argument("library", type=Path)
    given = parser.parse_args()
    found = variables(given.nm, given.library)
    if not found:
        sys.exit(f"{given.library}: has no symbols")
    bad = [f"{name}: {size} bytes among small variables" for name, (section, size) in sorted(found.items())
           if section == ".bss" and size >= TABLE]
    bad += [f"{name}: in {given.layout.name}, and no variable" for name in named(given.layout.read_text()) if name not in found]
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
