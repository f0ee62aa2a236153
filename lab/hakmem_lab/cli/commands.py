"""What the sub-commands share: their options, the frame of a result, how a command ends."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths, parse_cpus
from hakmem_lab.report import show
from hakmem_lab.run import allocators
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.machine import describe_machine
from hakmem_lab.run.measure import Launcher, environment_of, warm_mib
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.results import Kind, Result, ResultKeeper
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import CountFunction, Reporter, run_rounds
from hakmem_lab.run.syscalls import count_system_calls, strace

INTERRUPTED = 130  # exit code, as a shell has it after Ctrl-C

RootOption = Annotated[
    Path | None, typer.Option(help="The repository; default: around the working directory.")
]
AllocatorsOption = Annotated[
    str | None,
    typer.Option(
        "--allocators",
        metavar="A,B",
        help="Names, all, and NAME=WORDS for others: a library's path, a known name, variables"
        " (lean=HAKMEM_PROFILE=lean). Default: all.",
    ),
]
CpusOption = Annotated[
    str | None, typer.Option(metavar="0,1", help="CPUs to use; default: all available ones.")
]
TimeoutOption = Annotated[
    float,
    typer.Option(min=0.1, max=1e8, metavar="SECONDS", help="A run that takes longer has failed."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", "--json", metavar="FILE", help="Where the result is kept."),
]
RowsOption = Annotated[str | None, typer.Option("--rows", metavar="A,B", help="Only these rows.")]
RoundsOption = Annotated[
    int, typer.Option("--rounds", "--runs", min=1, max=1000, help="Runs of each allocator.")
]


def new_result(kind: Kind, chosen: list[Allocator], paths: Paths, **settings: Any) -> Result:
    known = {a.name for a in allocators.known_allocators(paths)} - {"hakmem"}
    settings["peers"] = [a.name for a in chosen if a.name in known or allocators.is_foreign(a)]
    result = Result(kind, ["hakmem-lab", *sys.argv[1:]], settings, describe_machine(), chosen)
    if not result.allocator_names():
        problems = ", ".join(f"{a.name}: {a.missing}" for a in chosen)
        raise LabError(f"no allocator can be run: {problems}")
    return result


def timed_result(
    kind: Kind, chosen: list[Allocator], paths: Paths, launcher: Launcher, **settings: Any
) -> Result:
    """The frame of a result that says how its runs were timed."""
    return new_result(
        kind,
        chosen,
        paths,
        cpus=launcher.cpus,
        warm_mib=launcher.warm,
        timeout_s=launcher.timeout,
        **settings,
    )


def timing_launcher(paths: Paths, cpus: str | None, timeout: float) -> Launcher:
    return Launcher(paths.launcher, parse_cpus(cpus), timeout, warm_mib())


def refuse_a_program_without_preloads(row: Row, chosen: list[Allocator]) -> None:
    """A static program, say, would be compared with itself: an error, unless some allocator besides
    libc's takes effect."""
    search = environment_of(row, Allocator("", "", "")).get("PATH")
    preloaded = [a.library for a in chosen if a.missing is None and a.library]
    problems = [preload_problem(row.command[0], library, search) for library in preloaded]
    if problems and None not in problems:
        raise LabError(f"no allocator can be put under it: {problems[0]}")


def counter(launcher: Launcher, wanted: bool, reporter: Reporter) -> CountFunction | None:
    if not wanted:
        return None
    if strace() is None:
        reporter.line("system calls are not counted: strace is missing")
        return None
    return lambda row, allocator: count_system_calls(launcher, row, allocator)


def measure(
    result: Result,
    chosen: list[Row],
    rounds: int,
    launcher: Launcher,
    keeper: ResultKeeper,
    system_calls: bool,
) -> None:
    """Runs, prints, keeps the result, and ends the command with its exit code."""
    reporter = Reporter()
    run_rounds(
        result,
        chosen,
        rounds,
        launcher.run,
        counter(launcher, system_calls, reporter),
        keeper.partial,
        reporter,
    )
    finish(result, keeper)


def finish(result: Result, keeper: ResultKeeper) -> None:
    """Prints and keeps the result. It is printed even where it cannot be kept."""
    kept = keeper.whole(result)
    show.print_result(result, file=keeper.file if kept or keeper.elsewhere else None)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not kept:
        raise typer.Exit(1)
