"""The statistics behind every figure: paired rounds, intervals, rule R1.

The design: a round runs every allocator once on a row, in an order that changes each round. What
disturbs the machine for a while then disturbs the runs of one round alike, so the ratio of two
allocators is taken within each round, and it is these ratios that are summed up.

All ratios are of costs (time): below 1 is better. Random draws are seeded: the same runs give the
same interval.

scipy and statsmodels are imported where they are needed, since most commands want none of them:
with scipy.stats imported here `hakmem-lab --help` took 2.3 s, without any 0.8.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from hakmem_lab.base.numbers import Floats

CONFIDENCE = 0.95
# For calling two programs different in words. Stricter: a table has dozens of rows, and at 0.95
# every twentieth would be called different by chance.
DIFFERENT_CONFIDENCE = 0.99
RESAMPLES = 10_000
SEED = 20_240_601
# Fewer rounds carry no interval, and nothing is certain about them: of three, a percentile interval
# is their range, which misses the true median in one case of four.
LEAST_FOR_INTERVAL = 6

RUN_TIME_THRESHOLD = 1.0  # percent; rule R1
BUILD_TIME_THRESHOLD = 0.5  # percent; rule R1, changes that only the compiler sees
LEAST_ROUNDS = 10  # rule R1
NOTICEABLE = 3.0  # percent; programs are called equal when their interval excludes this much
MOST_ROUNDS = 1_000_000  # nobody asks for more
# Deviations: an effect above shows in the least number of rounds, one below not in MOST_ROUNDS.
PLAIN, FAINT = 5.0, 0.002
POWER = 0.8  # chance to see an effect of the threshold's size, when runs needed are counted


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval (None when there were too few runs) and its count of runs."""

    value: float
    low: float | None
    high: float | None
    count: int


def paired_ratios(costs: Mapping[int, float], base: Mapping[int, float]) -> Floats:
    """Ratio cost/base of each round (the keys) that both have; a figure of 0 was not measured."""
    rounds = [r for r in sorted(costs.keys() & base.keys()) if costs[r] > 0 and base[r] > 0]
    return np.array([costs[r] / base[r] for r in rounds], dtype=np.float64)


