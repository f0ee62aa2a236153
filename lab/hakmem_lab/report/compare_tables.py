"""The tables of `compare`: an allocator a line, and the verdicts in words."""

import shlex
from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import (
    Estimate,
    compare_costs,
    median_estimate,
    paired_ratios,
)
from hakmem_lab.analysis.verdict import describe_comparison, plural, verdicts
from hakmem_lab.base.numbers import NOTHING, show_number
from hakmem_lab.report.tables import new_table, print_problems, run_count, say, say_list, show
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult

MOST_KINDS = 15  # of system calls
LATENCIES = ("p50", "p99", "p99.9")
AFTER_LOAD, AFTER_IDLE = "rss_after_load_kb", "rss_after_idle_kb"
FAILED = "failed_requests"
CAPTION = "medians and their 95% bootstrap intervals; / {base}: of the ratios within each round"

Figure = Callable[[Run], float | None]


def estimate(row: RowResult, name: str, figure: Figure) -> Estimate | None:
    """Median over the runs that ended well; None when none of them has the figure."""
    values = [value for run in row.good_runs(name) if (value := figure(run)) is not None]
    return median_estimate(np.array(values)) if values else None


def ratio(row: RowResult, name: str, base: str, figure: Figure) -> Estimate | None:
    """Median of the ratios to the base within each round."""
    sides = [
        {run.round: value for run in row.good_runs(side) if (value := figure(run)) is not None}
        for side in (name, base)
    ]
    ratios = paired_ratios(*sides)
    return median_estimate(ratios) if len(ratios) else None


def mebibytes(figure: Figure) -> Figure:
    def value(run: Run) -> float | None:
        kib = figure(run)
        return None if kib is None else kib / 1024

    return value


def named(name: str) -> Figure:
    return lambda run: run.figures.get(name)


def has(row: RowResult, name: str) -> bool:
    return any(name in run.figures for run in row.runs)


def mark(text: str, failed: str | None) -> Text:
    return Text("failed", "red") if failed else Text(text)


Column = tuple[str, Callable[[str], str]]


def print_columns(
    result: Result, row: RowResult, console: Console, title: str, columns: Sequence[Column]
) -> None:
    """A line for each allocator that ran; the last column says how often."""
    caption = CAPTION.format(base=summary.base_of(result))
    headings = ["allocator", *(name for name, _ in columns), "runs"]
    table = new_table(title, headings, caption)
    for name in result.allocator_names():
        if not row.good_runs(name):
            if row.failure(name):
                blank = [NOTHING] * len(columns)
                table.add_row(name, *blank, mark("", row.failure(name)))
            continue
        cells = [cell(name) for _, cell in columns]
        table.add_row(name, *cells, run_count(row, name))
    if table.row_count:
        console.print(table)


def with_ratio(
    row: RowResult, base: str, heading: str, figure: Figure, digits: int
) -> list[Column]:
    """A figure, and its ratio to the base's."""

    def against_base(name: str) -> str:
        return "1" if name == base else show(ratio(row, name, base, figure), 3)

    return [
        (heading, lambda name: show(estimate(row, name, figure), digits)),
        (f"/ {base}", against_base),
    ]


def failed_column(row: RowResult) -> list[Column]:
    """Requests that the load says failed; of most runs none are known."""
    if not has(row, FAILED):
        return []
    return [count_column(row, "failed", lambda run: run.figures.get(FAILED, 0.0))]


def memory_column(row: RowResult, base: str, heading: str, figure: Figure) -> list[Column]:
    return with_ratio(row, base, heading, mebibytes(figure), 1)


def count_column(row: RowResult, heading: str, figure: Figure) -> Column:
    return heading, lambda name: show(estimate(row, name, figure), 0)


def print_process(result: Result, row: RowResult, console: Console, server: bool) -> None:
    """Time and memory of a program, or of a server."""
    base = summary.base_of(result)
    what = "The server's " if server else ""
    columns: list[Column] = []
    if not server:
        columns += with_ratio(row, base, "wall s", lambda run: run.wall_s, 3)
    columns += with_ratio(row, base, "CPU s", lambda run: run.cpu_s, 3)
    title = f"{what}CPU time" if server else "Time"
    print_columns(result, row, console, title, columns)

    columns = memory_column(row, base, "peak MiB", lambda run: float(run.peak_rss_kb))
    for heading, name in (("after load MiB", AFTER_LOAD), ("after idle MiB", AFTER_IDLE)):
        if has(row, name):
            columns += memory_column(row, base, heading, named(name))
    if not server:
        columns.append(("output", lambda name: summary.output_verdict(row, name, base)))
        if not any(run.output for run in row.runs):
            columns.pop()
    print_columns(result, row, console, f"{what}memory" if server else "Memory", columns)

    columns = [
        count_column(row, "minor faults", lambda run: run.minor_faults),
        count_column(row, "major faults", lambda run: run.major_faults),
        count_column(row, "voluntary switches", lambda run: run.voluntary_switches),
        count_column(row, "involuntary switches", lambda run: run.involuntary_switches),
    ]
    if row.system_calls:
        columns.append(("system calls", lambda name: show_number(summary.system_calls(row, name))))
    print_columns(result, row, console, "Kernel", columns)
    print_calls(result, row, console)


