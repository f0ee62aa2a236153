"""The command hakmem-lab."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab import __version__
from hakmem_lab.analysis import ranking
from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths, find_paths, parse_cpus
from hakmem_lab.base.printable import print_lines, printable_lines, with_printable_texts
from hakmem_lab.cli import (
    compare,
    hunt,
    publish,
    report,
    results,
    scale,
    scorecard,
    servers,
    steady,
    tail,
    trace,
    tune,
    user_command,
    where,
)
from hakmem_lab.cli.commands import (
    AllocatorsOption,
    CpusOption,
    OutputOption,
    RootOption,
    RoundsOption,
    RowsOption,
    TimeoutOption,
    finish,
    measure,
    new_result,
    refuse_a_program_without_preloads,
    timed_result,
    timing_launcher,
)
from hakmem_lab.report import ranking_table, show, tables
from hakmem_lab.run import allocators, mimalloc_bench, programs, rows
from hakmem_lab.run.contenders import with_glibc_itself
from hakmem_lab.run.instructions import InstructionCount, count_instructions
from hakmem_lab.run.measure import DEFAULT_TIMEOUT, Launcher
from hakmem_lab.run.results import ResultKeeper, read_result, schema, understood
from hakmem_lab.run.resume import identity, take_up
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import Reporter

app = typer.Typer(
    help="Measures memory allocators side by side.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

SuiteOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Default: bench/suite.toml.")
]
MimallocBenchOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A directory with the programs of mimalloc-bench."),
]


def all_rows(paths: Paths, suite: Path | None, extra: Path | None) -> list[Row]:
    """The suite's rows and those of mimalloc-bench, when its directory is given."""
    found: list[Row] = []
    if suite is not None or extra is None or paths.suite.is_file():
        found += rows.read_suite(paths, suite or paths.suite)
    if extra is not None:
        found += mimalloc_bench.mimalloc_bench_rows(extra)
    rows.refuse_repeated(found, "the suite")
    return found


@app.command("suite")
def suite_command(
    suite: SuiteOption = None,
    row_names: RowsOption = None,
    groups: Annotated[
        str | None, typer.Option(metavar="A,B", help=f"Only these: {', '.join(rows.GROUPS)}.")
    ] = None,
    mimalloc_bench: MimallocBenchOption = None,
    allocator_names: AllocatorsOption = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Default 6; 2 with --quick.")
    ] = None,
    cpus: CpusOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    quick: Annotated[bool, typer.Option("--quick", help="Short runs, fewer peers.")] = False,
    system_calls: Annotated[
        bool | None, typer.Option(help="Count them in one more run; default unless --quick.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that --output holds.")
    ] = False,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Runs the benchmark rows on every allocator, interleaved."""
    paths = find_paths(root)
    chosen_rows = rows.select_rows(all_rows(paths, suite, mimalloc_bench), row_names, groups)
    if quick:
        chosen_rows = [row.shortened() for row in chosen_rows]
    chosen = allocators.select_allocators(paths, allocator_names, quick)
    launcher = timing_launcher(paths, cpus, timeout)
    rounds = rounds or (2 if quick else LEAST_FOR_INTERVAL)
    settings = {"rounds": rounds, "quick": quick, **identity(paths, chosen)}
    result = timed_result("suite", chosen, paths, launcher, **settings)
    keeper = ResultKeeper(output or paths.bench / ("quick.json" if quick else "results.json"))
    if resume:
        result = take_up(keeper.file, result, chosen_rows, Reporter().line)
    calls = not quick if system_calls is None else system_calls
    measure(result, chosen_rows, rounds, launcher, keeper, calls)


@app.command("programs")
def programs_command(
    file: Annotated[
        Path | None, typer.Option("--programs", help="Default: bench/programs.toml.")
    ] = None,
    row_names: RowsOption = None,
    allocator_names: AllocatorsOption = None,
    rounds: RoundsOption = LEAST_FOR_INTERVAL,
    cpus: CpusOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    system_calls: Annotated[bool, typer.Option(help="Count them in one more run.")] = False,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Runs real programs on every allocator: CPU time, peak memory, page faults, same output?"""
    paths = find_paths(root)
    found = programs.read_programs(paths, file or paths.programs)
    wanted = {row.name for row in rows.select_rows([p.row for p in found], row_names, None)}
    chosen = allocators.select_allocators(paths, allocator_names, False)
    launcher = timing_launcher(paths, cpus, timeout)
    result = timed_result("programs", chosen, paths, launcher, rounds=rounds)
    keeper = ResultKeeper(output or paths.bench / "programs.json")
    reporter = Reporter()
    ready = programs.prepare_all(paths, [p for p in found if p.row.name in wanted], reporter.line)
    measure(result, ready, rounds, launcher, keeper, system_calls)


