#!/usr/bin/env python3
"""Messages go to the stderr that a program was started with, and never into a file that got its number.

usage: closed_stderr.py VARIANT LIBRARY PROGRAM
"""
import os
import signal
import subprocess
import sys
import tempfile

variant, library, program = sys.argv[1:]
failures = 0
STATISTICS = "[SS_OS_STATS] "
ABORT = "hakmem: free(): "


def check(name, good, detail):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {name}: {detail!r}")


def run(name, how, actions, expected, options=None, closed=False):
    """`expected`: what stderr starts with; "" for nothing at all. FILE in `actions` is a file of the program's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    env.update(options or {}, LD_PRELOAD=library)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        command = [program, how] + [path if word == "FILE" else word for word in actions.split()]
        if closed:
            env["API_PRELOAD"] = env.pop("LD_PRELOAD")
            command = ["/bin/sh", "-c", 'exec 2>&-; LD_PRELOAD="$API_PRELOAD" exec "$@"', "sh", *command]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        check(f"{name}: how it ends", done.returncode == (-signal.SIGABRT if how == "abort" else 0), done)
        check(f"{name}: stderr", done.stderr.startswith(expected) and bool(done.stderr) == bool(expected),
              done.stderr)  # fmt: skip
        check(f"{name}: one line", done.stderr.count("\n") == bool(expected), done.stderr)
        if "FILE" in actions:
            written = open(path).read()
            check(f"{name}: the program's file", written == "data\n" * actions.count("FILE"), written)


asked = {"HAKMEM_SS_OS_STATS": "1"} if variant != "fast" else {}
statistics = STATISTICS if asked else ""
run("nothing done, exit", "exit", "", statistics, asked)
run("nothing done, abort", "abort", "", ABORT)
run("moved, exit", "exit", "move", statistics, asked)
run("moved, abort", "abort", "move", ABORT)
for actions in ("close open FILE", "redirect FILE", "close"):
    # With statistics asked for there is a second descriptor, for such programs.
    run(f"{actions}, exit", "exit", actions, statistics, asked)
    run(f"{actions}, abort", "abort", actions, "")
    if asked:
        run(f"{actions}, abort, with a second descriptor", "abort", actions, ABORT, asked)
# That one's number may get another file, too.
run("over the second one, exit", "exit", "closeall open FILE over100 FILE", "", asked)
run("over the second one, abort", "abort", "closeall open FILE over100 FILE", "", asked)
run("closed from the start, exit", "exit", "open FILE", "", asked, closed=True)
run("closed from the start, abort", "abort", "open FILE", "", asked, closed=True)
print("failed" if failures else "passed")
sys.exit(1 if failures else 0)
