"""The command hakmem-lab where."""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper
from hakmem_lab.base.paths import Paths, find_paths
from hakmem_lab.cli.commands import (
    AllocatorsOption,
    CpusOption,
    OutputOption,
    RootOption,
    RoundsOption,
    TimeoutOption,
    finish,
    refuse_a_program_without_preloads,
    timed_result,
    timing_launcher,
)
from hakmem_lab.cli.compare import PROGRAM_TIMEOUT, say_what_is_left_out
from hakmem_lab.cli.servers import choose_servers
from hakmem_lab.cli.user_command import (
    CommandArgument,
    DirectoryOption,
    StatusOption,
    StdinOption,
    VariableOption,
    command_row,
)
from hakmem_lab.report.where_table import as_csv, as_markdown
from hakmem_lab.run import programs
from hakmem_lab.run.allocators import Allocator, select_allocators
from hakmem_lab.run.composition import is_known
from hakmem_lab.run.contenders import OWN, choose_base, choose_contenders
from hakmem_lab.run.measure import Launcher
from hakmem_lab.run.record import record
from hakmem_lab.run.results import Result, ResultKeeper
from hakmem_lab.run.rows import Row, select_rows
from hakmem_lab.run.runner import Reporter, RunFunction, run_rounds
from hakmem_lab.run.servers import Server, ServersTrial, read_servers
from hakmem_lab.run.usable import header_of, usable_sizes
from hakmem_lab.run.where import WhereTrial
from hakmem_lab.run.where_servers import WhereServer
from hakmem_lab.trace.asked import AskedFor, read_asked

NO_TRACE = "--no-trace goes without it"


def refuse_unfit_options(
    command: bool, rows: str | None, servers: str | None, trace: Path | None, of_command: bool
) -> None:
    if sum((command, rows is not None, servers is not None)) != 1:
        raise LabError("wanted is one of -- COMMAND..., --rows A,B and --servers A,B")
    if of_command and not command:
        raise LabError("--stdin, --directory, --env and --expect-status go with a command")
    if trace is not None and (servers is not None or (rows is not None and "," in rows)):
        raise LabError("--trace goes with one program")
    if trace is not None and not trace.is_file():
        raise LabError(f"--trace {trace}: no such file; {NO_TRACE}")


def refuse_without_tool(paths: Paths, chosen: Sequence[Allocator], records: bool) -> None:
    if paths.tool.is_file():
        return
    missing = f"{paths.shown(paths.tool)} is not built: run make"
    if any(is_known(a) for a in chosen if a.missing is None):
        raise LabError(f"{missing}; it tells what hakmem's memory is made of")
    if records:
        raise LabError(f"{missing}; it records what was asked for, and {NO_TRACE}")


def asked_by(
    launcher: Launcher, paths: Paths, row: Row, trace: Path | None, reporter: Reporter
) -> AskedFor:
    """From the trace, or from one that is recorded now."""
    memory = psutil.virtual_memory().available
    with tempfile.TemporaryDirectory(prefix="hakmem-lab-") as directory:
        if trace is not None:
            return read_asked([trace], memory)
        reporter.line(f"{row.name}: recording what it asks for")
        try:
            return read_asked(record(launcher, paths.tool, row, Path(directory)), memory)
        except LabError as error:
            raise LabError(f"{error}; {NO_TRACE}") from None


def describe_asked(
    asked: AskedFor, chosen: Sequence[Allocator], reporter: Reporter
) -> dict[str, Any]:
    """As settings.asked has it."""
    rounded: dict[str, int] = {}
    for allocator in chosen:
        if allocator.missing is not None:
            continue
        try:
            usable = usable_sizes(allocator, asked.sizes())
        except LabError as error:
            reporter.line(f"{error}: its rounding is not known")
            continue
        rounded[allocator.name] = asked.with_rounding(usable, header_of(allocator))
    return {
        "bytes": asked.bytes,
        "blocks": asked.count,
        "touched": asked.touched,
        "rounded": rounded,
    }


def ask_all(
    result: Result,
    rows: Sequence[Row],
    launcher: Launcher,
    paths: Paths,
    trace: Path | None,
    reporter: Reporter,
) -> None:
    found = {
        row.name: describe_asked(
            asked_by(launcher, paths, row, trace, reporter), result.allocators, reporter
        )
        for row in rows
        if row.missing is None
    }
    result.settings["asked"] = found


