"""The scorecard's lines: a goal, the figure that was measured, and whether it is met (rule R5).

A line is made from one of the given results that has what it needs (`answer`); one without is said
to be not measured, with the kind of run that would measure it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.soak import Series
from hakmem_lab.analysis.statistics import (
    Estimate,
    geometric_mean,
    median_estimate,
    paired_ratios,
    rate_estimate,
)
from hakmem_lab.base.numbers import Floats
from hakmem_lab.run.allocators import Allocator, is_hakmem
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.steady import IDLE_95, LOAD_BACK, STEADY

PROFILES = ("speed", "balanced", "lean")
DEFAULT_PROFILE = "balanced"
ALIASES = {"MIXED_TINYV3_C7_SAFE": "speed", "MIXED_TINYV3_C7_BALANCED": "balanced"}
MIMALLOC = ("mimalloc3", "mimalloc", "mimalloc2", "debian-mimalloc")  # the first that ran
MIXED_SLOTS = "400"
# The rows that the goals were set on: the public suite's, and random_mixed as the field runs it.
FIELD_PREFIX = "mb-"
FIELD_MIXED = frozenset(("mixed400", "mixed-big", "mixed-mid", "mixed-large", "mixed-2T"))
KB_IN_MB = 1000
IDLE_WORDS = ["4", "512", "16", "4096"]  # arguments of bench/idle: threads, MiB, sizes
IDLE_QUIET = 60  # seconds

SUITE, STEADY_KIND, INSTRUCTIONS, SOAK = "suite", "steady", "instructions", "soak"
PROGRAMS = "programs"
GLIBC = "glibc"


@dataclass(frozen=True)
class Source:
    """A result and the name it is called by."""

    name: str
    result: Result


@dataclass(frozen=True)
class SoakRun:
    source: str
    series: Series


@dataclass(frozen=True)
class Evidence:
    results: list[Source] = field(default_factory=list)
    soaks: list[SoakRun] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """A figure, where it comes from and how often it was measured."""

    estimate: Estimate
    runs: str
    source: str
    note: str = ""
    # What it rests on: rows of a mean, or peers of a contest, and then (pairs of) runs.
    extent: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Bar:
    limit: float
    at_most: bool
    text: str

    def met_by(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True)
class Line:
    what: str
    found: Found | None
    bar: Bar
    how: str  # the kind of run that measures it
    digits: int = 2
    unit: str = ""
    scientific: bool = False
    # Why the figure does not answer the question, though there is one.
    unanswered: str = ""
    # The same question asked in another way, whose answer is as good.
    instead: Estimate | None = None

    @property
    def verdict(self) -> str:
        """The better one, where there are two figures."""
        if self.found is None or self.unanswered:
            return "not measured"
        figures = (self.found.estimate, self.instead)
        verdicts = [verdict_on(self.bar, figure) for figure in figures if figure is not None]
        return min(verdicts, key=VERDICTS.index)


NOT_CERTAIN = ", not certain"
VERDICTS = ("met", f"met{NOT_CERTAIN}", f"not met{NOT_CERTAIN}", "not met")  # the best first


def verdict_on(bar: Bar, figure: Estimate) -> str:
    word = "met" if bar.met_by(figure.value) else "not met"
    if figure.low is None or figure.high is None:
        return word
    ends = {bar.met_by(figure.low), bar.met_by(figure.high)}
    return word if len(ends) == 1 else f"{word}{NOT_CERTAIN}"


# --- who is who -----------------------------------------------------------------------------------


def profile_of(allocator: Allocator) -> str | None:
    """The profile of an allocator that is hakmem with nothing but that set; None for all others."""
    variables = dict(allocator.environment)
    profile = variables.pop("HAKMEM_PROFILE", None)
    if variables:
        return None
    if profile is not None:
        profile = ALIASES.get(profile, profile)
        return profile if profile in PROFILES else None
    return DEFAULT_PROFILE if is_hakmem(allocator) else None


def subject(result: Result, profile: str) -> str | None:
    """The allocator that is hakmem in `profile`."""
    able = [a for a in result.allocators if a.missing is None and profile_of(a) == profile]
    # "hakmem" before a variant that comes to the same.
    able.sort(key=lambda a: a.name != "hakmem")
    return able[0].name if able else None


def others(result: Result) -> list[str]:
    return [a.name for a in result.allocators if a.missing is None and not is_hakmem(a)]


def mimalloc_of(result: Result) -> str | None:
    able = result.allocator_names()
    return next((name for name in MIMALLOC if name in able), None)


def is_mixed(row: RowResult) -> bool:
    """random_mixed, 16 to 1024 bytes, WS=400, one thread: the predecessor's benchmark."""
    words = row.command
    plain = len(words) == 4 and not any(name.startswith("HAKMEM_BENCH") for name in row.environment)
    return plain and Path(words[0]).name == "random_mixed" and words[2] == MIXED_SLOTS


def any_row(_row: RowResult) -> bool:
    return True


