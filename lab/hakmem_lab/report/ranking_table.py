"""The table of `rank`: allocators by time and peak memory in two results, and what agrees."""

import numpy as np
from rich.console import Console

from hakmem_lab.analysis.ranking import Figures, Pairs, compare_orders, medians
from hakmem_lab.analysis.statistics import DIFFERENT_CONFIDENCE, median_estimate, paired_ratios
from hakmem_lab.analysis.verdict import memory_by_round
from hakmem_lab.base.numbers import NOTHING
from hakmem_lab.report.tables import new_table, say, show
from hakmem_lab.run.results import RowResult


def against_lowest(row: RowResult, figures: Figures, names: list[str], name: str) -> str:
    """Ratio to the allocator with the lowest median."""
    middles = medians(row, figures, names)
    lowest = names[int(np.argmin(middles))]
    ratios = paired_ratios(figures(row, name), figures(row, lowest))
    if name == lowest:
        return "1"
    return show(median_estimate(ratios), 3) if len(ratios) else NOTHING


def describe_pairs(what: str, pairs: Pairs) -> list[str]:
    """In words, the pairs that are the other way round among them."""
    told = len(pairs.alike) + len(pairs.opposite)
    tau = "unknown" if np.isnan(pairs.tau) else f"{pairs.tau:.2f}"
    lines = [
        f"{what}: of {pairs.all} pairs the first tells {pairs.first} apart, the second"
        f" {pairs.second}, both {told}: {len(pairs.alike)} the same way,"
        f" {len(pairs.opposite)} the other way round; Kendall's tau of the medians {tau}"
    ]
    lines += [
        f"  {a} ahead of {b} in the first, behind it in the second" for a, b in pairs.opposite
    ]
    return lines


def print_ranking(first: RowResult, second: RowResult, names: list[str], console: Console) -> None:
    headings = ["allocator", "time, first", "time, second", "peak, first", "peak, second", "runs"]
    table = new_table(
        f"{first.name} and {second.name}",
        headings,
        "medians of the rounds' ratios to the lowest, and their 95% bootstrap intervals",
    )
    sides = [
        (row, figures) for figures in (RowResult.costs, memory_by_round) for row in (first, second)
    ]
    for _, name in sorted(zip(medians(first, RowResult.costs, names), names, strict=True)):
        cells = [against_lowest(row, figures, names, name) for row, figures in sides]
        runs = ", ".join(str(len(row.good_runs(name))) for row in (first, second))
        table.add_row(name, *cells, runs)
    console.print(table)
    for what, figures in (("time", RowResult.costs), ("peak memory", memory_by_round)):
        for line in describe_pairs(what, compare_orders(first, second, names, figures)):
            say(console, line)
    say(console, f"told apart: its {DIFFERENT_CONFIDENCE:.0%} interval does not include 1")
