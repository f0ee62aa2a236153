"""Statistics of a series of epochs: change, variation, intervals where neighbours are alike."""

import numpy as np
import pytest
from scipy import stats

from hakmem_lab.analysis import blocks
from hakmem_lab.analysis.statistics import MOST_POINTS, Estimate, change, percentiles, variation
from hakmem_lab.base.numbers import Floats

pytestmark = pytest.mark.slow


def test_a_steady_change_is_seen_by_both() -> None:
    times = np.arange(100.0)
    found = change(times, 100 + 10 * times / 99)
    # The tenths' medians lie 90 of 99 apart; the slope is against the middle level, 105.
    assert found.tenths == pytest.approx(100 * (100 + 10 * 94.5 / 99) / (100 + 10 * 4.5 / 99) - 100)
    assert found.slope == pytest.approx(100 * 10 / 105)
    assert found.up == max(found.tenths, found.slope)
    back = change(times, 110 - 10 * times / 99)
    assert back.slope == pytest.approx(-100 * 10 / 105)
    assert back.down == max(-back.tenths, -back.slope) > 0 > back.up


def test_a_jump_is_seen_by_the_tenths() -> None:
    values = np.full(100, 50.0)
    values[80:] = 60
    found = change(np.arange(100.0), values)
    assert found.tenths == pytest.approx(20)


def test_outliers_are_no_change() -> None:
    values = np.full(100, 50.0)
    values[[3, 40, 95, 96]] = 5000
    found = change(np.arange(100.0), values)
    assert (found.tenths, found.slope) == (0, 0)


def test_many_points_give_the_same_slope() -> None:
    count = 7 * MOST_POINTS + 13
    times = np.linspace(0, 1, count)
    found = change(times, 100 + times)
    assert found.slope == pytest.approx(100 / 100.5)


def test_percentiles_and_variation() -> None:
    values = np.arange(1.0, 1002.0)
    assert percentiles(values, [0, 0.1, 1, 50, 99.9, 100]) == pytest.approx(
        [1, 2, 11, 501, 1000, 1001]
    )
    assert variation(np.array([9.0, 10.0, 11.0])) == pytest.approx(10)
    assert variation(np.array([9.0])) == 0


def correlated(seed: int, count: int = 1700) -> Floats:
    """A level of 100 with a deviation of 5, of which 0.8 is the next epoch's, too."""
    draws = np.random.default_rng(seed).normal(0, 3, count)
    values = np.zeros(count)
    for at in range(1, count):
        values[at] = 0.8 * values[at - 1] + draws[at]
    return 100 + values


def test_intervals_of_epochs_that_resemble_their_neighbours() -> None:
    """Nothing changes in these series: most intervals have to include 0."""
    times = np.arange(1.0, 1701)
    kept = {"tenths": 0, "slope": 0}
    for seed in range(30):
        values = correlated(seed)
        found = {"tenths": blocks.tenths(values), "slope": blocks.slope(times, values)}
        for name, estimate in found.items():
            assert estimate.low is not None and estimate.high is not None
            kept[name] += estimate.low <= 0 <= estimate.high
    assert kept["tenths"] >= 24 and kept["slope"] >= 26, kept


def width(estimate: Estimate) -> float:
    assert estimate.low is not None and estimate.high is not None
    return estimate.high - estimate.low


def test_correlated_epochs_have_wider_intervals_than_as_many_independent_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same values: as they come, and as an independent bootstrap (blocks of one) draws them."""
    values = correlated(3)
    blocked = blocks.tenths(values)
    cv = blocks.variation_ratio(values, correlated(4))
    assert blocks.block_length(values, len(values)) > 10
    monkeypatch.setattr(blocks, "block_length", lambda *_: 1)
    assert width(blocked) > 2 * width(blocks.tenths(values))  # of 0.8 at lag 1: 3 times in theory
    assert width(cv) > 1.3 * width(blocks.variation_ratio(values, correlated(4)))


def test_a_slope_of_correlated_epochs_is_known_less_well_than_of_independent_ones() -> None:
    times, values = np.arange(1.0, 1001), correlated(3, 1000)
    alone = stats.theilslopes(values, times)
    independent = float(alone.high_slope - alone.low_slope) * 999 / float(np.median(values)) * 100
    assert width(blocks.slope(times, values)) > 2 * independent


def test_independent_epochs_are_drawn_nearly_one_by_one() -> None:
    values = np.random.default_rng(5).normal(100, 5, 1700)
    assert blocks.block_length(values, 170) <= 5
    assert blocks.block_length(np.full(1700, 3.0), 170) == 1
    assert blocks.block_length(correlated(6), 30) == 10
    still = blocks.tenths(np.full(100, 7.0))
    assert (still.value, still.low, still.high) == (0, 0, 0)


def test_a_change_lies_within_its_interval_of_blocks() -> None:
    times = np.arange(1.0, 1701)
    falling = correlated(1) * (1 - times / 1700 / 5)
    for estimate in (blocks.tenths(falling), blocks.slope(times, falling)):
        assert estimate.high is not None and estimate.high < -10
    both = correlated(2)
    ratio = blocks.variation_ratio(both, 100 + (both - 100) * 2)
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.5, 0.5, 0.5), rel=0.02)
