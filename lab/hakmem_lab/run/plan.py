"""The plan of `make results`: every published result, and which of them is complete already.

A part is complete for a commit, a machine, a version and a number of rounds. Each part has a folder
of its own in the work folder. `started.json` there says what the part was begun for, and
`done.json` what it was finished for, how long it took, and the checksum of each file it keeps.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import write_whole
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import changed_sources, git

STARTED, DONE = "started.json", "done.json"
COMPLETE, GOES_ON, TO_BE_MEASURED = "complete", "goes on", "to be measured"


@dataclass(frozen=True)
class Part:
    """One result. Its commands are bash; $OUT is the part's folder."""

    name: str
    minutes: float  # of a whole run, about
    run: tuple[str, ...]
    keep: dict[str, str]  # file of $OUT -> where it is published, with {version}
    build: tuple[str, ...] = ()  # targets of make that come first
    needs: tuple[str, ...] = ()  # variables that have to be set
    rounds: int | None = None  # instead of all others' rounds, but for a try
    goes_on: bool = False  # the commands take up what they find in $OUT


@dataclass(frozen=True)
class Plan:
    rounds: int
    parts: tuple[Part, ...]
    finish: tuple[str, ...]  # commands after all parts; $TO is where results were published


def as_strings(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise LabError(f"{where}: a list of texts is wanted")
    return tuple(value)


def part_of(file: Path, table: dict[str, Any]) -> Part:
    where = f"{file}: part {table.get('name', '?')}"
    unknown = table.keys() - Part.__dataclass_fields__.keys()
    lacking = {"name", "minutes", "run", "keep"} - table.keys()
    if unknown or lacking:
        what = f"unknown key {min(unknown)}" if unknown else f"no {min(lacking)}"
        raise LabError(f"{where}: {what}")
    lists = {
        key: as_strings(f"{where}: {key}", table.get(key, [])) for key in ("run", "build", "needs")
    }
    return Part(**{**table, **lists})


def read_plan(file: Path) -> Plan:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    parts = tuple(part_of(file, table) for table in content.get("part", []))
    names = [part.name for part in parts]
    if not parts or len(set(names)) < len(names):
        raise LabError(f"{file}: parts are wanted, each of another name")
    lacking = {"rounds", "finish"} - content.keys()
    if lacking:
        raise LabError(f"{file}: no {min(lacking)}")
    return Plan(int(content["rounds"]), parts, as_strings(f"{file}: finish", content["finish"]))


def choose_parts(plan: Plan, wanted: str | None) -> list[Part]:
    """In the plan's order. `wanted` is separated by spaces or commas."""
    names = re.split(r"[\s,]+", (wanted or "").strip())
    if names == [""]:
        return list(plan.parts)
    known = [part.name for part in plan.parts]
    for name in names:
        if name not in known:
            raise LabError(f"no part {name!r} of the results; there are: {', '.join(known)}")
    return [part for part in plan.parts if part.name in names]


# --- what is measured -----------------------------------------------------------------------------


def commit_of(root: Path) -> str:
    """The commit that is checked out. A LabError names the sources that differ from it."""
    commit = git(root, "rev-parse", "HEAD")
    if not commit:
        raise LabError(f"results are of a commit, and {root} has none")
    changed = changed_sources(root)
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise LabError(
            f"results are of one commit, but {changed[0]}{more} differs from {commit[:12]}:"
            " commit it or put it away (git stash -u)"
        )
    return commit


Identity = dict[str, Any]  # what a part is complete for


def checksum(path: Path) -> str:
    """Of a file, or of all files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.relative_to(path.parent).as_posix().encode() + b"\0")
            digest.update(file.read_bytes())
    return digest.hexdigest()


def read_mark(file: Path) -> dict[str, Any]:
    """Empty where there is none, or none that can be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


@dataclass
class Work:
    """A part, its folder, and what it has to be complete for."""

    part: Part
    folder: Path
    identity: Identity
    done: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.done = read_mark(self.folder / DONE)

    @property
    def is_complete(self) -> bool:
        if self.done.get("for") != self.identity:
            return False
        kept = self.done.get("kept", {})
        files = {name: self.folder / name for name in self.part.keep}
        return all(
            file.exists() and kept.get(name) == checksum(file) for name, file in files.items()
        )

    @property
    def was_stopped(self) -> bool:
        return self.part.goes_on and read_mark(self.folder / STARTED).get("for") == self.identity

    @property
    def state(self) -> str:
        if self.is_complete:
            return COMPLETE
        return GOES_ON if self.was_stopped else TO_BE_MEASURED

    def minutes(self, share: float) -> float:
        """Zero where it is complete. `share` is that of the plan's rounds."""
        if self.is_complete:
            return 0
        took = self.done.get("minutes")  # of another commit
        same = self.done.get("for", {}).get("rounds") == self.identity["rounds"]
        return float(took) if took and same else self.part.minutes * share

    def begin(self) -> None:
        """Empties the folder, unless the part goes on with what is there."""
        if not self.was_stopped and self.folder.exists():
            rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / DONE).unlink(missing_ok=True)
        write_whole(self.folder / STARTED, json.dumps({"for": self.identity}) + "\n")

    def finish(self, minutes: float) -> None:
        """A LabError where a file is lacking that the part is there to make."""
        for name in self.part.keep:
            if not (self.folder / name).exists():
                raise LabError(f"{self.part.name}: its commands made no {name}")
        kept = {name: checksum(self.folder / name) for name in self.part.keep}
        self.done = {"for": self.identity, "minutes": round(minutes, 2), "kept": kept}
        write_whole(self.folder / DONE, json.dumps(self.done, indent=1) + "\n")


def work_on(parts: Iterable[Part], folder: Path, identity: Identity) -> list[Work]:
    return [Work(part, folder / part.name, identity) for part in parts]


def plan_file(paths: Paths) -> Path:
    return paths.root / "bench/results.toml"
