"""Soaks on several allocators: as many side by side as there are CPUs, each a process of
random_mixed that writes its epochs to a CSV of its own."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher, Running, clean_environment, describe_failure, read_tail
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.runner import Pace, Reporter
from hakmem_lab.run.server import wait_for_any

GRACE = 60.0  # seconds that a soak may take longer than it was told to
TICK = 1.0  # seconds between two looks


@dataclass(frozen=True)
class SoakPlan:
    """What every process of a soak runs."""

    program: Path
    seconds: int
    epoch: int
    slots: int
    seed: int
    threads: int
    directory: Path  # of the CSV files

    def command(self) -> list[str]:
        # More iterations than any run gets to: the duration ends it.
        return [str(self.program), *map(str, (1 << 50, self.slots, self.seed, self.threads))]

    def environment(self, allocator: Allocator) -> dict[str, str]:
        return clean_environment(
            allocator.environment,
            {
                "HAKMEM_BENCH_EPOCH_SEC": str(self.epoch),
                "HAKMEM_BENCH_DURATION_SEC": str(self.seconds),
            },
        )

    def csv(self, name: str) -> Path:
        return self.directory / f"{name}.csv"


@dataclass
class Soaks:
    """What came of it: files of the runs in their order, and what went wrong."""

    files: list[Path] = field(default_factory=list)
    groups: list[list[str]] = field(default_factory=list)  # names of those that ran side by side
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False


def check_names(chosen: Sequence[Allocator]) -> None:
    """They become files and labels."""
    for allocator in chosen:
        if re.fullmatch(r"[A-Za-z0-9._-]+", allocator.name) is None:
            raise LabError(
                f"--allocators: {allocator.name!r}: here a name is of letters, digits,"
                " '.', '_' and '-'"
            )


@dataclass
class Under:
    """A soak under way."""

    name: str
    running: Running
    streams: list[IO[bytes]]

    def failure(self, timeout: float) -> str | None:
        return describe_failure(self.running.report(), read_tail(self.streams[1]), timeout)

    def close(self) -> None:
        self.running.kill()
        for stream in self.streams:
            stream.close()


def start(
    plan: SoakPlan, launcher: Launcher, allocator: Allocator, cpus: Sequence[int]
) -> Under | str:
    """A soak, or why there is none."""
    environment = plan.environment(allocator)
    problem = preload_problem(str(plan.program), allocator.library, environment.get("PATH"))
    if problem is not None:
        return f"{allocator.name}: not preloaded: {problem}"
    streams: list[IO[bytes]] = [
        plan.csv(allocator.name).open("wb"),
        plan.csv(allocator.name).with_suffix(".txt").open("w+b"),
    ]
    running = launcher.spawn(
        plan.command(), environment, allocator.library, cpus, streams[0], streams[1],
        timeout=plan.seconds + GRACE,
    )  # fmt: skip
    return Under(allocator.name, running, streams)


def has_epochs(file: Path) -> bool:
    """Three epochs at the least: one is the start, of the others two are needed to sum up."""
    return file.read_bytes().count(b"\n") >= 4


def run_group(
    plan: SoakPlan,
    launcher: Launcher,
    group: Sequence[Allocator],
    soaks: Soaks,
    reporter: Reporter,
    pace: Pace,
    total: int,
) -> None:
    names = ", ".join(allocator.name for allocator in group)
    under: list[Under] = []
    try:
        for index, allocator in enumerate(group):
            first = index * plan.threads % len(launcher.cpus)
            cpus = launcher.cpus[first : first + plan.threads]
            started = start(plan, launcher, allocator, cpus)
            if isinstance(started, str):
                soaks.failures.append(started)
                reporter.line(started)
            else:
                under.append(started)
        soaks.groups.append([soak.name for soak in under])
        begin = before = time.monotonic()
        done = 0
        while any(soak.running.process.poll() is None for soak in under):
            reporter.step(f"soak of {names}", pace, total)
            alive = [soak.running for soak in under if soak.running.process.poll() is None]
            wait_for_any(alive, TICK)
            now = time.monotonic()
            while done < plan.seconds and now - begin >= done + 1:
                pace.finish("second", 1.0)
                done += 1
            if now - before >= 60:
                before = now
                reporter.round_done(f"soak of {names}: {done} s", pace)
        for _ in range(done, plan.seconds):
            pace.finish("second", 1.0)
        reporter.round_done(f"soak of {names} done", pace)
    finally:
        for soak in under:
            failure = None
            if soak.running.process.poll() is not None:
                failure = soak.failure(plan.seconds + GRACE)
            soak.close()
            if failure is not None:
                soaks.failures.append(f"{soak.name}: {failure}")
                reporter.line(soaks.failures[-1])
            elif has_epochs(plan.csv(soak.name)):
                soaks.files.append(plan.csv(soak.name))


def run_soaks(
    plan: SoakPlan, launcher: Launcher, chosen: Sequence[Allocator], reporter: Reporter
) -> Soaks:
    """All of them; Ctrl-C ends it, and what is written until then can be read."""
    check_names(chosen)
    able = [allocator for allocator in chosen if allocator.missing is None]
    if not able:
        problems = ", ".join(f"{a.name}: {a.missing}" for a in chosen)
        raise LabError(f"no allocator can be run: {problems}")
    plan.directory.mkdir(parents=True, exist_ok=True)
    together = max(1, len(launcher.cpus) // plan.threads)
    groups = [able[at : at + together] for at in range(0, len(able), together)]
    soaks = Soaks()
    pace = Pace(["second"] * (len(groups) * plan.seconds))
    pace.known["second"] = 1.0
    total = len(pace.left)
    try:
        with reporter.running():
            for group in groups:
                run_group(plan, launcher, group, soaks, reporter, pace, total)
    except KeyboardInterrupt:
        soaks.interrupted = True
        reporter.line("stopped: reporting on what is written")
    return soaks
