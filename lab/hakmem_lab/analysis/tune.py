"""Which settings of hakmem are best for a program: what is screened, who is a finalist, and which
of them lie on the line from least time to least memory.

Finals are fresh rounds: figures of the screening chose the finalists, so that they flatter them.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.analysis.statistics import Estimate, Verdict, judge, mean_ratio, paired_ratios
from hakmem_lab.analysis.verdict import memory_by_round
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.numbers import Floats
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.tune import DEFAULT, PROFILE, PROFILES, label, profile_environment

Environment = dict[str, str]

# Percent in each round of the screening from which on an option goes into the finals.
PROMISING = 1.0
MOST_FINALISTS = 7  # three profiles; two combinations, and the best option alone, of time and peak
MOST_ROUNDS = 100  # that somebody would ask for to decide what is not
LEAST_TIME, BETWEEN, LEAST_MEMORY = "least time", "between", "least memory"
BOTH = "least time and memory"


# --- how long it takes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """Rounds of the screening (0: only the profiles are compared), and how many finalists."""

    screening: int
    finalists: int

    def runs(self, settings: int, rounds: int) -> int:
        return self.screening * settings + self.finalists * rounds


# From the most thorough on. The rounds of the finals stay: rule R1 asks for ten.
SCHEDULES = (
    *(Schedule(3, MOST_FINALISTS), Schedule(2, MOST_FINALISTS), Schedule(2, 5)),
    *(Schedule(1, 4), Schedule(0, len(PROFILES))),
)


def choose_schedule(
    settings: int, rounds: int, seconds_a_run: float, budget: float | None, spent: float = 0.0
) -> Schedule:
    """The most thorough one that what is left of `budget` seconds is enough for."""
    for schedule in SCHEDULES:
        needed = schedule.runs(settings, rounds) * seconds_a_run + spent
        if budget is None or needed <= budget:
            return schedule
    least = SCHEDULES[-1].runs(settings, rounds) * seconds_a_run + spent
    raise LabError(
        f"--budget {budget:g}: a run takes {seconds_a_run:.2f} s; the three profiles in {rounds}"
        f" rounds need {math.ceil(least)} s: give it more, or the program less to do"
    )


# --- who is a finalist ----------------------------------------------------------------------------


def ratios_of(row: RowResult, name: str, base: str) -> tuple[Floats, Floats]:
    """Time and peak against `base`, by round."""
    return (
        paired_ratios(row.costs(name), row.costs(base)),
        paired_ratios(memory_by_round(row, name), memory_by_round(row, base)),
    )


def environment_of_setting(setting: Allocator, of_library: Collection[str]) -> Environment:
    """Without the variables that any setting of this library has."""
    return {k: v for k, v in setting.environment.items() if k not in of_library}


def promising(ratios: Floats) -> bool:
    """In each round, so that of options without any effect one in eight goes on and not half."""
    return len(ratios) > 0 and float(ratios.max()) <= 1 - PROMISING / 100


def combined(best_profile: str, options: Sequence[tuple[float, Environment]]) -> Environment:
    """The profile and the options; of two values of one variable the better one."""
    environment = dict(profile_environment(best_profile))
    for _, option in sorted(options, key=lambda pair: pair[0]):
        for name, value in option.items():
            environment.setdefault(name, value)
    return environment


def choose_finalists(
    row: RowResult, environments: Sequence[Environment], most: int
) -> list[Environment]:
    """The profiles; for time and for memory the best profile with every option that was promising,
    and the most promising option alone. At most `most`."""
    chosen = [profile_environment(name) for name in PROFILES]
    singles: list[Environment] = []
    for which in (0, 1):
        medians = {
            label(one): float(np.median(ratios))
            for one in environments
            if len(ratios := ratios_of(row, label(one), DEFAULT)[which])
        }
        profile = min(PROFILES, key=lambda name: medians.get(name, math.inf))
        options = [
            (medians[label(one)], one)
            for one in environments
            if one and PROFILE not in one and promising(ratios_of(row, label(one), DEFAULT)[which])
        ]
        if options:
            chosen.append(combined(profile, options))
            singles.append(min(options, key=lambda pair: pair[0])[1])
    fresh: list[Environment] = []
    for environment in [*chosen, *singles]:
        if environment not in fresh:
            fresh.append(environment)
    return fresh[:most]


# --- the line from least time to least memory -----------------------------------------------------


@dataclass(frozen=True)
class Gain:
    """One setting against another: rule R1 on time, and the same rule on the peak."""

    time: Verdict
    memory: Verdict
    time_ratio: Estimate
    memory_ratio: Estimate


def sure(verdict: Verdict) -> bool:
    """GO by rule R1, and the 99% interval excludes 0, too, as several settings are compared."""
    return verdict.decision == "GO" and verdict.difference == "faster"


def no_better(verdict: Verdict) -> bool:
    return verdict.decision == "NO-GO" or verdict.improvement.value < verdict.threshold


def gain(row: RowResult, name: str, base: str) -> Gain | None:
    time, memory = ratios_of(row, name, base)
    if len(time) == 0 or len(memory) == 0:
        return None
    return Gain(judge(time), judge(memory), mean_ratio(time), mean_ratio(memory))


@dataclass(frozen=True)
class Place:
    """Where a finalist stands; `why` is for those that are not on the line."""

    setting: str
    environment: Environment
    against_default: Gain | None  # None: it is the default, or it failed
    place: str = ""  # LEAST_TIME, BETWEEN, LEAST_MEMORY, BOTH; empty: not on the line
    why: str = ""


class Finals:
    """What the finals' rounds say of each pair of settings."""

    def __init__(self, row: RowResult, names: Sequence[str]) -> None:
        self.names = list(names)
        self.gains = {
            (a, b): found
            for a in names
            for b in names
            if a != b and (found := gain(row, a, b)) is not None
        }

    def beats(self, a: str, b: str) -> bool:
        """Certainly better in one, and not behind in the other as far as the rounds tell."""
        one, other = self.gains[a, b], self.gains[b, a]
        return (sure(one.time) and no_better(other.memory)) or (
            sure(one.memory) and no_better(other.time)
        )

    def alike(self, a: str, b: str) -> bool:
        pairs = (self.gains[a, b], self.gains[b, a])
        return not any(sure(verdict) for one in pairs for verdict in (one.time, one.memory))

    def ratio(self, name: str, which: str) -> float:
        found = self.gains.get((name, DEFAULT))
        return 1.0 if found is None else float(getattr(found, which).value)

    def line(self) -> tuple[list[str], dict[str, str]]:
        """Settings from least time to least memory, and why the others are not among them. Names
        come in the order of their simplicity."""
        why: dict[str, str] = {}
        for name in self.names:
            better = next((o for o in self.names if o != name and self.beats(o, name)), None)
            if better is not None:
                why[name] = f"not as good as {better}"
        kept: list[str] = []
        for name in [one for one in self.names if one not in why] or self.names:
            like = next((other for other in kept if self.alike(name, other)), None)
            if like is None:
                kept.append(name)
            else:
                why[name] = f"noise: as {like}"
        kept.sort(key=lambda name: self.ratio(name, "time_ratio"))
        if len(kept) > 3:
            first, last = kept[0], min(kept, key=lambda n: self.ratio(n, "memory_ratio"))
            inner = [name for name in kept if name not in (first, last)]
            middle = min(inner, key=self.both)
            why |= {name: f"between, as {middle} is" for name in inner if name != middle}
            kept = [name for name in kept if name in (first, middle, last)]
        return kept, {name: reason for name, reason in why.items() if name not in kept}

    def both(self, name: str) -> tuple[bool, float]:
        """Of those between: the default first, else the least of time and peak together."""
        product = self.ratio(name, "time_ratio") * self.ratio(name, "memory_ratio")
        return name != DEFAULT, product


