"""Intervals of a series whose neighbours resemble each other, as the epochs of a soak do.

What disturbs a machine lasts for several epochs: neighbours in an hour's soak correlate by 0.8. As
many independent epochs would tell more. So intervals are made of blocks of epochs in a row: in a
series of N, blocks of the square root of N, 41 in an hour of 2 s each, 13 in a tenth of it.
"""

import math

import numpy as np
import numpy.typing as npt

from hakmem_lab.analysis.statistics import CONFIDENCE, SEED, Estimate, change, variation
from hakmem_lab.base.numbers import Floats

DRAWS = 2000


def draw_blocks(count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Places of `count` epochs, DRAWS times. A block begins anywhere, and goes on at the start
    where it passes the end."""
    block = max(1, round(math.sqrt(count)))
    starts = generator.integers(0, count, (DRAWS, -(-count // block)))
    places = (starts[:, :, None] + np.arange(block)).reshape(DRAWS, -1)[:, :count]
    return places % count


def interval(drawn: Floats) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def tenths(values: Floats) -> Estimate:
    """The median of the last tenth against that of the first, in percent."""
    size = max(1, len(values) // 10)
    first, last = values[:size], values[-size:]
    generator = np.random.default_rng(SEED)
    medians = [np.median(part[draw_blocks(size, generator)], axis=1) for part in (last, first)]
    value = (float(np.median(last)) / float(np.median(first)) - 1) * 100
    return Estimate(value, *interval((medians[0] / medians[1] - 1) * 100), len(values))


def slope(times: Floats, values: Floats) -> Estimate:
    """The Theil-Sen slope over the whole time, in percent of the level; its interval is that of the
    blocks' medians."""
    parts = max(2, len(values) // max(1, round(math.sqrt(len(values)))))

    def middles(series: Floats) -> Floats:
        return np.array([np.median(part) for part in np.array_split(series, parts)])

    coarse = change(middles(times), middles(values))
    # The middles of the first and the last block lie nearer than the first and the last epoch.
    reach = float((times[-1] - times[0]) / (middles(times)[-1] - middles(times)[0]))
    value = change(times, values).slope
    off = value - coarse.slope * reach
    low, high = coarse.slope_low * reach + off, coarse.slope_high * reach + off
    return Estimate(value, low, high, len(values))


def variation_ratio(ours: Floats, theirs: Floats) -> Estimate:
    """The coefficient of variation of one series against that of another, of the same epochs."""

    draws = draw_blocks(len(ours), np.random.default_rng(SEED))
    drawn = [variation(ours[at]) / variation(theirs[at]) for at in draws]
    value = variation(ours) / variation(theirs)
    return Estimate(value, *interval(np.array(drawn)), len(ours))
