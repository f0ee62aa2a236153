"""Do two results put the allocators in the same order? A replay against its program, one machine
against another.

Medians alone would give two orders that differ wherever noise decides. So each pair of allocators
is looked at: told apart by a result when its per-round ratios differ from 1 by more than noise
(statistics.describe_difference). What counts are the pairs that both results tell apart.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from hakmem_lab.analysis.statistics import (
    describe_difference,
    paired_ratios,
)
from hakmem_lab.base.errors import LabError
from hakmem_lab.run.results import Result, RowResult

Figures = Callable[[RowResult, str], Mapping[int, float]]  # by round, of one allocator


@dataclass(frozen=True)
class Pairs:
    """Pairs of allocators, as two results see them."""

    all: int
    first: int  # that the first result tells apart
    second: int
    alike: list[tuple[str, str]]  # told apart by both, with the same one ahead; that one first
    opposite: list[tuple[str, str]]  # ahead in the first result, ahead in the second
    tau: float  # Kendall's, of the medians; nan where one side's are all equal


def ahead(row: RowResult, figures: Figures, a: str, b: str) -> str | None:
    """Which of two needs less; None: not told apart."""
    ratios = paired_ratios(figures(row, a), figures(row, b))
    if len(ratios) == 0:
        return None
    return {"faster": a, "slower": b}.get(describe_difference(ratios))


def medians(row: RowResult, figures: Figures, names: list[str]) -> list[float]:
    return [float(np.median(list(figures(row, name).values()))) for name in names]


def compare_orders(
    first: RowResult, second: RowResult, names: list[str], figures: Figures
) -> Pairs:
    from scipy import stats  # here alone: see statistics

    pairs = list(combinations(names, 2))
    seen = [(ahead(first, figures, a, b), ahead(second, figures, a, b)) for a, b in pairs]
    both = [
        (x, y, b if x == a else a)
        for (a, b), (x, y) in zip(pairs, seen, strict=True)
        if x is not None and y is not None
    ]
    orders = medians(first, figures, names), medians(second, figures, names)
    return Pairs(
        all=len(pairs),
        first=sum(x is not None for x, _ in seen),
        second=sum(y is not None for _, y in seen),
        alike=[(x, other) for x, y, other in both if x == y],
        opposite=[(x, y) for x, y, _ in both if x != y],
        tau=float(stats.kendalltau(*orders).statistic),
    )


def common_allocators(first: RowResult, second: RowResult, result: Result) -> list[str]:
    """Those that ended well in both, in the order of the first result."""
    return [n for n in result.allocator_names() if first.good_runs(n) and second.good_runs(n)]


def choose_row(result: Result, name: str | None, file: Path) -> RowResult:
    """The one of that name; without a name the first, which is the program's own."""
    for row in result.rows:
        if name is None or row.name == name:
            return row
    has = ", ".join(row.name for row in result.rows) or "none"
    raise LabError(f"{file}: no row {name or ''}; it has {has}")
