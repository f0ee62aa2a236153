"""The table of a replay: allocators in rows, as there is one trace."""

from statistics import median

import numpy as np
from rich.console import Console

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import median_estimate
from hakmem_lab.base.numbers import show_number
from hakmem_lab.report.tables import new_table, print_problems, run_count, say, show, show_memory
from hakmem_lab.run.results import Result, RowResult

USUAL = "glibc"  # what ratios are to: most programs were recorded on it


def base_of(result: Result) -> str | None:
    names = result.allocator_names()
    return USUAL if USUAL in names else next(iter(names), None)


def own_memory(result: Result) -> float:
    """KiB of the replay itself, in every peak; 0 when it is not known."""
    values = result.settings.get("dry", {}).get("peak_rss_kb", [])
    return median(values) if values else 0.0


def show_dry(result: Result, key: str, scale: float = 1.0, digits: int = 1) -> str:
    """What the replay takes without the calls."""
    values = result.settings.get("dry", {}).get(key, [])
    if not values:
        return "unknown"
    return show(median_estimate(np.array(values, dtype=np.float64) * scale), digits)


def footnote(result: Result, base: str | None) -> tuple[str, str]:
    """Its lines."""
    runs = len(result.settings.get("dry", {}).get("ns", []))
    return (
        "medians over rounds with their 95% bootstrap interval; ratios below 1 are faster or"
        f" smaller than {base}",
        f"blocks: what remains of the peak without the replay's own"
        f" {show_dry(result, 'peak_rss_kb', 1 / 1024)} MiB; its own are"
        f" also {show_dry(result, 'ns')} ns a call and {show_dry(result, 'faults', digits=0)} page"
        f" faults ({runs} runs without calls)",
    )


def print_row(result: Result, row: RowResult, console: Console) -> None:
    base = base_of(result)
    live = float(result.settings.get("peak_live_kb", 0))
    table = new_table(
        f"{row.name} replayed",
        [
            *("allocator", "ns a call", f"time / {base}", "peak\nMiB", "blocks\nMiB"),
            *(f"blocks / {base}", "blocks / most\nlive bytes", "page\nfaults", "runs"),
        ],
    )
    own = own_memory(result)
    for name in result.allocator_names():
        if not row.good_runs(name):
            continue
        peak = summary.peak_memory(row, name)
        blocks = None if peak is None else max(0.0, peak - own)
        table.add_row(
            name,
            show_number(summary.median_cost(row, name), 1),
            show(summary.cost_ratio(row, name, base)),
            show_memory(peak),
            show_memory(blocks),
            show(summary.memory_ratio(row, name, base, own)),
            show_number(blocks / live if blocks and live else None, 2),
            show_number(summary.page_faults(row, name)),
            run_count(row, name),
        )
    if table.row_count:
        console.print(table)
        for line in footnote(result, base):
            say(console, line)


def print_replay(result: Result, console: Console) -> None:
    for row in result.rows:
        print_row(result, row, console)
    print_problems(result, console)
    for warning in result.settings.get("problems", []):
        say(console, f"warning: {warning}")