def median_estimate(
    values: Floats, confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> Estimate:
    """Median with its percentile bootstrap interval."""
    return cached_median(tuple(map(float, values)), confidence, resamples)


# A report asks for the same figure in several of its tables.
@lru_cache(maxsize=20_000)
def cached_median(listed: tuple[float, ...], confidence: float, resamples: int) -> Estimate:
    values = np.array(listed, dtype=np.float64)
    count = len(values)
    if count == 0:
        raise ValueError("no values")
    middle = float(np.median(values))
    if count < LEAST_FOR_INTERVAL:
        return Estimate(middle, None, None, count)
    return Estimate(middle, *percentile_interval([values], np.median, confidence, resamples), count)


def percentile_interval(
    samples: Sequence[Floats], statistic: Callable[..., Any], confidence: float, resamples: int
) -> tuple[float, float]:
    """scipy's percentile bootstrap, each sample drawn by itself."""
    from scipy import stats

    found = stats.bootstrap(
        samples,
        statistic,
        confidence_level=confidence,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def student(confidence: float, count: int) -> float:
    """Half the width of Student's interval for `count` values, in standard errors."""
    from scipy import special

    return float(special.stdtrit(count - 1, (1 + confidence) / 2))


def mean_estimate(values: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Mean with Student's interval.

    Not the bootstrap here: of ten values, its percentile interval misses the true mean in one case
    of eight instead of one of twenty (simulated), and its studentised one, at 99%, overlooks a
    difference of two standard deviations in one case of ten. Student's keeps both promises, also
    when one run in ten is disturbed.
    """
    count = len(values)
    if count == 0:
        raise ValueError("no values")
    mean = float(values.mean())
    if count < LEAST_FOR_INTERVAL:
        return Estimate(mean, None, None, count)
    error = float(values.std(ddof=1)) / math.sqrt(count)
    reach = student(confidence, count) * error
    return Estimate(mean, mean - reach, mean + reach, count)


def mean_ratio(ratios: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Geometric mean of per-round ratios: a/b and b/a then say the same."""
    logs = mean_estimate(np.log(ratios), confidence)
    return Estimate(
        math.exp(logs.value),
        None if logs.low is None else math.exp(logs.low),
        None if logs.high is None else math.exp(logs.high),
        logs.count,
    )


def geometric_mean(rows: Sequence[Floats], resamples: int = RESAMPLES) -> Estimate:
    """Geometric mean over rows of each row's median ratio. The interval redraws the rounds within
    each row: it says how well this mean is known on these rows, not on others."""
    if not rows:
        raise ValueError("no rows")

    def of_medians(*drawn: Floats, axis: int = -1) -> Floats:
        logs = [np.log(np.median(row, axis=axis)) for row in drawn]
        return np.asarray(np.exp(np.mean(logs, axis=0)))

    value = float(of_medians(*rows))
    if any(len(row) < LEAST_FOR_INTERVAL for row in rows):
        return Estimate(value, None, None, len(rows))
    ends = percentile_interval(rows, of_medians, CONFIDENCE, resamples)
    return Estimate(value, *ends, len(rows))


Difference = Literal["equal", "faster", "slower", "unknown"]


def describe_difference(ratios: Floats) -> Difference:
    """Whether per-round ratios differ from 1 by more than noise; unknown with too few rounds."""
    estimate = mean_ratio(ratios, DIFFERENT_CONFIDENCE)
    if estimate.low is None or estimate.high is None:
        return "unknown"
    if estimate.high < 1:
        return "faster"
    return "slower" if estimate.low > 1 else "equal"


def rounds_needed(
    deviation: float, effect: float, confidence: float = CONFIDENCE, least: int = LEAST_ROUNDS
) -> int:
    """Rounds, `least` or more, after which a true `effect` shows (its interval excludes 0) with
    probability POWER, given the standard deviation of one round; both in the same unit. A paired
    t-test's power."""
    if effect <= 0:
        raise ValueError("the effect has to be above 0")
    if effect > PLAIN * deviation:
        return least
    if effect < FAINT * deviation:
        return MOST_ROUNDS
    from statsmodels.stats.power import TTestPower

    size, alpha = effect / deviation, 1 - confidence
    if TTestPower().power(size, least, alpha) >= POWER:
        return least
    needed = float(TTestPower().solve_power(size, alpha=alpha, power=POWER))
    return max(least, min(math.ceil(needed), MOST_ROUNDS))


@dataclass(frozen=True)
class Comparison:
    """What per-round ratios say of two programs, and whether that is all they can say."""

    difference: Difference
    ratio: Estimate  # geometric mean of cost / base
    sure: Estimate  # the same with the wider interval that the words ask for
    more_rounds: int  # until NOTICEABLE shows; 0 when a difference shows, or none of that size can


def compare_costs(ratios: Floats) -> Comparison:
    """Told apart, equal as far as NOTICEABLE goes, or not told apart yet."""
    difference, ratio = describe_difference(ratios), mean_ratio(ratios)
    sure = mean_ratio(ratios, DIFFERENT_CONFIDENCE)
    if sure.low is None or sure.high is None:
        return Comparison(difference, ratio, sure, LEAST_FOR_INTERVAL - ratio.count)
    if difference != "equal":
        return Comparison(difference, ratio, sure, 0)
    most = 1 + NOTICEABLE / 100
    if 1 / most < sure.low and sure.high < most:
        return Comparison(difference, ratio, sure, 0)
    deviation = float(np.log(ratios).std(ddof=1))
    needed = rounds_needed(deviation, math.log(most), DIFFERENT_CONFIDENCE, LEAST_FOR_INTERVAL)
    # By bad luck the interval can be wide although there were enough rounds for most cases.
    more = max(LEAST_FOR_INTERVAL, needed - ratio.count)
    return Comparison(difference, ratio, sure, more)


@dataclass(frozen=True)
class Verdict:
    """Rule R1 on a change from a to b; improvement: percent more work in the same time."""

    decision: Literal["GO", "NO-GO", "not decided"]
    improvement: Estimate
    threshold: float
    more_rounds: int  # 0 when decided
    difference: Difference


def judge(ratios: Floats, build_change: bool = False) -> Verdict:
    """Rule R1 from the per-round ratios of cost b/a.

    GO: the mean improvement is at least the threshold, over at least ten rounds, and the interval
    excludes 0. NO-GO: an improvement of the threshold's size is excluded. Otherwise the rounds do
    not tell, and the verdict says how many more would.
    """
    threshold = BUILD_TIME_THRESHOLD if build_change else RUN_TIME_THRESHOLD
    ratio = mean_ratio(ratios)

    def percent(value: float | None) -> float | None:
        return None if value is None else (1 / value - 1) * 100

    improvement = Estimate(
        (1 / ratio.value - 1) * 100, percent(ratio.high), percent(ratio.low), ratio.count
    )
    difference = describe_difference(ratios)
    low, high = improvement.low, improvement.high
    if ratio.count >= LEAST_ROUNDS and low is not None and high is not None:
        if improvement.value >= threshold and low > 0:
            return Verdict("GO", improvement, threshold, 0, difference)
        if high < threshold:
            return Verdict("NO-GO", improvement, threshold, 0, difference)
    more = LEAST_ROUNDS - ratio.count
    if ratio.count >= LEAST_FOR_INTERVAL:
        deviation = float(np.log(ratios).std(ddof=1))
        more = max(more, rounds_needed(deviation, math.log1p(threshold / 100)) - ratio.count)
    if ratio.count >= LEAST_ROUNDS:
        # The interval can straddle by bad luck although there were enough rounds for most cases.
        more = max(more, LEAST_ROUNDS // 2)
    return Verdict("not decided", improvement, threshold, more, difference)


def rate_estimate(events: int, exposure: float, count: int) -> Estimate:
    """Events for each unit of `exposure`, from `count` runs together, with the exact interval of a
    Poisson rate (Garwood's): it also tells how little no event at all says."""
    from statsmodels.stats.rates import confint_poisson

    low, high = confint_poisson(events, exposure, method="exact-c", alpha=1 - CONFIDENCE)
    return Estimate(events / exposure, float(low), float(high), count)


def percentiles(values: Floats, shares: Sequence[float]) -> list[float]:
    """Percentiles (0 to 100), linear between neighbouring values."""
    return [float(value) for value in np.percentile(values, shares)]


def variation(values: Floats) -> float:
    """Coefficient of variation in percent: the standard deviation against the mean."""
    return float(values.std(ddof=1) / values.mean()) * 100 if len(values) > 1 else 0.0


@dataclass(frozen=True)
class Change:
    """How far a series moved from its start to its end, in percent of its level, seen in two ways:
    they differ where it jumped or bent."""

    tenths: float  # median of the last tenth against that of the first
    slope: float  # Theil-Sen: the median of the slopes between all pairs of points

    @property
    def up(self) -> float:
        return max(self.tenths, self.slope)

    @property
    def down(self) -> float:
        return max(-self.tenths, -self.slope)


# Pairs of points grow with the square; more points than these are first summed up by medians of
# neighbours, which leaves a trend as it is.
MOST_POINTS = 1000


def change(times: Floats, values: Floats) -> Change:
    """The change of `values` over `times`; both have at least two points. Its intervals: blocks."""
    from scipy import stats

    tenth = max(1, len(values) // 10)
    first, last = float(np.median(values[:tenth])), float(np.median(values[-tenth:]))
    groups = min(len(values), MOST_POINTS)
    xs = np.array([np.median(part) for part in np.array_split(times, groups)])
    ys = np.array([np.median(part) for part in np.array_split(values, groups)])
    slope = float(stats.theilslopes(ys, xs).slope)
    level = float(np.median(values))
    if first <= 0 or level <= 0:
        raise ValueError("the level has to be above 0")
    whole = float(times[-1] - times[0]) / level * 100  # percent, from a slope
    return Change(
        (last / first - 1) * 100,
        slope * whole,
    )
