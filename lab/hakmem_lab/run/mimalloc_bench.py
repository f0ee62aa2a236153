"""Rows of the public mimalloc-bench suite, from a directory where somebody has built it."""

from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.rows import Measure, Row

LARSON = r"^Throughput =\s*(\d+) operations per second"
XMALLOC = r"free/sec: ([\d.]+) M"  # millions


@dataclass(frozen=True)
class Entry:
    """One program of the suite. The bar is what hakmem has to reach of the best peer's cost."""

    name: str
    program: str
    arguments: str = ""
    measure: Measure = "cpu"
    group: str = "single"
    bar: float = 1.0
    idea: str = ""
    quick: str | None = None
    input: str | None = None  # file on stdin, from the suite's directory bench/
    pattern: str = LARSON
    scale: float = 1.0


# Single-threaded programs count processor time, which other processes disturb least; what waits
# for its own threads counts wall time, or the rate that it measures itself.
ENTRIES = [
    Entry(
        name="mb-cfrac",
        program="cfrac",
        arguments="17545186520507317056371138836327483792789528",
        idea="factors a number; many small, short-lived blocks",
        quick="175451865205073170563711388363",
    ),
    Entry(
        name="mb-espresso",
        program="espresso",
        arguments="{bench}/espresso/largest.espresso",
        idea="minimises logic arrays",
    ),
    Entry(
        name="mb-barnes",
        program="barnes",
        input="barnes/input",
        idea="n-body simulation; few, long-lived blocks",
    ),
    Entry(
        name="mb-alloc-test-1",
        program="alloc-test",
        arguments="1",
        bar=0.97,
        idea="random sizes with a power-law lifetime",
    ),
    Entry(
        name="mb-alloc-test-2",
        program="alloc-test",
        arguments="2",
        measure="wall",
        group="threads",
        bar=0.97,
        idea="the same in two threads",
    ),
    Entry(
        name="mb-larson",
        program="larson",
        arguments="2 8 1000 5000 100 4141 2",
        measure="throughput",
        group="threads",
        bar=0.95,
        idea="server: blocks outlive the thread that allocated them",
        quick="1 8 1000 500 10 4141 2",
    ),
    Entry(
        name="mb-larson-sized",
        program="larson-sized",
        arguments="2 8 1000 5000 100 4141 2",
        measure="throughput",
        group="threads",
        bar=0.95,
        idea="the same with sized delete",
        quick="1 8 1000 500 10 4141 2",
    ),
    Entry(
        name="mb-xmalloc-test",
        program="xmalloc-test",
        arguments="-w 2 -t 2 -s 64",
        measure="throughput",
        group="threads",
        idea="one thread allocates, another frees",
        quick="-w 2 -t 1 -s 64",
        pattern=XMALLOC,
        scale=1e6,
    ),
    Entry(
        name="mb-cache-scratch",
        program="cache-scratch",
        arguments="2 1000 1 1000000 2",
        measure="wall",
        group="threads",
        idea="passive false sharing of cache lines",
        quick="2 100 1 1000000 2",
    ),
    Entry(
        name="mb-mstress",
        program="mstress",
        arguments="2 50 400",
        measure="wall",
        group="threads",
        bar=0.97,
        idea="blocks move between threads that come and go",
        quick="2 20 40",
    ),
    Entry(
        name="mb-mleak",
        program="mleak",
        arguments="5",
        measure="wall",
        group="threads",
        idea="threads end; is their memory used again?",
        quick="1",
    ),
    Entry(
        name="mb-malloc-large",
        program="malloc-large",
        group="large",
        bar=0.95,
        idea="blocks of 5 to 25 MiB",
    ),
    Entry(
        name="mb-glibc-simple",
        program="glibc-simple",
        bar=0.97,
        idea="blocks of one size, in order and out of order",
    ),
]


def find_inputs(directory: Path) -> Path:
    """The suite's directory bench/, beside the programs or, as its own build has it, above."""
    candidates = [directory.parent / "bench", directory.parent.parent / "bench"]
    for candidate in candidates:
        if (candidate / "barnes").is_dir():
            return candidate
    return candidates[0]


def make_row(entry: Entry, directory: Path, bench: Path) -> Row:
    program = directory / entry.program
    stdin = bench / entry.input if entry.input else None
    words = [word.replace("{bench}", str(bench)) for word in entry.arguments.split()]
    needed = [program, *([stdin] if stdin else []), *(Path(w) for w in words if "/" in w)]
    absent = [str(path) for path in needed if not path.is_file()]
    return Row(
        name=entry.name,
        command=(str(program), *words),
        measure=entry.measure,
        group=entry.group,
        idea=f"mimalloc-bench: {entry.idea}",
        quick=None if entry.quick is None else (str(program), *entry.quick.split()),
        stdin=stdin,
        pattern=entry.pattern,
        scale=entry.scale,
        bar=entry.bar,
        missing=f"not there: {', '.join(absent)}" if absent else None,
    )


def mimalloc_bench_rows(directory: Path) -> list[Row]:
    """The suite's rows; those whose program or input is absent say so."""
    if not directory.is_dir():
        raise LabError(f"--mimalloc-bench {directory}: not a directory")
    directory = directory.resolve()
    rows = [make_row(entry, directory, find_inputs(directory)) for entry in ENTRIES]
    if all(row.missing for row in rows):
        raise LabError(f"--mimalloc-bench {directory}: none of the suite's programs is in it")
    return rows
