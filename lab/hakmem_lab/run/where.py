"""What the peak of a program is made of: it runs once to know its peak, and once more to be looked
at on the way there.

In the second run its resident memory is polled. Each time that it has grown by GROWTH since the
last look, the process is stopped, looked at, and goes on: the last look is the highest one. Times
of that run are worth nothing; those of the result are the first run's.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from hakmem_lab.run import memory_map
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.composition import POLLED, Figures, LookError, look, stopped
from hakmem_lab.run.measure import (
    Launcher,
    Run,
    Running,
    describe_failure,
    environment_of,
    read_tail,
    working_directory,
)
from hakmem_lab.run.rows import Row

POLL_SECONDS = 0.001
FIRST = 0.5  # of the peak of the first run: below, nothing is looked at
GROWTH = 1.01


def show_mib(kib: float) -> str:
    return f"{kib / 1024:.1f} MiB"


class Watch:
    """Looks at the largest process of a command that runs, each time that it has grown."""

    def __init__(self, running: Running, allocator: Allocator, tool: Path, peak: float) -> None:
        self.running = running
        self.allocator = allocator
        self.tool = tool
        self.due = peak * FIRST
        self.highest: Figures | None = None
        self.problem = ""

    def largest(self) -> tuple[int, int]:
        """KiB and number of the largest process; 0 where there is none."""
        pids = memory_map.descendants(self.running.process.pid)
        return max(((memory_map.resident_kib(pid), pid) for pid in pids), default=(0, 0))

    def poll(self) -> None:
        kib, pid = self.largest()
        if kib < self.due or pid == 0:
            return
        try:
            with stopped(pid):
                figures = look([pid], self.allocator, self.tool)
        except LookError as error:
            self.problem = str(error)
            self.due = max(self.due, kib) * GROWTH
            return
        if self.highest is None or figures[POLLED] > self.highest[POLLED]:
            self.highest = figures
        self.due = max(self.due, figures[POLLED]) * GROWTH

    def until_the_end(self) -> None:
        while self.running.process.poll() is None:
            self.poll()
            time.sleep(POLL_SECONDS)


def watched(launcher: Launcher, row: Row, allocator: Allocator, tool: Path, peak: float) -> Figures:
    """The figures at the highest look of one run. LookError says why there are none."""
    with (
        working_directory(row) as directory,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        running = launcher.spawn(
            row.command,
            environment_of(row, allocator),
            allocator.library,
            row.pinned_to(launcher.cpus),
            stdout,
            stderr,
            row.stdin,
            directory,
        )
        try:
            watch = Watch(running, allocator, tool, peak)
            watch.until_the_end()
            report = running.report()
        finally:
            running.kill()
        failure = describe_failure(report, read_tail(stderr), launcher.timeout, row.accepted_status)
    if failure is not None:
        raise LookError(f"when it was inspected: {failure}")
    if watch.highest is None:
        raise LookError(
            f"it could not be inspected: {watch.problem}"
            if watch.problem
            else f"it ended too soon to be inspected: half of its peak of {show_mib(peak)} was not"
            " seen in any poll"
        )
    return watch.highest


class WhereTrial:
    """The runs of `hakmem-lab where` on programs."""

    def __init__(self, launcher: Launcher, tool: Path) -> None:
        self.launcher = launcher
        self.tool = tool

    def run(self, row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        run = self.launcher.run(row, allocator, round_, position)
        if run.failure is not None:
            return run
        try:
            figures = watched(self.launcher, row, allocator, self.tool, run.peak_rss_kb)
        except LookError as error:
            return replace(run, failure=str(error))
        return replace(run, figures=figures)
