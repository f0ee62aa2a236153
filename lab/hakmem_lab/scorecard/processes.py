"""Figures of single processes: system calls, idle memory, instructions, start-up."""

from collections.abc import Callable

import numpy as np

from hakmem_lab.analysis.statistics import Estimate, rate_estimate
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.steady import AT_REST, IDLE_95, IDLE_100, STEADY
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    INSTRUCTIONS,
    KB_IN_MB,
    PROFILES,
    STARTUP,
    STEADY_KIND,
    Evidence,
    if_there,
    row_called,
    subject,
)
from hakmem_lab.scorecard.rows import Find, basis, median_of
from hakmem_lab.scorecard.verdicts import Bar, Found, Part

IDLE_WORDS = ["4", "512", "16", "4096"]  # arguments of bench/idle: threads, MiB, sizes
IDLE_QUIET = 60  # seconds
EMPTY = "empty"  # a library that does nothing, preloaded

Runs = list[dict[str, float]]
Make = Callable[[Runs], Estimate | None]


def is_the_bars(row: RowResult) -> bool:
    """Whether an idle row is the one that the bars are for: 512 MiB in 4 threads, watched for a
    minute."""
    words = row.command[1:]
    return words[:4] == IDLE_WORDS and int(words[6]) >= IDLE_QUIET


def figures_of(result: Result, row_name: str, profile: str) -> Runs:
    name, row = subject(result, profile), row_called(result, row_name)
    if name is None or row is None or (row.name in (IDLE_95, IDLE_100) and not is_the_bars(row)):
        return []
    return [run.figures for run in row.good_runs(name)]


def failure_of(result: Result, row_name: str, profile: str) -> str:
    name, row = subject(result, profile), row_called(result, row_name)
    return "" if name is None or row is None else row.failure(name) or ""


def in_steady(cases: dict[str, tuple[str, str]], make: Make) -> Find:
    """A part for each case: its row and profile."""

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(STEADY_KIND)
        if source is None:
            return None
        parts: list[Part] = []
        runs: list[int] = []
        for title, (row_name, profile) in cases.items():
            figures = figures_of(source.result, row_name, profile)
            estimate = make(figures) if figures else None
            failed = failure_of(source.result, row_name, profile)
            parts.append(Part(title, estimate, bar, failed=failed))
            runs += [len(figures)] if figures else []
        if not runs:
            return None
        return Found(parts, source.name, basis(runs, rows=False))

    return find


def calls_each(runs: Runs) -> Estimate | None:
    """System calls an operation, of all runs together."""
    calls = round(sum(run.get("os_calls", 0) for run in runs))
    operations = sum(run.get("operations", 0) for run in runs)
    return rate_estimate(calls, operations, len(runs)) if operations > 0 else None


def middle(figure: str, factor: float = 1.0) -> Make:
    def make(runs: Runs) -> Estimate | None:
        return median_of(np.array([run[figure] * factor for run in runs if figure in run]))

    return make


def worst(figure: str) -> Make:
    def make(runs: Runs) -> Estimate | None:
        values = [run[figure] for run in runs if figure in run]
        return Estimate(max(values), None, None, len(values)) if values else None

    return make


def steady_calls(profiles: tuple[str, ...] = PROFILES) -> Find:
    return in_steady({profile: (STEADY, profile) for profile in profiles}, calls_each)


def idle_memory(row_name: str, profile: str = DEFAULT_PROFILE) -> Find:
    """MB."""
    return in_steady({row_name: (row_name, profile)}, middle("resident_kb", 1 / KB_IN_MB))


def idle_wake_ups() -> Find:
    cases = {"95% freed": (IDLE_95, DEFAULT_PROFILE), "all freed": (IDLE_100, DEFAULT_PROFILE)}
    return in_steady(cases, worst("wake_ups"))


def memory_at_rest() -> Find:
    """MB."""
    cases = {name: (name, DEFAULT_PROFILE) for name in AT_REST}
    return in_steady(cases, middle("resident_kb", 1 / KB_IN_MB))


# --- instructions ---------------------------------------------------------------------------------


def pair_of(evidence: Evidence, name: str | None) -> tuple[float, str] | None:
    """Instructions of a malloc and its free, and how many operations say so."""
    source = evidence.of(INSTRUCTIONS)
    for count in source.result.instructions if source else []:
        if count.allocator == name and count.failure is None:
            return count.pair, f"{count.operations} operations"
    return None


def instructions(name: str, base: str | None = None) -> Find:
    """Of an allocator, or its ratio to another one's."""

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(INSTRUCTIONS)
        ours = pair_of(evidence, name)
        theirs = pair_of(evidence, base) if base else (1.0, "")
        if source is None or ours is None or theirs is None or not theirs[0]:
            return None
        beside = f"{ours[0]:.1f} and {theirs[0]:.1f} instructions" if base else ""
        estimate = Estimate(ours[0] / theirs[0], None, None, 1)
        return Found([Part("", estimate, bar, beside)], source.name, ours[1])

    return find


# --- start-up -------------------------------------------------------------------------------------


def beyond_empty(make: Callable[[RowResult, str], Estimate | None], rounds: bool) -> Find:
    """What hakmem takes in a program that does nothing, beyond an empty library."""

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(STARTUP)
        name = subject(source.result) if source else None
        if source is None or name is None or if_there(source.result, EMPTY) is None:
            return None
        for row in source.result.rows:
            estimate = make(row, name)
            failed = row.failure(name) or ""
            if estimate is not None or failed:
                text = basis([estimate.count if estimate else 0]) if rounds else "1 run"
                return Found([Part(row.name, estimate, bar, failed=failed)], source.name, text)
        return None

    return find


def startup_memory() -> Find:
    """KB."""

    def make(row: RowResult, name: str) -> Estimate | None:
        ours, empty = (
            {run.round: run.peak_rss_kb for run in row.good_runs(who)} for who in (name, EMPTY)
        )
        return median_of(np.array([float(ours[r] - empty[r]) for r in ours.keys() & empty.keys()]))

    return beyond_empty(make, rounds=True)


def startup_calls() -> Find:
    def make(row: RowResult, name: str) -> Estimate | None:
        if not {name, EMPTY} <= row.system_calls.keys():
            return None
        ours, empty = (sum(row.system_calls[who].values()) for who in (name, EMPTY))
        return Estimate(float(ours - empty), None, None, 1)

    return beyond_empty(make, rounds=False)
