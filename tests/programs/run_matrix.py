#!/usr/bin/env python3
"""Runs real programs on hakmem (LD_PRELOAD) and on glibc and compares everything they put out.

One case of cases/*.toml at a time (this is what CTest calls), or all of them as a table:

  run_matrix.py --lib build/standard/libhakmem.so --case perl
  run_matrix.py --lib build/hardened/libhakmem.so --all -j2
  run_matrix.py --lib none --all        # glibc against glibc: is every case deterministic?

Exit code: 0 same, 1 different or not in effect, 77 a program is not installed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from matrix import cases, compare, execute, in_effect  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SKIP = 77
SHOWN_LINES = 25
COMPLAINT = re.compile(rb"^(hakmem: .*|ERROR: ld\.so: .*)$", re.MULTILINE)


def free_ports(count):
    """Loopback ports nobody listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Matrix:
    """One case at a time, in a folder of its own below `work`."""

    def __init__(self, library, work, beside=None):
        self.library = library  # None: glibc on both sides
        self.beside = beside  # another library that is preloaded with it
        self.work = work

    def environment(self, case, folder, data):
        """The whole environment of a run: nothing of the caller's gets in, bar HAKMEM_* variables."""
        ports = free_ports(2)
        env = {
            "PATH": case.search_path(),
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "USER": "tester",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "SOURCE_DATE_EPOCH": "946684800",
            "PYTHONDONTWRITEBYTECODE": "1",
            "INPUTS": str(HERE / "inputs"),
            "DATA": str(data),
            "PORT1": str(ports[0]),
            "PORT2": str(ports[1]),
        }
        env.update({name: os.path.expanduser(value) for name, value in case.env.items()})
        return env

    def preloaded(self, env):
        if self.library is None:
            return env
        ours = {name: value for name, value in os.environ.items() if name.startswith("HAKMEM_")}
        return {**env, **ours, "LD_PRELOAD": ":".join(map(str, filter(None, (self.library, self.beside))))}

    def write_reproduce(self, case, folder, env):
        """A script that repeats the preloaded run by hand."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items()) if name != "LD_PRELOAD"]
        preload = shlex.quote(env.get("LD_PRELOAD", ""))
        target = folder / "reproduce.sh"
        run = folder / "run"
        target.write_text(
            "#!/bin/bash\n# Repeats the preloaded run of this case; needs the folder `data` beside it.\n"
            f"for name in $(compgen -e); do unset \"$name\"; done\nrm -rf {run}\nmkdir -p {run}/tmp\ncd {run}\n"
            + "\n".join(lines)
            + f"\nLD_PRELOAD={preload} exec /bin/bash -euo pipefail -c {shlex.quote(case.run)}\n"
        )
        target.chmod(0o755)

    def one_side(self, case, folder, env, side):
        """Runs the case in the folder `run` (the same path on both sides: it may appear in outputs)
        and keeps what it left there under the side's name."""
        run = folder / "run"
        (run / "tmp").mkdir(parents=True)
        result = execute.run_script(case.run, run, env, case.timeout, folder / side)
        run.rename(folder / side)
        return result

    def check_override(self, case, folder, env):
        """Runs the probe with the linker's log on; returns what speaks against the override."""
        probe = folder / "probe"
        (probe / "tmp").mkdir(parents=True)
        env = {
            **self.preloaded(env),
            "HAKMEM_SS_OS_STATS": "1",
            "LD_BIND_NOW": "1",
            "LD_DEBUG": "bindings",
            "LD_DEBUG_OUTPUT": str(probe / "bindings"),
        }
        # The last command keeps bash from replacing itself with the program, whose log is to be its own.
        result = execute.run_script(case.probe + "\nexit $?", probe, env, case.timeout, folder / "probe")
        found = in_effect.problems(probe, self.library, case)
        if result.exit_code:
            last = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
            found.append(f"the probe ended with exit code {result.exit_code} {' '.join(last)}")
        if in_effect.has_statistics(self.library) and b"[SS_OS_STATS] alloc=" not in result.stderr:
            found.append("no [SS_OS_STATS] line on stderr although HAKMEM_SS_OS_STATS=1 was set")
        shutil.rmtree(probe)
        return [f"override not in effect: {problem}" for problem in found]

    def run(self, case):
        """Returns (problems, seconds on glibc, seconds preloaded)."""
        folder = self.work / case.name
        shutil.rmtree(folder, ignore_errors=True)
        data = folder / "data"
        (data / "tmp").mkdir(parents=True)
        env = self.environment(case, folder / "run", data)
        if case.prepare:
            made = execute.run_script(case.prepare, data, {**env, "TMPDIR": str(data / "tmp")}, 120, folder / "prepare")
            if made.exit_code:
                return [f"the input could not be made: {made.stderr.decode(errors='replace')}"], 0, 0
        glibc = self.one_side(case, folder, env, "glibc")
        if glibc.exit_code:
            text = (glibc.stdout + glibc.stderr).decode(errors="replace")
            return [f"fails on glibc already, exit code {glibc.exit_code}: {text[-2000:]}"], glibc.seconds, 0
        env.update(zip(("PORT1", "PORT2"), map(str, free_ports(2))))
        self.write_reproduce(case, folder, self.preloaded(env))
        ours = self.one_side(case, folder, self.preloaded(env), "preload")

        found = []
        if ours.hang:
            (folder / "stacks.txt").write_text(ours.hang)
            found.append(f"did not end within {case.timeout} s; stacks of its processes: {folder}/stacks.txt")
        if ours.left:
            found.append(f"left processes behind: {', '.join(ours.left)}")
        left = compare.outcome(glibc, folder / "glibc", case)
        right = compare.outcome(ours, folder / "preload", case)
        for pattern in case.files:
            if not compare.collect(folder / "glibc", [pattern]):
                found.append(f"the case compares {pattern}, but the run on glibc made no such file")
        found += compare.differences(left, right)
        for name, content in right.items():
            for line in COMPLAINT.findall(content)[:3]:
                found.append(f"{name} has the line: {line.decode(errors='replace')}")
        if self.library is not None:
            found += self.check_override(case, folder, env)
        if found:
            (folder / "diff.txt").write_text("\n\n".join(found) + "\n")
        else:
            for side in ("glibc", "preload", "data"):
                shutil.rmtree(folder / side)
        return found, glibc.seconds, ours.seconds