@app.command("ab", context_settings={"allow_interspersed_args": False})
def ab_command(
    a: Annotated[
        str, typer.Option("--a", metavar="WORDS", help="Before: a library, variables, or both.")
    ],
    b: Annotated[str, typer.Option("--b", metavar="WORDS", help="After: the same.")],
    command: user_command.CommandArgument = None,
    row_names: Annotated[
        str | None, typer.Option("--row", metavar="A,B", help="Rows to run, instead of a command.")
    ] = None,
    build_change: Annotated[
        bool, typer.Option("--build-change", help="Threshold of 0.5% instead of 1%.")
    ] = False,
    rounds: RoundsOption = 10,
    suite: SuiteOption = None,
    mimalloc_bench: MimallocBenchOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short runs.")] = False,
    measured: user_command.MeasureOption = "wall",
    expect_status: user_command.StatusOption = "0",
    stdin: user_command.StdinOption = None,
    directory: user_command.DirectoryOption = None,
    variables: user_command.VariableOption = None,
    cpus: CpusOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Rule R1 on a change, on benchmark rows or on your own program: GO, NO-GO, or how many more
    runs it takes to tell.

    Your own program keeps your environment, as with compare.
    """
    paths = find_paths(root)
    if (row_names is None) == (not command):
        raise LabError("wanted is either --row A,B or -- COMMAND...")
    if command:
        chosen_rows = [
            user_command.command_row(command, measured, stdin, directory, expect_status, variables)
        ]
    else:
        chosen_rows = rows.select_rows(all_rows(paths, suite, mimalloc_bench), row_names, None)
    if quick and not command:
        chosen_rows = [row.shortened() for row in chosen_rows]
    chosen = [
        allocators.parse_contender(paths, "a", a),
        allocators.parse_contender(paths, "b", b),
    ]
    if command:
        chosen = with_glibc_itself(chosen, chosen_rows[0])
        refuse_a_program_without_preloads(chosen_rows[0], chosen)
    launcher = timing_launcher(paths, cpus, timeout)
    result = timed_result("ab", chosen, paths, launcher, rounds=rounds, build_change=build_change)
    keeper = ResultKeeper(output or paths.bench / "ab.json")
    measure(result, chosen_rows, rounds, launcher, keeper, False)


@app.command("instructions")
def instructions_command(
    allocator_names: AllocatorsOption = None,
    iterations: Annotated[
        int, typer.Option(min=1000, help="Of the shorter of the two runs.")
    ] = 200_000,
    slots: Annotated[int, typer.Option(min=1, help="Working set, in blocks.")] = 400,
    min_size: Annotated[int, typer.Option(min=1, help="Bytes.")] = 16,
    max_size: Annotated[int, typer.Option(min=1, help="Bytes.")] = 1024,
    program: Annotated[Path | None, typer.Option(help="Default: build/bench/random_mixed.")] = None,
    cpus: CpusOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Counts instructions of malloc and free under callgrind, with random_mixed."""
    paths = find_paths(root)
    program = (program or paths.bench / "random_mixed").resolve()
    if not program.is_file():
        raise LabError(f"{paths.shown(program)} is not built: run make bench-build")
    if min_size > max_size:
        raise LabError(f"--min-size {min_size} is above --max-size {max_size}")
    chosen = allocators.select_allocators(paths, allocator_names, False)
    launcher = Launcher(paths.launcher, parse_cpus(cpus), timeout)
    sizes = [min_size, max_size]
    result = new_result(
        "instructions", chosen, paths, iterations=iterations, slots=slots, sizes=sizes
    )
    environment = {
        "HAKMEM_BENCH_MIN_SIZE": str(min_size),
        "HAKMEM_BENCH_MAX_SIZE": str(max_size),
    }
    keeper = ResultKeeper(output or paths.bench / "instructions.json")
    reporter = Reporter()
    try:
        for index, allocator in enumerate(chosen, start=1):
            if allocator.missing is not None:
                count = InstructionCount(allocator.name, iterations, failure=allocator.missing)
            else:
                reporter.line(f"{index} of {len(chosen)}: {allocator.name}")
                count = count_instructions(
                    launcher, allocator, program, iterations, slots, environment
                )
            result.instructions.append(count)
    except KeyboardInterrupt:
        result.interrupted = True
    finish(result, keeper)


for module in (
    compare,
    tail,
    trace,
    steady,
    servers,
    hunt,
    report,
    scale,
    scorecard,
    publish,
    results,
    where,
    tune,
):
    module.register(app)


@app.command("show")
def show_command(
    file: Annotated[Path, typer.Argument(help="A result that another command kept.")],
) -> None:
    """Prints the tables of a result again."""
    result = read_result(file)
    with understood(file):
        show.print_result(result)


@app.command("rank")
def rank_command(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A result: of compare, say.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another: of replay, say.")],
    first_row: Annotated[
        str | None, typer.Option("--row", metavar="NAME", help="Of FIRST; default: its first.")
    ] = None,
) -> None:
    """Says whether two results, a program's and its replay's, put the allocators in one order."""
    results = [with_printable_texts(read_result(file)) for file in (first, second)]
    row = ranking.choose_row(results[0], first_row, first)
    other = ranking.choose_row(results[1], None, second)
    names = ranking.common_allocators(row, other, results[0])
    if len(names) < 2:
        raise LabError(f"{first} and {second}: fewer than two allocators ran in both")
    with understood(f"{first} and {second}"):
        ranking_table.print_ranking(row, other, names, tables.make_console())


@app.command("schema")
def schema_command() -> None:
    """Prints the shape of result files as JSON Schema."""
    print_lines(json.dumps(schema(), indent=1).splitlines())


@app.command("version")
def version_command() -> None:
    """Prints the version."""
    print(f"hakmem-lab {__version__}")


def stop(_signal: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry: 0 done, 2 wrong input, 130 stopped (the finished runs are reported and kept)."""
    signal.signal(signal.SIGTERM, stop)
    # A shell starts background jobs with SIGINT ignored; whoever sends it then means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(prog_name="hakmem-lab")
    except LabError as error:
        print(f"hakmem-lab: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:  # standard output on a full disk, a working directory that is gone
        print(f"hakmem-lab: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(2)
