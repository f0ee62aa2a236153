#!/usr/bin/env python3
"""Checks that the rooms of lab/hakmem_lab import downwards only.

Usage: check_lab_layers.py ROOT. Prints one line a finding, in the form of a compiler's; exit 1 if any.
"""
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

sys.dont_write_bytecode = True
from check_layers import report  # noqa: E402

PACKAGE = "hakmem_lab"
# From the bottom up: a room may import itself and those before it, wherever in a file the import stands.
ROOMS = ("base", "run", "trace", "analysis", "report", "scorecard", "cli")
# Outside the rooms: the version, which all may have, and the entries, which lie above all of them.
AT_THE_BOTTOM = {"__init__"}
ON_TOP = {"__main__", "start"}


def height(module: tuple[str, ...]) -> int | None:
    """Of a module inside the package; None: it lies in no room."""
    first = module[0] if module else "__init__"
    if first in ROOMS:
        return ROOMS.index(first)
    return -1 if first in AT_THE_BOTTOM else len(ROOMS) if first in ON_TOP else None


def imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and module of each import from the package, below its top; `package`: the importer's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names = alias.name.split(".")
                if names[0] == PACKAGE:
                    yield node.lineno, tuple(names[1:])
        elif isinstance(node, ast.ImportFrom):
            names = node.module.split(".") if node.module else []
            if node.level:
                names = [PACKAGE, *package[: len(package) - node.level + 1], *names]
            if names[:1] == [PACKAGE]:
                for alias in node.names:
                    # A name is a module of the package, or something that its __init__ has.
                    known = len(names) > 1 or alias.name in ROOMS or alias.name in ON_TOP
                    yield node.lineno, (*names[1:], alias.name) if known else ()


def check_file(path: Path, root: Path) -> list[str]:
    where = path.relative_to(root)
    module = path.relative_to(root / "lab" / PACKAGE).with_suffix("").parts
    own = height(module)
    if own is None or (len(module) == 1 and module[0] in ROOMS):
        return [f"{where}:1: lies in no room of lab/{PACKAGE} ({' '.join(ROOMS)})"]
    findings = []
    for line, target in imported(ast.parse(path.read_text(encoding="utf-8")), module[:-1]):
        other = height(target)
        if other is None:
            findings.append(f"{where}:{line}: {PACKAGE}.{'.'.join(target)} is in no room")
        elif other > own:
            findings.append(f"{where}:{line}: {module[0]} must not import {target[0]}")
    return findings


def check_tree(root: Path) -> tuple[int, list[str]]:
    root = root.resolve()
    files = sorted((root / "lab" / PACKAGE).rglob("*.py"))
    return len(files), [finding for path in files for finding in check_file(path, root)]


if __name__ == "__main__":
    sys.exit(report(*check_tree(Path(sys.argv[1])), "no modules found"))
