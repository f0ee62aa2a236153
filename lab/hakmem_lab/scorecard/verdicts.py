"""Verdicts (rule R5): a goal has one bar and one rule, both fixed before the run.

A goal has parts where it holds for several rows, programs or profiles: all of them have to meet it,
and one that does not is enough to miss it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL, Estimate

MET, NOT_MET, NOT_CERTAIN, NOT_MEASURED = "met", "not met", "not certain", "not measured"
VERDICTS = (MET, NOT_MET, NOT_CERTAIN, NOT_MEASURED)
ALLOWANCE = 1.03  # for noise, on the time of a single row
HIGHEST_END = 1.02  # of the interval of a goal that is judged by its figure


@dataclass(frozen=True)
class Bar:
    limit: float
    text: str
    at_most: bool = True

    def holds(self, value: float, allowance: float = 1.0) -> bool:
        limit = self.limit * allowance
        return value <= limit if self.at_most else value >= limit


def at_most(limit: float, text: str) -> Bar:
    return Bar(limit, f"≤ {text}")


def at_least(limit: float, text: str) -> Bar:
    return Bar(limit, f"≥ {text}", at_most=False)


@dataclass(frozen=True)
class Part:
    """What is judged: one row's ratio, a mean, a peak. The estimate's count is that of rounds."""

    name: str
    estimate: Estimate | None
    bar: Bar
    beside: str = ""  # what a reader wants to see beside it: who is compared, absolute figures
    failed: str = ""  # a run that ended badly does not meet anything
    doubt: str = ""  # why no figure of this run can answer
    unit: str | None = None  # None: that of the goal


@dataclass(frozen=True)
class Verdict:
    word: str
    why: str = ""


@dataclass(frozen=True)
class Rule:
    name: str
    text: str
    judge: Callable[[Part], Verdict]
    allowance: float = 1.0

    def inside(self, part: Part) -> bool:
        """Whether the figure by itself keeps the bar."""
        return part.estimate is not None and part.bar.holds(part.estimate.value, self.allowance)


def rounds_text(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"


def too_few(part: Part, least: int) -> Verdict | None:
    if part.failed:
        return Verdict(NOT_MET, part.failed)
    if part.doubt:
        return Verdict(NOT_CERTAIN, part.doubt)
    if part.estimate is None:
        return Verdict(NOT_CERTAIN, f"{part.name} did not run".strip())
    if part.estimate.count < least:
        return Verdict(NOT_CERTAIN, f"{rounds_text(part.estimate.count)}, {least} are needed")
    if part.estimate.low is None or part.estimate.high is None:
        return Verdict(NOT_CERTAIN, "no interval")
    return None


def ends(part: Part) -> tuple[float, float]:
    """The better and the worse end of the interval."""
    assert part.estimate is not None
    low, high = part.estimate.low, part.estimate.high
    assert low is not None and high is not None
    return (low, high) if part.bar.at_most else (high, low)


def by_interval(allowance: float, least: int = LEAST_FOR_INTERVAL) -> Callable[[Part], Verdict]:
    def judge(part: Part) -> Verdict:
        doubt = too_few(part, least)
        if doubt is not None:
            return doubt
        better, worse = ends(part)
        if part.bar.holds(worse, allowance):
            return Verdict(MET)
        return Verdict(NOT_CERTAIN if part.bar.holds(better, allowance) else NOT_MET)

    return judge


def by_upper_end(part: Part) -> Verdict:
    """The figure has to keep the bar, and the interval's upper end a limit of its own."""
    doubt = too_few(part, LEAST_FOR_INTERVAL)
    if doubt is not None:
        return doubt
    assert part.estimate is not None
    better, worse = ends(part)
    if part.bar.holds(part.estimate.value) and worse <= HIGHEST_END:
        return Verdict(MET)
    return Verdict(NOT_CERTAIN if part.bar.holds(better) else NOT_MET)


