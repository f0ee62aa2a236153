#!/usr/bin/env python3
"""Runs a program that misuses a pointer and checks how it dies.

usage: run.py LIBRARY PROGRAM ARGUMENT...
The program announces on stdout the line that it should die of. What it really has to do: end by
SIGABRT, with that line and nothing else on stderr.
"""
import os
import resource
import signal
import subprocess
import sys

library, *command = sys.argv[1:]
env = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
env["LD_PRELOAD"] = library
if os.environ.get("BAD_POINTER_SAMPLED"):  # every block is one of the sampler's
    env.update(HAKMEM_PROF_RATE="1", HAKMEM_PROF_MOST="0")
else:  # none is: a sample that was written to is found when it is handed out, which need not be the next time
    env["HAKMEM_PROF_RATE"] = "0"
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

# Where two complaints are both true, the program announces both, with a bar between.
head, *tails = result.stdout.rstrip("\n").split("|")
prefix = head[: head.index(": ", head.index("0x")) + 2] if "0x" in head else head
accepted = [head + "\n"] + [prefix + tail + "\n" for tail in tails]

good = True
if result.returncode != -signal.SIGABRT:
    good = False
    print(f"ended with {result.returncode}, not by SIGABRT")
if not result.stdout or result.stderr not in accepted:
    good = False
    print("stderr: " + repr(result.stderr))
    print("due:    " + " or ".join(repr(line) for line in accepted))
sys.exit(0 if good else 1)
