#!/usr/bin/env python3
"""Runs build/bench/huge on hakmem, glibc and the peers of `make peers`, one after the other, and prints two tables.

Usage: huge_table.py [--blocks N] [--gib N] [--rounds N] [--allocators A,B] [--json FILE] [--from FILE]

It runs by the lab's Python (build/lab/venv/bin/python) and names allocators as the lab does.

Times are indicative: of the rounds that with the least processor time counts, since memory that a virtual machine has to get from its
host takes long. What is counted (faults, mappings, bytes) repeats to some percent.
"""

import argparse
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths, find_paths
from hakmem_lab.run.allocators import Allocator, select_allocators
from hakmem_lab.run.measure import clean_environment

# As bench/huge.c numbers them.
ENDED = ("", "no more memory", "limit of resident memory")
LIMIT_MIB = "16384", "6144"  # of the parts

Steps = list[dict[str, Any]]


def measure(paths: Paths, allocator: Allocator, arguments: list[str]) -> Steps:
    """What the program said, and last how it ended where it did not end well."""
    preload = {"LD_PRELOAD": allocator.library} if allocator.library else {}
    environment = clean_environment(allocator.environment, preload)
    command = [str(paths.bench / "huge"), *arguments]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    steps: Steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    cost = re.search(r"^cpu_ns_per_op=([0-9.]+)$", done.stdout, re.M)
    steps.append({"step": "cost", "ns": float(cost[1]) if cost else math.inf})
    if done.returncode != 0:
        steps.append({"step": "failed", "code": done.returncode, "stderr": done.stderr[-200:]})
    return steps


def better(steps: Steps, than: Steps | None) -> Steps:
    """The round that took less."""
    return steps if than is None or find(steps, "cost", "ns") < find(than, "cost", "ns") else than


def find(steps: Steps, step: str, key: str, **where: Any) -> Any:
    """The last such figure; None: there is none."""
    for entry in reversed(steps):
        if entry["step"] == step and all(entry.get(name) == value for name, value in where.items()):
            return entry.get(key)
    return None


def number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def mib(kib: float | None, digits: int = 0) -> str:
    return number(None if kib is None else kib / 1024, digits)


def pair_costs(steps: Steps) -> str:
    """At each size what a pair takes beyond the same walk without an allocator."""
    costs = [entry["pair_ns"] - entry["plain_ns"] for entry in steps if entry["step"] == "churn"]
    return ", ".join(f"{max(cost, 0):.0f}" for cost in costs)


def row(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def small_table(results: dict[str, Steps]) -> list[str]:
    heads = ["ns a pair beyond a walk", "ns a block, growing", "MiB a GiB of blocks, beyond them", "page tables, MiB",
             "first fork, ms", "second", "pages copied: parent writes", "replaces", "child replaces",
             "giving back, ms of processor", "waits of others", "MiB left at the end"]  # fmt: skip
    lines = [row("", heads), "|---" * (len(heads) + 1) + "|"]
    for name, steps in results.items():
        most = find(steps, "churn", "blocks")
        live, anon = (find(steps, "grown", key, blocks=most) for key in ("live_kb", "anon_kb"))
        if live is None:
            continue
        lines.append(row(name, [
            pair_costs(steps), number(find(steps, "churn", "grow_ns")), number(1024 * (anon - live) / live),
            mib(find(steps, "grown", "page_tables_kb")),
            number(find(steps, "fork", "ms", parent="writes"), 1), number(find(steps, "fork", "ms", parent="replaces"), 1),
            number(find(steps, "fork", "parent_faults", parent="writes")),
            number(find(steps, "fork", "parent_faults", parent="replaces")),
            number(find(steps, "fork", "child_replace_faults", parent="replaces")),
            number(find(steps, "trim", "cpu_ms")), number(find(steps, "calls meanwhile", "waits")),
            mib(find(steps, "all freed", "anon_kb")),
        ]))  # fmt: skip
    return lines


def large_table(results: dict[str, Steps]) -> list[str]:
    heads = ["live GiB", "resident MiB", "page tables, MiB", "of half: MiB resident", "most mappings", "fork, ms", "µs a block, filling",
             "ns a pair", "giving back, ms of processor", "MiB left at the end", ""]  # fmt: skip
    lines = [row("", heads), "|---" * (len(heads) + 1) + "|"]
    for name, steps in results.items():
        live = find(steps, "large filled", "live_kb")
        if live is None:
            continue
        ended = ENDED[find(steps, "large", "ended") or 0]
        failed = find(steps, "failed", "code")
        what = ended if failed is None else f"ended with {failed}"
        lines.append(row(name, [
            number(live / (1 << 20), 1), mib(find(steps, "large filled", "anon_kb")),
            mib(find(steps, "large filled", "page_tables_kb")), mib(find(steps, "large given back", "anon_kb")),
            number(find(steps, "large", "most_mappings")), "refused" if find(steps, "fork", "parent") == "refused" else number(find(steps, "fork", "ms"), 1),
            number((find(steps, "large churn", "grow_ns") or 0) / 1e3, 1),
            number(find(steps, "large churn", "pair_ns")), number(find(steps, "trim", "cpu_ms")),
            mib(find(steps, "large all freed", "anon_kb")), what,
        ]))  # fmt: skip
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=10_000_000)
    parser.add_argument("--gib", type=int, default=64)
    parser.add_argument("--sizes", default="64 4096", help="KiB of the large blocks, least and most")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--allocators", default="all,lean=HAKMEM_PROFILE=lean", help="as hakmem-lab suite has them")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--from", dest="kept", type=Path, help="a file of --json instead of runs")
    options = parser.parse_args()
    paths = find_paths(Path(__file__).parent.parent)
    try:
        found = [a for a in select_allocators(paths, options.allocators, False) if a.missing is None]
    except LabError as error:
        parser.error(str(error))
    parts: dict[str, dict[str, Steps]] = {"small": {}, "large": {}}
    if options.kept:
        parts = json.loads(options.kept.read_text(encoding="utf-8"))
    for allocator in [] if options.kept else options.rounds * found:
        name = allocator.name
        print(f"huge: {name}", file=sys.stderr)
        if options.blocks:
            small = [str(options.blocks), "0", "16", "128", "64", "4096", LIMIT_MIB[0]]
            parts["small"][name] = better(measure(paths, allocator, small), parts["small"].get(name))
        if options.gib:
            large = ["0", str(options.gib), "16", "128", *options.sizes.split(), LIMIT_MIB[1]]
            parts["large"][name] = better(measure(paths, allocator, large), parts["large"].get(name))
        if options.json:
            options.json.write_text(json.dumps(parts), encoding="utf-8")
    if parts["small"]:
        print("\n".join(small_table(parts["small"])), end="\n\n")
    if parts["large"]:
        print("\n".join(large_table(parts["large"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
