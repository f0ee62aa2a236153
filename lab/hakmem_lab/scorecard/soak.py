"""Figures of soaks: rule R4, and resident memory."""

from collections.abc import Callable
from dataclasses import replace

from hakmem_lab.analysis import blocks
from hakmem_lab.analysis.soak import (
    MOST_GROWTH,
    MOST_LOSS,
    REFERENCE,
    Summary,
    beside,
    matched,
    show_seconds,
    summarise,
)
from hakmem_lab.analysis.statistics import Estimate, median_estimate, variation
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    KB_IN_MB,
    PROFILES,
    Evidence,
    SoakRun,
)
from hakmem_lab.scorecard.rows import Find
from hakmem_lab.scorecard.verdicts import Bar, Found, Part, at_least, at_most

SECONDS = 3600.0
ENOUGH = 0.99  # of that: the last epoch may be under way when the time is over
LABELS = {"hakmem": DEFAULT_PROFILE, **{profile: profile for profile in PROFILES}}
Figure = Callable[[Summary], Estimate | None]

GROWTH = at_most(MOST_GROWTH, f"+{MOST_GROWTH:g}%")
LOSS = at_least(-MOST_LOSS, f"-{MOST_LOSS:g}%")
NO_HIGHER = at_most(1.0, "1.00")


def soak_of(evidence: Evidence, profile: str) -> SoakRun | None:
    """The longest run of a profile."""
    runs = [run for run in evidence.soaks if LABELS.get(run.series.label) == profile]
    return max(runs, key=lambda run: float(run.series.elapsed[-1])) if runs else None


def resident(run: Summary) -> Estimate:
    """MB."""
    return median_estimate(run.rss / KB_IN_MB)


def epochs_text(run: Summary) -> str:
    return f"1 run, {run.epochs} epochs"


def found_in(evidence: Evidence, profile: str, figure: Figure) -> Found | None:
    """A figure of a profile's soak."""
    run = soak_of(evidence, profile)
    if run is None:
        return None
    summary = summarise(run.series)
    return Found([Part("", figure(summary), at_most(0, ""))], run.source, epochs_text(summary))


def reference_of(evidence: Evidence, profile: str, run: Summary) -> Summary | None:
    """glibc's soak that went beside it."""
    names = (REFERENCE, f"{REFERENCE}-{profile}")
    runs = [s.series for s in evidence.soaks if s.series.label in names]
    return beside([summarise(series) for series in runs], run)


def soak_parts(run: Summary, reference: Summary | None) -> list[Part]:
    """Memory is judged as it is, throughput as a share of glibc's, epoch by epoch."""
    parts = [
        Part("resident memory, last tenth / first", blocks.tenths(run.rss), GROWTH, unit="%"),
        Part("resident memory, slope", blocks.slope(run.elapsed, run.rss), GROWTH, unit="%"),
    ]
    tenths, slopes, variations = (
        Part("throughput as a share of glibc's, last tenth / first", None, LOSS, unit="%"),
        Part("throughput as a share of glibc's, slope", None, LOSS, unit="%"),
        Part("CV of throughput / glibc's", None, NO_HIGHER),
    )
    pair = matched(run, reference)
    if pair is None or run.throughput is None:
        doubt = "glibc did not run beside it"
        return parts + [replace(p, doubt=doubt) for p in (tenths, slopes, variations)]
    shares = pair.ours / pair.theirs
    alone = run.throughput.change
    cvs = f"{variation(pair.ours):.2f}%, glibc {variation(pair.theirs):.2f}%"
    moved = blocks.slope(pair.times, shares)
    return [
        *parts,
        replace(tenths, estimate=blocks.tenths(shares), beside=f"alone {alone.tenths:+.2f}%"),
        replace(slopes, estimate=moved, beside=f"alone {alone.slope:+.2f}%"),
        replace(variations, estimate=blocks.variation_ratio(pair.ours, pair.theirs), beside=cvs),
    ]


def soak_rule(profile: str) -> Find:
    def find(evidence: Evidence, _bar: Bar) -> Found | None:
        run = soak_of(evidence, profile)
        if run is None:
            return None
        summary = summarise(run.series)
        parts = soak_parts(summary, reference_of(evidence, profile, summary))
        if summary.total_s < SECONDS * ENOUGH:
            short = f"{show_seconds(summary.total_s)} of {show_seconds(SECONDS)}"
            parts = [replace(part, doubt=short) for part in parts]
        return Found(parts, run.source, epochs_text(summary))

    return find
