"""Where the bytes of a peak are: a table for each program, a part a line, an allocator a column."""

import csv
import io
from collections.abc import Sequence

from rich.console import Console

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.where import (
    LABELS,
    Composition,
    asked_of,
    compositions,
    missed,
    moments,
    where_words,
)
from hakmem_lab.base.numbers import NOTHING
from hakmem_lab.base.printable import with_printable_texts
from hakmem_lab.report.export import cell
from hakmem_lab.report.tables import new_table, print_problems, say
from hakmem_lab.run.results import Result, RowResult

CAPTION = "MiB of resident memory; of the run whose look is the median"
LEAST = 0.05 * 1024  # KiB; smaller parts on every allocator are summed up
OTHERS = "parts below 0.05 MiB"


def mib(kib: float | None) -> str:
    return NOTHING if kib is None else f"{kib / 1024:.1f}"


def asked_line(result: Result, row: RowResult) -> str | None:
    asked = asked_of(result, row)
    if asked is None:
        return None
    return (
        f"the trace: {asked['blocks']} blocks, {mib(asked['bytes'] / 1024)} MiB asked for and"
        f" {mib(asked['touched'] / 1024)} touched at its peak"
    )


def lines_of(row: RowResult, found: Sequence[Composition], peaks: bool) -> list[list[str]]:
    """Label and cells of each line."""
    parts = [part for part in LABELS if any(one.parts.get(part, 0) >= LEAST for one in found)]
    lines = [[LABELS[part], *(mib(one.parts.get(part)) for one in found)] for part in parts]
    small = [sum(kib for part, kib in one.parts.items() if part not in parts) for one in found]
    if any(kib >= LEAST for kib in small):
        lines.append([OTHERS, *map(mib, small)])
    lines.append(["resident when looked at", *(mib(one.resident) for one in found)])
    if peaks:
        kernel = [summary.peak_memory(row, one.allocator) for one in found]
        lines.append(["the kernel's peak", *map(mib, kernel)])
    return lines


def with_tables(result: Result) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, heads and lines of each table."""
    tables = []
    for row in result.rows:
        for moment, prefix in moments(row):
            found = compositions(result, row, prefix)
            if found:
                heads = [moment, *(one.allocator for one in found)]
                # Of a server no single process' peak is that of the sum.
                of_server = any("requests" in run.figures for run in row.runs)
                lines = lines_of(row, found, not prefix and not of_server)
                tables.append((f"{row.name}, {moment}", heads, lines))
    return tables


def print_where(result: Result, console: Console) -> None:
    for title, heads, lines in with_tables(result):
        table = new_table(title, heads, CAPTION)
        for cells in lines:
            table.add_row(*cells)
        console.print(table)
    for row in result.rows:
        told = asked_line(result, row)
        if told is not None:
            say(console, f"{row.name}: {told}")
    for line in [*where_words(result), *missed(result)]:
        say(console, line)
    print_problems(result, console)


def as_markdown(result: Result) -> str:
    """The tables and sentences, for a document."""
    result = with_printable_texts(result)
    text: list[str] = []
    for title, heads, lines in with_tables(result):
        text += [f"**{cell(title)}**, MiB", "", f"| {' | '.join(map(cell, heads))} |"]
        text.append(f"|---|{'---:|' * (len(heads) - 1)}")
        text += [f"| {' | '.join(map(cell, line))} |" for line in lines]
        text.append("")
    for row in result.rows:
        line = asked_line(result, row)
        text += [f"- {cell(row.name)}: {line}"] if line else []
    text += [f"- {cell(line)}" for line in [*where_words(result), *missed(result)]]
    return "\n".join(text) + "\n"


def as_csv(result: Result) -> str:
    """A line for each part of each row on each allocator, and one for their sum (resident_kb)."""
    result = with_printable_texts(result)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["name", "moment", "allocator", "part", "kib"])
    for row in result.rows:
        for moment, prefix in moments(row):
            for one in compositions(result, row, prefix):
                where = [row.name, moment, one.allocator]
                for part, kib in one.parts.items():
                    writer.writerow([*where, part.removesuffix("_kb"), f"{kib:.1f}"])
                writer.writerow([*where, "resident", f"{one.resident:.1f}"])
    return stream.getvalue()
