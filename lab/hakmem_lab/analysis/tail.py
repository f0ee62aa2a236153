"""The slow tail of random_mixed: the low side of throughput, and the high one of latency, from
epochs of some milliseconds.

An epoch's latency is its time for one operation; percentiles are taken from these, never as
1 / percentile(throughput), which between two values is another number. It is a mean over the epoch:
single waits are what build/bench/stall is for.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.soak import Series, series_of, without_warm_up
from hakmem_lab.analysis.statistics import compare_costs, paired_ratios, percentiles, variation
from hakmem_lab.analysis.verdict import describe_amount, describe_comparison, plural
from hakmem_lab.base.csv_table import parse_table
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import say_on_stderr
from hakmem_lab.base.numbers import Floats
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import (
    REPORTED,
    Launcher,
    Run,
    describe_failure,
    environment_of,
    read_tail,
)
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.rows import Row

THROUGHPUT_SHARES = (50.0, 10.0, 1.0, 0.1)  # the slow side of throughput is its low one
LATENCY_SHARES = (50.0, 90.0, 99.0, 99.9)
TAIL_EPOCHS = 1000  # of fewer, p0.1 and p99.9 lie next to the worst epoch
ENDLESS = 1 << 50  # more iterations than any run gets to: the duration ends it


def tail_row(
    program: Path, seconds: int, epoch_ms: int, slots: int, seed: int, threads: int
) -> Row:
    return Row(
        name=f"mixed{slots}" + (f"-{threads}T" if threads > 1 else ""),
        command=(str(program), str(ENDLESS), str(slots), str(seed), str(threads)),
        measure="throughput",
        group="tail",
        idea=f"random_mixed in epochs of {epoch_ms} ms",
        environment={
            "HAKMEM_BENCH_EPOCH_MS": str(epoch_ms),
            "HAKMEM_BENCH_DURATION_SEC": str(seconds),
        },
        cpus=threads,
    )


def latencies_of(throughput: Floats) -> Floats:
    """Nanoseconds an operation, epoch by epoch."""
    return 1e9 / throughput


def figures_of(series: Series) -> dict[str, float]:
    """The figures of one run, from its epochs after the warm-up."""
    throughput = series.throughput
    assert throughput is not None
    latency = latencies_of(throughput)
    figures = {"epochs": float(len(throughput)), "throughput_cv_percent": variation(throughput)}
    for share, value in zip(THROUGHPUT_SHARES, percentiles(throughput, THROUGHPUT_SHARES),
                            strict=True):  # fmt: skip
        figures[f"throughput_p{share:g}_per_s"] = value
    for share, value in zip(LATENCY_SHARES, percentiles(latency, LATENCY_SHARES), strict=True):
        figures[f"latency_p{share:g}_ns"] = value
    figures["latency_worst_ns"] = float(latency.max())
    return figures


class TailTrial:
    """Runs random_mixed and sums its epochs up; their lines are kept in `csv`, a label a run."""

    def __init__(self, launcher: Launcher, warm_up: str, csv: Path) -> None:
        self.launcher = launcher
        self.warm_up = warm_up
        self.csv = csv
        self.csv.parent.mkdir(parents=True, exist_ok=True)
        self.csv.unlink(missing_ok=True)
        self.complained = False

    def keep_epochs(self, text: str, label: str) -> None:
        header, *lines = text.splitlines()
        try:
            with self.csv.open("a", encoding="utf-8") as file:
                if file.tell() == 0:
                    file.write(f"{header},label\n")
                file.writelines(f"{line},{label}\n" for line in lines)
        except OSError as error:  # the run itself went well, and its figures are in the result
            if not self.complained:
                say_on_stderr(f"{self.csv}: {error.strerror}; epochs are missing from it")
            self.complained = True

    def run(self, row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        environment = environment_of(row, allocator)
        problem = preload_problem(row.command[0], allocator.library, environment.get("PATH"))
        if problem is not None:
            return Run(allocator.name, round_, position, failure=f"not preloaded: {problem}")
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            report = self.launcher.start(
                row.command,
                environment,
                allocator.library,
                row.pinned_to(self.launcher.cpus),
                stdout,
                stderr,
            )
            failure = describe_failure(report, read_tail(stderr), self.launcher.timeout)
            stdout.seek(0)
            text = stdout.read().decode(errors="replace")
        mean, figures = None, {}
        label = f"{allocator.name}-{round_}"
        if failure is None:
            try:
                whole = series_of(label, parse_table(label, text))
                series = without_warm_up(whole, self.warm_up)
                figures = figures_of(series)
                assert series.throughput is not None
                # A late line makes an epoch longer than the others: they count by their lengths.
                lengths = np.diff(whole.elapsed)[-len(series.elapsed) :]
                mean = float(np.average(series.throughput, weights=lengths))
                self.keep_epochs(text, label)
            except LabError as error:
                failure = f"its epochs cannot be read: {error}"
        return Run(
            allocator.name,
            round_,
            position,
            **{name: report[name] for name in REPORTED},
            throughput_per_s=mean,
            failure=failure,
            figures=figures,
        )


def tail_verdict(row: RowResult, name: str, base: str) -> str | None:
    """The mean and the tail of one allocator against the base's."""
    failure = row.failure(name)
    if failure is not None:
        return f"failed: {failure}"
    ratios = paired_ratios(row.costs(name), row.costs(base))
    if len(ratios) == 0:
        return None
    parts = [f"mean: {describe_comparison(compare_costs(ratios), row.measure, base)}"]
    for what in ("p99", "p99.9"):
        sides = [
            {r.round: r.figures[f"latency_{what}_ns"] for r in row.good_runs(side)}
            for side in (name, base)
        ]
        compared = compare_costs(paired_ratios(*sides))
        if compared.difference in ("faster", "slower"):
            said = describe_amount(compared.ratio, f"{what} latency")
        else:
            said = f"{what} latency: {describe_comparison(compared, 'wall', base)}"
        parts.append(said)
    return f"{'; '.join(parts)} ({plural(len(ratios), 'run')})"


