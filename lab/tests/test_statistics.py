"""The statistics, against scipy's own on known data and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from hakmem_lab.analysis import statistics
from hakmem_lab.analysis.statistics import (
    describe_difference,
    geometric_mean,
    judge,
    mean_estimate,
    mean_ratio,
    median_estimate,
    paired_ratios,
    rounds_needed,
)
from hakmem_lab.base.numbers import Floats
from hakmem_lab.run.runner import order_of_round

KNOWN = np.array([1.02, 0.97, 1.01, 1.08, 0.99, 1.04, 1.00, 1.03, 0.98, 1.05, 1.02, 1.01])


def simulate(generator: np.random.Generator, faster: float, noise: float, rounds: int) -> Floats:
    """Ratios of b to a when b is `faster` (0.03: by 3%) and each run has `noise`."""
    a = generator.normal(1, noise, rounds)
    b = generator.normal(1 / (1 + faster), noise, rounds)
    return b / a


def test_the_interval_of_a_median() -> None:
    """Against an independent way to it: order statistics, whose coverage the binomial tells."""
    estimate = median_estimate(KNOWN)
    assert estimate.value == np.median(KNOWN)
    ordered = np.sort(KNOWN)
    assert 1 - 2 * stats.binom.cdf(2, len(KNOWN), 0.5) > 0.95
    assert estimate.low is not None and ordered[2] - 0.01 <= estimate.low < estimate.value
    assert estimate.high is not None and estimate.value < estimate.high <= ordered[-3] + 0.01
    assert median_estimate(KNOWN) == estimate


@pytest.mark.parametrize("count", [6, 10, 12])
def test_mean_interval_is_scipys(count: int) -> None:
    values = KNOWN[:count]
    ours = mean_estimate(values)
    theirs = stats.ttest_1samp(values, 1.0)
    assert ours.value == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert (not ours.low <= 1 <= ours.high) == (theirs.pvalue < 0.05)  # type: ignore[operator]


def test_mean_ratio_is_the_geometric_mean() -> None:
    assert mean_ratio(KNOWN).value == pytest.approx(stats.gmean(KNOWN))


def test_geometric_mean_over_rows() -> None:
    rows = [np.full(6, 0.5), np.full(6, 2.0), np.full(7, 8.0)]
    estimate = geometric_mean(rows)
    assert estimate.value == pytest.approx(stats.gmean([0.5, 2.0, 8.0]))
    assert estimate.low == pytest.approx(estimate.value)
    assert estimate.count == 3
    assert geometric_mean([*rows, np.full(5, 1.0)]).low is None


@pytest.mark.parametrize("count", [1, 3, 5])
def test_fewer_than_six_rounds_carry_no_interval(count: int) -> None:
    for estimate in (median_estimate(KNOWN[:count]), mean_estimate(KNOWN[:count])):
        assert (estimate.low, estimate.high, estimate.count) == (None, None, count)
    assert describe_difference(KNOWN[:count] / 9) == "unknown"
    assert judge(KNOWN[:count] / 9).decision == "not decided"


def test_interval_of_a_geometric_mean_holds_the_truth() -> None:
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(100):
        rows = [true * simulate(generator, 0, 0.02, 9) for true in (0.5, 0.9, 1.4)]
        estimate = geometric_mean(rows, resamples=2000)
        assert estimate.low is not None and estimate.high is not None
        held += estimate.low <= stats.gmean([0.5, 0.9, 1.4]) <= estimate.high
    assert held >= 88


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        values = generator.normal(0, 1, 10)
        values[generator.random(10) < 0.1] *= 4  # disturbed runs
        estimate = mean_estimate(values)
        assert estimate.low is not None and estimate.high is not None
        held += estimate.low <= 0 <= estimate.high
    assert 0.93 <= held / 1000 <= 0.985


def test_the_same_values_give_the_same_interval() -> None:
    assert mean_estimate(KNOWN) == mean_estimate(KNOWN)
    assert median_estimate(KNOWN) == median_estimate(KNOWN)


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_values_have_no_interval(count: int) -> None:
    for estimate in (median_estimate(KNOWN[:count]), mean_estimate(KNOWN[:count])):
        assert (estimate.low, estimate.high, estimate.count) == (None, None, count)
    assert describe_difference(KNOWN[:count]) == "unknown"


def test_values_without_spread() -> None:
    estimate = mean_estimate(np.full(10, 0.9))
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((0.9, 0.9, 0.9))


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_identical_programs_are_called_equal(noise: float) -> None:
    generator = np.random.default_rng(17)
    equal = sum(
        describe_difference(simulate(generator, 0, noise, 10)) == "equal" for _ in range(100)
    )
    assert equal >= 95


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_identical_programs_are_not_a_go(noise: float) -> None:
    generator = np.random.default_rng(19)
    go = sum(judge(simulate(generator, 0, noise, 10)).decision == "GO" for _ in range(100))
    assert go <= 5


def test_a_true_difference_is_found() -> None:
    generator = np.random.default_rng(23)
    samples = [simulate(generator, 0.03, 0.01, 10) for _ in range(100)]
    assert sum(describe_difference(ratios) == "faster" for ratios in samples) >= 95
    assert sum(judge(ratios).decision == "GO" for ratios in samples) >= 95
    slower = [simulate(generator, -0.03, 0.01, 10) for _ in range(100)]
    assert sum(describe_difference(ratios) == "slower" for ratios in slower) >= 95
    assert sum(judge(ratios).decision == "NO-GO" for ratios in slower) >= 95


def test_go_asks_for_ten_rounds() -> None:
    ratios = np.full(9, 0.9) + np.linspace(0, 0.001, 9)
    verdict = judge(ratios)
    assert verdict.decision == "not decided"
    assert verdict.more_rounds == 1
    assert judge(np.append(ratios, 0.9)).decision == "GO"


def test_thresholds_of_the_two_kinds_of_change() -> None:
    ratios = 1 / (1 + np.linspace(0.0069, 0.0071, 10))  # 0.7% faster, hardly any noise
    assert judge(ratios).decision == "NO-GO"
    assert judge(ratios, build_change=True).decision == "GO"
    assert judge(ratios).improvement.value == pytest.approx(0.7, abs=0.01)


def test_an_undecided_verdict_says_how_many_more_rounds() -> None:
    generator = np.random.default_rng(29)
    verdicts = [judge(simulate(generator, 0.01, 0.02, 10)) for _ in range(50)]
    undecided = [verdict for verdict in verdicts if verdict.decision == "not decided"]
    assert len(undecided) >= 30
    # Noise of 2% in each run is 2.8% in a ratio: about (2.8 * (1.96 + 0.84) / 1)^2 = 63 rounds.
    assert 30 <= np.median([verdict.more_rounds for verdict in undecided]) <= 75
    assert all(verdict.more_rounds == 0 for verdict in verdicts if verdict not in undecided)


def test_rounds_needed_have_the_power_they_promise() -> None:
    rounds = rounds_needed(0.03, 0.02)
    generator = np.random.default_rng(31)
    found = sum(
        stats.ttest_1samp(generator.normal(0.02, 0.03, rounds), 0).pvalue < 0.05
        for _ in range(1000)
    )
    assert 0.75 <= found / 1000 <= 0.88
    assert rounds_needed(0.03, 0.01) > rounds > rounds_needed(0.02, 0.02)
    assert rounds_needed(0, 0.02) == rounds_needed(1e-9, 0.02) == rounds_needed(0.004, 0.02) == 10
    assert rounds_needed(5, 0.001) == rounds_needed(1, 1e-9) == statistics.MOST_ROUNDS


def test_ratios_pair_the_rounds_that_both_have() -> None:
    ratios = paired_ratios({1: 2.0, 2: 3.0, 4: 5.0}, {2: 6.0, 3: 1.0, 4: 5.0})
    assert list(ratios) == [0.5, 1.0]


def test_every_item_runs_once_a_round_and_in_every_place() -> None:
    items = ["a", "b", "c"]
    rounds = [order_of_round(items, index) for index in range(6)]
    assert all(sorted(order) == items for order in rounds)
    for place in range(3):
        assert {order[place] for order in rounds} == set(items)
    assert rounds[1] == rounds[0][::-1]
    assert order_of_round([], 3) == []


def test_nothing_to_sum_up_is_an_error() -> None:
    for call in (
        lambda: median_estimate(np.array([])),
        lambda: mean_estimate(np.array([])),
        lambda: geometric_mean([]),
        lambda: rounds_needed(1, 0),
    ):
        with pytest.raises(ValueError):
            call()


def test_seed_and_confidence_are_what_the_tables_say() -> None:
    assert statistics.CONFIDENCE == 0.95
    narrow, wide = mean_estimate(KNOWN, 0.8), mean_estimate(KNOWN, 0.99)
    assert narrow.low is not None and wide.low is not None
    assert wide.low < narrow.low < math.inf
