"""The result file: JSON, its shape stated in result.schema.json, every single run in it.

Tables are made from it, never from anything else: `hakmem-lab show FILE` prints what the run
printed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema

from hakmem_lab import __version__
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper, write_whole
from hakmem_lab.base.reading import locate, read_json
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.measure import Run
from hakmem_lab.run.rows import Row

SCHEMA_VERSION = 1


@dataclass
class RowResult:
    """A row and its runs."""

    name: str
    group: str
    idea: str
    measure: str
    bar: float
    command: list[str]
    environment: dict[str, str]
    missing: str | None = None  # why it did not run
    runs: list[Run] = field(default_factory=list)
    # Calls by kind in one untimed run, by allocator.
    system_calls: dict[str, dict[str, int]] = field(default_factory=dict)

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
class Result:
    """Everything a command measured. `kind`: one of those in the schema."""

    kind: str
    command: list[str]
    settings: dict[str, Any]
    machine: dict[str, Any]
    allocators: list[Allocator]
    rows: list[RowResult] = field(default_factory=list)
    instructions: list[InstructionCount] = field(default_factory=list)
    interrupted: bool = False
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    lab_version: str = __version__
    schema_version: int = SCHEMA_VERSION

    def allocator_names(self) -> list[str]:
        """Those that could be run."""
        return [allocator.name for allocator in self.allocators if allocator.missing is None]


@cache
def schema() -> dict[str, Any]:
    text = resources.files("hakmem_lab.run").joinpath("result.schema.json").read_text("utf-8")
    loaded = json.loads(text)
    assert isinstance(loaded, dict)
    return loaded


def write_result(result: Result, file: Path) -> None:
    write_whole(file, as_text(result))


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
    validator = jsonschema.Draft202012Validator(schema())
    fault = jsonschema.exceptions.best_match(validator.iter_errors(content))
    if fault is not None:
        message = fault.message if len(fault.message) < 200 else fault.message[:200] + "..."
        raise LabError(f"{file}: {locate(tuple(fault.absolute_path))}: {message}")
    names = {allocator["name"] for allocator in content["allocators"]}
    for index, row in enumerate(content["rows"]):
        for number, run in enumerate(row["runs"]):
            if run["allocator"] not in names:
                raise LabError(
                    f"{file}: rows[{index}].runs[{number}]: {run['allocator']!r} is not among"
                    f" the file's allocators"
                )
    fields = dict(content)
    fields["allocators"] = [Allocator(**entry) for entry in content["allocators"]]
    fields["instructions"] = [InstructionCount(**entry) for entry in content["instructions"]]
    fields["rows"] = [
        RowResult(**{**entry, "runs": [Run(**run) for run in entry["runs"]]})
        for entry in content["rows"]
    ]
    return Result(**fields)


@contextmanager
def understood(where: Path | str) -> Iterator[None]:
    """Around what makes figures of a file that somebody may have changed: a field that its kind of
    result has and this one lacks is an error of one line, too."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise LabError(f"{where}: not as hakmem-lab writes it: {what}") from error
