"""The result file: JSON, its shape that of the classes here, every single run in it.

Tables are made from it, never from anything else: `hakmem-lab show FILE` prints what the run
printed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import zstandard
from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from hakmem_lab import __version__
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper, write_whole
from hakmem_lab.base.reading import read_json
from hakmem_lab.base.shape import (
    OPEN,
    Amount,
    Count,
    Flag,
    Name,
    Number,
    Positive,
    Record,
    ShapedAs,
    check,
)
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.measure import Run
from hakmem_lab.run.rows import Measure, Row

SCHEMA_VERSION = 1
Kind = Literal[
    "suite",
    "programs",
    "ab",
    "instructions",
    "compare",
    "tail",
    "steady",
    "replay",
    "hunt",
    "servers",
    "where",
    "tune",
]


class AskedSetting(TypedDict):
    """What a trace says of a row's peak, in bytes; `rounded` by allocator, with what it adds."""

    bytes: Amount
    blocks: Count
    touched: Amount
    rounded: dict[str, Amount]


@with_config(OPEN)
class Settings(TypedDict, total=False):
    """Of a result: what the lab reads again, among all that a command was told."""

    base: str
    peers: list[str]
    load: list[str]
    problems: list[str]
    quick: Flag
    build_change: Flag
    commit: str  # of the sources, with -dirty when they were changed since
    builds: dict[str, str]  # allocator -> start of its library's SHA-256
    taken_up: list[str]  # when a run that was stopped went on
    parameters: dict[str, dict[str, str]]  # row -> name of a parameter -> its value there
    asked: dict[str, AskedSetting]  # by row
    peak_live_kb: Amount
    phases: dict[str, str]  # row -> which phase of `tune` it is
    library_environment: list[str]  # variables that are the library's and no setting's
    dry: dict[str, list[Amount]]


class OldMachine(TypedDict):
    kernel: str
    cpu_model: str
    cpus: Number
    memory_mib: Number
    transparent_huge_pages: str
    load_average: Amount  # one minute, at the start


@with_config(OPEN)
class Machine(OldMachine, total=False):
    """What older results lack is below."""

    libc: str
    python: str
    id: str


@dataclass
class RowResult(Record):
    """A row and its runs."""

    name: Name
    group: str
    idea: str
    measure: Measure
    bar: Positive
    command: list[str]
    environment: dict[str, str]
    missing: str | None = None  # why it did not run
    runs: list[Run] = field(default_factory=list)
    # Calls by kind in one untimed run, by allocator.
    system_calls: dict[str, dict[str, Count]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> "RowResult":
        return cls(
            row.name,
            row.group,
            row.idea,
            row.measure,
            row.bar,
            list(row.command),
            row.environment,
            row.missing,
        )

    def good_runs(self, allocator: str) -> list[Run]:
        return [r for r in self.runs if r.allocator == allocator and r.cost(self.measure)]

    def failure(self, allocator: str) -> str | None:
        """What went wrong first under `allocator`, if anything did."""
        return next((r.failure for r in self.runs if r.allocator == allocator and r.failure), None)

    def costs(self, allocator: str) -> dict[int, float]:
        """Cost of each round that ended well: seconds, or nanoseconds an operation."""
        costs = {run.round: run.cost(self.measure) for run in self.good_runs(allocator)}
        return {round_: cost for round_, cost in costs.items() if cost is not None}


@dataclass
class Result(Record):
    """Everything a command measured."""

    kind: Kind
    command: list[str]
    settings: Annotated[dict[str, Any], ShapedAs(Settings)]
    machine: Annotated[dict[str, Any], ShapedAs(Machine)]
    allocators: list[Allocator]
    rows: list[RowResult] = field(default_factory=list)
    instructions: list[InstructionCount] = field(default_factory=list)
    interrupted: Flag = False
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    lab_version: str = __version__
    schema_version: Number = SCHEMA_VERSION

    def allocator_names(self) -> list[str]:
        """Those that could be run."""
        return [allocator.name for allocator in self.allocators if allocator.missing is None]


@cache
def adapter() -> TypeAdapter[Result]:
    return TypeAdapter(Result)


def schema() -> dict[str, Any]:
    """The shape of the file as JSON Schema."""
    return adapter().json_schema()


def write_result(result: Result, file: Path) -> None:
    """Compressed where the file's name ends in .zst."""
    text = as_text(result)
    write_whole(file, compressed(text) if file.suffix == ".zst" else text)


def compressed(text: str) -> bytes:
    """At a level that a file deserves which is written once and then stays in the repository."""
    return zstandard.ZstdCompressor(level=19, write_checksum=True).compress(text.encode())


def as_text(result: Result) -> str:
    return json.dumps(asdict(result), indent=1) + "\n"


class ResultKeeper:
    """Keeps a result, round by round; made before the first run (keep.py)."""

    def __init__(self, file: Path) -> None:
        self.keeper = Keeper(file)

    @property
    def file(self) -> Path:
        """Where it is."""
        return self.keeper.place

    @property
    def elsewhere(self) -> bool:
        return self.keeper.elsewhere is not None

    def partial(self, result: Result) -> None:
        self.keeper.save(as_text(result), last=False)

    def whole(self, result: Result) -> bool:
        """False: not where it was to be."""
        return self.keeper.save(as_text(result))


def read_result(file: Path) -> Result:
    """Reads a result file; a LabError says what is wrong with a bad one, and where."""
    content = read_json(file)
    if not isinstance(content, dict) or "schema_version" not in content:
        raise LabError(f"{file}: not a result of hakmem-lab: it has no schema_version")
    if content["schema_version"] != SCHEMA_VERSION:
        raise LabError(
            f"{file}: schema_version {content['schema_version']!r};"
            f" this hakmem-lab reads {SCHEMA_VERSION}"
        )
    result = check(adapter(), content, file)
    result.settings = content["settings"]  # in the order in which they were written
    names = {allocator.name for allocator in result.allocators}
    for index, row in enumerate(result.rows):
        for number, run in enumerate(row.runs):
            if run.allocator not in names:
                raise LabError(
                    f"{file}: rows[{index}].runs[{number}]: {run.allocator!r} is not among"
                    f" the file's allocators"
                )
    return result


@contextmanager
def understood(where: Path | str) -> Iterator[None]:
    """Around what makes figures of a file that somebody may have changed: a field that its kind of
    result has and this one lacks is an error of one line, too."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise LabError(f"{where}: not as hakmem-lab writes it: {what}") from error
