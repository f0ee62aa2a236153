#!/usr/bin/env python3
"""Counts the instructions of malloc's and of free's fast path in a built library, with binutils' objdump (x86-64).

Usage: fast_path.py [--objdump OBJDUMP] --most N LIBRARY

The fast path goes from the entry to `ret` and takes no conditional jump: the compiler puts there what it was told is
likely. Where it calls something, or jumps out of its function, there is no such path, and that is a finding.
The instructions of a pair, malloc and free together, may be N at most. callgrind counts them as they run (`make bench-ir`).
"""
import argparse
import re
import sys
from pathlib import Path

from check_hardening import Elf, instructions

PAIR = ("malloc", "free")


def path_length(code: dict[int, str], start: int, size: int) -> int:
    """Instructions from `start` to the first `ret`. ValueError: there is no such path."""
    following = dict(zip(sorted(code), sorted(code)[1:]))
    at, count = start, 0
    while start <= at < start + size and at in code:
        count += 1
        if count > size:
            raise ValueError("goes in a circle")
        name, _, operand = code[at].partition(" ")
        if name.startswith("ret"):
            return count
        if name.startswith("call"):
            raise ValueError(f"calls {operand.strip()}")
        if name == "jmp":
            target = re.match(r"\s*([0-9a-f]+)\b", operand)
            if target is None:
                raise ValueError(f"jumps to {operand.strip()}")
            at = int(target[1], 16)
        else:
            at = following.get(at, 0)
    raise ValueError("leaves its function without ret")


def lengths(library: Path, objdump: str) -> dict[str, int]:
    elf = Elf.read(library)
    if elf.machine != "x86-64":
        sys.exit(f"{library}: counted on x86-64 alone, this is {elf.machine}")
    code, functions = instructions(library, objdump), elf.exported()
    found = {}
    for name in PAIR:
        if name not in functions:
            sys.exit(f"{library}: exports no {name}")
        try:
            found[name] = path_length(code, *functions[name])
        except ValueError as why:
            sys.exit(f"{library}: {name} {why}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--most", type=int, required=True)
    parser.add_argument("library", type=Path)
    options = parser.parse_args()
    found = lengths(options.library, options.objdump)
    pair = sum(found.values())
    print(", ".join(f"{name} {count}" for name, count in found.items()) + f": {pair} instructions, {options.most} at most")
    return 1 if pair > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
