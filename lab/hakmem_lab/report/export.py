"""A comparison for other programs: CSV, and a table in Markdown."""

import csv
import io
import shlex
from collections.abc import Callable

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import Estimate
from hakmem_lab.analysis.verdict import verdicts
from hakmem_lab.base.printable import with_printable_texts
from hakmem_lab.report.compare_tables import (
    Column,
    Figure,
    between_commands,
    estimate,
    memory_column,
    named,
    parameters_of,
    ratio,
    with_ratio,
)
from hakmem_lab.report.tables import figure_names, run_count
from hakmem_lab.run.results import Result, RowResult

# 0 of these was not measured: a kind of request has no time of its own.
WITH_RATIO: dict[str, Figure] = {
    "wall_s": lambda run: run.wall_s or None,
    "cpu_s": lambda run: run.cpu_s or None,
    "peak_rss_kib": lambda run: float(run.peak_rss_kb) or None,
    "throughput_per_s": lambda run: run.throughput_per_s,
}
COUNTS: dict[str, Figure] = {
    "minor_faults": lambda run: float(run.minor_faults),
    "major_faults": lambda run: float(run.major_faults),
    "voluntary_switches": lambda run: float(run.voluntary_switches),
    "involuntary_switches": lambda run: float(run.involuntary_switches),
}
LIMITS = ("", "_low", "_high")


def cells_of(found: Estimate | None) -> list[str]:
    """Median, and the ends of its interval; empty where there is none."""
    limits = (found.value, found.low, found.high) if found else (None, None, None)
    return ["" if limit is None else f"{limit:.9g}" for limit in limits]


def as_csv(result: Result) -> str:
    """A line for each command on each allocator: medians, their intervals, ratios to the base."""
    result = with_printable_texts(result)
    base = summary.base_of(result)
    parameters = list(dict.fromkeys(n for row in result.rows for n in parameters_of(result, row)))
    more = {name: named(name) for name in figure_names(result)}
    header = ["name", "command", *(f"parameter_{name}" for name in parameters)]
    header += ["allocator", "version", "base", "runs", "failure"]
    for figure in WITH_RATIO:
        header += [f"{figure}{end}" for end in LIMITS]
        header += [f"{figure}_ratio{end}" for end in LIMITS]
    header += [f"{figure}{end}" for figure in (*COUNTS, *more) for end in LIMITS]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*header, "system_calls"])
    for row in result.rows:
        values = parameters_of(result, row)
        for allocator in result.allocators:
            name = allocator.name
            cells = [row.name, shlex.join(row.command), *(values.get(n, "") for n in parameters)]
            failure = allocator.missing or row.failure(name) or ""
            cells += [name, allocator.version, base, run_count(row, name), failure]
            for measure in WITH_RATIO.values():
                cells += cells_of(estimate(row, name, measure))
                cells += cells_of(ratio(row, name, base, measure))
            for measure in (*COUNTS.values(), *more.values()):
                cells += cells_of(estimate(row, name, measure))
            calls = summary.system_calls(row, name)
            writer.writerow([*cells, "" if calls is None else str(calls)])
    return stream.getvalue()


def cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def columns_of(row: RowResult, base: str) -> list[Column]:
    candidates: list[tuple[Figure, Callable[[], list[Column]]]] = [
        (WITH_RATIO["wall_s"], lambda: with_ratio(row, base, "wall s", WITH_RATIO["wall_s"], 3)),
        (WITH_RATIO["cpu_s"], lambda: with_ratio(row, base, "CPU s", WITH_RATIO["cpu_s"], 3)),
        (
            WITH_RATIO["peak_rss_kib"],
            lambda: memory_column(row, base, "peak MiB", WITH_RATIO["peak_rss_kib"]),
        ),
        (
            WITH_RATIO["throughput_per_s"],
            lambda: with_ratio(row, base, "requests / s", WITH_RATIO["throughput_per_s"], 0),
        ),
    ]
    return [
        column
        for figure, columns in candidates
        if any(figure(run) is not None for run in row.runs)
        for column in columns()
    ]


def as_markdown(result: Result) -> str:
    """A table for each command, and the verdicts."""
    result = with_printable_texts(result)
    base = summary.base_of(result)
    lines: list[str] = []
    for row in result.rows:
        columns = columns_of(row, base)
        heads = ["allocator", *(heading for heading, _ in columns), "runs"]
        lines += [f"**{cell(row.name)}**: `{shlex.join(row.command).replace('`', chr(39))}`", ""]
        lines += [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
        for name in result.allocator_names():
            if row.good_runs(name):
                cells = [name, *(show(name) for _, show in columns), run_count(row, name)]
                lines.append(f"| {' | '.join(map(cell, cells))} |")
        lines.append("")
    lines += [f"Medians and their 95% bootstrap intervals; / {base}: of ratios within each round."]
    for title, said in (("Verdicts", verdicts(result)), between_commands(result)):
        if said:
            lines += ["", f"{title}:", "", *(f"- {cell(line)}" for line in said)]
    return "\n".join(lines) + "\n"
