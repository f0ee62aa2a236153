"""Takes up a suite's run that was stopped: on the same sources, builds, rows and machine only."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.numbers import NOTHING
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import Allocator, describe_commit, fingerprint
from hakmem_lab.run.results import Result, RowResult, read_result
from hakmem_lab.run.rows import Row

# It may differ: how busy the machine is, and what no measured program is run by.
OF_THE_MOMENT = frozenset({"load_average", "python"})
# Of `settings`: times at which the run was taken up again.
TAKEN_UP = "taken_up"
LONGEST = 70  # characters of a value that a reader is shown

Difference = tuple[str, Any, Any]  # what it is, then and now


def identity(paths: Paths, allocators: Sequence[Allocator]) -> dict[str, Any]:
    """What tells one run from another: the commit, with -dirty where the sources were changed
    since, and the start of each library's SHA-256."""
    built = {a.name: fingerprint(Path(a.library)) for a in allocators if a.library}
    return {"commit": describe_commit(paths.root), "builds": built}


def of_mappings(what: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    for key in dict.fromkeys([*then, *now]):
        if then.get(key) != now.get(key):
            yield f"{what}{key}", then.get(key), now.get(key)


def of_names(what: str, then: Sequence[str], now: Sequence[str]) -> Iterator[Difference]:
    for name in dict.fromkeys([*then, *now]):
        if name not in now:
            yield f"{what} {name}", "there", "not there"
        elif name not in then:
            yield f"{what} {name}", "not there", "there"
    if sorted(then) == sorted(now) and list(then) != list(now):
        yield f"order of {what}s", ", ".join(then), ", ".join(now)


def facts_of_allocator(allocator: Allocator) -> dict[str, Any]:
    return {
        "version": allocator.version,
        "source": allocator.source,
        "library": allocator.library,
        "variables": allocator.environment,
        "missing": allocator.missing,
    }


def facts_of_row(row: RowResult) -> dict[str, Any]:
    return {
        "command": shlex.join(row.command),
        "variables": row.environment,
        "measure": row.measure,
        "group": row.group,
        "bar": row.bar,
        "missing": row.missing,
    }


def differences(then: Result, now: Result, rows: Sequence[Row]) -> Iterator[Difference]:
    """What the stopped run was measured with, and is not any more; the most telling ones first."""
    settings = {key: value for key, value in then.settings.items() if key != TAKEN_UP}
    yield from of_mappings("kind", {"": then.kind}, {"": now.kind})
    commits = ({"commit": of.get("commit")} for of in (settings, now.settings))
    yield from of_mappings("", *commits)
    machines = (
        {key: value for key, value in result.machine.items() if key not in OF_THE_MOMENT}
        for result in (then, now)
    )
    yield from of_mappings("machine: ", *machines)
    names = [[a.name for a in result.allocators] for result in (then, now)]
    yield from of_names("allocator", *names)
    known = {a.name: a for a in now.allocators}
    for allocator in then.allocators:
        if allocator.name in known:
            facts = facts_of_allocator(allocator), facts_of_allocator(known[allocator.name])
            yield from of_mappings(f"{allocator.name}'s ", *facts)
    builds = (result.settings.get("builds") or {} for result in (then, now))
    yield from of_mappings("build of ", *builds)
    yield from of_names("row", [row.name for row in then.rows], [row.name for row in rows])
    new_rows = {row.name: RowResult.of(row) for row in rows}
    for row in then.rows:
        if row.name in new_rows:
            facts = facts_of_row(row), facts_of_row(new_rows[row.name])
            yield from of_mappings(f"row {row.name}: ", *facts)
    rest = [key for key in settings | now.settings if key not in ("commit", "builds")]
    yield from of_mappings(
        "", *({key: of.get(key) for key in rest} for of in (settings, now.settings))
    )


def short(value: Any) -> str:
    text = NOTHING if value is None or value == "" else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def without_halves(row: RowResult, able: Sequence[str]) -> None:
    """Takes out the runs of a round in which not every allocator has run yet: they would be paired
    with runs of another hour. Who has failed before sits out."""
    failed = {name: min(r.round for r in row.runs if r.allocator == name and r.failure)
              for name in able if row.failure(name)}  # fmt: skip
    rounds: dict[int, set[str]] = {}
    for run in row.runs:
        rounds.setdefault(run.round, set()).add(run.allocator)
    whole = {
        round_
        for round_, ran in rounds.items()
        if all(name in ran or failed.get(name, round_) < round_ for name in able)
    }
    row.runs = [run for run in row.runs if run.round in whole]


def take_up(file: Path, now: Result, rows: Sequence[Row], say: Callable[[str], None]) -> Result:
    """The result to go on with: that of `file` as far as its rounds are whole, or `now` where there
    is no such file. A LabError names what differs from the run that was stopped."""
    if not file.exists():
        say(f"nothing to take up: {file} is not there; a new run")
        return now
    then = read_result(file)
    found = list(differences(then, now, rows))
    if found:
        what, before, after = found[0]
        more = f", and {len(found) - 1} more differences" if len(found) > 1 else ""
        raise LabError(
            f"{file}: cannot be taken up: {what}: {short(before)} then, {short(after)} now{more};"
            " a run is of one commit, machine, suite and set of peers"
        )
    able = now.allocator_names()
    for row in then.rows:
        without_halves(row, able)
    kept = sum(len(row.runs) for row in then.rows)
    say(f"taking up {file} of {then.created}: {kept} runs are kept")
    then.settings[TAKEN_UP] = [*then.settings.get(TAKEN_UP, []), now.created]
    then.interrupted = False
    return then
