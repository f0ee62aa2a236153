"""The sub-commands on time: tail and soak. With CSV files they analyse these, else they run."""

import os
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.soak import DEFAULT_WARM_UP, parse_warm_up
from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.analysis.tail import TailTrial, tail_row
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import check_directory, check_output
from hakmem_lab.base.paths import Paths, find_paths, parse_cpus
from hakmem_lab.base.printable import print_lines
from hakmem_lab.cli.commands import (
    INTERRUPTED,
    AllocatorsOption,
    CpusOption,
    OutputOption,
    RootOption,
    RoundsOption,
    finish,
    new_result,
)
from hakmem_lab.cli.soak_scripts import check_plot, report_files, report_tails
from hakmem_lab.run import allocators
from hakmem_lab.run.contenders import choose_base
from hakmem_lab.run.measure import Launcher
from hakmem_lab.run.results import ResultKeeper
from hakmem_lab.run.runner import Reporter, run_rounds
from hakmem_lab.run.soak import SoakPlan, Soaks, run_soaks

SLACK = 60.0  # seconds that a run may take longer than it was told to
MOST_SECONDS = 8_640_000

FilesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CSV...]", help="CSV files of soaks to analyse; none: run."),
]
WarmUpOption = Annotated[
    str, typer.Option("--warm-up", metavar="TIME", help="Left out: seconds, or a share as 5%.")
]
SlotsOption = Annotated[int, typer.Option("--ws", min=1, max=1 << 30, help="Slots a thread.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the random sequence.")]
ThreadsOption = Annotated[int, typer.Option(min=1, max=1024, help="Threads of each process.")]
ProgramOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Default: build/bench/random_mixed.")
]
BaseOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="What the others are compared with.")
]


def mixed_program(paths: Paths, program: Path | None) -> Path:
    found = (program or paths.bench / "random_mixed").resolve()
    if not found.is_file() or not os.access(found, os.X_OK):
        raise LabError(f"{paths.shown(found)} is not built: run make bench-build")
    return found


def tail_command(
    files: FilesArgument = None,
    allocator_names: AllocatorsOption = None,
    base: BaseOption = None,
    rounds: RoundsOption = LEAST_FOR_INTERVAL,
    seconds: Annotated[int, typer.Option(min=1, max=86400, help="Seconds of each run.")] = 12,
    epoch_ms: Annotated[int, typer.Option(min=5, max=60000, help="Length of an epoch.")] = 10,
    slots: SlotsOption = 400,
    seed: SeedOption = 1,
    threads: ThreadsOption = 1,
    warm_up: WarmUpOption = DEFAULT_WARM_UP,
    cpus: CpusOption = None,
    program: ProgramOption = None,
    output: OutputOption = None,
    root: RootOption = None,
) -> None:
    """The slow tail: low percentiles of throughput, high ones of latency, of short epochs."""
    if files:
        print_lines(report_tails(files, warm_up))
        return
    parse_warm_up(warm_up, seconds)
    if epoch_ms * 4 > seconds * 1000:
        raise LabError(f"--epoch-ms {epoch_ms}: fewer than four epochs in {seconds} s")
    paths = find_paths(root)
    chosen = allocators.select_allocators(paths, allocator_names, False)
    launcher = Launcher(paths.launcher, parse_cpus(cpus), seconds + SLACK)
    output = output or paths.bench / "tail.json"
    epochs = output.with_suffix(".csv") if output.name else output
    if epochs == output:
        raise LabError(f"--output {output}: the result is JSON; its epochs go to that name")
    keeper = ResultKeeper(output)
    check_output("--output", epochs)
    result = new_result(
        "tail",
        chosen,
        paths,
        rounds=rounds,
        base=choose_base(chosen, base),
        cpus=launcher.cpus,
        seconds=seconds,
        epoch_ms=epoch_ms,
        warm_up=warm_up,
        epochs_csv=str(epochs),
    )
    row = tail_row(mixed_program(paths, program), seconds, epoch_ms, slots, seed, threads)
    trial = TailTrial(launcher, warm_up, epochs)
    run_rounds(
        result,
        [row],
        rounds,
        trial.run,
        None,
        keeper.partial,
        Reporter(),
    )
    finish(result, keeper)


def default_judged(paths: Paths, names: list[str]) -> list[str]:
    """hakmem and its variants are judged; without any of them all are."""
    peers = {a.name for a in allocators.known_allocators(paths)} - {"hakmem"}
    return [name for name in names if name not in peers] or names


def reference_of(soaks: Soaks, wanted: str | None) -> str | None:
    """glibc, where it ran beside all of them: what happens to it as well is the machine's."""
    if wanted is not None:
        return allocators.plain_name(wanted)
    return "glibc" if len(soaks.groups) == 1 and "glibc" in soaks.groups[0] else None


def soak_command(
    files: FilesArgument = None,
    allocator_names: Annotated[
        str, typer.Option("--allocators", metavar="A,B", help="As in suite.")
    ] = "hakmem,glibc",
    seconds: Annotated[int, typer.Option(min=1, max=MOST_SECONDS, help="Seconds a soak.")] = 60,
    epoch: Annotated[int, typer.Option(min=1, max=MOST_SECONDS, help="Seconds.")] = 1,
    slots: SlotsOption = 400,
    seed: SeedOption = 1,
    threads: ThreadsOption = 1,
    warm_up: WarmUpOption = DEFAULT_WARM_UP,
    reference: Annotated[
        str | None, typer.Option(metavar="NAME", help="A CV no worse than its own passes.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="A,B", help="Those to judge; default: hakmem's.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Memory and throughput over time.")
    ] = None,
    cpus: CpusOption = None,
    program: ProgramOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="For CSV files; build/bench/soak."),
    ] = None,
    root: RootOption = None,
) -> None:
    """Does memory stay flat, does throughput hold? Rule R4; exit code 1: a limit is exceeded."""
    judged = judge.split(",") if judge is not None else None
    if plot is not None:
        check_plot(plot)
    if files:
        lines, good = report_files(files, warm_up, plot, reference, judged)
        print_lines(lines)
        raise typer.Exit(0 if good else 1)
    parse_warm_up(warm_up, seconds)
    if epoch * 4 > seconds:
        raise LabError(f"--epoch {epoch}: fewer than four epochs in {seconds} s")
    paths = find_paths(root)
    chosen = allocators.select_allocators(paths, allocator_names, False)
    launcher = Launcher(paths.launcher, parse_cpus(cpus), seconds + SLACK)
    directory = output or paths.bench / "soak"
    check_directory("--output", directory)
    plan = SoakPlan(
        mixed_program(paths, program), seconds, epoch, slots, seed, threads, directory.absolute()
    )
    soaks = run_soaks(plan, launcher, chosen, Reporter())
    good = not soaks.failures
    if soaks.files:
        names = [file.stem for file in soaks.files]
        judged = judged or default_judged(paths, names)
        beside = reference_of(soaks, reference)
        beside = beside if beside in names else None
        lines, kept = report_files(
            [str(file) for file in soaks.files], warm_up, plot, beside, judged
        )
        good = good and kept
        print_lines(lines)
    for failure in soaks.failures:
        print_lines([f"failed: {failure}"])
    print_lines([f"epochs: {', '.join(str(file) for file in soaks.files) or 'none'}"])
    if soaks.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if good else 1)


def register(app: typer.Typer) -> None:
    app.command("tail")(tail_command)
    app.command("soak")(soak_command)
