"""Real programs, from bench/programs.toml. Their inputs are made once; then they are rows."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.measure import STDERR_LINES, clean_environment
from hakmem_lab.run.rows import Reader, Row, read_toml, refuse_repeated

# Not the caller's PATH: there, a python3 may be a wrapper script, and the shell would be measured.
SEARCH = "/usr/local/bin:/usr/bin:/bin"
PREPARE_TIMEOUT = 600  # seconds, of one command


@dataclass(frozen=True)
class Program:
    """A row, and what has to be run before its first run."""

    row: Row
    prepare: tuple[tuple[str, ...], ...]


def read_prepare(reader: Reader) -> tuple[tuple[str, ...], ...]:
    value = reader.entry.pop("prepare", [])
    wanted = "prepare: a list of commands is wanted, each a list of strings"
    if not isinstance(value, list):
        raise reader.fail(wanted)
    for command in value:
        if (
            not isinstance(command, list)
            or not command
            or not all(isinstance(word, str) for word in command)
        ):
            raise reader.fail(wanted)
    return tuple(tuple(command) for command in value)


def fill(reader: Reader, words: Sequence[str], inputs: Path, work: Path) -> tuple[str, ...]:
    """Puts the directories in; a brace that is meant is doubled, as in str.format."""
    try:
        return tuple(word.format(inputs=inputs, work=work) for word in words)
    except (KeyError, IndexError, ValueError) as error:
        raise reader.fail(
            f"{error} in braces; accepted: {{inputs}}, {{work}}, and {{{{ for a brace"
        ) from None


def read_program(paths: Paths, file: Path, entry: dict[str, Any]) -> Program:
    reader = Reader(file, "program", entry)
    name = reader.text("name")
    inputs = paths.bench / "inputs"
    work = paths.bench / "work" / name
    command = reader.texts("command")
    if not command:
        raise reader.fail("command: a list of strings is wanted")
    absent = [n for n in reader.texts("needs") or () if shutil.which(n, path=SEARCH) is None]
    prepare = tuple(fill(reader, words, inputs, work) for words in read_prepare(reader))
    row = Row(
        name=name,
        command=fill(reader, command, inputs, work),
        measure="cpu",
        group=reader.text("kind"),
        environment={"PATH": SEARCH, **reader.environment()},
        work=work,
        checksum=True,
        missing=f"not installed: {', '.join(absent)}" if absent else None,
    )
    reader.finish()
    return Program(row, prepare)


def read_programs(paths: Paths, file: Path) -> list[Program]:
    programs = [read_program(paths, file, entry) for entry in read_toml(file, "program")]
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
