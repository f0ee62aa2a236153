"""Real programs, from bench/programs.toml. Their inputs are made once; then they are rows."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.base.shape import Entry, Name
from hakmem_lab.run.measure import STDERR_LINES, clean_environment
from hakmem_lab.run.rows import Row, place_of, read_toml, refuse_repeated

# Not the caller's PATH: there, a python3 may be a wrapper script, and the shell would be measured.
SEARCH = "/usr/local/bin:/usr/bin:/bin"
PREPARE_TIMEOUT = 600  # seconds, of one command


@dataclass(frozen=True)
class Program:
    """A row, and what has to be run before its first run."""

    row: Row
    prepare: tuple[tuple[str, ...], ...]


Words = Annotated[list[str], Field(min_length=1)]


class ProgramEntry(Entry):
    """A table [[program]] of a file of programs."""

    name: Name
    kind: Name
    command: Words
    needs: list[str] = []
    prepare: list[Words] = []
    environment: dict[str, str] = {}


def fill(where: str, words: Sequence[str], inputs: Path, work: Path) -> tuple[str, ...]:
    """Puts the directories in; a brace that is meant is doubled, as in str.format."""
    try:
        return tuple(word.format(inputs=inputs, work=work) for word in words)
    except (KeyError, IndexError, ValueError) as error:
        raise LabError(
            f"{where}: {error} in braces; accepted: {{inputs}}, {{work}}, and {{{{ for a brace"
        ) from None


def make_program(paths: Paths, file: Path, entry: ProgramEntry) -> Program:
    inputs, work = paths.bench / "inputs", paths.bench / "outputs" / entry.name
    where = place_of(file, "program", entry.name)
    absent = [needed for needed in entry.needs if shutil.which(needed, path=SEARCH) is None]
    row = Row(
        name=entry.name,
        command=fill(where, entry.command, inputs, work),
        measure="cpu",
        group=entry.kind,
        environment={"PATH": SEARCH, **entry.environment},
        work=work,
        checksum=True,
        missing=f"not installed: {', '.join(absent)}" if absent else None,
    )
    return Program(row, tuple(fill(where, words, inputs, work) for words in entry.prepare))


def read_programs(paths: Paths, file: Path) -> list[Program]:
    entries = read_toml(file, "program", ProgramEntry)
    programs = [make_program(paths, file, entry) for entry in entries]
    refuse_repeated([program.row for program in programs], str(file))
    return programs


def run_prepare(paths: Paths, command: Sequence[str]) -> str | None:
    """Runs one command from the repository's root; what went wrong, or None."""
    environment = clean_environment({"PATH": SEARCH})
    try:
        done = subprocess.run(
            command,
            cwd=paths.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PREPARE_TIMEOUT,
            check=False,
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{command[0]}: timed out after {PREPARE_TIMEOUT} s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return f"{command[0]}: exit code {done.returncode}: {' | '.join(lines[-STDERR_LINES:])}"


def prepare(paths: Paths, program: Program, say: Callable[[str], None]) -> Row:
    """Makes the program's inputs: every time, since only the commands know whether what they made
    is still what they would make. The row says so when that fails."""
    if program.row.missing is not None or not program.prepare:
        return program.row
    inputs = paths.bench / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    say(f"{program.row.name}: making its inputs")
    for command in program.prepare:
        problem = run_prepare(paths, command)
        if problem is not None:
            return replace(program.row, missing=f"its inputs could not be made: {problem}")
    return program.row


def prepare_all(paths: Paths, programs: Sequence[Program], say: Callable[[str], None]) -> list[Row]:
    if not programs:
        raise LabError("no program is left to run")
    return [prepare(paths, program, say) for program in programs]
