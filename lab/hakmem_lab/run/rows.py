"""A row of a table: one command, run under every allocator. Rows come from bench/suite.toml."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import TypeAdapter

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.base.reading import read_bytes
from hakmem_lab.base.shape import Entry, Name, Number, Positive, check

Measure = Literal["throughput", "cpu", "wall"]
Group = Literal["single", "threads", "large", "touch", "many-threads", "crowds"]
GROUPS = get_args(Group)
# Rows of this group have one busy thread: it stays on one CPU, instead of being moved about.
ONE_CPU_GROUP = "single"

# How a command says its throughput, the last such line counts; and what its number has to be
# multiplied with to give operations a second.
THROUGHPUT = r"^Throughput = (\d+) ops/s$"


@dataclass(frozen=True)
class Row:
    """What to run, and which of the figures is the row's cost."""

    name: str
    command: tuple[str, ...]
    measure: Measure
    group: str
    idea: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    quick: tuple[str, ...] | None = None  # command of a short run
    stdin: Path | None = None
    pattern: str = THROUGHPUT
    scale: float = 1.0
    bar: float = 1.0  # cost against the best peer's that is asked for
    cpus: int | None = None  # how many CPUs it gets; None: as its group says
    work: Path | None = None  # made anew for each run, and the command's working directory
    checksum: bool = False  # of the output, and of the files in `work`
    # Of a user's own program: it gets the environment that the lab was started with, its memory
    # settings left out, and runs here (None: where the lab was started), also with other ends.
    keeps_environment: bool = False
    directory: Path | None = None
    accepted_status: tuple[int, ...] = (0,)
    prepare: str | None = None  # for a shell, before each run
    cleanup: str | None = None  # for a shell, after the last run
    missing: str | None = None  # why it cannot run

    def shortened(self) -> "Row":
        """The row with the arguments of its short run; one without is not run."""
        if self.quick is None:
            return replace(self, missing=self.missing or "has no short run")
        return replace(self, command=self.quick)

    def pinned_to(self, cpus: Sequence[int]) -> list[int]:
        """Those of `cpus` that the row runs on: the last ones, as interrupts prefer the first."""
        count = self.cpus or (1 if self.group == ONE_CPU_GROUP else len(cpus))
        return list(cpus[-count:])


class SuiteRow(Entry):
    """A table [[row]] of a suite file."""

    name: Name
    program: Name
    measure: Measure
    group: Group
    arguments: list[str] = []
    quick: list[str] | None = None
    idea: str = ""
    environment: dict[str, str] = {}
    cpus: Number | None = None
    bar: Positive = 1.0


EntryOf = TypeVar("EntryOf", bound=Entry)


def read_toml(path: Path, table: str, shape: type[EntryOf]) -> list[EntryOf]:
    """The tables [[`table`]] of a TOML file, each checked to be of `shape`."""
    try:
        content = tomllib.loads(read_bytes(path).decode())
    except RecursionError:
        raise LabError(f"{path}: not TOML: lists nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: not TOML: {error}") from None
    entries = content.get(table)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise LabError(f"{path}: no [[{table}]] in it")
    return [
        check(TypeAdapter(shape), entry, place_of(path, table, entry.get("name")))
        for entry in entries
    ]


def place_of(path: Path, table: str, name: Any) -> str:
    return f"{path}: {table} {'(without name)' if name is None else repr(name)}"


def make_row(paths: Paths, entry: SuiteRow) -> Row:
    program = paths.bench / entry.program
    return Row(
        name=entry.name,
        command=(str(program), *entry.arguments),
        measure=entry.measure,
        group=entry.group,
        idea=entry.idea,
        environment=entry.environment,
        quick=None if entry.quick is None else (str(program), *entry.quick),
        bar=entry.bar,
        cpus=entry.cpus,
        missing=None if program.is_file() else f"{paths.shown(program)} is not built",
    )


def read_suite(paths: Paths, file: Path) -> list[Row]:
    """The rows of a suite file, checked; rows whose program is not built say so."""
    rows = [make_row(paths, entry) for entry in read_toml(file, "row", SuiteRow)]
    refuse_repeated(rows, str(file))
    return rows


def refuse_repeated(rows: Sequence[Row], where: str) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.name in seen:
            raise LabError(f"{where}: two rows are called {row.name!r}")
        seen.add(row.name)


def select_rows(rows: Sequence[Row], names: str | None, groups: str | None) -> list[Row]:
    """Rows by name and by group (comma-separated; None: all); an unknown one is an error."""
    chosen = list(rows)
    if groups is not None:
        wanted = split_list(groups)
        known = {row.group for row in rows}
        refuse_unknown("--groups", wanted, sorted(known))
        chosen = [row for row in chosen if row.group in wanted]
    if names is not None:
        wanted = split_list(names)
        refuse_unknown("--rows", wanted, [row.name for row in rows])
        chosen = [row for row in chosen if row.name in wanted]
    if not chosen:
        raise LabError("no row is left to run")
    return chosen


def split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def refuse_unknown(option: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    for name in wanted:
        if name not in known:
            raise LabError(f"{option}: {name!r} is unknown; there are: {', '.join(known)}")
