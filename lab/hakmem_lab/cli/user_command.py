"""A user's own program as a row: the options that say how it is run, and what can be seen to be
wrong with them beforehand."""

import atexit
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.contenders import search_path
from hakmem_lab.run.rows import Row

CommandArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND...", help="The program and its arguments, without a shell."),
]
MeasureOption = Annotated[
    str, typer.Option("--measure", metavar="wall|cpu", help="What is compared in the verdict.")
]
StdinOption = Annotated[
    Path | None,
    typer.Option(
        "--stdin", metavar="FILE", help="Its input, the same in each run; -: standard input."
    ),
]
DirectoryOption = Annotated[
    Path | None, typer.Option("--directory", metavar="DIR", help="Where it runs; default: here.")
]
StatusOption = Annotated[
    str, typer.Option("--expect-status", metavar="N,N", help="Exit codes of a run that went well.")
]
VariableOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="A variable for it; may be repeated."),
]
PrepareOption = Annotated[
    str | None,
    typer.Option("--prepare", metavar="CMD", help="For /bin/sh, before each run; not measured."),
]


def parse_status(text: str) -> tuple[int, ...]:
    try:
        codes = tuple(int(word) for word in text.split(","))
    except ValueError:
        codes = ()
    if not codes or not all(0 <= code <= 255 for code in codes):
        raise LabError(f"--expect-status {text}: wanted are numbers from 0 to 255, as 0,1")
    return codes


def parse_variables(items: list[str] | None) -> dict[str, str]:
    variables: dict[str, str] = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise LabError(f"--env {item}: wanted is NAME=VALUE")
        variables[name] = value
    return variables


def parse_measure(text: str) -> Literal["wall", "cpu"]:
    if text == "wall":
        return "wall"
    if text == "cpu":
        return "cpu"
    raise LabError(f"--measure {text}: accepted: wall, cpu")


def checked_directory(directory: Path | None) -> Path | None:
    if directory is None:
        return None
    if not directory.is_dir():
        raise LabError(f"--directory {directory}: no such directory")
    return directory.resolve()


def checked_command(option: str, words: tuple[str, ...], row: Row) -> tuple[str, ...]:
    """The command, its program found: a relative path is taken from the row's directory."""
    program = words[0]
    if "/" in program and row.directory is not None and not Path(program).is_absolute():
        words = (str(row.directory / program), *words[1:])
    if shutil.which(words[0], path=search_path(row)) is None:
        raise LabError(f"{option}: {program}: no such program, or it cannot be executed")
    return words


def kept_input() -> Path:
    """Standard input in a file, so that each run can read it from the start."""
    with tempfile.NamedTemporaryFile(prefix="hakmem-lab-", delete=False) as file:
        atexit.register(Path(file.name).unlink, missing_ok=True)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Path(file.name)


def command_row(
    words: Sequence[str],
    measure: str,
    stdin: Path | None,
    directory: Path | None,
    status: str,
    variables: list[str] | None,
    same_output: bool = False,
    name: str | None = None,
) -> Row:
    """The row of a user's program; LabError for what can be seen to be wrong beforehand."""
    if stdin == Path("-"):
        stdin = kept_input()
    if stdin is not None and not stdin.is_file():
        raise LabError(f"--stdin {stdin}: no such file")
    row = Row(
        name=name or Path(words[0]).name,
        command=tuple(words),
        measure=parse_measure(measure),
        group="program",
        environment=parse_variables(variables),
        stdin=None if stdin is None else stdin.resolve(),
        checksum=same_output,
        keeps_environment=True,
        directory=checked_directory(directory),
        accepted_status=parse_status(status),
    )
    return replace(row, command=checked_command("the command", row.command, row))
