"""The table of a replay: allocators in rows, as there is one trace."""

import numpy as np
from rich.console import Console

from hakmem_lab import summary
from hakmem_lab.results import Result, RowResult
from hakmem_lab.statistics import median_estimate
from hakmem_lab.tables import (
    PRINTERS,
    new_table,
    print_problems,
    run_count,
    say,
    show,
    show_memory,
    show_number,
)

USUAL = "glibc"  # what ratios are to: most programs were recorded on it


def base_of(result: Result) -> str | None:
    names = result.allocator_names()
    return USUAL if USUAL in names else next(iter(names), None)


def show_dry(result: Result, key: str, scale: float = 1.0) -> str:
    """What the replay takes without the calls."""
    values = result.settings.get("dry", {}).get(key, [])
    if not values:
        return "unknown"
    return show(median_estimate(np.array(values, dtype=np.float64) * scale), 1)


def footnote(result: Result, base: str | None) -> str:
    runs = len(result.settings.get("dry", {}).get("ns", []))
    return (
        "medians over rounds with their 95% bootstrap interval; ratios below 1 are faster or"
        f" smaller than {base}\nthe replay itself, without any call: {show_dry(result, 'ns')} ns a"
        f" call and {show_dry(result, 'peak_rss_kb', 1 / 1024)} MiB ({runs} runs), in every figure"
    )


def print_row(result: Result, row: RowResult, console: Console) -> None:
    base = base_of(result)
    live = float(result.settings.get("peak_live_kb", 0))
    table = new_table(
        f"{row.name} replayed",
        [
            *("allocator", "ns a call", f"time / {base}", "peak MiB", f"peak / {base}"),
            *("peak / most\nlive bytes", "page\nfaults", "runs"),
        ],
    )
    for name in result.allocator_names():
        if not row.good_runs(name):
            continue
        peak = summary.peak_memory(row, name)
        table.add_row(
            name,
            show_number(summary.median_cost(row, name), 1),
            show(summary.cost_ratio(row, name, base)),
            show_memory(peak),
            show(summary.memory_ratio(row, name, base)),
            show_number(peak / live if peak and live else None, 2),
            show_number(summary.page_faults(row, name)),
            run_count(row, name),
        )
    if table.row_count:
        console.print(table)
        say(console, footnote(result, base))


def print_replay(result: Result, console: Console) -> None:
    for row in result.rows:
        print_row(result, row, console)
    print_problems(result, console)
    for warning in result.settings.get("problems", []):
        say(console, f"warning: {warning}")


PRINTERS["replay"] = print_replay
