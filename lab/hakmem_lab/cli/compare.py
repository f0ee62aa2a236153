"""The command hakmem-lab compare: a user's own programs, or a server under load."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.summary import base_of, output_verdict
from hakmem_lab.analysis.verdict import plural
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper, keep_earlier
from hakmem_lab.base.paths import find_paths
from hakmem_lab.cli.commands import (
    AllocatorsOption,
    CpusOption,
    OutputOption,
    RootOption,
    RoundsOption,
    TimeoutOption,
    counter,
    finish,
    refuse_a_program_without_preloads,
    timed_result,
    timing_launcher,
)
from hakmem_lab.cli.user_command import (
    CommandArgument,
    DirectoryOption,
    MeasureOption,
    PrepareOption,
    StatusOption,
    StdinOption,
    VariableOption,
    checked_command,
    checked_directory,
    command_row,
    kept_input,
    parse_variables,
)
from hakmem_lab.cli.variants import Variant, fill, variants_of
from hakmem_lab.report.export import as_csv, as_markdown
from hakmem_lab.run import hooks
from hakmem_lab.run.contenders import OWN, choose_base, choose_contenders, search_path
from hakmem_lab.run.load_output import Expressions, compile_expression
from hakmem_lab.run.measure import Launcher, users_environment
from hakmem_lab.run.preload import own_malloc, script_behind
from hakmem_lab.run.ready import parse_ready, split_command
from hakmem_lab.run.results import Result, ResultKeeper
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import CountFunction, Reporter, RunFunction, run_rounds
from hakmem_lab.run.server import Plan, ServerTrial, server_row

PROGRAM_TIMEOUT = 600.0  # seconds; a user's program may take its time
DEFAULT_ROUNDS = 10


class Keepers:
    """Where the result goes; made before the first run, as keep.Keeper is."""

    def __init__(self, output: Path, csv: Path | None, markdown: Path | None) -> None:
        self.result = ResultKeeper(output)
        wanted = (("--export-csv", csv, as_csv), ("--export-markdown", markdown, as_markdown))
        self.exports = [(Keeper(f, option), write) for option, f, write in wanted if f is not None]

    def export(self, result: Result) -> bool:
        """False: one is not where it was to be."""
        return all([keeper.save(write(result)) for keeper, write in self.exports])


def command_rows(
    commands: Sequence[Sequence[str]],
    parameters: Sequence[str],
    prepare: str | None,
    cleanup: str | None,
    stdin: Path | None,
    variables: Sequence[str],
    make: Callable[[Variant, Path | None, list[str]], Row],
) -> tuple[list[Row], dict[str, dict[str, str]]]:
    """The rows, and of each the values of its parameters."""
    if stdin == Path("-"):
        stdin = kept_input()  # once for all of them
    others = [text for text in (prepare, cleanup, *variables) if text is not None]
    others += [] if stdin is None else [str(stdin)]
    rows: list[Row] = []
    values: dict[str, dict[str, str]] = {}
    for variant in variants_of(commands, parameters, others):

        def filled(text: str, known: Mapping[str, str] = variant.values) -> str:
            return fill(text, known)

        row = make(
            variant,
            None if stdin is None else Path(filled(str(stdin))),
            [filled(text) for text in variables],
        )
        rows.append(
            replace(
                row,
                prepare=None if prepare is None else filled(prepare),
                cleanup=None if cleanup is None else filled(cleanup),
            )
        )
        if variant.values:
            values[row.name] = variant.values
    return rows, values


def refuse_different_mallocs(rows: Sequence[Row]) -> None:
    """`own` and glibc mean the same for all commands of a comparison."""
    found = [own_malloc(row.command[0], search_path(row)) for row in rows]
    libraries = sorted({own.library if own else "libc" for own in found})
    if len(libraries) > 1:
        raise LabError(
            f"the commands are linked with different allocators ({', '.join(libraries)}):"
            " compare them one at a time"
        )


def say_what_is_left_out(reporter: Reporter) -> None:
    left_out = users_environment(os.environ)[1]
    if left_out:
        reporter.line(f"not passed on, as they set allocators up: {', '.join(left_out)}")


def say_that_it_is_a_script(reporter: Reporter, row: Row) -> None:
    """Behind a name that was meant to be a program, as python3, a manager of versions may stand."""
    script = script_behind(row.command[0], search_path(row))
    if script is not None:
        reporter.line(f"{script} is a script: its interpreter and all it starts are measured")


def wrong_contenders(result: Result) -> list[str]:
    """Those that crashed, failed, or gave another output than the base, and which it was."""
    base = base_of(result)
    wrong: list[str] = []
    for name in result.allocator_names():
        if any(row.failure(name) for row in result.rows):
            wrong.append(f"{name} failed")
        elif any(output_verdict(row, name, base) == "differs" for row in result.rows):
            wrong.append(f"{name} gave another output")
    return wrong


def run_comparison(
    result: Result,
    rows: Sequence[Row],
    rounds: int,
    run: RunFunction,
    count: CountFunction | None,
    keepers: Keepers,
    reporter: Reporter,
    fail: bool,
    warm_up: Callable[[], None] | None = None,
) -> None:
    """Runs, prints, keeps the result; ends the command with 1 when no run went well, or, with
    `fail`, when one did not."""
    run_rounds(
        result,
        rows,
        rounds,
        run,
        count,
        keepers.result.partial,
        reporter,
        warm_up,
        turn_rows=True,
    )
    exported = keepers.export(result)
    finish(result, keepers.result)
    if not exported or not any(r.failure is None for row in result.rows for r in row.runs):
        raise typer.Exit(1)
    if fail and (wrong := wrong_contenders(result)):
        reporter.line(f"--fail: {', '.join(wrong)}")
        raise typer.Exit(1)


def compare_commands(
    result: Result,
    rows: Sequence[Row],
    rounds: int,
    launcher: Launcher,
    count: CountFunction | None,
    keepers: Keepers,
    reporter: Reporter,
    fail: bool,
    warmup: int | None,
) -> None:
    """Commands that end, with what the user wants done around their runs."""
    run = hooks.with_prepare(launcher, launcher.run)
    able = [a for a in result.allocators if a.missing is None]

    def warm_up() -> None:
        if warmup:
            reporter.line(f"{plural(warmup, 'first run')} of each, not counted")
            hooks.warm_up(rows, able, warmup, run)
        elif warmup is None and count is None:  # those under strace have done it
            reporter.line("a first run, not counted, brings files into memory")
            hooks.warm_up(rows, able[:1], 1, run)

    counting = hooks.count_with_prepare(launcher, count) if count else None
    try:
        run_comparison(
            result, rows, rounds, run, counting, keepers, reporter, fail, warm_up=warm_up
        )
    finally:
        hooks.clean_up(launcher, rows, reporter.line)


def refuse_others_options(
    is_server: bool, of_commands: Mapping[str, bool], of_servers: Mapping[str, bool]
) -> None:
    """Options, whether they are used, of the kind of comparison that this is not."""
    for name, used in (of_commands if is_server else of_servers).items():
        if used:
            raise LabError(f"{name} goes with {'a command' if is_server else '--server'}")


def server_plan(
    server: str,
    load: str | None,
    ready: str | None,
    ready_timeout: float,
    idle: float,
    grace: float,
    throughput: str | None,
    latency: str | None,
) -> Plan:
    if load is None or ready is None:
        raise LabError("--server needs --load COMMAND and --ready PORT (or a command)")
    return Plan(
        server=split_command("--server", server),
        load=split_command("--load", load),
        ready=parse_ready(ready),
        ready_timeout=ready_timeout,
        idle=idle,
        grace=grace,
        expressions=Expressions(
            compile_expression("--throughput", throughput),
            compile_expression("--latency", latency),
        ),
    )


def prepare_server(
    plan: Plan, directory: Path | None, variables: list[str] | None
) -> tuple[Plan, Row]:
    row = server_row(plan, checked_directory(directory), parse_variables(variables))
    plan = replace(
        plan,
        server=checked_command("--server", plan.server, row),
        load=checked_command("--load", plan.load, row),
    )
    if plan.ready.command:
        checked_command("--ready", plan.ready.command, row)
    if plan.ready.taken():
        raise LabError(
            f"{plan.ready} is in use: something listens there already;"
            " stop it, or give the server and the load another port"
        )
    return plan, replace(row, command=plan.server)


def compare_command(
    command: CommandArgument = None,
    more_commands: Annotated[
        list[str] | None,
        typer.Option(
            "--command",
            metavar="COMMAND",
            help="The same, in one word; repeated, the commands are compared with each other, too.",
        ),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            metavar="NAME=1,2,4",
            help="Runs the command with each value in place of {NAME}; may be repeated.",
        ),
    ] = None,
    allocator_names: AllocatorsOption = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the others are compared with; default: glibc."),
    ] = None,
    rounds: RoundsOption = DEFAULT_ROUNDS,
    warmup: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            metavar="N",
            help="Runs of each allocator that are not counted, first; default: one of the first.",
        ),
    ] = None,
    prepare: PrepareOption = None,
    cleanup: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="For /bin/sh, after the last run of each command."),
    ] = None,
    cpus: CpusOption = None,
    timeout: TimeoutOption = PROGRAM_TIMEOUT,
    system_calls: Annotated[
        bool, typer.Option(help="Count them in one more run, under strace.")
    ] = True,
    measure: MeasureOption = "wall",
    same_output: Annotated[
        bool, typer.Option("--same-output", help="Compare what it prints, too.")
    ] = False,
    expect_status: StatusOption = "0",
    stdin: StdinOption = None,
    directory: DirectoryOption = None,
    variables: VariableOption = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="A server, instead of a command that ends."),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="What puts load on the server; it runs on glibc."),
    ] = None,
    ready: Annotated[
        str | None,
        typer.Option(
            metavar="PORT", help="The server's port, HOST:PORT, or a command that succeeds."
        ),
    ] = None,
    ready_timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Until the server has to be ready.")
    ] = 30.0,
    idle: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Idle seconds before it is read again."),
    ] = 0.0,
    grace: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="From SIGTERM to SIGKILL.")
    ] = 10.0,
    throughput: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Finds requests a second in the load's output: one group, or (?P<value>...)"
            " and (?P<kind>...).",
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Finds latencies: one group, or value, kind, percentile and unit (default ms).",
        ),
    ] = None,
    fail: Annotated[
        bool,
        typer.Option(
            "--fail",
            help="Exit code 1 when it crashed or failed on any allocator, or, with --same-output,"
            " gave another output there.",
        ),
    ] = False,
    export_csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The figures, a line an allocator.")
    ] = None,
    export_markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The tables of time and memory.")
    ] = None,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Your own program, or a server under load, on every allocator: is one of them better?

    It keeps your environment, but for LD_PRELOAD and what sets an allocator up (HAKMEM_*, MALLOC_*,
    MIMALLOC_* and the like).
    """
    paths = find_paths(root)
    reporter = Reporter()
    launcher = timing_launcher(paths, cpus, timeout)
    commands = [split_command("--command", text) for text in more_commands or []]
    commands += [tuple(command)] if command else []
    if (server is None) == (not commands):
        raise LabError("wanted is either -- COMMAND... or --server COMMAND")
    refuse_others_options(
        server is not None,
        of_commands={
            "--parameter": bool(parameters),
            "--warmup": warmup is not None,
            "--prepare": prepare is not None,
            "--cleanup": cleanup is not None,
            "--stdin": stdin is not None,
            "--same-output": same_output,
            "--measure": measure != "wall",
            "--expect-status": expect_status != "0",
        },
        of_servers={
            "--load": load is not None,
            "--ready": ready is not None,
            "--idle": idle > 0,
            "--throughput": throughput is not None,
            "--latency": latency is not None,
        },
    )
    plan = None
    values: dict[str, dict[str, str]] = {}
    if server is not None:
        plan = server_plan(server, load, ready, ready_timeout, idle, grace, throughput, latency)
        plan, row = prepare_server(plan, directory, variables)
        rows = [row]
    else:
        rows, values = command_rows(
            commands,
            parameters or [],
            prepare,
            cleanup,
            stdin,
            variables or [],
            lambda variant, source, environment: command_row(
                *(variant.words, measure, source, directory, expect_status, environment),
                *(same_output, variant.name),
            ),
        )
        refuse_different_mallocs(rows)
    chosen = choose_contenders(paths, allocator_names, rows[0], reporter.line)
    for row in rows:
        refuse_a_program_without_preloads(row, chosen)
    result = timed_result(
        "compare", chosen, paths, launcher, rounds=rounds, base=choose_base(chosen, base)
    )
    result.settings["peers"] += [a.name for a in chosen if a.name == OWN]
    counting = counter(launcher, system_calls, reporter)
    say_what_is_left_out(reporter)
    for row in rows:
        say_that_it_is_a_script(reporter, row)
    if output is None:  # who names a file may want it replaced
        keep_earlier(paths.bench / "compare.json")
    keepers = Keepers(output or paths.bench / "compare.json", export_csv, export_markdown)
    if plan is None:
        settings = {"warmup": warmup, "prepare": prepare, "cleanup": cleanup}
        result.settings["measure"] = measure
        result.settings |= {name: value for name, value in settings.items() if value is not None}
        result.settings |= {"parameters": values} if values else {}
        compare_commands(result, rows, rounds, launcher, counting, keepers, reporter, fail, warmup)
        return
    trial = ServerTrial(result, plan, launcher, reporter.line)
    result.settings |= {
        "load": list(plan.load),
        "ready": str(plan.ready),
        "idle_s": idle,
        "cpus_of_server": trial.server_cpus,
        "cpus_of_load": trial.load_cpus,
    }
    count = trial.count if counting else None
    run_comparison(result, rows, rounds, trial.run, count, keepers, reporter, fail)


def register(app: typer.Typer) -> None:
    app.command("compare", context_settings={"allow_interspersed_args": False})(compare_command)
