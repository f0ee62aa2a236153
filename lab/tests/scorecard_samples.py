"""Results that meet every goal, or miss one, for the tests of the scorecard."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from command_line import in_this_process
from samples import MACHINE

from hakmem_lab.analysis.soak import read_series
from hakmem_lab.analysis.summary import CROWDS
from hakmem_lab.base.csv_table import parse_table
from hakmem_lab.base.paths import Paths
from hakmem_lab.cli.scorecard import no_evidence
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.measure import Run
from hakmem_lab.run.mimalloc_bench import ENTRIES
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.rows import read_suite
from hakmem_lab.scorecard.evidence import SoakRun, Source
from hakmem_lab.scorecard.page import judged
from hakmem_lab.scorecard.rows import ROWS_OF_MANY_THREADS

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 6

# Goals that more than one file asks for.
TIME_ALL = "geometric mean of time / mimalloc 3: all rows"
SLOWER_SERVERS = "servers that are slower than on their best peer with certainty"
LEAN_SERVERS = "servers whose memory is the lowest after 10 s without load"

# The suite's rows and their groups.
SUITE_ROWS = read_suite(Paths(ROOT), ROOT / "bench/suite.toml")
ROWS = {row.name: row.group for row in SUITE_ROWS if row.group != CROWDS}
ROWS |= {entry.name: entry.group for entry in ENTRIES}
# Of many threads: no rows of the means.
MORE_ROWS = {name: CROWDS for name in ROWS_OF_MANY_THREADS if name not in ROWS}

# Nanoseconds an operation, and kB at the peak; of others as of hakmem.
COSTS = {
    **{"hakmem": 6.9, "speed": 6.9, "lean": 7.5, "glibc": 14.0, "mimalloc3": 10.0},
    **{"mimalloc2": 10.5, "snmalloc": 11.0, "rpmalloc": 12.0, "jemalloc": 12.0, "tcmalloc": 13.0},
}
PEAKS = {
    **{"hakmem": 2000, "speed": 4000, "lean": 1900, "glibc": 2200, "mimalloc3": 5000},
    **{"mimalloc2": 4000, "snmalloc": 4000, "rpmalloc": 4000, "jemalloc": 4000, "tcmalloc": 4000},
}
EVEN = COSTS["mimalloc3"] / COSTS["hakmem"]  # makes hakmem as slow as the best of the others
LIBRARY = "build/standard/libhakmem.so"

Card = dict[str, dict[str, str]]
RunScorecard = Callable[..., tuple[int, str, str]]
MakeCard = Callable[..., Card]
Factor = Callable[[str, str, int], float]  # of a row, an allocator and a round


def tables_of(text: str) -> Card:
    """The lines of a scorecard by their goal, by the heads of its columns. Parts by their name,
    and as "goal: part": several goals can have a part of the same name."""
    card: Card = {}
    head: list[str] = []
    goal = ""
    for line in text.splitlines():
        if line.startswith("**"):
            goal = line.split("**")[1]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            head = []
        elif not head:
            head = cells
        elif not set(cells[0]) <= {"-"}:
            card[cells[0]] = dict(zip(head[1:], cells[1:], strict=True))
            card[f"{goal}: {cells[0]}"] = card[cells[0]]
    return card


@pytest.fixture
def run_scorecard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> RunScorecard:
    """The command within this process: its exit code, the file it wrote, what it complained of."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        output = tmp_path / "scorecard.md"
        arguments = ("scorecard", "--root", ROOT, "-o", output, *words)
        code, _, complaint = in_this_process(monkeypatch, capsys, *arguments)
        return code, output.read_text() if output.exists() else "", complaint

    return run


@pytest.fixture
def card() -> MakeCard:
    """The goals on results, on some by their purpose, and on the text of soaks by their label."""

    def make(*results: Result, **named: Result | str) -> Card:
        evidence = no_evidence(Paths(ROOT))
        files = {result.kind: result for result in results}
        files |= {name: result for name, result in named.items() if isinstance(result, Result)}
        for name, result in files.items():
            evidence.add(Source(f"{name}.json", result))
        for label, text in named.items():
            if isinstance(text, str):
                (series,) = read_series([parse_table(f"{label}.csv", text)])
                evidence.soaks.append(SoakRun(f"{label}.csv", series))
        return tables_of("\n".join(judged(evidence)))

    return make


