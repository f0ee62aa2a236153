#!/usr/bin/env python3
"""Prints which of the compiled files a change can affect: what `scripts/lint.sh --changed` shows to clang-tidy.

Usage: linted.py [--base COMMIT] BUILD_DIRECTORY       a folder with compile_commands.json

What clang-tidy says of a file depends on the file, on what it includes, on its flags, and on clang-tidy's own settings. So a
file is printed that differs from the commit, or includes one that does, however deep, or has its flags from a file of
tests/FOLDER that does. Where anything else that decides flags or settings differs, every file is printed; also where there is no
such commit. Without COMMIT it is that of tests/last-complete, as for `make test-changed`.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

sys.dont_write_bytecode = True
from changes import changed_since, git, read_last_complete

ROOT = Path(__file__).resolve().parents[2]
# An include names a file by the end of its path; which folders are searched, flags say.
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
# What a macro names may be any file.
BY_A_MACRO = re.compile(rb"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]", re.MULTILINE)
# Flags of the files of one folder; and of all: settings of the linter, how everything is configured, what sources are made of.
# lab/ and bindings/ have projects of their own.
OF_A_FOLDER = re.compile(r"tests/([^/]+)/(?:.*/)?(?:CMakeLists\.txt|[^/]+\.cmake)")
OF_ALL = re.compile(
    r"(?!lab/|bindings/)(.*/)?(CMakeLists\.txt|CMakePresets\.json|[^/]+\.(cmake|in|proto))|(.*/)?\.clang-tidy|cmake/machine\.c"
    r"|scripts/(lint\.sh|one_compile_command\.py|packages\.txt)|tests/runner/(linted|changes)\.py"
)
SOURCE = re.compile(r".*\.(c|cc|cpp|h|hpp|def|inc)")


def names_of(path: str) -> set[str]:
    """What an include may call it: heap/heap.h and heap.h are src/heap/heap.h."""
    parts = path.split("/")
    return {"/".join(parts[at:]) for at in range(len(parts))}


def including(root: Path, files: Iterable[str], changed: Iterable[str]) -> set[str]:
    """`changed`, and those of `files` that include one of these, however deep."""
    includes: dict[str, set[str]] = {}
    found = set(changed)
    for name in files:
        try:
            text = (root / name).read_bytes()
        except OSError:
            continue
        includes[name] = {re.sub(r"^(\.\.?/)+", "", word.decode(errors="replace")) for word in INCLUDE.findall(text)}
        if BY_A_MACRO.search(text):
            found.add(name)
    called: set[str] = set()
    for name in found:
        called |= names_of(name)
    while more := {name for name, words in includes.items() if name not in found and words & called}:
        found |= more
        for name in more:
            called |= names_of(name)
    return found


def folder_of(command: dict[str, str]) -> str:
    """The folder of tests/ whose CMakeLists.txt compiles the file; "" outside of tests/."""
    match = re.search(r" -o tests/([^/ ]+)/", command["command"])
    return match[1] if match else ""


def relative(root: Path, file: str) -> str:
    return file.removeprefix(f"{root}/")


def affected(root: Path, commands: list[dict[str, str]], sources: list[str], changed: list[str] | None) -> list[str]:
    """Of the compiled files, as `commands` has them."""
    if changed is None or any(OF_ALL.fullmatch(path) and not OF_A_FOLDER.fullmatch(path) for path in changed):
        return [command["file"] for command in commands]
    folders = {match[1] for path in changed if (match := OF_A_FOLDER.fullmatch(path))}
    found = including(root, sources, [path for path in changed if SOURCE.fullmatch(path)])
    return [
        command["file"]
        for command in commands
        if folder_of(command) in folders or relative(root, command["file"]) in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base", default="")
    parser.add_argument("build", type=Path)
    arguments = parser.parse_args()
    commands = json.loads((arguments.build / "compile_commands.json").read_text(encoding="utf-8"))
    base = arguments.base or read_last_complete(ROOT)
    changed = changed_since(ROOT, base) if base else None
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard") or ""
    sources = [name for name in listed.split("\0") if SOURCE.fullmatch(name)]
    for name in affected(ROOT, commands, sources, changed):
        print(name)


if __name__ == "__main__":
    main()
