#!/usr/bin/env python3
"""Checks the Promela models of the lock-free protocols with spin.

Usage: run_models.py [--trace] [--searched FILE] [MODEL.pml...]     default: all models beside this script

The comment at the head of a model says what is to be run:
    check [DEFINE...]: states N          searched to the end without an error, about N states
    mutant DEFINE...: TEXT (what it is)  a protocol broken on purpose: the error found says TEXT
A mutant that passes means that the model could not have failed. --trace also prints the last steps
that lead to each mutant's error. A search gives the same every time: with --searched a model is not searched whose key stands in
FILE, because this version of spin searched it before. Exit 77 then, and when spin or a C compiler is missing.
"""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SKIP = 77
SECONDS = 120  # a search takes a few seconds; on a busy machine more
MEGABYTES = 1500
DEPTH = 2_000_000
STATES_TOLERANCE = 0.1  # between versions of spin, whose reductions differ
TRACE_LINES = 60

DIRECTIVE = re.compile(
    r"^ \* (check|mutant)((?: \w+)*): ([^(\n]+?)(?: \(.*\))?$", re.MULTILINE
)
STATEMENT = re.compile(r"STATE \d+ - \S+:(\d+) - \[(.*)\]")
UNREACHED = re.compile(r"^\s\S+:(\d+), state \d+, \"(.*)\"$", re.MULTILINE)
ERROR = re.compile(r"^pan:\d+: (.*)$", re.MULTILINE)


class Failure(Exception):
    pass


@dataclass
class Run:
    is_mutant: bool
    defines: list[str]
    expected: str

    def title(self) -> str:
        return " ".join(["mutant" if self.is_mutant else "check", *self.defines])


def find_runs(model: Path) -> list[Run]:
    head = model.read_text(encoding="utf-8").partition("*/")[0]
    runs = [Run(m[1] == "mutant", m[2].split(), m[3]) for m in DIRECTIVE.finditer(head)]
    if not any(run.is_mutant for run in runs) or all(run.is_mutant for run in runs):
        raise Failure("its comment has to name at least one check and one mutant")
    return runs


def call(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, timeout=SECONDS, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]} took more than {SECONDS} s") from None
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def dead_statements(verifier: str, output: str) -> list[str]:
    """What no instance of ever ran: the model then says less than it seems to.

    spin joins statements; those that it joined to others are not looked at.
    """
    instances = Counter(STATEMENT.findall(verifier))
    unreached = Counter(UNREACHED.findall(output))
    return [
        f"line {line}: {text}"
        for (line, text), n in unreached.items()
        if text != "-end-" and 0 < instances[line, text] <= n
    ]


def judge(run: Run, output: str, verifier: str) -> None:
    errors = re.search(r"errors: (\d+)", output)
    if errors is None:
        raise Failure(f"the search did not end:\n{output}")
    if run.is_mutant:
        if errors[1] == "0":
            raise Failure("no error was found in it: the model cannot fail")
        if not any(run.expected in error for error in ERROR.findall(output)):
            raise Failure(f"expected '{run.expected}', found:\n{output}")
        return
    if errors[1] != "0":
        raise Failure(f"an error was found:\n{output}")
    if "search depth too small" in output or "MEMLIM" in output:
        raise Failure(f"the search was cut short:\n{output}")
    dead = dead_statements(verifier, output)
    if dead:
        raise Failure(f"never executed: {'; '.join(dead)}")
    match = re.fullmatch(r"states ([\d,]+)", run.expected)
    if match is None:
        raise Failure(f"'{run.expected}' is not understood; it has to be 'states N'")
    said, found = int(match[1].replace(",", "")), states(output)
    if abs(said - found) > STATES_TOLERANCE * found:
        raise Failure(f"the comment says {said:,} states, the search found {found:,}")


def states(output: str) -> int:
    match = re.search(r"(\d+(?:\.\d+e\+\d+)?) states, stored", output)
    return int(float(match[1])) if match else 0


def quick_compiler(compiler: str) -> str:
    """For mutants, whose searches are shorter than gcc takes to compile them."""
    return shutil.which("tcc") or compiler


def search(model: Path, run: Run, compiler: str, with_trace: bool) -> int:
    defines = ["-D" + define for define in run.defines]
    with tempfile.TemporaryDirectory(prefix="hakmem-model-") as name:
        folder = Path(name)
        shutil.copy(model, folder)
        call(["spin", "-a", *defines, model.name], folder)
        # Safety: assertions and invalid end states.
        flags = ["-O1", "-w", "-DSAFETY", f"-DMEMLIM={MEGABYTES}"]
        suited = quick_compiler(compiler) if run.is_mutant else compiler
        call([suited, *flags, "-o", "pan", "pan.c"], folder)
        output = call(["./pan", f"-m{DEPTH}", "-w22"], folder)
        trail = folder / (model.name + ".trail")
        if trail.exists() and (with_trace or not run.is_mutant):
            steps = call(["spin", "-t", "-p", "-g", "-l", *defines, model.name], folder)
            print("\n".join(["...", *steps.splitlines()[-TRACE_LINES:]]))
        judge(run, output, (folder / "pan.m").read_text(encoding="utf-8"))
        return states(output)


def key_of(model: Path) -> str:
    """Of all that a search depends on."""
    version = subprocess.run(["spin", "-V"], capture_output=True, check=False).stdout
    return hashlib.sha256(b"\0".join([version, Path(__file__).read_bytes(), model.read_bytes()])).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the models with spin.")
    parser.add_argument("--trace", action="store_true", help="print how each mutant goes wrong")
    parser.add_argument("--searched", type=Path, metavar="FILE", help="keys of models that were searched before")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.pml")
    arguments = parser.parse_args()

    compiler = os.environ.get("HAKMEM_TEST_CC", "cc")
    for tool in ("spin", compiler):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
            return SKIP
    models = arguments.models or sorted(Path(__file__).resolve().parent.glob("*.pml"))
    if not models:
        print("no models found")
        return 1

    if arguments.searched:
        keys = tomllib.loads(arguments.searched.read_text(encoding="utf-8"))
        models = [model for model in models if keys.get(model.stem) != key_of(model)]
        if not models:
            print("skipped: the same was searched before")
            return SKIP

    failed = 0
    for model in models:
        try:
            runs = find_runs(model)
        except (Failure, OSError) as failure:
            print(f"{model.name}: FAILED: {failure}")
            failed += 1
            continue
        for run in runs:
            start = time.monotonic()
            try:
                found = search(model, run, compiler, arguments.trace)
                verdict = f"{found:>9,} states"
            except Failure as failure:
                failed += 1
                verdict = f"FAILED: {failure}"
            seconds = time.monotonic() - start
            print(f"{model.stem:10} {run.title():32} {seconds:5.1f} s {verdict}", flush=True)
    if arguments.searched and not failed:
        for model in models:
            print(f'{arguments.searched.name}: {model.stem} = "{key_of(model)}"')
    if failed:
        print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