def place_names(line: Sequence[str]) -> dict[str, str]:
    if len(line) == 1:
        return {line[0]: BOTH}
    names = dict.fromkeys(line, BETWEEN)
    return names | {line[0]: LEAST_TIME, line[-1]: LEAST_MEMORY}


def final_row(result: Result) -> RowResult | None:
    """The row of the finals; None: stopped before them."""
    rounds = result.settings.get("phases", {})
    return next((row for row in result.rows if rounds.get(row.name) == "finals"), None)


def places(result: Result) -> list[Place]:
    """All finalists: those on the line in its order, then the others."""
    row = final_row(result)
    if row is None:
        return []
    ran = {run.allocator for run in row.runs}
    of_library = result.settings.get("library_environment", ())
    settings = [a for a in result.allocators if a.name in ran]
    settings.sort(key=lambda a: (len(a.environment), a.name != DEFAULT))
    environments = {a.name: environment_of_setting(a, of_library) for a in settings}
    able = [a.name for a in settings if row.good_runs(a.name) and row.failure(a.name) is None]
    failed = [a.name for a in settings if a.name not in able]
    finals = Finals(row, able)
    line, why = finals.line()
    where = place_names(line) if line else {}
    found = [
        Place(name, environments[name], finals.gains.get((name, DEFAULT)), where[name])
        for name in line
    ]
    for name in able:
        if name not in line:
            gained = finals.gains.get((name, DEFAULT))
            found.append(Place(name, environments[name], gained, why=why[name]))
    return [
        *found,
        *(
            Place(name, environments[name], None, why=f"failed: {row.failure(name)}")
            for name in failed
        ),
    ]


def more_rounds(found: Sequence[Place]) -> int:
    """Rounds that would probably decide what is called noise and is not decided; 0: all is, or
    nobody would wait for it."""
    wanted = [
        verdict.improvement.count + verdict.more_rounds
        for place in found
        if place.against_default is not None
        for verdict in (place.against_default.time, place.against_default.memory)
        if verdict.decision == "not decided" and verdict.improvement.value >= verdict.threshold
    ]
    return max((rounds for rounds in wanted if rounds <= MOST_ROUNDS), default=0)
