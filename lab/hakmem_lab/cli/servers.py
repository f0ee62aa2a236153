"""The command hakmem-lab servers."""

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper
from hakmem_lab.base.paths import find_paths
from hakmem_lab.cli.commands import (
    AllocatorsOption,
    CpusOption,
    OutputOption,
    RootOption,
    RoundsOption,
    TimeoutOption,
    finish,
    timed_result,
    timing_launcher,
)
from hakmem_lab.report.servers_table import as_markdown
from hakmem_lab.run import allocators
from hakmem_lab.run.measure import DEFAULT_TIMEOUT
from hakmem_lab.run.results import ResultKeeper
from hakmem_lab.run.resume import identity, take_up
from hakmem_lab.run.rows import refuse_unknown, split_list
from hakmem_lab.run.runner import Reporter, run_rounds
from hakmem_lab.run.servers import Server, ServersTrial, read_servers


def choose_servers(
    found: list[Server], only: str | None, option: str = "--only"
) -> list[Server]:
    if only is None:
        return found
    wanted = split_list(only)
    refuse_unknown(option, wanted, [server.row.name for server in found])
    chosen = [server for server in found if server.row.name in wanted]
    if not chosen:
        raise LabError(f"{option} {only!r}: no server is left to run")
    return chosen


def servers_command(
    only: Annotated[
        str | None, typer.Option("--only", "--rows", metavar="A,B", help="Only these servers.")
    ] = None,
    allocator_names: AllocatorsOption = None,
    rounds: RoundsOption = LEAST_FOR_INTERVAL,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1, max=3600, help="Of each load, about: it is this many times the table's rate."
        ),
    ] = 5.0,
    idle: Annotated[
        float, typer.Option(min=0.0, max=3600, help="Seconds without load before the last reading.")
    ] = 10.0,
    cpus: CpusOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that --output holds.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--servers", help="Default: bench/servers.toml.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--export-markdown", metavar="FILE", help="The tables, too.")
    ] = None,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Runs real servers under load on every allocator: throughput, latency, CPU time, memory."""
    paths = find_paths(root)
    chosen = choose_servers(read_servers(paths, file or paths.servers, seconds), only)
    contenders = allocators.select_allocators(paths, allocator_names, False)
    launcher = timing_launcher(paths, cpus, timeout)
    result = timed_result(
        "servers",
        contenders,
        paths,
        launcher,
        rounds=rounds,
        seconds=seconds,
        idle_s=idle,
        **identity(paths, contenders),
    )
    keeper = ResultKeeper(output or paths.bench / "servers.json")
    page = None if markdown is None else Keeper(markdown, make_directories=False)
    reporter = Reporter()
    rows = [server.row for server in chosen]
    if all(row.missing for row in rows):
        raise LabError(f"no server can be run: {rows[0].name}: {rows[0].missing}")
    if resume:
        result = take_up(keeper.file, result, rows, reporter.line)
    trial = ServersTrial(result, chosen, launcher, idle, reporter.line)
    run_rounds(result, rows, rounds, trial.run, save=keeper.partial, reporter=reporter)
    if page is not None and not page.save(as_markdown(result)):
        raise typer.Exit(1)
    finish(result, keeper)


def register(app: typer.Typer) -> None:
    app.command("servers")(servers_command)
