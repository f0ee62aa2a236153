"""What a user wants done around the runs of a command: --prepare before each of them, --cleanup
after the last. Both are for a shell, are not measured, and run on glibc."""

import tempfile
from collections.abc import Callable, Sequence

from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher, Run, describe_failure, environment_of, read_tail
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import CountFunction, RunFunction, order_of_round

SHELL = "/bin/sh"


def run_hook(launcher: Launcher, row: Row, script: str) -> str | None:
    """What went wrong, in one line. The script gets the row's directory and environment."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        report = launcher.start(
            (SHELL, "-c", script),
            environment_of(row, Allocator("", "", "")),
            "",
            launcher.cpus,
            stdout,
            stderr,
            directory=row.directory,
        )
        return describe_failure(report, read_tail(stderr), launcher.timeout)


def with_prepare(launcher: Launcher, run: RunFunction) -> RunFunction:
    """A run whose preparation failed has failed."""

    def prepared(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        problem = run_hook(launcher, row, row.prepare) if row.prepare else None
        if problem is not None:
            return Run(allocator.name, round_, position, failure=f"--prepare failed: {problem}")
        return run(row, allocator, round_, position)

    return prepared


def count_with_prepare(launcher: Launcher, count: CountFunction) -> CountFunction:
    def prepared(row: Row, allocator: Allocator) -> dict[str, int] | None:
        if row.prepare and run_hook(launcher, row, row.prepare) is not None:
            return None  # the timed runs say why
        return count(row, allocator)

    return prepared


def clean_up(launcher: Launcher, rows: Sequence[Row], say: Callable[[str], None]) -> None:
    for row in rows:
        problem = run_hook(launcher, row, row.cleanup) if row.cleanup else None
        if problem is not None:
            say(f"{row.name}: --cleanup failed: {problem}")


def warm_up(
    rows: Sequence[Row], allocators: Sequence[Allocator], rounds: int, run: RunFunction
) -> None:
    """Runs as in the rounds that count; what fails here fails there again, and is reported then."""
    for index in range(rounds):
        for row in order_of_round(rows, index):
            for allocator in order_of_round(allocators, index):
                run(row, allocator, 0, 0)
