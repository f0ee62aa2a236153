"""Servers on every allocator: what the goal says first, then a table for each server."""

from rich.console import Console

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.servers import IDLE, server_verdicts
from hakmem_lab.base.printable import with_printable_texts
from hakmem_lab.report.compare_tables import (
    Column,
    Figure,
    count_column,
    estimate,
    has,
    mebibytes,
    named,
    print_columns,
    with_ratio,
)
from hakmem_lab.report.export import cell
from hakmem_lab.report.tables import print_problems, run_count, say, show
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.server import FAILED

SHARES = ("p50", "p99", "p99.9")


def plain(row: RowResult, heading: str, figure: Figure, digits: int) -> Column:
    return heading, lambda name: show(estimate(row, name, figure), digits)


def server_columns(result: Result, row: RowResult) -> list[Column]:
    base = summary.base_of(result)
    columns = with_ratio(row, base, "requests / s", lambda run: run.throughput_per_s, 0)
    columns += [
        plain(row, f"{share} ms", named(f"latency_{share}_ms"), 3)
        for share in SHARES
        if has(row, f"latency_{share}_ms")
    ]
    columns.append(plain(row, "CPU µs / request", named("cpu_us_per_request"), 1))
    columns += [
        plain(row, "peak MiB", mebibytes(named("peak_load_kb")), 1),
        plain(row, "after load MiB", mebibytes(named("rss_after_load_kb")), 1),
    ]
    columns += with_ratio(row, base, "idle MiB", mebibytes(named(IDLE)), 1)
    if any(run.figures.get(FAILED) for run in row.runs):
        columns.append(count_column(row, "failed", named(FAILED)))
    return columns


def title_of(row: RowResult) -> str:
    return f"{row.name}: {row.idea}" if row.idea else row.name


def print_servers(result: Result, console: Console) -> None:
    for line in server_verdicts(result):
        say(console, line)
    for row in result.rows:
        print_columns(result, row, console, title_of(row), server_columns(result, row))
    print_problems(result, console)


def as_markdown(result: Result) -> str:
    """The same for a document."""
    result = with_printable_texts(result)
    lines: list[str] = []
    for line in server_verdicts(result):
        lines.append(f"  - {line.strip()}" if line.startswith(" ") else f"- {line}")
    for row in result.rows:
        if row.missing is not None:
            lines += ["", f"**{cell(row.name)}** did not run: {cell(row.missing)}"]
            continue
        columns = server_columns(result, row)
        heads = ["allocator", *(heading for heading, _ in columns), "runs"]
        lines += ["", f"**{cell(row.name)}**: {cell(row.idea)}", ""]
        lines += [f"| {' | '.join(map(cell, heads))} |", f"|---|{'---:|' * (len(heads) - 1)}"]
        for name in result.allocator_names():
            failure = row.failure(name)
            if row.good_runs(name):
                cells = [name, *(of(name) for _, of in columns), run_count(row, name)]
                lines.append(f"| {' | '.join(map(cell, cells))} |")
            elif failure is not None:
                lines.append(f"| {cell(name)} | failed: {cell(failure)} |")
    base = summary.base_of(result)
    lines += ["", f"Medians and their 95% bootstrap intervals; / {base}: of ratios in each round."]
    return "\n".join(lines) + "\n"
