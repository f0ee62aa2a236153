"""Where the bytes of a peak are: the tables of a report."""

from hakmem_lab.analysis.where import LABELS, compositions, moments
from hakmem_lab.report.page_model import Cell, PageRow, PageTable, number
from hakmem_lab.run.results import Result


def mebibytes(kib: float | None) -> Cell:
    return number(None if kib is None else kib / 1024, 2)


def where_tables(result: Result) -> list[PageTable]:
    """What the terminal has, with its exact figures to sort by."""
    found: list[PageTable] = []
    for row in result.rows:
        for moment, prefix in moments(row):
            ones = compositions(result, row, prefix)
            parts = [part for part in LABELS if any(part in one.parts for one in ones)]
            lines = [
                PageRow(LABELS[part], [mebibytes(one.parts.get(part)) for one in ones])
                for part in parts
            ]
            lines.append(PageRow("resident", [mebibytes(one.resident) for one in ones]))
            if ones:
                heads = ["part", *(one.allocator for one in ones)]
                caption = "MiB of resident memory, of the run whose look is the median."
                found.append(PageTable(f"{row.name}, {moment}", heads, lines, caption))
    return found
