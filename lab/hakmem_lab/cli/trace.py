"""The commands on allocation traces: trace-info and replay."""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import psutil
import typer

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import check_output
from hakmem_lab.base.paths import find_paths
from hakmem_lab.base.printable import printable
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
from hakmem_lab.report import tables
from hakmem_lab.report.trace_tables import print_trace
from hakmem_lab.run import allocators
from hakmem_lab.run.measure import DEFAULT_TIMEOUT
from hakmem_lab.run.results import ResultKeeper
from hakmem_lab.run.runner import Pace, Reporter, run_rounds
from hakmem_lab.trace import info, replay, replay_order, replay_plan
from hakmem_lab.trace.htrace import EVENT_MEMORY, ProgressFunction, read_trace
from hakmem_lab.trace.match import Objects, match

SLICES = 20  # of a stage, in the bar

TraceArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A recorded trace.")]
DamagedOption = Annotated[bool, typer.Option("--damaged", help="Uses what lies before a damage.")]
EventsOption = Annotated[
    int | None,
    typer.Option("--events", min=1, metavar="N", help="Reads about the first N events only."),
]


class Stages:
    """A bar over stages that say how far they are."""

    def __init__(self, reporter: Reporter, names: Sequence[str]) -> None:
        self.reporter = reporter
        self.pace = Pace([name for name in names for _ in range(SLICES)])
        self.total = len(self.pace.left)

    @contextmanager
    def stage(self, name: str) -> Iterator[ProgressFunction]:
        done, last = 0, time.monotonic()

        def progress(part: float) -> None:
            nonlocal done, last
            slices = min(SLICES, int(part * SLICES)) - done
            if slices <= 0:
                return
            now = time.monotonic()
            for _ in range(slices):
                self.pace.finish(name, (now - last) / slices)
            done, last = done + slices, now
            self.reporter.step(name, self.pace, self.total)

        self.reporter.step(name, self.pace, self.total)
        yield progress
        progress(1.0)


def load(file: Path, damaged: bool, events: int | None, stages: Stages) -> Objects:
    """Reads and matches a trace."""
    with stages.stage("reading") as progress:
        memory = psutil.virtual_memory().available
        trace = read_trace(file, damaged, progress, events, memory)
    with stages.stage("matching") as progress:
        return match(trace, progress)


def refuse_large(file: Path, error: MemoryError) -> LabError:
    needed = f"some {EVENT_MEMORY} bytes an event are needed"
    return LabError(f"{file}: not enough memory: {needed} ({error}); --events reads fewer")


def trace_info_command(
    file: TraceArgument,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
    damaged: DamagedOption = False,
    events: EventsOption = None,
) -> None:
    """Shows what a recorded program allocated: sizes, lifetimes, threads, peaks."""
    reporter = Reporter()
    stages = Stages(reporter, ["reading", "matching", "counting"])
    try:
        with reporter.running():
            objects = load(file, damaged, events, stages)
            with stages.stage("counting"):
                figures = info.describe_trace(objects)
    except MemoryError as error:
        raise refuse_large(file, error) from None
    if as_json:
        for warning in figures["warnings"]:
            print(f"warning: {printable(warning)}", file=sys.stderr)
        print(json.dumps(figures, indent=1))
    else:
        print_trace(figures, tables.make_console())


def replay_command(
    file: TraceArgument,
    allocator_names: AllocatorsOption = None,
    rounds: RoundsOption = LEAST_FOR_INTERVAL,
    damaged: DamagedOption = False,
    events: EventsOption = None,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Keeps the plan that bench/replay reads."),
    ] = None,
    window: Annotated[
        int,
        typer.Option(min=1, metavar="EVENTS", help="How closely threads keep the recorded order."),
    ] = replay_order.WINDOW_EVENTS,
    cpus: CpusOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """Replays a recorded program's allocations on every allocator, interleaved."""
    paths = find_paths(root)
    chosen = allocators.select_allocators(paths, allocator_names, False)
    launcher = timing_launcher(paths, cpus, timeout)
    result = timed_result("replay", chosen, paths, launcher, rounds=rounds)
    keeper = ResultKeeper(output or paths.bench / "replay.json")
    if plan_file is not None:
        check_output("--plan", plan_file, make_directories=False)
    reporter = Reporter()
    with tempfile.TemporaryDirectory(prefix="hakmem-replay-") as directory:
        plan_file = plan_file or Path(directory) / "plan"
        row = replay.make_row(paths, file, plan_file)
        stages = Stages(reporter, ["reading", "matching", "planning"])
        try:
            with reporter.running():
                objects = load(file, damaged, events, stages)
                for warning in objects.trace.warnings:  # and again below the table
                    reporter.line(f"warning: {warning}")
                with stages.stage("planning") as progress:
                    plan = replay_plan.make_plan(objects, window, progress)
                    plan.write(plan_file)
            result.settings.update(replay.describe_replay(objects, plan), window=window)
        except MemoryError as error:
            raise refuse_large(file, error) from None
        plan_threads = len(plan.threads)
        del objects, plan
        run_rounds(
            result,
            [replay.pinned(row, plan_threads)],
            rounds,
            replay.with_dry_runs(launcher, result.settings),
            None,
            keeper.partial,
            Reporter(),
        )
    finish(result, keeper)


def register(app: typer.Typer) -> None:
    app.command("trace-info")(trace_info_command)
    app.command("replay")(replay_command)
