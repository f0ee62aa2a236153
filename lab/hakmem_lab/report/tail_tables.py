"""The tables of `tail`: percentiles of throughput and of latency, an allocator a line."""

from functools import partial

import numpy as np
from rich.console import Console

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.tail import TAIL_EPOCHS, tail_verdicts
from hakmem_lab.report.compare_tables import Column, Figure, named, print_columns, with_ratio
from hakmem_lab.report.tables import print_problems, say_list
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult

SHOWN_THROUGHPUTS = (50.0, 1.0, 0.1)
SHOWN_LATENCIES = ("p50", "p99", "p99.9", "worst")


def millions(figure: Figure) -> Figure:
    def value(run: Run) -> float | None:
        found = figure(run)
        return None if found is None else found / 1e6

    return value


def epochs_of(row: RowResult, name: str) -> str:
    """Epochs of a run after the warm-up."""
    return f"{np.median([run.figures['epochs'] for run in row.good_runs(name)]):.0f}"


def print_tail(result: Result, console: Console) -> None:
    base = summary.base_of(result)
    for row in result.rows:
        columns: list[Column] = [("epochs a run", partial(epochs_of, row))]
        for share in SHOWN_THROUGHPUTS:
            figure = millions(named(f"throughput_p{share:g}_per_s"))
            columns += with_ratio(row, base, f"p{share:g} M/s", figure, 2)
        title = f"{row.name}: throughput of epochs, its slow side is the low one"
        print_columns(result, row, console, title, columns)
        columns = []
        for name in SHOWN_LATENCIES:
            columns += with_ratio(row, base, f"{name} ns", named(f"latency_{name}_ns"), 2)
        title = f"{row.name}: latency of epochs, ns an operation"
        print_columns(result, row, console, title, columns)
    print_problems(result, console)
    say_list(console, "Verdicts", tail_verdicts(result))
    epochs = [run.figures["epochs"] for row in result.rows for run in row.runs if run.figures]
    if epochs and min(epochs) < TAIL_EPOCHS:
        say_list(
            console,
            "Note",
            [f"fewer than {TAIL_EPOCHS} epochs a run: p0.1 and p99.9 lie next to the worst epoch"],
        )
