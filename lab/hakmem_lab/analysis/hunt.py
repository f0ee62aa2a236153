"""The search of `hunt`: for parameters on which one allocator, the subject, is worst against the
best and the median of the others, in time, peak memory and memory at rest.

Candidates are drawn first, then mutated from the worst found so far; each runs once on every
allocator. One run may be chance: the best candidates are confirmed in rounds of their own, made
smaller, and confirmed again. A random sequence of its own for each candidate makes that the same
seed and the same figures give the same candidates.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any, Literal, get_args

from hakmem_lab.analysis.statistics import Estimate, median_estimate, paired_ratios
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.hunt import (
    BY_NAME,
    REST_MS,
    Parameters,
    Value,
    avoid,
    draw,
    fit,
    memory_of,
    mutate,
    number,
    words_of,
)
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.runner import order_of_round

Metric = Literal["time", "peak", "rest"]
METRICS: tuple[Metric, ...] = get_args(Metric)
Against = Literal["best", "median"]
LEAST_WORK = 0.02  # seconds; of less, a ratio says nothing
LEAST_MEMORY = 8 << 10  # KiB that the subject has to need beyond the best of the others
DRAWN = 10  # candidates of each metric that are drawn before any is mutated
NEW_SHARE = 0.15  # of the later ones
CONTEST = 3  # candidates, the worst of which is mutated
TRIALS = 3  # rounds of a smaller candidate
CLEARLY = 0.8  # of the threshold: below it one round is enough to say no
PER_CYCLE = 2  # candidates of each metric that are confirmed before the search goes on
SEARCH, SHRINK, CONFIRM, FAILED = "search", "shrink", "confirm", "fail"
BANDS = (1 << 10, 64 << 10, 1 << 20)  # sizes that allocators treat alike
# Tried at its plain value, then halved; what makes the others cheaper to try comes first.
SHRUNK = (
    *("idle-ms", "rounds", "rest", "sizes", "calloc", "realloc", "handover", "alignment"),
    *("keep", "burst", "touch", "lifetime", "threads", "size-min", "size-max", "live"),
    "operations",
)


def figure(run: Run, metric: str) -> float | None:
    """Seconds of work, or KiB; None where the run did not end well or has no such figure."""
    if run.failure is not None:
        return None
    if metric == "peak":
        return float(run.peak_rss_kb) or None
    return run.figures.get("work_s" if metric == "time" else "rest_kb") or None


def figures_by_round(row: RowResult, name: str, metric: str) -> dict[int, float]:
    found = {r.round: figure(r, metric) for r in row.runs if r.allocator == name}
    return {round_: value for round_, value in found.items() if value is not None}


def medians(by_name: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    """Of all allocators, round by round."""
    rounds = set().union(*(values.keys() for values in by_name.values()))
    return {
        r: median([values[r] for values in by_name.values() if r in values]) for r in sorted(rounds)
    }


@dataclass(frozen=True)
class Judgement:
    """The subject beside the others in one metric."""

    value: float  # median
    best: str
    best_value: float
    to_best: Estimate
    to_median: Estimate
    enough: float  # below 1: too little work, or too small a difference, to be a find

    def ratio(self, against: str) -> Estimate:
        return self.to_best if against == "best" else self.to_median


def judge(row: RowResult, subject: str, metric: str) -> Judgement | None:
    """None where the subject or all others failed. Ratios are taken within each round."""
    names = dict.fromkeys(run.allocator for run in row.runs)
    by_name = {name: figures_by_round(row, name, metric) for name in names}
    own = by_name.pop(subject, {})
    others = {name: values for name, values in by_name.items() if values}
    if not own or not others:
        return None
    value = median(own.values())
    best = min(others, key=lambda name: median(others[name].values()))
    best_value = median(others[best].values())
    to_best, to_median = (paired_ratios(own, base) for base in (others[best], medians(others)))
    if len(to_best) == 0 or len(to_median) == 0:
        return None
    enough = value / LEAST_WORK if metric == "time" else (value - best_value) / LEAST_MEMORY
    return Judgement(
        value, best, best_value, median_estimate(to_best), median_estimate(to_median), enough
    )


def fitness(judged: Judgement, against: str) -> float:
    """How bad; what is not enough for a find counts for less, so that there is a way uphill."""
    bad = math.log(judged.ratio(against).value)
    return bad * min(1.0, max(0.0, judged.enough)) if bad > 0 else bad


def is_find(judged: Judgement | None, against: str, above: float) -> bool:
    """The lower end of the interval is above the threshold; without an interval nothing is."""
    if judged is None or judged.enough < 1:
        return False
    low = judged.ratio(against).low
    return low is not None and low > above


def subject_failed(row: RowResult, subject: str) -> bool:
    """It failed where some other ended well."""
    well = any(run.failure is None for run in row.runs if run.allocator != subject)
    return row.failure(subject) is not None and well


# --- which finds are the same ---------------------------------------------------------------------


def band(size: int) -> int:
    return sum(size > end for end in BANDS)


def features(values: Parameters) -> frozenset[str]:
    """What is not plain, coarsely."""
    found = {name for name in ("handover", "realloc", "calloc", "alignment", "keep") if values[name]}
    found |= {name for name in ("burst", "sizes", "rest", "touch") if not is_plain(values, name)}
    found |= {"threads"} if number(values, "threads") > 1 else set()
    return frozenset(found)


def is_plain(values: Parameters, name: str) -> bool:
    return values[name] == BY_NAME[name].plain


def bands(values: Parameters) -> range:
    return range(band(number(values, "size-min")), band(number(values, "size-max")) + 1)


def explains(found: Parameters, candidate: Parameters) -> bool:
    """The candidate has all that the find has, and sizes in common."""
    common = set(bands(found)) & set(bands(candidate))
    return bool(common) and features(found) <= features(candidate)


# --- smaller candidates ---------------------------------------------------------------------------


def halvings(name: str, values: Parameters) -> list[Parameters]:
    """Simpler by a step, the simplest first; none: this parameter is as simple as it gets."""
    before, plain = values[name], BY_NAME[name].plain
    low, high = number(values, "size-min"), number(values, "size-max")
    steps: list[Parameters] = []
    if name == "size-min" and low != high:
        steps = [{"size-max": low}, {"size-min": high}, {"size-min": round(math.sqrt(low * high))}]
    elif name == "size-max" and low != high:
        steps = [{"size-max": round(math.sqrt(low * high))}]
    elif plain is not None:
        steps = [{name: plain}] if before != plain else []
    if isinstance(before, int) and not name.startswith("size-") and before // 2 > int(plain or 0):
        steps.append({name: before // 2})
    return [{**values, **step} for step in steps]


def shrink(
    values: Parameters, holds: Callable[[Parameters], bool], fitted: Callable[..., Parameters]
) -> Parameters:
    """Each parameter at its plain value or halved, again and again, as long as `holds`."""
    for name in SHRUNK:
        going_on = True
        while going_on:
            going_on = False
            for step in halvings(name, values):
                smaller = fitted(step)
                if smaller != values and holds(smaller):
                    values, going_on = smaller, True
                    break
    return values


# --- the search -----------------------------------------------------------------------------------


class TimeIsUpError(Exception):
    """The time limit: what is there by then is the result."""


@dataclass
class Candidate:
    values: Parameters
    row: RowResult
    judged: dict[str, Judgement | None]
    confirmed: set[str] = field(default_factory=set)  # metrics in which that was tried


@dataclass(frozen=True)
class Plan:
    """What a hunt is told."""

    subject: str
    metrics: tuple[Metric, ...]
    seed: int
    seconds: float
    candidates: int | None  # None: as many as there is time for
    rounds: int
    against: Against
    above: Mapping[str, float]
    most_bytes: int
    cpus: int
    without: Sequence[tuple[str, Value]] = ()  # parameters that no candidate has


# A round of one row: allocators in their order, round, bytes that live, side by side, what keeps a run.
RunRound = Callable[[RowResult, Sequence[Allocator], int, float, bool, Callable[[Run], None]], None]


class Hunt:
    """Fills `result.rows` and result.settings["finds"]."""

    def __init__(
        self,
        result: Result,
        plan: Plan,
        run_round: RunRound,
        program: str,
        say: Callable[[str], None],
        save: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.result, self.plan, self.run_round, self.program = result, plan, run_round, program
        self.say, self.save, self.clock = say, save, clock
        self.allocators = [a for a in result.allocators if a.missing is None]
        self.finds: list[dict[str, Any]] = result.settings.setdefault("finds", [])
        self.tried: list[Candidate] = []
        self.known: list[tuple[str, Parameters]] = []  # metric and parameters of each find
        self.begin = clock()
        self.worst = dict.fromkeys(plan.metrics, 0.0)

    def left(self) -> float:
        return self.plan.seconds - (self.clock() - self.begin)

    def fitted(self, values: Parameters) -> Parameters:
        return fit(values, self.plan.most_bytes, self.plan.cpus)

    # --- runs ---

    def take(
        self,
        values: Parameters,
        group: str,
        rounds: int,
        names: Sequence[str] | None = None,
        together: bool = False,
        enough: Callable[[RowResult], bool] = lambda _: False,
    ) -> RowResult:
        """A row of its own, in interleaved rounds, until it is `enough`."""
        count = sum(row.group == group for row in self.result.rows)
        command = [self.program, *words_of(values)]
        row = RowResult(f"{group} {count + 1}", group, "", "wall", 1.0, command, {})
        self.result.rows.append(row)
        chosen = [a for a in self.allocators if names is None or a.name in names]
        # Each candidate starts in another place, so that no allocator always has the first run.
        for index in range(rounds):
            if self.left() <= 0:
                raise TimeIsUpError
            turn = order_of_round(chosen, index if rounds > 1 else count)
            self.run_round(row, turn, index + 1, memory_of(values), together, row.runs.append)
            if enough(row):
                break
        return row

    def propose(self, index: int) -> tuple[Metric, Parameters]:
        """Candidate `index`: drawn, or mutated from the worst of a few."""
        metric = self.plan.metrics[index % len(self.plan.metrics)]
        random = Random(f"{self.plan.seed}/{index}")
        parents = [c for c in self.tried if c.judged.get(metric) and not self.explained(c, metric)]
        anew = index < DRAWN * len(self.plan.metrics) or random.random() < NEW_SHARE
        if anew or not parents:
            values = draw(random)
        else:
            contest = [random.choice(parents) for _ in range(CONTEST)]
            values = mutate(max(contest, key=lambda c: self.fitness(c, metric)).values, random)
        values = avoid(values, self.plan.without, random)
        values["rest-ms"] = REST_MS if metric == "rest" else 0
        return metric, self.fitted(values)

    def fitness(self, candidate: Candidate, metric: str) -> float:
        judged = candidate.judged[metric]
        return -math.inf if judged is None else fitness(judged, self.plan.against)

    def explained(self, candidate: Candidate, metric: str) -> bool:
        return any(m == metric and explains(v, candidate.values) for m, v in self.known)

    def search(self, until: float) -> None:
        """New candidates until so much time is left, or there are as many as wanted."""
        while self.left() > until and not self.complete():
            metric, values = self.propose(len(self.tried))
            row = self.take(values, SEARCH, 1, together=metric == "rest")
            subject = self.plan.subject
            # Times of runs side by side say nothing.
            seen = ("peak", "rest") if metric == "rest" else ("time", "peak")
            judged = {m: judge(row, subject, m) for m in seen if m in self.plan.metrics}
            self.tried.append(Candidate(values, row, judged))
            self.tell(self.tried[-1])
            self.save()

    def complete(self) -> bool:
        return self.plan.candidates is not None and len(self.tried) >= self.plan.candidates

    def tell(self, candidate: Candidate) -> None:
        for metric, judged in candidate.judged.items():
            if judged is not None and self.fitness(candidate, metric) > self.worst[metric]:
                self.worst[metric] = self.fitness(candidate, metric)
                ratio = judged.ratio(self.plan.against).value
                self.say(f"{candidate.row.name}: {metric} {ratio:.2f} times the {self.plan.against}")

    # --- confirmation ---

    def promising(self) -> list[tuple[str, Candidate]]:
        """Those to confirm next: failures, then the worst of each metric in turn."""
        found: list[tuple[str, Candidate]] = []
        for metric in (FAILED, *self.plan.metrics):
            able = [c for c in self.tried if metric not in c.confirmed and self.looks(c, metric)]
            if metric != FAILED:
                able.sort(key=lambda c: -self.fitness(c, metric))
            found += [(metric, candidate) for candidate in able[:PER_CYCLE]]
        return found

    def looks(self, candidate: Candidate, metric: str) -> bool:
        if self.explained(candidate, metric):
            return False
        if metric == FAILED:
            return subject_failed(candidate.row, self.plan.subject)
        judged = candidate.judged.get(metric)
        if judged is None or judged.enough < 1:
            return False
        return judged.ratio(self.plan.against).value > self.plan.above[metric]

    def good(self, row: RowResult, metric: str) -> bool:
        subject = self.plan.subject
        if metric == FAILED:
            return subject_failed(row, subject)
        return is_find(judge(row, subject, metric), self.plan.against, self.plan.above[metric])

    def still_holds(self, metric: str, values: Parameters, peers: Sequence[str]) -> bool:
        """Of a smaller candidate, beside the best alone, or all where the median counts."""
        subject, above = self.plan.subject, self.plan.above.get(metric, 0.0)

        def ratio(row: RowResult) -> float:
            judged = judge(row, subject, metric)
            if judged is None or judged.enough < 1:
                return 0.0
            return judged.ratio(self.plan.against).value

        if metric == FAILED:
            row = self.take(values, SHRINK, TRIALS, peers, enough=lambda r: self.good(r, metric))
            return self.good(row, metric)
        together = metric == "rest"
        row = self.take(
            values, SHRINK, TRIALS, peers, together, lambda row: ratio(row) < CLEARLY * above
        )
        return ratio(row) > above

    def confirm(self, metric: str, candidate: Candidate) -> None:
        """A find, if it is one: first as it stands, then made smaller."""
        candidate.confirmed.add(metric)
        if self.explained(candidate, metric):
            return
        rounds, subject = self.plan.rounds, self.plan.subject
        values = {**candidate.values, "rest-ms": REST_MS if metric == "rest" else 0}

        def failed(row: RowResult) -> bool:
            """Once is enough."""
            return metric == FAILED and self.good(row, metric)

        row = self.take(values, CONFIRM, rounds, enough=failed)
        if not self.good(row, metric):
            self.say(f"{candidate.row.name}: {metric}: not confirmed")
            return
        find = {"metric": metric, "row": row.name, "first": candidate.row.name}
        self.finds.append(find)
        self.known.append((metric, values))
        self.say(f"{candidate.row.name}: {metric}: confirmed, is made smaller")
        judged = judge(row, subject, metric)
        names = None
        if metric == FAILED:
            good = [r.allocator for r in row.runs if r.failure is None and r.allocator != subject]
            names = [subject, good[0]]
        elif judged is not None and self.plan.against == "best":
            names = [subject, judged.best]
        everyone = [a.name for a in self.allocators]
        smaller = shrink(
            values,
            lambda step: self.still_holds(metric, step, names or everyone),
            self.fitted,
        )
        same = [m == metric and explains(v, smaller) for m, v in self.known[:-1]]
        if any(same):
            self.finds.remove(find)
            self.known.pop()
            self.say(f"{candidate.row.name}: {metric}: the same as a find before it")
        elif smaller != values:
            row = self.take(smaller, CONFIRM, rounds, enough=failed)
            if self.good(row, metric):
                find["row"] = row.name
                self.known[-1] = (metric, smaller)

    def hunt(self) -> None:
        """Searches and confirms in turn; ends in order by Ctrl-C and the time limit."""
        seconds = self.plan.seconds
        try:
            while not self.complete() and self.left() > seconds / 4:
                self.search(max(self.left() - seconds / 5, seconds / 4))
                for metric, candidate in self.promising():
                    self.confirm(metric, candidate)
            while left := self.promising():
                for metric, candidate in left:
                    self.confirm(metric, candidate)
        except TimeIsUpError:
            pass
        except KeyboardInterrupt:
            self.result.interrupted = True

    def examine(self, values: Parameters) -> None:
        """The rounds of a confirmation alone."""
        try:
            row = self.take(values, CONFIRM, self.plan.rounds)
        except TimeIsUpError:
            row = self.result.rows[-1]
        except KeyboardInterrupt:
            self.result.interrupted = True
            return
        for metric in (FAILED, *self.plan.metrics):
            if self.good(row, metric):
                self.finds.append({"metric": metric, "row": row.name, "first": row.name})