def allocators(names: Sequence[str]) -> list[Allocator]:
    def allocator(name: str) -> Allocator:
        if name in ("speed", "lean"):
            return Allocator(name, "0.1.0", "here", LIBRARY, {"HAKMEM_PROFILE": name})
        return Allocator(name, "1", "there", LIBRARY if name == "hakmem" else "")

    return [allocator(name) for name in names]


def alike(_row: str, _name: str, _round: int) -> float:
    return 1.0


def in_row(wanted: str, **factors: float) -> Factor:
    """Factors of some allocators in one row."""
    return lambda row, name, _round: factors.get(name, 1.0) if row == wanted else 1.0


def suite(
    cost: Factor = alike,
    peak: Factor = alike,
    rounds: int = ROUNDS,
    names: Sequence[str] = tuple(COSTS),
) -> Result:
    """Every row of the suite on every peer. Each round differs by a percent, the same on all:
    ratios within a round are exact."""

    def run(row: str, name: str, round_: int) -> Run:
        ns = COSTS.get(name, COSTS["hakmem"]) * cost(row, name, round_) * (1 + round_ / 100)
        kb = round(PEAKS.get(name, PEAKS["hakmem"]) * peak(row, name, round_))
        return Run(*(name, round_, 1, 0.2), user_s=0.1, peak_rss_kb=kb, throughput_per_s=1e9 / ns)

    settings = {"rounds": rounds, "peers": [name for name in names if name != "hakmem"]}
    result = Result("suite", ["hakmem-lab", "suite"], settings, MACHINE, allocators(names))
    for row, group in (ROWS | MORE_ROWS).items():
        runs = [run(row, name, round_) for round_ in range(1, rounds + 1) for name in names]
        result.rows.append(RowResult(row, group, "", "throughput", 1.0, ["p"], {}, runs=runs))
    return result


def without(result: Result, name: str) -> Result:
    """The result without an allocator."""
    result.allocators = [a for a in result.allocators if a.name != name]
    for row in result.rows:
        row.runs = [run for run in row.runs if run.allocator != name]
    return result


def steady(
    calls: int, resident_kb: int, mib: int = 512, at_rest: dict[str, int] | None = None
) -> Result:
    """So many calls in each run of the steady state; rows of idle memory and of memory at rest that
    keep so much."""
    names = ("hakmem", "speed", "lean")
    result = Result("steady", ["hakmem-lab", "steady"], {"peers": []}, MACHINE, allocators(names))
    commands = {
        "steady": ["b/random_mixed", "9", "400", "1"],
        "idle-95": ["b/idle", "4", str(mib), "16", "4096", "95", "5", "60", "0"],
        "idle-100": ["b/idle", "4", str(mib), "16", "4096", "100", "5", "60", "0"],
    }
    commands |= {name: ["b/at_rest"] for name in at_rest or {}}
    for row_name, command in commands.items():
        row = RowResult(row_name, "single", "", "wall", 1.0, command, {})
        figures = {"resident_kb": float(resident_kb), "quiet_cpu_ms": 0.0, "wake_ups": 0.0}
        if row_name == "steady":
            figures = {"os_calls": float(calls), "operations": 5e8}
        if at_rest is not None and row_name in at_rest:
            figures = {"resident_kb": float(at_rest[row_name])}
        row.runs = [
            Run(name, round_, 1, wall_s=4.0, figures=dict(figures))
            for name in names
            for round_ in range(1, ROUNDS + 1)
        ]
        result.rows.append(row)
    return result


def counted(**pairs: float) -> Result:
    """Instructions of a malloc and its free, by allocator."""
    result = Result("instructions", ["hakmem-lab"], {}, MACHINE, allocators(tuple(pairs)))
    result.instructions = [
        InstructionCount(name, 1000, 28.5 + pair / 2, 28.5, malloc=pair / 2)
        for name, pair in pairs.items()
    ]
    return result


def compared(kb: int, calls: int) -> Result:
    """/bin/true on hakmem, which takes so much more than an empty library."""
    names = ("hakmem", "empty")
    result = Result("compare", ["hakmem-lab"], {"peers": ["empty"]}, MACHINE, allocators(names))
    row = RowResult("true", "single", "", "wall", 1.0, ["/bin/true"], {})
    for round_ in range(1, ROUNDS + 1):
        row.runs += [
            Run("hakmem", round_, 1, wall_s=0.001, peak_rss_kb=1000 + kb),
            Run("empty", round_, 2, wall_s=0.001, peak_rss_kb=1000),
        ]
    row.system_calls = {"hakmem": {"mmap": 30, "openat": 10 + calls}, "empty": {"mmap": 40}}
    result.rows = [row]
    return result
