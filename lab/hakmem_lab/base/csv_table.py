"""Reads CSV of numbers and says, by line and column, what is wrong with it."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.numbers import Floats
from hakmem_lab.base.printable import printable_lines
from hakmem_lab.base.reading import read_bytes

STDIN = "-"


@dataclass
class Table:
    """Columns of a file by name; a column is of numbers or of words."""

    where: str  # the file's name
    header: list[str]
    lines: list[int] = field(default_factory=list)  # where each row stands in the file
    rows: list[list[str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file's name without directory and ending."""
        return Path(self.where).stem

    def position(self, column: str) -> int:
        if column not in self.header:
            raise LabError(
                f"{self.where}:1: no column {column!r}; there are: {', '.join(self.header)}"
            )
        return self.header.index(column)

    def fail(self, row: int, column: str, problem: str) -> LabError:
        number = self.position(column) + 1
        return LabError(f"{self.where}:{self.lines[row]}: column {number} ({column}): {problem}")

    def words(self, column: str) -> list[str]:
        at = self.position(column)
        return [row[at] for row in self.rows]

    def numbers(self, column: str, low: float | None = 0.0) -> Floats:
        """The column's numbers, each finite and at least `low`."""
        at = self.position(column)
        values = np.empty(len(self.rows))
        for index, row in enumerate(self.rows):
            try:
                # Python would take 1_000 too.
                values[index] = float(row[at] if "_" not in row[at] else "_")
            except ValueError:
                raise self.fail(index, column, f"not a number: {row[at]!r}") from None
            if not math.isfinite(values[index]):
                raise self.fail(index, column, f"not a finite number: {row[at]!r}")
            if low is not None and values[index] < low:
                raise self.fail(index, column, f"{row[at]} is below {low:g}")
        return values

    def rising(self, column: str) -> Floats:
        """The column's numbers, each above the one before."""
        values = self.numbers(column)
        for index in range(1, len(values)):
            if values[index] <= values[index - 1]:
                at = self.position(column)
                here, before = self.rows[index][at], self.rows[index - 1][at]
                raise self.fail(index, column, f"{here} after {before}: has to rise")
        return values

    def counted(self, column: str) -> None:
        """The column holds the numbers 1, 2, 3 and so on: no row is missing."""
        values = self.numbers(column)
        for index, value in enumerate(values):
            if value != index + 1:
                raise self.fail(index, column, f"{value:g} where {index + 1} is wanted")

    def grouped(self, column: str) -> dict[str, "Table"]:
        """A table for each word of the column, in the order in which they come."""
        groups: dict[str, Table] = {}
        for index, word in enumerate(self.words(column)):
            if not word:
                raise self.fail(index, column, "empty")
            group = groups.setdefault(word, Table(self.where, self.header))
            group.lines.append(self.lines[index])
            group.rows.append(self.rows[index])
        return groups


def read_text(source: str | Path) -> str:
    try:
        if str(source) == STDIN:
            return sys.stdin.buffer.read().decode()
        return read_bytes(source).decode()
    except OSError as error:
        raise LabError(f"{source}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise LabError(f"{name_source(source)}:{line}: not text") from None


def split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def parse_table(where: str, text: str, header: list[str] | None = None) -> Table:
    """The table in `text`; its first line is the header unless one is given."""
    if not text.strip():
        raise LabError(f"{where}: empty")
    lines = text.split("\n")
    # Half a number is a number too: the line that a writer was at may look whole.
    if lines.pop():
        raise LabError(f"{where}:{len(lines) + 1}: cut off: no newline at the end")
    first = 1 if header is None else 0
    table = Table(where, split(lines[0]) if header is None else header)
    for column in table.header:
        if not column:
            raise LabError(f"{where}:1: not a header: a column without a name")
        if table.header.count(column) > 1:
            raise LabError(f"{where}:1: not a header: two columns are called {column!r}")
    for number, line in enumerate(lines[first:], start=first + 1):
        row = split(line)
        if len(row) != len(table.header):
            raise LabError(f"{where}:{number}: {len(row)} columns instead of {len(table.header)}")
        table.lines.append(number)
        table.rows.append(row)
    if not table.rows:
        raise LabError(f"{where}: nothing but a header")
    return table


def name_source(source: str | Path) -> str:
    return "standard input" if str(source) == STDIN else str(source)


def read_table(source: str | Path) -> Table:
    """The table in a file, or of standard input for "-"."""
    return parse_table(name_source(source), read_text(source))


@contextmanager
def reported(program: str) -> Iterator[None]:
    """Ends the program with exit code 2 and one line for what a user can put right."""
    try:
        yield
    except LabError as error:
        print(f"{program}: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(2)


def parse_numbers(
    option: str, text: str, accepted: Callable[[float], bool], wanted: str
) -> list[float]:
    """The numbers of an option's comma-separated list."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(accepted(value) for value in values):
        raise LabError(f"{option} {text}: wanted are {wanted}")
    return values


def format_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table whose columns line up; the first row is its head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w)
                 for i, (cell, w) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        return f"| {' | '.join(cells)} |"

    rule = [("-" * (w - 1)) + ("-" if i == 0 else ":") for i, w in enumerate(widths)]
    return [line(rows[0]), f"|{'|'.join(f' {r} ' for r in rule)}|", *map(line, rows[1:])]
