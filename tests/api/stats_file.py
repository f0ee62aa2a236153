#!/usr/bin/env python3
"""Where statistics go and whose they are: HAKMEM_STATS_FILE, HAKMEM_STATS_SIGNAL, and the process in the JSON.

usage: stats_file.py LIBRARY PROGRAM
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

library, program = sys.argv[1:]
name = os.path.basename(program)
failures = 0
USR1 = str(int(signal.SIGUSR1))


def check(what, good, detail=None):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}: {detail!r}"[:2000])


class Run:
    """The program in a directory of its own, with what lay there at the end: `files`, name to text."""

    def __init__(self, what, options, *actions, expected=0, before=None, path=program):
        env = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
        env.update({f"HAKMEM_{k}": v for k, v in options.items()}, LD_PRELOAD=library)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "elsewhere"))
            if before is not None:
                before(folder)
            old = os.umask(0o027)
            process = subprocess.Popen([path, *actions], env=env, cwd=folder, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
            os.umask(old)
            self.out, self.err = process.communicate(timeout=60)
            self.pid = process.pid
            self.files, self.modes = {}, {}
            for entry in os.listdir(folder):
                path = os.path.join(folder, entry)
                if os.path.isfile(path):
                    self.files[entry] = open(path).read()
                    self.modes[entry] = os.stat(path).st_mode & 0o777
            check(f"{what}: how it ends", process.returncode == expected, (process.returncode, self.err))


def objects(what, text):
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        check(f"{what}: {error}", False, text)
        return []


def the_json_names_the_process():
    what = "JSON on stderr"
    for profile in ("speed", "balanced", "lean", "MIXED_TINYV3_C7_SAFE"):
        run = Run(what, {"STATS": "json", "PROFILE": profile})
        rows = objects(what, run.err)
        shown = "speed" if profile.startswith("MIXED") else profile
        expected = {"pid": run.pid, "program": name, "profile": shown, "at": "exit", "partial": False}
        check(what, len(rows) == 1 and expected.items() <= rows[0].items(), rows)
    with tempfile.TemporaryDirectory() as folder:
        odd = os.path.join(folder, 'a "\\\n\x01\xe4')
        os.symlink(program, odd)
        run = Run("an odd name", {"STATS": "json"}, path=odd)
        row = objects("an odd name", run.err)[0]
        check("an odd name", row["program"] == 'a "\\????', row["program"])


def a_file_takes_what_was_asked_for():
    run = Run("only a file", {"STATS_FILE": "out.%p.%%"})
    check("only a file: stderr", run.err == "", run.err)
    own = f"out.{run.pid}.%"
    check("only a file", list(run.files) == [own], run.files)
    rows = objects("only a file", run.files.get(own, ""))
    check("only a file: JSON", len(rows) == 1 and rows[0]["pid"] == run.pid, rows)
    check("permissions are those of new files", run.modes.get(own) == 0o640, run.modes)
    run = Run("all", {"STATS_FILE": "out", "STATS": "all"})
    lines = run.files.get("out", "").splitlines()
    check("all", len(lines) > 2 and all(line.startswith("[") for line in lines) and run.err == "", run.files)
    run = Run("text", {"STATS_FILE": "out", "STATS": "text"})
    lines = run.files.get("out", "").splitlines()
    check("text", len(lines) == 10 and f"(pid {run.pid}) at exit" in lines[0] and run.err == "", run.files)
    run = Run("one line", {"STATS_FILE": "out", "SS_OS_STATS": "1"})
    text = run.files.get("out", "")
    check("one line", text.startswith("[SS_OS_STATS] ") and text.count("\n") == 1 and not run.err, run.files)
    run = Run("a pipe", {"STATS_FILE": "/dev/stdout"})
    check("a pipe", len(objects("a pipe", run.out)) == 1, run.out)


def where_the_program_goes_does_not_matter():
    run = Run("chdir", {"STATS_FILE": "out"}, "chdir", "elsewhere")
    check("chdir", list(run.files) == ["out"], run.files)
    run = Run("environment lost", {"STATS_FILE": "out"}, "forget")
    check("environment lost", list(run.files) == ["out"], run.files)


def a_child_has_its_own_or_appends():
    run = Run("fork, %p", {"STATS_FILE": "out.%p"}, "fork")
    child = int(run.out.split()[1])
    check("fork, %p", set(run.files) == {f"out.{run.pid}", f"out.{child}"}, run.files)
    for pid in (run.pid, child):
        rows = objects("fork, %p", run.files.get(f"out.{pid}", ""))
        check("fork, %p", [row["pid"] for row in rows] == [pid], rows)
    run = Run("fork, one file", {"STATS_FILE": "out"}, "fork")
    child = int(run.out.split()[1])
    rows = objects("fork, one file", run.files.get("out", ""))
    check("fork, one file", [row["pid"] for row in rows] == [child, run.pid], rows)


def what_fails_costs_one_line():
    start = "hakmem: HAKMEM_STATS_FILE: no statistics, for "
    for path in ("/nowhere/out", "elsewhere", "/dev/full", "x" * 300):
        run = Run(path, {"STATS_FILE": path})
        check(f"{path}: one line", run.err.startswith(start) and run.err.count("\n") == 1, run.err)
    for file in ("out", "/dev/stdout"):  # a pipe has no limit
        run = Run(f"no files, {file}", {"STATS_FILE": file, "STATS_SIGNAL": "USR1"}, "no-files", "raise", USR1)
        if file == "out":
            check("no files: lines", run.err.startswith(start) and run.err.count("longer than the limit") == 2, run.err)
        else:
            check("no files, a pipe", len(objects("a pipe", run.out)) == 2 and run.err == "", run.out)
    for path in ("a%d", "%", "a%", ""):
        run = Run(path, {"STATS_FILE": path})
        check(f"{path}: refused", run.err.count("\n") == 1 and "not understood" in run.err and not run.files,
              (run.err, run.files))  # fmt: skip

    def link_all(folder):
        # No process number is foreseen here, so the test gives the name away by another variable.
        os.symlink(os.path.join(folder, "victim"), os.path.join(folder, "out"))

    run = Run("a link", {"STATS_FILE": "out"}, before=link_all)
    check("a name of the user's may be a link", "victim" in run.files, run.files)
    # The number of the next process is not known, but a range of them can have links.
    def link_many(folder):
        for pid in range(os.getpid(), os.getpid() + 3000):
            os.symlink(os.path.join(folder, "victim"), os.path.join(folder, f"out.{pid}"))

    run = Run("foreseen links", {"STATS_FILE": "out.%p"}, before=link_many)
    check("a link in the place of a foreseen name is not followed", "victim" not in run.files, run.files)


def a_signal_asks():
    for text in ("USR1", "sigusr1", USR1):
        run = Run("a signal", {"STATS_SIGNAL": text}, "raise", USR1, "raise", USR1, "_exit")
        rows = objects("a signal", run.err)
        check("a signal", [row["at"] for row in rows] == ["signal", "signal"], rows)
        check("a signal: nothing is left out", all(not row["partial"] and "totals" in row for row in rows), rows)
    run = Run("a signal, and the end", {"STATS_SIGNAL": "USR1", "STATS_FILE": "out"}, "raise", USR1)
    rows = objects("a signal, and the end", run.files.get("out", ""))
    check("a signal, and the end", [row["at"] for row in rows] == ["signal", "exit"], rows)
    run = Run("all", {"STATS_SIGNAL": "USR1", "STATS": "all"}, "raise", USR1, "_exit")
    check("all", run.err.startswith("[SS_OS_STATS] ") and "[MEMORY_STATS]" in run.err, run.err)
    run = Run("text", {"STATS_SIGNAL": "USR1", "STATS": "text"}, "raise", USR1, "_exit")
    check("text", run.err.count("\n") == 10 and f"(pid {run.pid}) at a signal" in run.err, run.err)
    check("text: live is known", re.search(r"(?m)^  live +[\d.]+ [KM]?i?B in blocks", run.err) is not None, run.err)
    for stats in ("text", "json", "all"):
        run = Run(f"{stats} on a small stack", {"STATS_SIGNAL": "USR1", "STATS": stats}, "small-stack", "raise", USR1, "_exit")
        check(f"{stats} on a small stack", run.err != "", run.err)
    run = Run("nothing asked", {}, "raise", USR1, expected=-int(USR1))
    check("nothing asked", run.err == "", run.err)
    run = Run("a handler of the program's", {"STATS_SIGNAL": "USR1"}, "handle", USR1, "raise", USR1, "_exit",
              expected=int(USR1))  # fmt: skip
    check("a handler of the program's", run.err == "", run.err)


for test in (the_json_names_the_process, a_file_takes_what_was_asked_for, where_the_program_goes_does_not_matter,
             a_child_has_its_own_or_appends, what_fails_costs_one_line, a_signal_asks):  # fmt: skip
    test()
print("failed" if failures else "passed")
sys.exit(1 if failures else 0)
