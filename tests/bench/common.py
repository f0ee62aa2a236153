"""What the tests of the benchmark programs share."""

import os
import subprocess
import tomllib
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(os.environ.get("HAKMEM_TEST_PROGRAMS", ROOT / "build/bench"))
LIBRARY = os.path.realpath(
    os.environ.get("HAKMEM_TEST_LIBRARY", ROOT / "build/standard/libhakmem.so")
)
BROKEN = os.environ.get("HAKMEM_TEST_BROKEN", "")
TIMEOUT = 120  # seconds for one program


def environment(**changes: str) -> dict[str, str]:
    """The environment without anything that concerns an allocator or a benchmark."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HAKMEM_", "MALLOC_")) and name != "LD_PRELOAD"
    }
    return kept | changes


def execute(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    options.setdefault("env", environment())
    options.setdefault("timeout", TIMEOUT)
    return subprocess.run(
        command, text=True, capture_output=True, stdin=subprocess.DEVNULL, **options
    )


def bench(program: str, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs a benchmark program; `changes` are variables of its environment."""
    return execute([str(PROGRAMS / program), *arguments], env=environment(**changes))


def suite() -> list[dict[str, Any]]:
    with open(ROOT / "bench/suite.toml", "rb") as file:
        rows: list[dict[str, Any]] = tomllib.load(file)["row"]
    return rows


def sources() -> set[str]:
    """The programs that there are sources of."""
    return {path.stem for path in (ROOT / "bench").glob("*.c")} - {"allocator"}


# Programs that are no row of the suite, with arguments of a short run: what they show is memory or speed
# over time, single waits, or an interface of few allocators, where a row is a throughput and a peak.
APART = {
    "at_rest": ["others", "2", "4", "1024", "1", "1"],
    "lived": ["40", "20", "20", "40", "2", "1", "1"],
    "order": ["1", "64", "100", "64", "10", "4"],
    "sleepers": ["20", "1000", "1000", "1"],
    "huge": ["20000", "1", "16", "128", "512", "4096", "4096", "10", "1"],
    "own_heaps": ["2", "20", "100", "1000", "1"],
    "idle": ["2", "4", "16", "4096", "95", "1", "0", "0", "yes", "1"],
    "phases": ["2", "4", "2", "16", "256", "512", "4096", "10", "10", "1"],
    "stall": ["2", "1", "500", "16", "65536", "100", "1"],
}


def one_row_of_each() -> Iterator[tuple[str, list[str]]]:
    """Each program with arguments that it takes."""
    yield from APART.items()
    seen: set[str] = set()
    for row in suite():
        if row["program"] not in seen:
            seen.add(row["program"])
            yield row["program"], row["quick"]


class TestCase(unittest.TestCase):
    maxDiff = None

    def check_code(self, result: subprocess.CompletedProcess[str], code: int) -> None:
        self.assertEqual(
            result.returncode,
            code,
            f"{result.args}\n--- stdout\n{result.stdout}--- stderr\n{result.stderr}",
        )
