"""Figures of results that have rows: the suite, and its variants."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import Estimate, geometric_mean, median_estimate, paired_ratios
from hakmem_lab.base.numbers import Floats
from hakmem_lab.run.mimalloc_bench import ENTRIES
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    GLIBC,
    KB_IN_MB,
    MIMALLOC,
    SAMPLING,
    SUITE,
    VARIANTS,
    Evidence,
    absent_peers,
    if_there,
    lean_peers,
    peers,
    row_called,
    subject,
)
from hakmem_lab.scorecard.verdicts import Bar, Found, Part, rounds_text

Find = Callable[[Evidence, Bar], Found | None]
Figures = Callable[[RowResult, str], dict[int, float]]
Who = Callable[[Result], str | None]

FIELD_ROWS = (
    *("mixed400", "mixed-big", "mixed-mid", "mixed-large", "mixed-2T"),
    *(entry.name for entry in ENTRIES),
)
MIXED, LARSON = "mixed400", "mb-larson"
GROWTH_ROWS = ("vector-256M", "append-4096")
ROWS_OF_MANY_THREADS = (  # 64, 256 and 1,024
    *("mixed-64T", "larson-64T", "handoff-32-32", "stress-mix-64T"),
    *("asymmetric-64T", "handoff-63-1"),
    *("mixed-256T", "larson-256T", "handoff-128-128", "handoff-255-1", "stress-mix-256T"),
    *("mixed-1024T", "larson-1024T"),
)
SAMPLED_ROWS = ("mixed400", "larson", "mb-cfrac")
M_STEPS = {50: "M1", 55: "M2", 60: "M3", 70: "M4"}


def costs(row: RowResult, name: str) -> dict[int, float]:
    return row.costs(name)


def peaks(row: RowResult, name: str) -> dict[int, float]:
    return {run.round: float(run.peak_rss_kb) for run in row.good_runs(name)}


def basis(rounds: Sequence[int], rows: bool = True) -> str:
    least, most = min(rounds, default=0), max(rounds, default=0)
    each = rounds_text(least) if least == most else f"{least} to {rounds_text(most)}"
    return f"{len(rounds)} rows, {each}" if rows and len(rounds) > 1 else each


def median_of(values: Floats) -> Estimate | None:
    """With an interval where there are enough rounds for one."""
    return median_estimate(values) if len(values) else None


def mean_of(rows: Sequence[Floats]) -> Estimate | None:
    """The geometric mean; its count is that of the rounds in the row that has fewest."""
    return cached_mean(tuple(tuple(map(float, row)) for row in rows)) if rows else None


# The lines and the table of profiles ask for the same means.
@lru_cache(maxsize=200)
def cached_mean(rows: tuple[tuple[float, ...], ...]) -> Estimate:
    return replace(geometric_mean([np.array(row) for row in rows]), count=min(map(len, rows)))


def field_rows(_evidence: Evidence) -> Sequence[str]:
    return FIELD_ROWS


def all_rows(evidence: Evidence) -> Sequence[str]:
    """Those that the suite has today."""
    return list(evidence.bars)


def sampled_rows(_evidence: Evidence) -> Sequence[str]:
    return SAMPLED_ROWS


def rows_of(purpose: str) -> Callable[[Evidence], Sequence[str]]:
    """Those that its result has."""

    def names(evidence: Evidence) -> Sequence[str]:
        source = evidence.of(purpose)
        return [row.name for row in source.result.rows] if source else []

    return names


def hakmem_in(profile: str) -> Who:
    return lambda result: subject(result, profile)


def called(name: str) -> Who:
    return lambda result: if_there(result, name)


# --- means over rows ------------------------------------------------------------------------------


def mean_part(
    result: Result, names: Sequence[str], who: str, base: str, figures: Figures, part: Part
) -> tuple[Part, list[int], str]:
    """The part with its mean, the rounds of each row, and what is missing."""
    ratios: list[Floats] = []
    absent: list[str] = []
    for name in names:
        row = row_called(result, name)
        if row is None or row.failure(who) is not None:
            absent.append(name)
            continue
        of_row = paired_ratios(figures(row, who), figures(row, base))
        if len(of_row):
            ratios.append(of_row)
        else:
            absent.append(name)
    incomplete = f"{len(ratios)} of {len(names)} rows, without {absent[0]}" if absent else ""
    return replace(part, estimate=mean_of(ratios)), [len(r) for r in ratios], incomplete


def mean(
    purpose: str,
    who: Who,
    base: Who,
    figures: Figures,
    rows: Sequence[tuple[str, Callable[[Evidence], Sequence[str]]]],
) -> Find:
    """Geometric means of one allocator's figures against another's: a part for each set of rows."""

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(purpose)
        if source is None:
            return None
        name, other = who(source.result), base(source.result)
        if name is None or other is None:
            return None
        parts: list[Part] = []
        rounds: list[int] = []
        incomplete = ""
        for title, chosen in rows:
            part, of_rows, absent = mean_part(
                source.result, chosen(evidence), name, other, figures, Part(title, None, bar)
            )
            parts.append(part)
            rounds, incomplete = max(rounds, of_rows, key=len), incomplete or absent
        if all(part.estimate is None for part in parts):
            return None
        return Found(parts, source.name, basis(rounds), incomplete)

    return find


def against_mimalloc(
    figures: Figures, rows: Callable[[Evidence], Sequence[str]], profile: str = DEFAULT_PROFILE
) -> Find:
    return mean(SUITE, hakmem_in(profile), called(MIMALLOC), figures, [("", rows)])


def lean_against_glibc() -> Find:
    return mean(SUITE, hakmem_in("lean"), called(GLIBC), peaks, [("", all_rows)])


def lean_against_balanced() -> Find:
    both = [("the field's rows", field_rows), ("all rows", all_rows)]
    return mean(SUITE, hakmem_in("lean"), hakmem_in(DEFAULT_PROFILE), costs, both)


def sampler_cost(figures: Figures) -> Find:
    balanced = hakmem_in(DEFAULT_PROFILE)
    return mean(SAMPLING, balanced, called("unsampled"), figures, [("", sampled_rows)])


def guard_cost(mode: str) -> Find:
    return mean(VARIANTS, called(mode), hakmem_in(DEFAULT_PROFILE), costs, [("", all_rows)])


# --- single rows ----------------------------------------------------------------------------------

# A row's part: its ratio to whatever the goal compares with.
Judged = Callable[[Result, RowResult, str, Bar], Part]


def each_row(
    purpose: str,
    names: Callable[[Evidence], Sequence[str]],
    judged: Judged,
    needs_peers: bool,
    profile: str = DEFAULT_PROFILE,
) -> Find:
    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(purpose)
        name = subject(source.result, profile) if source else None
        if source is None or name is None:
            return None
        result = source.result
        parts: list[Part] = []
        for row_name in names(evidence):
            row = row_called(result, row_name)
            if row is None:
                parts.append(Part(row_name, None, bar))
                continue
            part = judged(result, row, name, bar)
            parts.append(replace(part, failed=row.failure(name) or part.failed))
        known = [part.estimate.count for part in parts if part.estimate is not None]
        if not known:
            return None
        absent = absent_peers(result) if needs_peers else ""
        return Found(parts, source.name, basis(known), absent)

    return find


def ratio_part(row: RowResult, name: str, other: str | None, figures: Figures, bar: Bar) -> Part:
    """Against another one, which stands beside it."""
    if other is None:
        return Part(row.name, None, bar)
    ratios = paired_ratios(figures(row, name), figures(row, other))
    return Part(row.name, median_of(ratios), bar, beside=other)


def rows_against_best() -> Find:
    """Each row has a bar of its own."""

    def find(evidence: Evidence, _bar: Bar) -> Found | None:
        def judged(result: Result, row: RowResult, name: str, _bar: Bar) -> Part:
            limit = evidence.bars[row.name]
            best = summary.best_by_cost(row, peers(result))
            return ratio_part(row, name, best, costs, Bar(limit, f"≤ {limit:.2f}"))

        return each_row(SUITE, all_rows, judged, needs_peers=True)(evidence, _bar)

    return find


def rows_against_leanest(names: Callable[[Evidence], Sequence[str]]) -> Find:
    def judged(result: Result, row: RowResult, name: str, bar: Bar) -> Part:
        leanest = summary.lowest_memory(row, lean_peers(result))
        return ratio_part(row, name, leanest, peaks, bar)

    return each_row(SUITE, names, judged, needs_peers=True)


def memory_with_many_threads() -> Find:
    return rows_against_leanest(lambda _evidence: ROWS_OF_MANY_THREADS)


def growth_against_glibc() -> Find:
    def judged(_result: Result, row: RowResult, name: str, bar: Bar) -> Part:
        return ratio_part(row, name, GLIBC, costs, bar)

    return each_row(SUITE, lambda _evidence: GROWTH_ROWS, judged, needs_peers=False)


def scaling_against_peers() -> Find:
    """What many threads keep of the throughput of few, against the median peer of the round."""

    def judged(result: Result, row: RowResult, name: str, bar: Bar) -> Part:
        few = summary.few_threads_row(result, row)
        theirs = summary.median_kept(result, row, peers(result))
        ours = summary.kept_of_few(result, row, name)
        if few is None or not ours:
            return Part(row.name, None, bar)
        # As a cost, so that its allowance is that of times: below 1 we keep more.
        estimate = median_of(paired_ratios(theirs, ours))
        kept = float(np.median(list(ours.values())))
        return Part(row.name, estimate, bar, f"keeps {kept:.2f} of {few.name}'s")

    return each_row(SUITE, lambda evidence: evidence.many_threads, judged, needs_peers=True)


def peak_of(row_name: str, profile: str = DEFAULT_PROFILE) -> Find:
    """MB."""

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(SUITE)
        name = subject(source.result, profile) if source else None
        row = row_called(source.result, row_name) if source else None
        if source is None or name is None or row is None:
            return None
        estimate = median_of(np.array(list(peaks(row, name).values())) / KB_IN_MB)
        failed = row.failure(name) or ""
        if estimate is None and not failed:
            return None
        rounds = basis([estimate.count if estimate else 0])
        return Found([Part(row_name, estimate, bar, failed=failed)], source.name, rounds)

    return find


def share_of_mimalloc(profile: str = DEFAULT_PROFILE) -> Find:
    """random_mixed's throughput in percent of mimalloc's: M1 to M4 are steps of it."""

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(SUITE)
        name = subject(source.result, profile) if source else None
        row = row_called(source.result, MIXED) if source else None
        if source is None or name is None or row is None:
            return None
        share = median_of(paired_ratios(row.costs(MIMALLOC), row.costs(name)) * 100)
        failed = row.failure(name) or ""
        if share is None and not failed:
            return None
        reached = ""
        if share is not None and share.low is not None:
            steps = [step for limit, step in M_STEPS.items() if share.low >= limit]
            reached = f"{steps[-1]} reached" if steps else "none reached"
        part = Part(row.name, share, bar, reached, failed)
        return Found([part], source.name, basis([share.count if share else 0]))

    return find
