"""A row of a table: one command, run under every allocator. Rows come from bench/suite.toml."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.base.reading import read_bytes

Measure = Literal["throughput", "cpu", "wall"]
GROUPS = ("single", "threads", "large", "touch", "many-threads")
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


def read_toml(path: Path, table: str) -> list[dict[str, Any]]:
    """The tables [[`table`]] of a TOML file."""
    try:
        content = tomllib.loads(read_bytes(path).decode())
    except RecursionError:
        raise LabError(f"{path}: not TOML: lists nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: not TOML: {error}") from None
    entries = content.get(table)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise LabError(f"{path}: no [[{table}]] in it")
    return entries


class Reader:
    """Takes the values of one TOML table and says what is wrong with them."""

    def __init__(self, path: Path, table: str, entry: dict[str, Any]) -> None:
        self.entry = dict(entry)
        self.where = f"{path}: {table} {entry.get('name', '(without name)')!r}"

    def fail(self, problem: str) -> LabError:
        return LabError(f"{self.where}: {problem}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.entry.pop(key, default)
        if not isinstance(value, str) or (default is None and not value):
            raise self.fail(f"{key}: a string is wanted, not {value!r}")
        return value

    def one_of(self, key: str, accepted: Sequence[str], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in accepted:
            raise self.fail(f"{key} = {value!r}; accepted: {', '.join(accepted)}")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings; None when the key is not there."""
        value = self.entry.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(f"{key}: a list of strings is wanted, not {value!r}")
        return tuple(value)

    def environment(self) -> dict[str, str]:
        value = self.entry.pop("environment", {})
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise self.fail('environment: a table of strings is wanted, as { NAME = "value" }')
        return value

    def number(self, key: str, default: float | None) -> float | None:
        value = self.entry.pop(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self.fail(f"{key}: a number above 0 is wanted, not {value!r}")
        return float(value)

    def finish(self) -> None:
        if self.entry:
            raise self.fail(f"unknown: {', '.join(sorted(self.entry))}")


def read_row(paths: Paths, file: Path, entry: dict[str, Any]) -> Row:
    reader = Reader(file, "row", entry)
    name = reader.text("name")
    program = paths.bench / reader.text("program")
    arguments = reader.texts("arguments") or ()
    quick = reader.texts("quick")
    cpus = reader.number("cpus", None)
    bar = reader.number("bar", 1.0)
    row = Row(
        name=name,
        command=(str(program), *arguments),
        measure=reader.one_of("measure", get_args(Measure)),  # type: ignore[arg-type]
        group=reader.one_of("group", GROUPS),
        idea=reader.text("idea", ""),
        environment=reader.environment(),
        quick=None if quick is None else (str(program), *quick),
        bar=bar or 1.0,
        cpus=None if cpus is None else int(cpus),
        missing=None if program.is_file() else f"{paths.shown(program)} is not built",
    )
    reader.finish()
    return row


def read_suite(paths: Paths, file: Path) -> list[Row]:
    """The rows of a suite file, checked; rows whose program is not built say so."""
    rows = [read_row(paths, file, entry) for entry in read_toml(file, "row")]
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
