"""The command hakmem-lab hunt."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Annotated, get_args

import psutil
import typer

from hakmem_lab.analysis.hunt import METRICS, Against, Hunt, Metric, Plan
from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths, find_paths
from hakmem_lab.cli.commands import (
    AllocatorsOption,
    CpusOption,
    OutputOption,
    RootOption,
    TimeoutOption,
    finish,
    timed_result,
    timing_launcher,
)
from hakmem_lab.run import allocators
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.hunt import HuntTrial, parse_without, parse_words
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, ResultKeeper, RowResult
from hakmem_lab.run.rows import Row, split_list
from hakmem_lab.run.runner import SAVE_SECONDS, Reporter

ALL = "all"
ABOVE_TIME, ABOVE_MEMORY = 1.5, 2.0
LONGEST_RUN = 20.0  # seconds; a run is made to take less than one


def parse_metrics(text: str) -> tuple[Metric, ...]:
    if text == ALL:
        return METRICS
    chosen = [metric for metric in METRICS if metric in split_list(text)]
    if len(chosen) != len(split_list(text)) or not chosen:
        raise LabError(f"--metric {text}: accepted: {', '.join(METRICS)}, {ALL}")
    return tuple(chosen)


def parse_against(text: str) -> Against:
    for known in get_args(Against):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise LabError(f"--against {text}: accepted: {', '.join(get_args(Against))}")


def check_subject(chosen: Sequence[Allocator], subject: str) -> None:
    able = {a.name: a for a in chosen if a.missing is None}
    missing = next((a.missing for a in chosen if a.name == subject and a.missing), None)
    if missing is not None:
        raise LabError(f"--subject {subject}: {missing}")
    if subject not in able:
        raise LabError(f"--subject {subject}: not among --allocators: {', '.join(able)}")
    if len(able) < 2:
        raise LabError("--allocators: wanted is at least one besides the subject")


def hunting_program(paths: Paths) -> str:
    program = paths.bench / "hunt"
    if not program.is_file() or not os.access(program, os.X_OK):
        raise LabError(f"{paths.shown(program)} is not built: run make bench-build")
    return str(program)


def items_of(text: str | None) -> dict[str, str]:
    """The items of --allocators by the allocator's name, for commands that are printed."""
    return {item.partition("=")[0]: item for item in split_list(text or "")}


def round_runner(trial: HuntTrial) -> Callable[..., None]:
    def run_round(
        row: RowResult,
        turn: Sequence[Allocator],
        round_: int,
        memory: float,
        together: bool,
        keep: Callable[[Run], None],
    ) -> None:
        """An allocator that failed sits out the rest of the row."""
        able = [allocator for allocator in turn if row.failure(allocator.name) is None]
        command = Row(row.name, tuple(row.command), row.measure, row.group)
        trial.run(command, able, round_, memory, together, keep)

    return run_round


def saver(keeper: ResultKeeper, result: Result) -> Callable[[], None]:
    """Keeps the result every SAVE_SECONDS."""
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        if time.monotonic() - saved > SAVE_SECONDS:
            keeper.partial(result)
            saved = time.monotonic()

    return save


def hunt_command(
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- [--OPTION VALUE]...",
            help="Parameters of build/bench/hunt: these alone are measured, nothing is searched.",
        ),
    ] = None,
    allocator_names: AllocatorsOption = None,
    subject: Annotated[
        str, typer.Option(metavar="NAME", help="The allocator whose worst cases are searched.")
    ] = "hakmem",
    seconds: Annotated[
        int, typer.Option(min=1, max=864_000, help="Seconds of the whole hunt, about.")
    ] = 600,
    candidates: Annotated[
        int | None, typer.Option(min=1, help="At most this many; default: as time allows.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 1,
    metric: Annotated[
        str, typer.Option(metavar="time|peak|rest|all", help="What is to be worst, or a list.")
    ] = ALL,
    against: Annotated[
        str, typer.Option(metavar="best|median", help="Of the others, what a find is above.")
    ] = "best",
    above: Annotated[
        float | None,
        typer.Option(min=1.0, help="Ratio of a find; default: 1.5 of time, 2 of memory."),
    ] = None,
    confirm_rounds: Annotated[
        int, typer.Option(min=LEAST_FOR_INTERVAL, max=1000, help="Rounds of each confirmation.")
    ] = 7,
    most_mib: Annotated[
        int, typer.Option(min=1, max=4096, help="MiB live at once in a run, about.")
    ] = 256,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Leaves out what is known: touch=none, calloc=100. Repeatable.",
        ),
    ] = None,
    cpus: CpusOption = None,
    timeout: TimeoutOption = LONGEST_RUN,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Searches for workloads on which an allocator is worst against the others."""
    metrics, judged_by = parse_metrics(metric), parse_against(against)
    asked = parse_words(parameters) if parameters else None
    left_out = parse_without(without or [])
    paths = find_paths(root)
    chosen = allocators.select_allocators(paths, allocator_names, False)
    check_subject(chosen, subject)
    program = hunting_program(paths)
    launcher = timing_launcher(paths, cpus, timeout)
    limits = {m: above or (ABOVE_TIME if m == "time" else ABOVE_MEMORY) for m in metrics}
    result = timed_result(
        "hunt",
        chosen,
        paths,
        launcher,
        subject=subject,
        seed=seed,
        seconds=seconds,
        candidates=candidates,
        metrics=list(metrics),
        against=judged_by,
        above=limits,
        rounds=confirm_rounds,
        most_mib=most_mib,
        without=without or [],
        program="build/bench/hunt",
        words=items_of(allocator_names),
        examined=asked is not None,
    )
    keeper = ResultKeeper(output or paths.bench / "hunt.json")
    plan = Plan(
        subject,
        metrics,
        seed,
        seconds,
        candidates,
        confirm_rounds,
        judged_by,
        limits,
        most_mib << 20,
        len(launcher.cpus),
        left_out,
    )
    room = int(psutil.virtual_memory().available) // 4 // (2 * most_mib << 20)
    trial = HuntTrial(launcher, max(1, min(4 * len(launcher.cpus), room)))
    reporter = Reporter()
    save = saver(keeper, result)
    hunt = Hunt(result, plan, round_runner(trial), program, reporter.line, save)
    if asked is not None:
        hunt.examine(asked)
    else:
        hunt.hunt()
    finish(result, keeper)


def register(app: typer.Typer) -> None:
    app.command("hunt", context_settings={"allow_interspersed_args": False})(hunt_command)
