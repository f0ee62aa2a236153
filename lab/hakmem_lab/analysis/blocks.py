"""Intervals of a series whose neighbours resemble each other, as the epochs of a soak do.

What disturbs a machine lasts for several epochs: neighbours in an hour's soak correlate by 0.8. As
many independent epochs would tell more. So whole blocks of epochs in a row are drawn: arch's
circular block bootstrap, with the length of block that its rule (Politis and White) finds in the
series, at most a third of what is drawn.

arch is imported where it is needed: it takes a second.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hakmem_lab.analysis.statistics import CONFIDENCE, SEED, Estimate, change, variation
from hakmem_lab.base.numbers import Floats

DRAWS = 2000
SLOPES = 500  # draws of a slope, which takes longer
MOST_POINTS = 60  # of a drawn series that a slope is laid through


def block_length(values: Floats, count: int) -> int:
    """Of a series, in draws of `count` of its values."""
    from arch.bootstrap import optimal_block_length

    if len(values) < 8 or not np.ptp(values) > 0:
        return 1
    length = float(optimal_block_length(values)["circular"].iloc[0])
    return max(1, min(math.ceil(length) if math.isfinite(length) else 1, count // 3))


def bootstrap(block: int, *series: Floats, seed: int = SEED) -> Any:
    """Draws blocks, the same ones of all series."""
    from arch.bootstrap import CircularBlockBootstrap

    return CircularBlockBootstrap(block, *series, seed=np.random.default_rng(seed))


def interval(drawn: Floats) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def tenths(values: Floats) -> Estimate:
    """The median of the last tenth against that of the first, in percent. How much a tenth's median
    wavers is known of all tenths: the first and the last alone have too few blocks to tell."""
    size = max(1, len(values) // 10)
    first, last = float(np.median(values[:size])), float(np.median(values[-size:]))
    parts = np.array_split(values, max(1, len(values) // size))
    beside = np.concatenate([part / np.median(part) for part in parts])

    def median_of_two(drawn: Floats) -> Floats:
        return np.array([np.median(drawn[:size]), np.median(drawn[-size:])])

    drawn = bootstrap(block_length(beside, size), beside).apply(median_of_two, DRAWS)
    value = (last / first - 1) * 100
    low, high = interval(last / first * drawn[:, 1] / drawn[:, 0])
    return Estimate(value, (low - 1) * 100, (high - 1) * 100, len(values))


def slope(times: Floats, values: Floats) -> Estimate:
    """The Theil-Sen slope over the whole time, in percent of the level. What the series does beside
    its slope is drawn in blocks and laid on the slope again; neighbours are summed up before."""
    points = min(len(values), MOST_POINTS)
    xs, ys = (
        np.array([np.median(part) for part in np.array_split(series, points)])
        for series in (times, values)
    )
    first, second = np.triu_indices(points, 1)
    apart = xs[second] - xs[first]

    def slope_of(series: Floats) -> float:
        return float(np.median((series[second] - series[first]) / apart))

    coarse = slope_of(ys)
    line = coarse * xs
    block = block_length(ys - line, points)
    drawn = bootstrap(block, ys - line).apply(lambda rest: slope_of(line + rest), SLOPES)[:, 0]
    whole = float(times[-1] - times[0]) / float(np.median(values)) * 100
    low, high = interval((drawn - coarse) * whole)
    value = change(times, values).slope
    return Estimate(value, value + low, value + high, len(values))


def variation_ratio(ours: Floats, theirs: Floats) -> Estimate:
    """The coefficient of variation of one series against that of another, of the same epochs."""

    def ratio(a: Floats, b: Floats) -> float:
        return variation(a) / variation(b)

    block = max(block_length(series, len(series)) for series in (ours, theirs))
    find: Callable[..., Any] = bootstrap(block, ours, theirs).conf_int
    low, high = find(ratio, DRAWS, method="percentile", size=CONFIDENCE)[:, 0]
    return Estimate(ratio(ours, theirs), float(low), float(high), len(ours))