def run_one(matrix, case):
    missing = case.missing()
    if missing:
        print(f"skipped: {case.name} needs {', '.join(missing)}, not installed here")
        return SKIP
    execute.adopt_orphans()
    found, glibc, ours = matrix.run(case)
    if not found:
        print(f"same: {case.name}, glibc {glibc:.2f} s, preloaded {ours:.2f} s")
        return 0
    text = "\n".join(found).splitlines()
    print(f"FAILED: {case.name} on {matrix.library}")
    print("\n".join(text[:SHOWN_LINES]))
    if len(text) > SHOWN_LINES:
        print(f"... {len(text) - SHOWN_LINES} lines more")
    folder = matrix.work / case.name
    print(f"all of it: {folder}/diff.txt; run it again by hand: {folder}/reproduce.sh")
    return 1


def run_table(args, names):
    """Every case in a process of its own; returns the exit code."""
    start = time.monotonic()
    count = {0: 0, 1: 0, SKIP: 0}

    def spawn(name):
        command = [sys.executable, __file__, "--lib", args.lib, "--work", args.work, "--case", name]
        command += ["--beside", args.beside] if args.beside else []
        return subprocess.run(command, capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for done in pool.map(spawn, names):
            code = done.returncode if done.returncode in count else 1
            count[code] += 1
            print((done.stdout + done.stderr).rstrip(), flush=True)
    print(f"{count[0]} same, {count[1]} failed, {count[SKIP]} skipped, {time.monotonic() - start:.0f} s")
    return 1 if count[1] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default="build/standard/libhakmem.so", help="the library, or none")
    parser.add_argument("--beside", help="a second library to preload, behind the first")
    parser.add_argument("--work", help="where the runs are kept; else a new directory, kept if one failed")
    parser.add_argument("--case", action="append", default=[], help="a case's name; may be repeated")
    parser.add_argument("--all", action="store_true", help="every case")
    parser.add_argument("--list", action="store_true", help="name the cases and what each needs")
    parser.add_argument("-j", type=int, default=1, help="cases at a time")
    args = parser.parse_args()
    try:
        table = cases.load(HERE / "cases")
    except cases.CaseError as error:
        sys.exit(str(error))
    if args.list:
        for case in table.values():
            print(f"{case.name:20} {' '.join(case.needs)}")
        return 0
    unknown = [name for name in args.case if name not in table]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    library = None
    if args.lib != "none":
        library = pathlib.Path(args.lib).resolve()
        if not library.is_file():
            parser.error(f"{library} is not there: build it first")
        args.lib = str(library)
    if not args.all and not args.case:
        parser.error("one of --case, --all, --list is needed")
    if args.beside:
        args.beside = str(pathlib.Path(args.beside).resolve(strict=True))
    private = args.work is None
    if private:
        args.work = tempfile.mkdtemp(prefix="hakmem-programs-")
    code = 1
    try:
        if args.all or len(args.case) > 1:
            code = run_table(args, list(table) if args.all else args.case)
        else:
            code = run_one(Matrix(library, pathlib.Path(args.work).resolve(), args.beside), table[args.case[0]])
    finally:
        if private and code != 1:
            shutil.rmtree(args.work)
    return code


if __name__ == "__main__":
    sys.exit(main())
