"""The command hakmem-lab steady."""

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import find_paths, parse_cpus
from hakmem_lab.cli.commands import finish, new_result
from hakmem_lab.run import allocators
from hakmem_lab.run.measure import Launcher
from hakmem_lab.run.results import ResultKeeper
from hakmem_lab.run.rows import select_rows
from hakmem_lab.run.runner import Reporter, run_rounds
from hakmem_lab.run.steady import STEADY, steady_rows, steady_runner
from hakmem_lab.run.syscalls import strace


def steady_command(
    row_names: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="A,B",
            help="steady, idle-95, idle-100, load-back,"
            " freed-by-others, cached-spans, parked-heaps.",
        ),
    ] = None,
    allocator_names: Annotated[
        str | None,
        typer.Option("--allocators", metavar="A,B", help="As of suite. Default: all."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, help="Runs of each allocator.")
    ] = LEAST_FOR_INTERVAL,
    operations: Annotated[
        int, typer.Option(min=1000, help="Operations of the steady state, in each run.")
    ] = 500_000_000,
    quiet: Annotated[
        int, typer.Option(min=1, max=86400, help="Seconds an idle process is watched.")
    ] = 60,
    mib: Annotated[int, typer.Option(min=1, help="What an idle process had filled.")] = 512,
    cpus: Annotated[str | None, typer.Option(metavar="0,1", help="CPUs to use.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS")] = 600,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: build/bench/steady.json."),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="The repository.")] = None,
) -> None:
    """System calls in steady state, and what idle processes keep and do (rules R3 and P4)."""
    paths = find_paths(root)
    rows = select_rows(steady_rows(paths, operations, mib, quiet), row_names, None)
    if any(row.name == STEADY for row in rows) and strace() is None:
        raise LabError("steady: strace is missing; it counts the system calls (apt install strace)")
    chosen = allocators.select_allocators(paths, allocator_names, False)
    launcher = Launcher(paths.launcher, parse_cpus(cpus), timeout)
    result = new_result("steady", chosen, paths, rounds=rounds, cpus=launcher.cpus)
    keeper = ResultKeeper(output or paths.bench / "steady.json")
    run_rounds(
        result,
        rows,
        rounds,
        steady_runner(launcher),
        save=keeper.partial,
        reporter=Reporter(),
    )
    finish(result, keeper)


def register(app: typer.Typer) -> None:
    app.command("steady")(steady_command)
