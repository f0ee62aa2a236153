"""The sub-commands on a user's own program: compare, and the command of ab."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from hakmem_lab.analysis.summary import base_of, output_verdict
from hakmem_lab.base.errors import LabError
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
from hakmem_lab.run.contenders import OWN, choose_base, choose_contenders, search_path
from hakmem_lab.run.load_output import Expressions, compile_expression
from hakmem_lab.run.measure import users_environment
from hakmem_lab.run.preload import script_behind
from hakmem_lab.run.ready import parse_ready, split_command
from hakmem_lab.run.results import Result, ResultKeeper
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import CountFunction, Reporter, RunFunction, run_rounds
from hakmem_lab.run.server import Plan, ServerTrial, server_row

PROGRAM_TIMEOUT = 600.0  # seconds; a user's program may take its time
DEFAULT_ROUNDS = 10

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
        "--stdin", metavar="FILE", help="Its input, the same in each run; -: what comes in here."
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
    words: list[str],
    measure: str,
    stdin: Path | None,
    directory: Path | None,
    status: str,
    variables: list[str] | None,
    same_output: bool = False,
) -> Row:
    """The row of a user's program; LabError for what can be seen to be wrong beforehand."""
    if stdin == Path("-"):
        stdin = kept_input()
    if stdin is not None and not stdin.is_file():
        raise LabError(f"--stdin {stdin}: no such file")
    row = Row(
        name=Path(words[0]).name,
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
    row: Row,
    rounds: int,
    run: RunFunction,
    count: CountFunction | None,
    keeper: ResultKeeper,
    reporter: Reporter,
    fail: bool,
) -> None:
    """Runs, prints, keeps the result; ends the command with 1 when no run went well, or, with
    `fail`, when one did not."""

    def warm_up() -> None:
        reporter.line("a first run, not counted, brings files into memory")
        first = next(a for a in result.allocators if a.missing is None)
        run(row, first, 0, 0)

    run_rounds(
        result,
        [row],
        rounds,
        run,
        count,
        keeper.partial,
        reporter,
        warm_up if row.group == "program" else None,
    )
    finish(result, keeper)
    if not any(r.failure is None for r in result.rows[0].runs):
        raise typer.Exit(1)
    if fail and (wrong := wrong_contenders(result)):
        reporter.line(f"--fail: {', '.join(wrong)}")
        raise typer.Exit(1)


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
    allocator_names: AllocatorsOption = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the others are compared with; default: glibc."),
    ] = None,
    rounds: RoundsOption = DEFAULT_ROUNDS,
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
        typer.Option(min=0, metavar="SECONDS", help="Then look at the server's memory again."),
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
    if (server is None) == (not command):
        raise LabError("wanted is either -- COMMAND... or --server COMMAND")
    refuse_others_options(
        server is not None,
        of_commands={
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
    if server is not None:
        plan = server_plan(server, load, ready, ready_timeout, idle, grace, throughput, latency)
        plan, row = prepare_server(plan, directory, variables)
    else:
        row = command_row(
            command or [], measure, stdin, directory, expect_status, variables, same_output
        )
    chosen = choose_contenders(paths, allocator_names, row, reporter.line)
    refuse_a_program_without_preloads(row, chosen)
    result = timed_result(
        "compare", chosen, paths, launcher, rounds=rounds, base=choose_base(chosen, base)
    )
    result.settings["peers"] += [a.name for a in chosen if a.name == OWN]
    counting = counter(launcher, system_calls, reporter)
    say_what_is_left_out(reporter)
    say_that_it_is_a_script(reporter, row)
    keeper = ResultKeeper(output or paths.bench / "compare.json")
    if plan is None:
        result.settings["measure"] = measure
        run_comparison(result, row, rounds, launcher.run, counting, keeper, reporter, fail)
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
    run_comparison(result, row, rounds, trial.run, count, keeper, reporter, fail)


def register(app: typer.Typer) -> None:
    app.command("compare", context_settings={"allow_interspersed_args": False})(compare_command)
