#!/usr/bin/env python3
"""Runs a program that touches the last byte of a block, and the first one outside.

usage: run.py LIBRARY PROGRAM CASE
With the guards that are due the first touch has to be survived and the second one to end it by SIGSEGV, both after "ready". Without them
(HAKMEM_GUARD=off, and behind a slab also light) the last byte of the pages can be touched, and the next one where memory of ours is sure
to follow.
"""
import os
import signal
import subprocess
import sys

library, program, case = sys.argv[1:]
slab = case.startswith("slab")
# Slack of its own, or a neighbour, lies there without a guard.
follows = case in ("large_over", "large_over_page", "huge_over", "huge_over_page", "slab_over")
bad = []
for mode in ("off", "light", "full"):
    guarded = mode == "full" or (mode == "light" and not slab)
    for where in ("inside", "outside"):
        if where == "outside" and not guarded and not follows:
            continue
        env = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
        env |= {"LD_PRELOAD": library, "HAKMEM_GUARD": mode}
        result = subprocess.run([program, case, where], env=env, capture_output=True, text=True, timeout=60)
        due = -signal.SIGSEGV if guarded and where == "outside" else 0
        if result.returncode != due or result.stdout != "ready\n" or result.stderr != "":
            bad.append(f"{mode} {where}: ended with {result.returncode} instead of {due}, "
                       f"{result.stdout!r}, {result.stderr!r}")
print("\n".join(bad))
sys.exit(1 if bad else 0)
