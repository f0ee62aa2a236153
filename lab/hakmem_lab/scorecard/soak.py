"""The scorecard's lines on soaks: rule R4, and the resident memory of random_mixed."""

from collections.abc import Callable

from hakmem_lab.analysis.soak import (
    MOST_GROWTH,
    MOST_LOSS,
    MOST_VARIATION,
    REFERENCE,
    Summary,
    beside,
    shares_of,
    show_seconds,
    summarise,
)
from hakmem_lab.analysis.statistics import (
    Change,
    Estimate,
    change,
    median_estimate,
    tenths_estimate,
    variation_estimate,
)
from hakmem_lab.base.numbers import Floats
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    KB_IN_MB,
    PROFILES,
    SOAK,
    Bar,
    Evidence,
    Found,
    Line,
    SoakRun,
)
from hakmem_lab.scorecard.lines import at_least, at_most

# Rule R4; the profiles that nobody gets unasked are tried for a shorter time.
SECONDS = {"speed": 1200.0, "balanced": 3600.0, "lean": 1200.0}
ENOUGH = 0.99  # of that: the last epoch may be under way when the time is over
LABELS = {"hakmem": DEFAULT_PROFILE, **{profile: profile for profile in PROFILES}}
Figure = Callable[[Summary], Estimate | None]


def soak_of(evidence: Evidence, profile: str) -> SoakRun | None:
    """The longest run of a profile."""
    runs = [run for run in evidence.soaks if LABELS.get(run.series.label) == profile]
    return max(runs, key=lambda run: float(run.series.elapsed[-1])) if runs else None


def slope_estimate(moved: Change, epochs: int) -> Estimate:
    return Estimate(moved.slope, moved.slope_low, moved.slope_high, epochs)


def resident(run: Summary) -> Estimate:
    return median_estimate(run.rss / KB_IN_MB)


def growth_tenths(run: Summary) -> Estimate:
    return tenths_estimate(run.rss)


def growth_slope(run: Summary) -> Estimate:
    return slope_estimate(run.growth, run.epochs)


def throughput_tenths(run: Summary) -> Estimate | None:
    return None if run.throughput is None else tenths_estimate(run.throughput.values)


def throughput_slope(run: Summary) -> Estimate | None:
    return None if run.throughput is None else slope_estimate(run.throughput.change, run.epochs)


def throughput_cv(run: Summary) -> Estimate | None:
    return None if run.throughput is None else variation_estimate(run.throughput.values)


def found_in(evidence: Evidence, profile: str, figure: Figure, note: str = "") -> Found | None:
    """The figure of a profile's soak."""
    run = soak_of(evidence, profile)
    if run is None:
        return None
    summary = summarise(run.series)
    estimate = figure(summary)
    if estimate is None:
        return None
    return Found(estimate, f"1 run, {summary.epochs} epochs", run.source, note)


def soak_lines(evidence: Evidence) -> list[Line]:
    measured = [p for p in PROFILES if soak_of(evidence, p) is not None]
    profiles = [DEFAULT_PROFILE, *(p for p in measured if p != DEFAULT_PROFILE)]
    return [line for profile in profiles for line in lines_of(evidence, profile)]


def lines_of(evidence: Evidence, profile: str) -> list[Line]:
    run = soak_of(evidence, profile)
    unanswered = ""
    reference: Summary | None = None
    shares: tuple[Floats, Floats] | None = None
    if run is not None:
        summary = summarise(run.series)
        wanted = SECONDS[profile]
        if summary.total_s < wanted * ENOUGH:
            unanswered = f"{show_seconds(summary.total_s)} of {show_seconds(wanted)}"
        names = (REFERENCE, f"{REFERENCE}-{profile}")
        runs = [s.series for s in evidence.soaks if s.series.label in names]
        reference = beside([summarise(series) for series in runs], summary)
        shares = shares_of(summary, reference)

    def line(what: str, figure: Figure, bar: Bar, unit: str = "%") -> Line:
        found = found_in(evidence, profile, figure)
        return Line(f"{profile}: {what}", found, bar, SOAK, 2, unit, unanswered=unanswered)

    lines = []
    if profile == DEFAULT_PROFILE:  # the others have no bar: speed starts with memory made ready
        lines.append(line("resident memory, median", resident, at_most(2.5, "2.5 MB"), " MB"))
    return [
        *lines,
        line(
            "resident memory, last tenth / first",
            growth_tenths,
            at_most(MOST_GROWTH, f"+{MOST_GROWTH:g}%"),
        ),
        line("resident memory, slope", growth_slope, at_most(MOST_GROWTH, f"+{MOST_GROWTH:g}%")),
        *loss_lines(evidence, profile, unanswered, shares),
        variation_line(evidence, profile, unanswered, reference),
    ]


def loss_lines(
    evidence: Evidence, profile: str, unanswered: str, shares: tuple[Floats, Floats] | None
) -> list[Line]:
    """At least the limit, also as a share of the reference's: as scripts/analyze_soak.py."""

    def line(what: str, figure: Figure, instead: Estimate | None) -> Line:
        note = "" if instead is None else f"of {REFERENCE}'s beside it: {instead.value:+.2f}%"
        return Line(
            f"{profile}: throughput, {what}",
            found_in(evidence, profile, figure, note),
            at_least(-MOST_LOSS, f"-{MOST_LOSS:g}%, or as a share of {REFERENCE}'s beside it"),
            SOAK,
            2,
            "%",
            unanswered=unanswered,
            instead=instead,
        )

    tenths = slope = None
    if shares is not None:
        tenths = tenths_estimate(shares[1])
        slope = slope_estimate(change(*shares), len(shares[1]))
    return [
        line("last tenth / first", throughput_tenths, tenths),
        line("slope", throughput_slope, slope),
    ]


def variation_line(
    evidence: Evidence, profile: str, unanswered: str, reference: Summary | None
) -> Line:
    """At most the limit, or no more than the reference's beside it: as scripts/analyze_soak.py."""
    theirs = None if reference is None or reference.throughput is None else reference.throughput.cv
    note = "" if theirs is None else f"{REFERENCE} beside it: {theirs:.2f}%"
    found = found_in(evidence, profile, throughput_cv, note)
    text = f"{MOST_VARIATION:g}%, or {REFERENCE}'s beside it"
    most = MOST_VARIATION if theirs is None else max(MOST_VARIATION, theirs)
    return Line(
        f"{profile}: CV of throughput",
        found,
        at_most(most, text),
        SOAK,
        2,
        "%",
        unanswered=unanswered,
    )
