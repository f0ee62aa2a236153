"""What a soak came to: is memory flat, does throughput hold? Rule R4 on the soak scripts' CSV."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from hakmem_lab.analysis import blocks
from hakmem_lab.analysis.statistics import Change, change, percentiles, variation
from hakmem_lab.base.csv_table import Table, format_rows
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.numbers import Floats

MOST_GROWTH = 1.0  # percent of resident memory; rule R4
MOST_LOSS = 1.0  # percent of throughput; rule R4
MOST_VARIATION = 1.5  # percent; rule R4
# A tenth of fewer is one epoch, and what that one says is chance.
LEAST_EPOCHS = 20
DEFAULT_WARM_UP = "5%"
SAME_EPOCH = 0.1  # epochs of two runs may differ by this share and still be each other's
REFERENCE = "glibc"  # a soak of it that went beside says what the machine itself varies by
BESIDE = 0.01  # runs of one pair are equally long, up to this share

Run = TypeVar("Run")


@dataclass(frozen=True)
class Series:
    """The epochs of one run; throughput is None where it was not measured."""

    label: str
    elapsed: Floats  # seconds, at each epoch's end
    rss_kb: Floats
    throughput: Floats | None = None


def soak_files(sources: Sequence[Path]) -> list[Path]:
    """The CSV files among the sources, those of a directory by name."""
    files: list[Path] = []
    for source in sources:
        if not source.is_dir():
            files.append(source)
            continue
        found = sorted(source.glob("*.csv"))
        if not found:
            raise LabError(f"{source}: no CSV in it; a soak writes some (make soak)")
        files += found
    return files


def series_of(label: str, table: Table) -> Series:
    table.counted("epoch")
    throughput = None
    if "throughput_ops_s" in table.header:
        # The least there is: an epoch's line is written after some operations, and without any
        # there is no latency.
        throughput = table.numbers("throughput_ops_s", low=1)
    return Series(label, table.rising("elapsed_s"), table.numbers("rss_kb", low=1), throughput)


def read_series(tables: Sequence[Table]) -> list[Series]:
    """All runs of the tables; one with a column `label` holds several."""
    return read_runs(tables, series_of)


def read_runs(tables: Sequence[Table], run_of: Callable[[str, Table], Run]) -> list[Run]:
    """All runs of the tables, each made by `run_of` from its label and its rows. A table with a
    column `label` holds several, another one is a run called as its file. No label twice."""
    found: list[Run] = []
    labels: list[str] = []
    for table in tables:
        parts = table.grouped("label") if "label" in table.header else {table.name: table}
        found += [run_of(label, part) for label, part in parts.items()]
        labels += parts
    refuse_repeated(labels)
    return found


def refuse_repeated(labels: Sequence[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise LabError(
                f"two runs are called {label!r}: a run has its file's name, or its label"
            )


def parse_warm_up(text: str, seconds: float) -> float:
    """Seconds from a number of them or from a share as 5%."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if text.endswith("%"):
        if 0 <= value < 100:
            return seconds * value / 100
    elif 0 <= value < float("inf"):
        return value
    raise LabError(f"--warm-up {text}: wanted are seconds, or a share of the time as 5%")


def without_warm_up(series: Series, warm_up: str) -> Series:
    """The epochs that began after the warm-up; never the first one, in which everything starts."""
    seconds = parse_warm_up(warm_up, float(series.elapsed[-1]))
    begun = np.concatenate(([0.0], series.elapsed[:-1]))
    kept = (begun >= seconds) & (begun > 0)
    if kept.sum() < 2:
        raise LabError(
            f"{series.label}: {len(series.elapsed)} epochs, {int(kept.sum())} of them after the"
            " warm-up: at least two are needed"
        )
    return Series(
        series.label,
        series.elapsed[kept],
        series.rss_kb[kept],
        None if series.throughput is None else series.throughput[kept],
    )


