"""The loop: rounds over rows over allocators, with progress, and what is done survives Ctrl-C."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from hakmem_lab.base.printable import printable
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.rows import Row

SAVE_SECONDS = 30.0
Item = TypeVar("Item")
# run(row, allocator, round, position); count(row, allocator)
RunFunction = Callable[[Row, Allocator, int, int], Run]
CountFunction = Callable[[Row, Allocator], dict[str, int] | None]
SaveFunction = Callable[[Result], None]


def order_of_round(items: Sequence[Item], index: int) -> list[Item]:
    """The order of round `index` (from 0): rotated by one each round, every other one reversed, so
    that no item always runs first, last, or behind the same neighbour."""
    if not items:
        return []
    start = (index // 2) % len(items)
    rotated = [*items[start:], *items[:start]]
    return rotated[::-1] if index % 2 else rotated


def show_duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole / 3600:.1f} h"


class Pace:
    """Time left, from what each kind of step took so far. Rows differ by a factor of a hundred, so
    a step that was never taken is guessed from the mean, and one that was from itself."""

    def __init__(self, steps: Sequence[str]) -> None:
        self.left = list(steps)
        self.known: dict[str, float] = {}  # seconds, the last time

    def finish(self, step: str, seconds: float) -> None:
        self.left.remove(step)
        self.known[step] = seconds

    def skip(self, step: str) -> None:
        """One that was taken in a run before this one."""
        if step in self.left:
            self.left.remove(step)

    def drop(self, step: str) -> None:
        """Takes out what is still to come of `step`."""
        self.left = [other for other in self.left if other != step]

    def seconds_left(self) -> float:
        if not self.known:
            return 0.0
        guess = sum(self.known.values()) / len(self.known)
        return sum(self.known.get(step, guess) for step in self.left)


class Reporter:
    """Progress on stderr: a bar on a terminal, a line a round elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}  {task.fields[left]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task("", total=1, left="")

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.progress:
            yield

    def step(self, what: str, pace: Pace, total: int) -> None:
        left = f"about {show_duration(pace.seconds_left())} left" if pace.known else ""
        self.progress.update(
            self.task,
            description=printable(what),
            completed=total - len(pace.left),
            total=total,
            left=left,
        )

    def line(self, text: str) -> None:
        """A line that stays; a failure, or where there is no bar, a round's end."""
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def round_done(self, text: str, pace: Pace) -> None:
        if not self.console.is_terminal:
            self.line(f"{text}; about {show_duration(pace.seconds_left())} left")


def run_rounds(
    result: Result,
    rows: Sequence[Row],
    rounds: int,
    run: RunFunction,
    count: CountFunction | None = None,
    save: SaveFunction | None = None,
    reporter: Reporter | None = None,
    warm_up: Callable[[], None] | None = None,
    turn_rows: bool = False,
    enough: Callable[[], bool] | None = None,
) -> None:
    """Fills `result.rows`. A round takes every row once, and a row every allocator once.

    The rounds are outermost, so that a disturbance of minutes falls on one round of many rows and
    not on all rounds of one. An allocator that failed on a row sits out that row's other rounds.
    Rows that are compared with each other take turns, too: `turn_rows`.
    `count` is called before the first round, and `warm_up` after it. `enough` is called after each
    round but the last; when it says so there is no other.
    Ctrl-C ends it: result.interrupted is set, finished runs are kept. `save` is called after each
    round, and in a long one every SAVE_SECONDS, so that a run that is killed leaves a file too.
    Runs that the result has already, of one that is taken up again, are not made anew.
    """
    reporter = reporter or Reporter()
    allocators = [allocator for allocator in result.allocators if allocator.missing is None]
    there = {entry.name: entry for entry in result.rows}
    table = [(row, there.get(row.name) or RowResult.of(row)) for row in rows]
    result.rows = [entry for _, entry in table]
    done = {(e.name, run.allocator, run.round) for e in result.rows for run in e.runs}
    able = [(row, entry) for row, entry in table if row.missing is None]
    timed = [f"{row.name}\0{a.name}" for row, _ in able for a in allocators]
    pace = Pace(timed * rounds + [f"{step}\0calls" for step in timed if count])
    total = len(pace.left)
    saved = time.monotonic()
    for row_name, name, _ in done:
        pace.skip(f"{row_name}\0{name}")

    @contextmanager
    def taking(step: str, what: str) -> Iterator[None]:
        reporter.step(what, pace, total)
        start = time.monotonic()
        yield
        pace.finish(step, time.monotonic() - start)

    def count_calls(count: CountFunction) -> None:
        for row, entry in able:
            for allocator in allocators:
                what = f"{row.name} on {allocator.name}"
                if allocator.name in entry.system_calls:
                    pace.drop(f"{row.name}\0{allocator.name}\0calls")
                    continue
                with taking(f"{row.name}\0{allocator.name}\0calls", f"system calls: {what}"):
                    calls = count(row, allocator)
                if calls is not None:
                    entry.system_calls[allocator.name] = calls
                else:
                    reporter.line(f"{what}: the run under strace failed: no system calls")
        reporter.round_done("system calls counted", pace)

    def run_round(index: int) -> bool:
        """False: there was nothing left to run in it."""
        nonlocal saved
        ran = False
        for row, entry in order_of_round(able, index) if turn_rows else able:
            for at, allocator in enumerate(order_of_round(allocators, index), start=1):
                step, what = f"{row.name}\0{allocator.name}", f"{row.name} on {allocator.name}"
                if (row.name, allocator.name, index + 1) in done:
                    continue
                if entry.failure(allocator.name) is not None:
                    pace.drop(step)
                    continue
                with taking(step, f"round {index + 1} of {rounds}: {what}"):
                    taken = run(row, allocator, index + 1, at)
                entry.runs.append(taken)
                ran = True
                if taken.failure:
                    reporter.line(f"{what}: {taken.failure}")
            if save is not None and time.monotonic() - saved > SAVE_SECONDS:
                save(result)
                saved = time.monotonic()
        return ran

    try:
        with reporter.running():
            if count is not None:
                count_calls(count)
            if warm_up is not None:
                warm_up()
            for index in range(rounds):
                if not run_round(index):
                    continue
                if save is not None:
                    save(result)
                reporter.round_done(f"round {index + 1} of {rounds} done", pace)
                if enough is not None and index + 1 < rounds and enough():
                    break
    except KeyboardInterrupt:
        result.interrupted = True
        print("stopped: reporting on the runs that are finished", file=sys.stderr)