def by_certain_miss(allowance: float) -> Callable[[Part], Verdict]:
    """Only what is outside with all of its interval counts."""

    def judge(part: Part) -> Verdict:
        doubt = too_few(part, LEAST_FOR_INTERVAL)
        if doubt is not None:
            return doubt
        better, _ = ends(part)
        return Verdict(MET if part.bar.holds(better, allowance) else NOT_MET)

    return judge


def by_every_run(part: Part) -> Verdict:
    """The figure is the worst of all runs."""
    if part.failed:
        return Verdict(NOT_MET, part.failed)
    if part.estimate is None:
        return Verdict(NOT_CERTAIN, f"{part.name} did not run".strip())
    if not part.bar.holds(part.estimate.value):
        return Verdict(NOT_MET)
    if part.estimate.count < LEAST_FOR_INTERVAL:
        why = f"{rounds_text(part.estimate.count)}, {LEAST_FOR_INTERVAL} are needed"
        return Verdict(NOT_CERTAIN, why)
    return Verdict(MET)


def by_figure(part: Part) -> Verdict:
    if part.failed:
        return Verdict(NOT_MET, part.failed)
    if part.estimate is None:
        return Verdict(NOT_CERTAIN, f"{part.name} did not run".strip())
    return Verdict(MET if part.bar.holds(part.estimate.value) else NOT_MET)


INTERVAL = Rule(
    "interval",
    f"Met: all of the 95% interval, of {LEAST_FOR_INTERVAL} rounds at least, keeps the bar."
    " Not met: none of it does. Else, and with fewer rounds, not certain.",
    by_interval(1.0),
)
ROW_TIME = Rule(
    "interval, 3%",
    "The same, with 3% of allowance for noise: for times of single rows.",
    by_interval(ALLOWANCE),
    ALLOWANCE,
)
UPPER_END = Rule(
    "upper end",
    f"Met: the figure keeps the bar, and the interval's upper end is at most {HIGHEST_END:g}."
    " Not met: the lower end is above the bar.",
    by_upper_end,
)
CERTAIN_MISS = Rule(
    "surely slower",
    "Not met: all of an interval is above the bar and its 3%. Else met.",
    by_certain_miss(ALLOWANCE),
    ALLOWANCE,
)
SURELY_OUTSIDE = Rule(
    "surely outside",
    "Not met: all of an interval is outside the bar. Else met.",
    by_certain_miss(1.0),
)
EVERY_RUN = Rule(
    "every run", f"Met: each of {LEAST_FOR_INTERVAL} runs or more keeps the bar.", by_every_run
)
COUNT = Rule("exact", "A count without noise: met when it keeps the bar.", by_figure)
EPOCHS = Rule(
    "R4",
    "As interval, but of one run of 60 minutes with glibc beside it; the interval is of its epochs."
    " Memory grows by 1% at most, throughput as a share of glibc's falls by 1% at most, and its CV"
    " is no higher than glibc's.",
    by_interval(1.0, least=1),
)
FIGURE = Rule("figure", "Met when the figure, of medians, keeps the bar.", by_figure)
RULES = (
    *(INTERVAL, ROW_TIME, UPPER_END, CERTAIN_MISS, EVERY_RUN, COUNT, EPOCHS),
    *(SURELY_OUTSIDE, FIGURE),
)


@dataclass(frozen=True)
class Found:
    """What a file says about a goal."""

    parts: list[Part]
    source: str
    basis: str  # how much it rests on: rows, rounds
    incomplete: str = ""  # what was to be there and is not: nothing is certain then


def verdict_on(found: Found | None, rule: Rule) -> Verdict:
    if found is None or not found.parts:
        return Verdict(NOT_MEASURED)
    verdicts = [rule.judge(part) for part in found.parts]
    for verdict in verdicts:
        if verdict.word == NOT_MET:
            return verdict if len(verdicts) == 1 else Verdict(NOT_MET)
    if found.incomplete:
        return Verdict(NOT_CERTAIN, found.incomplete)
    for verdict in verdicts:
        if verdict.word == NOT_CERTAIN:
            return verdict
    return Verdict(MET)
