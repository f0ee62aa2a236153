"""What stands in a report's tables: cells with the text to read and the value to sort by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from hakmem_lab.analysis.statistics import Estimate
from hakmem_lab.base.numbers import NOTHING, show_number
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.results import Result


@dataclass(frozen=True)
class Cell:
    text: str
    note: str = ""  # small, beside the figure: its interval, its count of runs
    sort: float | str | None = None  # None: sorted behind everything else
    best: bool = False  # the lowest of its row

    @property
    def sort_text(self) -> str:
        return self.sort if isinstance(self.sort, str) else f"{self.sort:.7g}"


@dataclass(frozen=True)
class Detail:
    """What opens below a row: its figures on each allocator, its plots, its single runs."""

    idea: str
    facts: list[tuple[str, str]]  # name, text: command, environment, bar
    table: "PageTable"
    system_calls: list[tuple[str, str]]  # allocator, calls by kind
    plots: list[str]  # figures that are drawn: cost, memory


@dataclass(frozen=True)
class PageRow:
    head: str
    cells: list[Cell]
    detail: Detail | None = None
    number: int = 0  # of the result's row


@dataclass(frozen=True)
class PageTable:
    """Column 0 is the rows' head. `words`: columns of text, not of figures."""

    title: str
    columns: list[str]
    rows: list[PageRow]
    caption: str = ""
    words: frozenset[int] = field(default_factory=lambda: frozenset({0}))


def word(text: str | None) -> Cell:
    return Cell(text or NOTHING, sort=text or None)


def number(value: float | None, digits: int = 0, note: str = "") -> Cell:
    return Cell(show_number(value, digits), note, value)


def interval(estimate: Estimate, digits: int) -> str:
    if estimate.low is None or estimate.high is None:
        return "no interval"
    low, high = (show_number(limit, digits) for limit in (estimate.low, estimate.high))
    return f"{low} – {high}"


def figure(
    estimate: Estimate | None, digits: int = 2, usual: int | None = None, best: bool = False
) -> Cell:
    """An estimate with its interval; its count of runs where that is not the `usual` one."""
    if estimate is None:
        return Cell(NOTHING)
    note = interval(estimate, digits)
    if usual is not None and estimate.count != usual:
        note += f", {estimate.count} run{'' if estimate.count == 1 else 's'}"
    return Cell(show_number(estimate.value, digits), note, estimate.value, best)


def stands_out(estimate: Estimate, all_of_row: list[Estimate]) -> bool:
    """Whether its interval ends below all others': a lowest that is noise is no winner."""
    others = [other for other in all_of_row if other is not estimate]
    return estimate.high is not None and all(
        other.low is not None and estimate.high < other.low for other in others
    )


def with_note(cell: Cell, note: str) -> Cell:
    return replace(cell, note=f"{cell.note}; {note}" if cell.note else note) if note else cell


def digits_for(value: float) -> int:
    """Digits behind the point that give three figures."""
    return 0 if value >= 100 or value == 0 else 1 if value >= 10 else 2 if value >= 0.1 else 4


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The value with `change` done to every text in it; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(change_texts(item, change) for item in value)
    if isinstance(value, dict):
        return {key: change_texts(item, change) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: change_texts(getattr(value, f.name), change) for f in fields(value)}
        return replace(value, **changed)
    return value


BUILT = ("/build/bench/", "/build/standard/", "/build/peers/", "/build/lab/")


def repositories_of(texts: Sequence[str]) -> list[str]:
    """The directories under which paths of a repository's build lie."""
    return sorted({text[: text.index(part)] for text in texts for part in BUILT if part in text})


def shorten_paths(result: Result, left_out: Sequence[Path]) -> Result:
    """The result with paths from the repository on instead of from the machine's root: where a
    user keeps things is nobody else's business. `left_out` are further directories."""
    texts = [allocator.library for allocator in result.allocators]
    texts += [row.command[0] for row in result.rows if row.command]
    texts = [text for text in texts if text.startswith("/")]
    starts = [f"{start}/" for start in [*map(str, left_out), *repositories_of(texts)] if start]
    starts.sort(key=len, reverse=True)

    def shorten(text: str) -> str:
        for start in starts:
            text = text.replace(start, "")
        return text

    shortened = change_texts(result, shorten)
    assert isinstance(shortened, Result)
    return shortened


def says_where_from(allocator: Allocator) -> str:
    return f"missing: {allocator.missing}" if allocator.missing else allocator.source