@dataclass(frozen=True)
class Throughput:
    """Operations a second, epoch by epoch, after the warm-up."""

    values: Floats
    change: Change
    cv: float  # percent
    operations: float  # of the whole run, its warm-up too


@dataclass(frozen=True)
class Summary:
    """The figures of one run after its warm-up."""

    label: str
    epochs: int
    epoch_s: float
    total_s: float  # of the whole run
    elapsed: Floats  # seconds, at each epoch's end
    rss: Floats
    growth: Change
    throughput: Throughput | None

    @property
    def long_enough(self) -> bool:
        return self.epochs >= LEAST_EPOCHS


def summarise_throughput(series: Series, warm: Series) -> Throughput | None:
    if series.throughput is None or warm.throughput is None:
        return None
    lengths = np.diff(series.elapsed, prepend=0.0)
    return Throughput(
        warm.throughput,
        change(warm.elapsed, warm.throughput),
        variation(warm.throughput),
        float((series.throughput * lengths).sum()),
    )


def summarise(series: Series, warm_up: str = DEFAULT_WARM_UP) -> Summary:
    warm = without_warm_up(series, warm_up)
    return Summary(
        label=series.label,
        epochs=len(warm.elapsed),
        epoch_s=float(np.median(np.diff(warm.elapsed))),
        total_s=float(series.elapsed[-1]),
        elapsed=warm.elapsed,
        rss=warm.rss_kb,
        growth=change(warm.elapsed, warm.rss_kb),
        throughput=summarise_throughput(series, warm),
    )


@dataclass(frozen=True)
class Pair:
    """Throughput of two runs that went side by side, of the epochs that both have."""

    times: Floats
    ours: Floats
    theirs: Floats


def matched(run: Summary, reference: Summary | None) -> Pair | None:
    """The epochs of a run and of one that went beside it; None without such a run."""
    if reference is None or reference is run:
        return None
    if run.throughput is None or reference.throughput is None:
        return None
    if abs(run.epoch_s / reference.epoch_s - 1) > SAME_EPOCH:
        return None
    ours, theirs = (np.rint(s.elapsed / run.epoch_s).astype(int) for s in (run, reference))
    _, at, beside = np.intersect1d(ours, theirs, return_indices=True)
    if len(at) < LEAST_EPOCHS:
        return None
    return Pair(run.elapsed[at], run.throughput.values[at], reference.throughput.values[beside])


def shares_of(run: Summary, reference: Summary | None) -> tuple[Floats, Floats] | None:
    """Times, and the run's throughput as a share of the other's, epoch by epoch: what the machine
    does to both at the same time is not in it."""
    pair = matched(run, reference)
    return None if pair is None else (pair.times, pair.ours / pair.theirs)


@dataclass(frozen=True)
class Judgement:
    """One line of the verdict; `passed` is None where the run was too short to tell."""

    label: str
    passed: bool | None
    text: str

    def line(self) -> str:
        word = "SHORT" if self.passed is None else "PASS" if self.passed else "FAIL"
        return f"{word} {self.label}: {self.text}"


def beside(summaries: Sequence[Summary], run: Summary) -> Summary | None:
    """The reference that went beside: the one called after the run, else the one as long as it."""
    others = [s for s in summaries if s is not run and abs(s.total_s / run.total_s - 1) <= BESIDE]
    by_label = {other.label: other for other in others}
    return by_label.get(f"{REFERENCE}-{run.label}", by_label.get(REFERENCE))


