#!/usr/bin/env python3
"""Runs one program of this folder in one mode, with every kind of block: was the promise kept?

usage: run.py MODE LIBRARY PROGRAM     MODE: standard off light full
       run.py --list VARIANT                what CTest has to know: NAME MODE STATE, a line a test
Exit: 1 a promise was not kept, or a twin came to harm; 77 nothing could be tried here.
"""

import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from guarantees import NOT_COVERED, Guarantee, is_kept, load, run  # noqa: E402

HARDENED = ("off", "light", "full")


def list_tests(variant: str) -> None:
    for guarantee in load():
        for mode in HARDENED if variant == "hardened" else ("standard",):
            if guarantee.is_tried(mode):
                state = "pending" if mode in guarantee.pending else "on"
                print(f"{guarantee.name} {mode} {state}")


def check_tier(
    guarantee: Guarantee, mode: str, tier: str, library: str, program: Path
) -> list[str]:
    """What is wrong; prints what came of each run."""
    more = {} if mode == "standard" else {"HAKMEM_GUARD": mode}
    # Every block is one of the sampler's, or none: what a test is of must not depend on chance.
    sampled = bool(os.environ.get("GUARANTEE_SAMPLED"))
    more |= {"HAKMEM_PROF_RATE": "1" if sampled else "0", "HAKMEM_PROF_MOST": "0"}
    if guarantee.copies and mode != "standard":
        library += f":{Path(library).parent / 'libhakmem-copies.so'}"
    verdict = guarantee.promises[mode][tier]
    wrong = []
    outcome = run(program, tier, True, library, more)
    print(f"{tier}: twin: {outcome}")
    if outcome.kind == "untried":
        return [f"skipped: {outcome.text}"]
    if outcome.kind != "well":
        wrong.append(f"{tier}: a twin, which makes no mistake, ended with {outcome}")
    if verdict == NOT_COVERED:
        return wrong
    outcome = run(program, tier, False, library, more)
    print(f"{tier}: {verdict}: {outcome}")
    if not is_kept(verdict, guarantee, outcome):
        accepted = " or ".join(guarantee.what) or "an end without harm"
        wrong.append(
            f"{tier}: promised: {verdict} ({accepted}); {outcome}; announced: {outcome.due}"
        )
    return wrong


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--list":
        list_tests(arguments[1])
        return 0
    if len(arguments) != 3:
        sys.exit(__doc__)
    mode, library, program = arguments
    (guarantee,) = (known for known in load() if known.name == Path(program).name)
    if mode in guarantee.pending:
        print(f"pending: {guarantee.pending[mode]}")
    wrong = [
        line
        for tier in guarantee.tiers
        for line in check_tier(guarantee, mode, tier, library, Path(program))
    ]
    skipped = [line for line in wrong if line.startswith("skipped: ")]
    for line in wrong:
        print(line)
    if len(skipped) == len(wrong) and skipped:
        return 77
    return 1 if len(wrong) > len(skipped) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