def is_field_row(row: RowResult) -> bool:
    return row.name in FIELD_MIXED or row.name.startswith(FIELD_PREFIX)


# --- figures of results ---------------------------------------------------------------------------

Finder = Callable[[Source], Found | None]
Chosen = Callable[[RowResult], bool]


def answer(evidence: Evidence, find: Finder, kind: str = SUITE) -> Found | None:
    """What the result says that has most to rest it on, the first of equals: a mean over most
    rows, or a contest of most peers; of those with as many the one of most runs."""
    candidates = [source for source in evidence.results if source.result.kind == kind]
    found = [figure for source in candidates if (figure := find(source))]
    return max(found, key=lambda figure: figure.extent, default=None)


def rounds_text(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def in_mixed(find: Callable[[Source, RowResult], Found | None]) -> Finder:
    """Looks in the row of random_mixed."""

    def look(source: Source) -> Found | None:
        if source.result.settings.get("quick"):
            return None  # a tenth of the operations: start-up counts
        for row in source.result.rows:
            if is_mixed(row) and (found := find(source, row)):
                return found
        return None

    return look


def throughput_share(row: RowResult, name: str | None, other: str | None) -> Estimate | None:
    """Throughput of `name` in percent of that of `other`."""
    if name is None or other is None:
        return None
    ratios = paired_ratios(row.costs(other), row.costs(name))
    return median_estimate(ratios * 100) if len(ratios) else None


def share_of_mimalloc(profile: str) -> Finder:
    def find(source: Source, row: RowResult) -> Found | None:
        other = mimalloc_of(source.result)
        share = throughput_share(row, subject(source.result, profile), other)
        if share is None:
            return None
        runs = rounds_text(share.count)
        return Found(share, runs, source.name, str(other), extent=(1, share.count))

    return in_mixed(find)


def share_of_fastest(profile: str) -> Finder:
    def find(source: Source, row: RowResult) -> Found | None:
        name = subject(source.result, profile)
        peers = [peer for peer in others(source.result) if row.costs(peer)]
        fastest = summary.best_by_cost(row, peers)
        share = throughput_share(row, name, fastest)
        if share is None:
            return None
        runs, extent = rounds_text(share.count), (len(peers), share.count)
        return Found(share, runs, source.name, str(fastest), extent=extent)

    return in_mixed(find)


def mixed_memory(profile: str) -> Finder:
    """MB, a thousand of the kernel's kB."""

    def find(source: Source, row: RowResult) -> Found | None:
        name = subject(source.result, profile)
        runs = row.good_runs(name) if name else []
        if not runs:
            return None
        peaks = np.array([run.peak_rss_kb / KB_IN_MB for run in runs])
        figure = median_estimate(peaks)
        return Found(figure, rounds_text(len(runs)), source.name, extent=(1, len(runs)))

    return in_mixed(find)


def costs_of(row: RowResult, name: str) -> dict[int, float]:
    return row.costs(name)


def memory_of(row: RowResult, name: str) -> dict[int, float]:
    return {run.round: float(run.peak_rss_kb) for run in row.good_runs(name)}


def mean_ratio(
    name_of: Callable[[Result], str | None],
    base_of: Callable[[Result], str | None],
    figures: Callable[[RowResult, str], dict[int, float]],
    chosen: Chosen,
) -> Finder:
    """Geometric mean over a suite's chosen rows of one allocator's figures against another's."""

    def find(source: Source) -> Found | None:
        result = source.result
        name, base = name_of(result), base_of(result)
        if name is None or base is None or result.settings.get("quick"):
            return None
        ratios: list[Floats] = []
        for row in filter(chosen, result.rows):
            of_row = paired_ratios(figures(row, name), figures(row, base))
            if len(of_row):
                ratios.append(of_row)
        if len(ratios) < 2:
            return None
        rounds = sorted({len(of_row) for of_row in ratios})
        each = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
        runs = f"{len(ratios)} rows of {each} runs"
        extent = (len(ratios), sum(map(len, ratios)))
        return Found(geometric_mean(ratios), runs, source.name, extent=extent)

    return find


def mean_to_mimalloc(
    profile: str,
    figures: Callable[[RowResult, str], dict[int, float]],
    chosen: Chosen = any_row,
) -> Finder:
    """Against mimalloc v3, which the bars name; its other versions do not answer them."""

    def baseline(result: Result) -> str | None:
        return summary.BASELINE if mimalloc_of(result) == summary.BASELINE else None

    return mean_ratio(lambda result: subject(result, profile), baseline, figures, chosen)


def mean_to_default(profile: str, chosen: Chosen = any_row) -> Finder:
    """What a profile costs in time."""
    return mean_ratio(
        lambda result: subject(result, profile),
        lambda result: subject(result, DEFAULT_PROFILE),
        costs_of,
        chosen,
    )


def share_of_rows(profile: str, holds: Callable[[Result, RowResult, str], bool | None]) -> Finder:
    """Share of a suite's rows of which something holds, in percent; None of it: no such row."""

    def find(source: Source) -> Found | None:
        result = source.result
        name = subject(result, profile)
        if name is None or not others(result) or result.settings.get("quick"):
            return None
        answers = [holds(result, row, name) for row in result.rows]
        known = [answer for answer in answers if answer is not None]
        if len(known) < 2:
            return None
        share = Estimate(sum(known) / len(known) * 100, None, None, len(known))
        runs = f"{result.settings.get('rounds', '?')} runs a row"
        return Found(share, runs, source.name, f"{sum(known)} of {len(known)} rows")

    return find


def within_time(result: Result, row: RowResult, name: str) -> bool | None:
    """Whether the time against the row's best peer is within the row's bar."""
    if row.failure(name) is not None:
        return False
    ratio = summary.cost_ratio(row, name, summary.best_by_cost(row, others(result)))
    return None if ratio is None else ratio.value <= summary.limit_of(row)


def within_glibc(_result: Result, row: RowResult, name: str) -> bool | None:
    """Whether it is no slower than on libc's own allocator, within noise."""
    if row.failure(name) is not None:
        return False
    ratio = summary.cost_ratio(row, name, GLIBC)
    return None if ratio is None else ratio.value <= summary.NOISE


def cost_to_glibc(profile: str, row_name: str) -> Finder:
    """Time of one row of a suite against glibc's."""

    def find(source: Source) -> Found | None:
        name = subject(source.result, profile)
        for row in source.result.rows:
            if row.name != row_name or name is None or source.result.settings.get("quick"):
                continue
            ratio = summary.cost_ratio(row, name, GLIBC)
            if ratio is not None:
                return Found(ratio, rounds_text(ratio.count), source.name)
        return None

    return find


def within_memory(result: Result, row: RowResult, name: str) -> bool | None:
    lowest = summary.lowest_memory(row, summary.memory_peers(result))
    ratio = summary.memory_ratio(row, name, lowest)
    return None if ratio is None else ratio.value <= summary.MEMORY_BAR


def scales(result: Result, row: RowResult, name: str) -> bool | None:
    """Whether many threads keep the throughput of few."""
    kept = summary.scaling(result, row, name)
    return None if kept is None else kept >= summary.SCALING_BAR


def instructions(profile: str, figure: Callable[[InstructionCount], float]) -> Finder:
    def find(source: Source) -> Found | None:
        name = subject(source.result, profile)
        for count in source.result.instructions:
            if count.allocator == name and count.failure is None:
                runs = f"1 pair of runs, {count.operations} operations"
                return Found(Estimate(figure(count), None, None, 1), runs, source.name)
        return None

    return find


# --- figures of steady ----------------------------------------------------------------------------


def is_the_bars(row: RowResult) -> bool:
    """Whether an idle row is the one that the bars are for: 512 MiB in 4 threads, watched for a
    minute or until the load comes back."""
    words = row.command[1:]
    if row.name == STEADY:
        return True
    return words[:4] == IDLE_WORDS and (row.name == LOAD_BACK or int(words[6]) >= IDLE_QUIET)


def in_steady(
    profile: str, row_name: str, make: Callable[[list[dict[str, float]]], Estimate | None]
) -> Finder:
    def find(source: Source) -> Found | None:
        name = subject(source.result, profile)
        for row in source.result.rows:
            if row.name != row_name or name is None or not is_the_bars(row):
                continue
            figures = [run.figures for run in row.good_runs(name)]
            estimate = make(figures) if figures else None
            if estimate is not None:
                return Found(estimate, rounds_text(len(figures)), source.name)
        return None

    return find


def calls_each(figures: list[dict[str, float]]) -> Estimate | None:
    """System calls an operation, all runs together."""
    calls = round(sum(run.get("os_calls", 0) for run in figures))
    operations = sum(run.get("operations", 0) for run in figures)
    return rate_estimate(calls, operations, len(figures)) if operations > 0 else None


def median_of(
    name: str, factor: float = 1.0
) -> Callable[[list[dict[str, float]]], Estimate | None]:
    def make(figures: list[dict[str, float]]) -> Estimate | None:
        values = [run[name] * factor for run in figures if name in run]
        return median_estimate(np.array(values)) if values else None

    return make


def steady_calls(profile: str) -> Finder:
    return in_steady(profile, STEADY, calls_each)


def idle_memory(profile: str, row_name: str) -> Finder:
    """MB, a thousand of the kernel's kB."""
    return in_steady(profile, row_name, median_of("resident_kb", 1 / KB_IN_MB))


def idle_cpu(profile: str) -> Finder:
    return in_steady(profile, IDLE_95, median_of("quiet_cpu_ms"))


def load_back(profile: str) -> Finder:
    """Operations of the first second after idleness against those of the first load's."""
    return in_steady(profile, LOAD_BACK, median_of("again_to_first"))


def idle_wake_ups(profile: str) -> Finder:
    return in_steady(profile, IDLE_95, median_of("wake_ups"))