def judge_soak(summary: Summary, reference: Summary | None = None) -> list[Judgement]:
    """Rule R4. With a `reference` that ran beside it, throughput is judged as a share of the
    reference's alone, and its CV against the reference's: what a machine does to both is not the
    allocator's. Without one both are judged as they are."""

    def judgement(passed: bool, text: str) -> Judgement:
        if not summary.long_enough:
            text += f" ({summary.epochs} epochs; {LEAST_EPOCHS} are needed to tell)"
        return Judgement(summary.label, passed if summary.long_enough else None, text)

    def moved(what: Change) -> str:
        return f"{what.tenths:+.2f}% (tenths), {what.slope:+.2f}% (slope)"

    found = [
        judgement(
            summary.growth.up <= MOST_GROWTH,
            f"resident memory {moved(summary.growth)}; at most +{MOST_GROWTH:g}%",
        )
    ]
    throughput = summary.throughput
    if throughput is None:
        return found
    text = f"throughput {moved(throughput.change)}"
    judged = throughput.change
    shares = shares_of(summary, reference)
    if reference is not None and shares is not None:
        judged, of_slope = change(*shares), blocks.slope(*shares)
        text += f"; as a share of {reference.label}'s beside it {moved(judged)}"
        text += f" between {of_slope.low:+.2f}% and {of_slope.high:+.2f}%"
    found.append(judgement(judged.down <= MOST_LOSS, f"{text}; at least -{MOST_LOSS:g}%"))
    text, most = f"CV {throughput.cv:.2f}%; at most", MOST_VARIATION
    beside = None if reference is None or reference is summary else reference.throughput
    if reference is not None and beside is not None:
        most = beside.cv
        text += f" {reference.label}'s beside it,"
    found.append(judgement(throughput.cv <= most, f"{text} {most:.2f}%"))
    return found


def show_seconds(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.1f} s"


def soak_rows(summaries: Sequence[Summary]) -> list[list[str]]:
    """The figures, a column a run."""

    def row(name: str, figure: Callable[[Summary], str]) -> list[str]:
        return [name, *map(figure, summaries)]

    def speed_row(name: str, figure: Callable[[Throughput], str]) -> list[str]:
        return row(name, lambda s: "-" if s.throughput is None else figure(s.throughput))

    rows = [
        row("", lambda s: s.label),
        row("time", lambda s: show_seconds(s.total_s)),
        row("epochs after warm-up", lambda s: f"{s.epochs} x {s.epoch_s:.1f} s"),
        row("resident kB, median", lambda s: f"{np.median(s.rss):.0f}"),
        row("resident kB, most", lambda s: f"{s.rss.max():.0f}"),
        row("resident, last tenth against first", lambda s: f"{s.growth.tenths:+.2f}%"),
        row("resident, slope over the time", lambda s: f"{s.growth.slope:+.2f}%"),
    ]
    if any(s.throughput is not None for s in summaries):
        rows += [
            speed_row("operations, whole run, 10^9", lambda t: f"{t.operations / 1e9:.3f}"),
            speed_row("throughput M/s, median", lambda t: f"{np.median(t.values) / 1e6:.2f}"),
            speed_row("throughput M/s, p1", lambda t: f"{percentiles(t.values, [1])[0] / 1e6:.2f}"),
            speed_row("throughput, last tenth against first", lambda t: f"{t.change.tenths:+.2f}%"),
            speed_row("throughput, slope over the time", lambda t: f"{t.change.slope:+.2f}%"),
            speed_row("throughput, CV", lambda t: f"{t.cv:.2f}%"),
        ]
    return rows


def report_soak(
    series: Sequence[Series], warm_up: str, reference: str | None, judged: Sequence[str] | None
) -> tuple[list[str], bool]:
    """The lines to print, and whether nothing failed."""
    labels = [s.label for s in series]
    for option, names in (
        ("--reference", [reference] if reference else []),
        ("--judge", judged or []),
    ):
        for name in names:
            if name not in labels:
                raise LabError(f"{option}: {name!r} is unknown; there are: {', '.join(labels)}")
    summaries = [summarise(s, warm_up) for s in series]
    beside = next((s for s in summaries if s.label == reference), None)
    judgements = [
        judgement
        for summary in summaries
        if summary.label in (labels if judged is None else judged)
        for judgement in judge_soak(summary, beside)
    ]
    lines = [*format_rows(soak_rows(summaries)), "", *(f"- {j.line()}" for j in judgements)]
    return lines, all(j.passed is not False for j in judgements)
