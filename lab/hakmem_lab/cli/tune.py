"""The command hakmem-lab tune: which settings of hakmem are best for a program."""

import time
from dataclasses import replace
from typing import Annotated

import typer

from hakmem_lab.analysis import tune as analysis
from hakmem_lab.analysis.statistics import LEAST_ROUNDS
from hakmem_lab.analysis.verdict import plural
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import find_paths
from hakmem_lab.cli.commands import (
    CpusOption,
    OutputOption,
    RootOption,
    TimeoutOption,
    finish,
    refuse_a_program_without_preloads,
    timed_result,
    timing_launcher,
)
from hakmem_lab.cli.compare import (
    PROGRAM_TIMEOUT,
    say_that_it_is_a_script,
    say_what_is_left_out,
)
from hakmem_lab.cli.user_command import (
    CommandArgument,
    DirectoryOption,
    MeasureOption,
    PrepareOption,
    StatusOption,
    StdinOption,
    VariableOption,
    command_row,
)
from hakmem_lab.run import hooks
from hakmem_lab.run.allocators import Allocator, is_foreign, parse_contender
from hakmem_lab.run.results import Result, ResultKeeper
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import Reporter, RunFunction, show_duration
from hakmem_lab.run.tune import (
    DEFAULT,
    Phase,
    VaryingStatusError,
    first_settings,
    refuse_varying_ends,
    run_phase,
    setting,
)


def first_runs(row: Row, default: Allocator, run: RunFunction) -> float:
    """Seconds that a run takes, with all around it: of the second one, as the first brings files
    into memory. A program that fails by itself is refused."""
    seconds = 0.0
    for _ in range(2):
        began = time.monotonic()
        taken = run(row, default, 0, 0)
        seconds = time.monotonic() - began
        if taken.failure is not None:
            raise LabError(
                f"the command fails on hakmem's defaults: {taken.failure}"
                " (--expect-status N takes another exit code as good)"
            )
        if taken.cost(row.measure) is None:
            raise LabError("the command is too short to be timed: give it more to do")
    return seconds


class Tuning:
    """One run of the command: what its two phases share."""

    def __init__(
        self,
        result: Result,
        row: Row,
        library: Allocator,
        run: RunFunction,
        keeper: ResultKeeper,
        deadline: float | None,
    ) -> None:
        self.result = result
        self.row = row
        self.library = library
        self.run = run
        self.keeper = keeper
        self.deadline = deadline
        self.reporter = Reporter()

    def phase(self, kind: str, settings: list[Allocator], rounds: int) -> bool:
        """False: Ctrl-C stopped it. Where the budget is used up the next phase has one round."""
        name = self.row.name if kind == "finals" else f"{self.row.name}: {kind}"
        self.result.settings["phases"][name] = kind
        row = replace(self.row, name=name)
        phase = Phase(row, settings, rounds)
        partial = self.keeper.partial
        in_time = run_phase(self.result, phase, self.run, partial, self.reporter, self.deadline)
        if not in_time:
            self.reporter.line(f"--budget is used up: the {kind} ends before its last round")
        return not self.result.interrupted

    def whole(self, schedule: analysis.Schedule, rounds: int, profiles: list[Allocator]) -> None:
        finalists = profiles
        if schedule.screening:
            settings = first_settings(self.library)
            if not self.phase("screening", settings, schedule.screening):
                return
            chosen = analysis.choose_finalists(
                self.result.rows[-1],
                [analysis.environment_of_setting(s, self.library.environment) for s in settings],
                schedule.finalists,
            )
            finalists = [setting(self.library, environment) for environment in chosen]
            names = ", ".join(a.name for a in finalists)
            self.reporter.line(f"finals: {names}; {rounds} rounds")
        self.phase("finals", finalists, rounds)


def announce(
    reporter: Reporter, schedule: analysis.Schedule, settings: int, rounds: int, seconds: float
) -> None:
    most = show_duration(schedule.runs(settings, rounds) * seconds)
    what = f"{schedule.finalists} settings in {plural(rounds, 'round')}"
    if schedule.screening:
        few = plural(schedule.screening, "round")
        what = f"{settings} settings in {few} of screening, then at most {what} of finals"
    reporter.line(f"a run takes {seconds:.2f} s: {what}: about {most} at most")


def tune_command(
    command: CommandArgument = None,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds",
            "--runs",
            min=1,
            max=1000,
            help=f"Of the finals; R1 asks for {LEAST_ROUNDS}.",
        ),
    ] = LEAST_ROUNDS,
    budget: Annotated[
        float | None,
        typer.Option(min=1, metavar="SECONDS", help="For all runs; a short time tries less."),
    ] = None,
    library: Annotated[
        str, typer.Option(metavar="FILE", help="Another libhakmem.so than the standard build.")
    ] = "hakmem",
    measure: MeasureOption = "wall",
    expect_status: StatusOption = "0",
    stdin: StdinOption = None,
    directory: DirectoryOption = None,
    variables: VariableOption = None,
    prepare: PrepareOption = None,
    cpus: CpusOption = None,
    timeout: TimeoutOption = PROGRAM_TIMEOUT,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Which profile and options of hakmem are best for your program: those between least time and
    least memory, what each gains beyond the noise, and the line for the environment.

    It says how long it will take. It keeps your environment, as compare does.
    """
    if not command:
        raise LabError("wanted is -- COMMAND...")
    paths = find_paths(root)
    reporter = Reporter()
    launcher = timing_launcher(paths, cpus, timeout)
    row = command_row(command, measure, stdin, directory, expect_status, variables)
    row = replace(row, prepare=prepare)
    hakmem = parse_contender(paths, "hakmem", library)
    if is_foreign(hakmem) or not hakmem.library:
        raise LabError(f"--library {library}: not a library of hakmem")
    settings = first_settings(hakmem)
    refuse_a_program_without_preloads(row, settings)
    result = timed_result(
        "tune", settings[:3], paths, launcher, rounds=rounds, base=DEFAULT, phases={}
    )
    result.settings |= {"measure": measure, "library_environment": sorted(hakmem.environment)}
    result.settings |= {} if budget is None else {"budget_s": budget}
    keeper = ResultKeeper(output or paths.bench / "tune.json")
    say_what_is_left_out(reporter)
    say_that_it_is_a_script(reporter, row)
    run = refuse_varying_ends(hooks.with_prepare(launcher, launcher.run))
    began = time.monotonic()
    seconds = first_runs(row, settings[0], run)
    spent = time.monotonic() - began
    schedule = analysis.choose_schedule(len(settings), rounds, seconds, budget, spent)
    announce(reporter, schedule, len(settings), rounds, seconds)
    deadline = None if budget is None else began + budget
    tuning = Tuning(result, row, hakmem, run, keeper, deadline)
    try:
        tuning.whole(schedule, rounds, settings[:3])
    except VaryingStatusError as error:
        result.settings["problem"] = str(error)
        reporter.line(f"hakmem-lab: {error}: no setting can be judged by such runs")
        keeper.whole(result)
        raise typer.Exit(1) from None
    finish(result, keeper)


def register(app: typer.Typer) -> None:
    app.command("tune", context_settings={"allow_interspersed_args": False})(tune_command)