class Exports:
    """Where the figures go besides the result; tried before the first run."""

    def __init__(self, table: Path | None, page: Path | None) -> None:
        wanted = (("--export-csv", table, as_csv), ("--export-markdown", page, as_markdown))
        self.keepers = [(Keeper(file, name), write) for name, file, write in wanted if file]

    def save(self, result: Result) -> bool:
        return all([keeper.save(write(result)) for keeper, write in self.keepers])


def rows_of_table(paths: Paths, names: str, reporter: Reporter) -> list[Row]:
    found = programs.read_programs(paths, paths.programs)
    wanted = {row.name for row in select_rows([p.row for p in found], names, None)}
    return programs.prepare_all(paths, [p for p in found if p.row.name in wanted], reporter.line)


def refuse_missing(rows: Sequence[Row]) -> None:
    if all(row.missing for row in rows):
        raise LabError(f"nothing can be run: {rows[0].name}: {rows[0].missing}")


def where_command(
    command: CommandArgument = None,
    row_names: Annotated[
        str | None, typer.Option("--rows", metavar="A,B", help="Programs of bench/programs.toml.")
    ] = None,
    server_names: Annotated[
        str | None,
        typer.Option("--servers", metavar="A,B", help="Servers of bench/servers.toml, or all."),
    ] = None,
    allocator_names: AllocatorsOption = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What it asked for; default: it is recorded first."),
    ] = None,
    no_trace: Annotated[
        bool, typer.Option("--no-trace", help="Leaves out what was asked for.")
    ] = False,
    rounds: RoundsOption = 1,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds of a server's load, about.")
    ] = 5.0,
    idle: Annotated[
        float, typer.Option(min=0.0, max=3600, help="Seconds without load before the last reading.")
    ] = 10.0,
    stdin: StdinOption = None,
    directory: DirectoryOption = None,
    expect_status: StatusOption = "0",
    variables: VariableOption = None,
    cpus: CpusOption = None,
    timeout: TimeoutOption = PROGRAM_TIMEOUT,
    export_csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The parts, one a line.")
    ] = None,
    export_markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The tables.")
    ] = None,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """What the peak of a program is made of, on every allocator: asked for, rounding, caches, rest.

    A program of your own keeps your environment, as with compare.
    """
    of_command = bool(stdin or directory or variables or expect_status != "0")
    refuse_unfit_options(bool(command), row_names, server_names, trace, of_command)
    if trace is not None and no_trace:
        raise LabError("--trace and --no-trace exclude each other")
    paths = find_paths(root)
    reporter = Reporter()
    launcher = timing_launcher(paths, cpus, timeout)
    servers: list[Server] = []
    if command:
        rows = [command_row(command, "wall", stdin, directory, expect_status, variables)]
        chosen = choose_contenders(paths, allocator_names, rows[0], reporter.line)
        refuse_a_program_without_preloads(rows[0], chosen)
        say_what_is_left_out(reporter)
    elif row_names is not None:
        rows = rows_of_table(paths, row_names, reporter)
        chosen = select_allocators(paths, allocator_names, False)
    else:
        only = None if server_names == "all" else server_names
        servers = choose_servers(read_servers(paths, paths.servers, seconds), only, "--servers")
        rows = [server.row for server in servers]
        chosen = select_allocators(paths, allocator_names, False)
    refuse_missing(rows)
    base = choose_base(chosen, None)
    result = timed_result("where", chosen, paths, launcher, rounds=rounds, base=base)
    result.settings["peers"] += [a.name for a in chosen if a.name == OWN]
    refuse_without_tool(paths, chosen, not no_trace and not servers and trace is None)
    keeper = ResultKeeper(output or paths.bench / "where.json")
    exports = Exports(export_csv, export_markdown)
    run: RunFunction = WhereTrial(launcher, paths.tool).run
    if servers:
        result.settings |= {"seconds": seconds, "idle_s": idle}
        kind = partial(WhereServer, paths.tool)
        run = ServersTrial(result, servers, launcher, idle, reporter.line, kind).run
    elif not no_trace:
        ask_all(result, rows, launcher, paths, trace, reporter)
    run_rounds(result, rows, rounds, run, save=keeper.partial, reporter=reporter)
    exported = exports.save(result)
    finish(result, keeper)
    if not exported or not any(r.failure is None for row in result.rows for r in row.runs):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    app.command("where", context_settings={"allow_interspersed_args": False})(where_command)