def print_calls(result: Result, row: RowResult, console: Console) -> None:
    """Kinds of system calls by allocator, the most frequent first."""
    names = [name for name in result.allocator_names() if name in row.system_calls]
    highest: dict[str, int] = {}
    for name in names:
        for kind, calls in row.system_calls[name].items():
            highest[kind] = max(highest.get(kind, 0), calls)
    kinds = sorted(highest, key=lambda kind: (-highest[kind], kind))
    if not kinds:
        return
    left_out = len(kinds) - MOST_KINDS
    caption = f"and {left_out} rarer kinds" if left_out > 0 else None
    table = new_table("System calls by kind, one untimed run", ["call", *names], caption)
    for kind in kinds[:MOST_KINDS]:
        cells = [show_number(row.system_calls[name].get(kind, 0)) for name in names]
        table.add_row(kind, *cells)
    console.print(table)


def print_requests(result: Result, row: RowResult, console: Console) -> None:
    """One kind of request: throughput and latencies; or the time of the load."""
    base = summary.base_of(result)
    if row.measure == "wall":
        columns = with_ratio(row, base, "wall s", lambda run: run.wall_s, 3)
        columns += failed_column(row)
        print_columns(result, row, console, "Load: its time", columns)
        return
    columns = with_ratio(row, base, "requests / s", lambda run: run.throughput_per_s, 0)
    for share in LATENCIES:
        figure = f"latency_{share}_ms"
        if has(row, figure):
            columns += with_ratio(row, base, f"{share} ms", named(figure), 3)
    others = sorted({name for run in row.runs for name in run.figures if "latency" in name})
    if not any(f"latency_{share}_ms" in others for share in LATENCIES):
        for name in others:
            label = name.removeprefix("latency_").removesuffix("_ms")
            columns += with_ratio(row, base, f"{label} ms", named(name), 3)
    print_columns(result, row, console, row.name, columns + failed_column(row))


def commands_of(result: Result) -> list[RowResult]:
    """The rows that are compared with each other, where there are several."""
    rows = [row for row in result.rows if row.group == "program"]
    return rows if len(rows) > 1 else []


def parameters_of(result: Result, row: RowResult) -> dict[str, str]:
    values = result.settings.get("parameters", {}).get(row.name, {})
    return {str(name): str(value) for name, value in values.items()}


def print_commands(result: Result, console: Console) -> None:
    """Commands against the first one, on each allocator."""
    rows = commands_of(result)
    if not rows:
        return
    names = result.allocator_names()
    title = f"{'CPU time' if rows[0].measure == 'cpu' else 'Time'} to that of {rows[0].name}"
    caption = "medians and their 95% bootstrap intervals, of the ratios within each round"
    table = new_table(title, ["command", *names], caption)
    for row in rows:
        ratios = [paired_ratios(row.costs(name), rows[0].costs(name)) for name in names]
        cells = [show(median_estimate(found), 3) if len(found) else NOTHING for found in ratios]
        if row is rows[0]:
            cells = ["1" if row.good_runs(name) else NOTHING for name in names]
        table.add_row(row.name, *cells)
    console.print(table)


def between_commands(result: Result) -> tuple[str, list[str]]:
    """Title and lines: the commands against the first one in words, on the base."""
    rows, base = commands_of(result), summary.base_of(result)
    lines: list[str] = []
    for row in rows[1:]:
        ratios = paired_ratios(row.costs(base), rows[0].costs(base))
        if len(ratios):
            said = describe_comparison(compare_costs(ratios), row.measure, rows[0].name)
            lines.append(f"{row.name}: {said} ({plural(len(ratios), 'run')})")
    return f"Commands on {base}", lines


def print_comparison(result: Result, console: Console) -> None:
    server = any(row.group == "server" for row in result.rows)
    for index, row in enumerate(result.rows):
        if index == 0 or not server:
            what = "server" if server else "command" if len(result.rows) == 1 else row.name
            say(console, f"{what}: {shlex.join(row.command)}")
        if index == 0 and "load" in result.settings:
            say(console, f"load: {shlex.join(result.settings['load'])}")
        if index == 0 or not server:
            print_process(result, row, console, server)
        else:
            print_requests(result, row, console)
    print_commands(result, console)
    print_problems(result, console)
    say_list(console, "Verdicts", verdicts(result))
    say_list(console, *between_commands(result))