def tail_verdicts(result: Result) -> list[str]:
    """A line for each allocator but the base, and each row."""
    base = summary.base_of(result)
    lines: list[str] = []
    for name in result.allocator_names():
        if name == base:
            continue
        for row in result.rows:
            said = tail_verdict(row, name, base)
            lines += [f"{name}, {row.name}: {said}"] if said else []
    return lines


def name_share(share: float) -> str:
    return f"p{share:g}"


def tail_rows(runs: Sequence[Series]) -> list[list[str]]:
    """Low percentiles of throughput, and high ones of the epochs' latencies.

    An epoch's latency is its time for one operation. Its percentiles are taken from the epochs'
    latencies themselves: between two values, 1 / percentile(throughput) is another number.
    """
    throughputs: list[Floats] = []
    for run in runs:
        if run.throughput is None:
            raise LabError(f"{run.label}: no column 'throughput_ops_s'")
        throughputs.append(run.throughput)
    rows = [["", *(run.label for run in runs)], ["epochs", *(f"{len(t)}" for t in throughputs)]]
    for share in THROUGHPUT_SHARES:
        cells = [f"{percentiles(t, [share])[0]:.0f}" for t in throughputs]
        rows.append([f"throughput ops/s, {name_share(share)}", *cells])
    rows.append(["throughput, CV", *(f"{variation(t):.2f}%" for t in throughputs)])
    latencies = [1e9 / t for t in throughputs]
    for share in LATENCY_SHARES:
        cells = [f"{percentiles(t, [share])[0]:.3f}" for t in latencies]
        rows.append([f"latency ns/op, {name_share(share)}", *cells])
    rows.append(["latency ns/op, worst epoch", *(f"{t.max():.3f}" for t in latencies)])
    return rows
