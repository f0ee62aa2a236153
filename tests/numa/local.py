#!/usr/bin/env python3
"""On a machine with two memory nodes: does what threads use lie on their own node?

Usage: local.py BUILD GUEST ROUNDS LIBRARY [PEER...]

BUILD is a folder for what is made, GUEST and ROUNDS the programs of guest.c and rounds.c, LIBRARY libhakmem.so. Peers are other
allocators' libraries, of which shares are printed and nothing is expected. Exit status 77: no machine can be started here.
"""
import json
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import machine  # noqa: E402

# Rounds, threads on each node, MiB of each thread.
EXTENT = os.environ.get("HAKMEM_TEST_NUMA_ROUNDS", "5 2 4")
# Of the pages in use, with HAKMEM_NUMA=auto. What is missing are pages that two threads share, or that the loader has touched.
LEAST = 0.95
# Without, chance decides; if there were more the rounds would show nothing.
MOST_BY_CHANCE = 0.8


class Shares(dict[str, float]):
    """Of pages that lie on the node of the thread that uses them, by kind of blocks."""

    def __init__(self, said: str) -> None:
        super().__init__({kind: float(share) for kind, share in re.findall(r"kind=(\w+) .*share=([\d.]+)", said)})
        self.peak = int(re.findall(r"peak=(\d+)", said)[0])
        self.faults = int(re.findall(r"faults=(\d+)", said)[0])


def commands_for(program: Path, library: Path, peers: list[Path]) -> dict[str, str]:
    rounds = f"/{program.name} {EXTENT}"
    ours = f"LD_PRELOAD=/{library.name} HAKMEM_PROF_RATE=0"
    made = {"libc": rounds, "hakmem, off": f"{ours} HAKMEM_NUMA=0 {rounds}", "hakmem": f"{ours} {rounds}"}
    return made | {peer.stem.removeprefix("lib"): f"LD_PRELOAD=/{peer.name} {rounds}" for peer in peers}


def outputs(said: str) -> list[str]:
    parts = re.split(r"^\[guest\] run .*\n", said, flags=re.MULTILINE)[1:]
    for part in parts:
        assert "[guest] exit 0" in part, part
    return parts


def print_table(shares: dict[str, Shares]) -> None:
    kinds = list(next(iter(shares.values())))
    print(f"{'':16}" + "".join(f"{kind:>15}" for kind in kinds) + f"{'peak MB':>10}{'faults':>10}")
    for name, row in shares.items():
        line = "".join(f"{row[kind]:15.3f}" for kind in kinds)
        print(f"{name:16}{line}{row.peak // 1024:10}{row.faults:10}")


def failures(off: Shares, on: Shares, statistics: dict) -> list[str]:
    found = [f"{kind}: {share} of the pages are local, less than {LEAST}" for kind, share in on.items() if share < LEAST]
    found += [f"{kind}: {on[kind]} with HAKMEM_NUMA=auto, {off[kind]} without" for kind in on if on[kind] < off[kind]]
    mean = sum(off.values()) / len(off)
    if mean > MOST_BY_CHANCE:
        found.append(f"{mean} of the pages are local without HAKMEM_NUMA: the rounds show nothing")
    if statistics["nodes"] != 2 or len(statistics["superslabs"]) != 2 or 0 in statistics["superslabs"]:
        found.append(f"statistics: {statistics}")
    return found


def main() -> int:
    build, guest, rounds, library, *peers = map(Path, sys.argv[1:])
    # Threads that live at the end have memory on both nodes.
    told = f"LD_PRELOAD=/{library.name} HAKMEM_STATS=json /{rounds.name} 1 1 1"
    commands = commands_for(rounds, library, peers)
    try:
        said = machine.run(build, guest, [rounds, library, *peers], [*commands.values(), told])
    except machine.Unavailable as why:
        print(why)
        return 77
    print("\n".join(re.findall(r"^.*\[guest\] (/.*)", said, re.MULTILINE)))
    *parts, last = outputs(said)
    shares = {name: Shares(part) for name, part in zip(commands, parts)}
    print_table(shares)
    statistics = json.loads(re.findall(r"^\{.*\}$", last, re.MULTILINE)[0])["numa"]
    found = failures(shares["hakmem, off"], shares["hakmem"], statistics)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
