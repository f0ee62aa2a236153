"""What an allocator asks of the system once it has warmed up, and what an idle process keeps.

Steady state: random_mixed runs WARM_UP operations, and as many more as are asked for; the calls of
the second run beyond those of the first are of the steady state, start-up and exit cancel out.
strace counts them: it sees the calls of every allocator, whatever that counts itself, and an
operation that makes no call runs at full speed under it.

At rest: bench/at_rest fills memory that is then freed where no thread looks for it any more.

Idle: bench/idle fills memory, frees most of it, and then nobody calls the allocator. In one row the
load comes back after that: what its first second is worth against that of the first load.
"""

import re
import tempfile
import time
from collections.abc import Callable

from hakmem_lab.base.numbers import show_number
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import (
    REPORTED,
    Launcher,
    Run,
    clean_environment,
    describe_failure,
    read_tail,
)
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.rows import Row
from hakmem_lab.run.syscalls import count_system_calls

STEADY, IDLE_95, IDLE_100, LOAD_BACK = "steady", "idle-95", "idle-100", "load-back"
# Rows of memory at rest, and what bench/at_rest is told: who frees, threads, MiB, bytes of a block.
AT_REST = {
    "freed-by-others": ("others", "1", "300", "1024"),
    "cached-spans": ("own", "40", "300", "1000000"),
    "parked-heaps": ("ended", "40", "300", "1024"),
}
AT_REST_IDEAS = {
    "freed-by-others": "300 MiB of one thread that sleeps, freed by another",
    "cached-spans": "300 MiB in large blocks, freed by 40 threads that sleep then",
    "parked-heaps": "300 MiB that 40 threads left, freed after their end",
}
OS_CALLS = ("mmap", "munmap", "madvise")  # rule R3
WARM_UP = 20_000_000  # operations
IDLE_SECONDS = 5  # after which resident memory is read
LOAD_MS = 1500  # how long a load that comes back goes on
SLOTS = 400

# What bench/idle prints: name of the figure, line.
IDLE_LINES = {
    "filled_kb": r"^fill: .*\bresident_kb=(\d+)$",
    "live_kb": r"^freed \d+%: live_kb=(\d+)$",
    "resident_kb": r"^idle [\d.]+ s: resident_kb=(\d+)$",  # the last one counts
    "quiet_s": r"^quiet (\d+) s:",
    "quiet_cpu_ms": r"^quiet .*\bcpu_ms=([\d.]+)",
    "wake_ups": r"^quiet .*\bvoluntary_switches=(\d+)",
}
# Only of a load that goes on for that long; a fill by itself takes a fifth of it.
LOAD_LINES = {"again_to_first": r"^first second: again_to_first=([\d.]+)$"}


def parse_idle(text: str, row_name: str) -> dict[str, float]:
    """The figures of bench/idle's output that the row is for, as far as they are there."""
    lines = IDLE_LINES | (LOAD_LINES if row_name == LOAD_BACK else {})
    found = {name: re.findall(line, text, re.MULTILINE) for name, line in lines.items()}
    return {name: float(values[-1]) for name, values in found.items() if values}


def steady_rows(paths: Paths, operations: int, mib: int, quiet: int) -> list[Row]:
    """The rows; `quiet` seconds of the idle ones are watched for processor time and wake-ups."""
    mixed, idle = paths.bench / "random_mixed", paths.bench / "idle"
    at_rest = paths.bench / "at_rest"

    def row(name: str, idea: str, *command: str) -> Row:
        built = (paths.bench / command[0]).is_file()
        missing = None if built else f"build/bench/{command[0]} is not built: run make bench-build"
        words = (str(paths.bench / command[0]), *command[1:])
        return Row(name, words, "wall", "single", idea, missing=missing)

    def idle_row(name: str, freed: int, watched: int, load_ms: int = 0, more: str = "") -> Row:
        return row(
            name,
            f"4 threads fill {mib} MiB, free {freed}% at random, and fall silent{more}",
            *(idle.name, "4", str(mib), "16", "4096", str(freed)),
            *(str(IDLE_SECONDS), str(watched), str(load_ms)),
        )

    return [
        row(
            STEADY,
            f"{', '.join(OS_CALLS)} in {show_number(operations)} operations after warm-up",
            *(mixed.name, str(WARM_UP + operations), str(SLOTS), "1"),
        ),
        idle_row(IDLE_95, 95, quiet),
        idle_row(IDLE_100, 100, quiet),
        idle_row(LOAD_BACK, 95, 0, LOAD_MS, "; then the load comes back"),
        *(
            row(name, AT_REST_IDEAS[name], at_rest.name, *words, str(IDLE_SECONDS))
            for name, words in AT_REST.items()
        ),
    ]


def run_steady(launcher: Launcher, row: Row, allocator: Allocator, at: tuple[int, int]) -> Run:
    """Both runs under strace; the time is the longer one's."""
    program, total, *rest = row.command
    warm = Row(row.name, (program, str(WARM_UP), *rest), row.measure, row.group)
    before = count_system_calls(launcher, warm, allocator)
    start = time.monotonic()
    after = count_system_calls(launcher, row, allocator)
    seconds = time.monotonic() - start
    if before is None or after is None:
        return Run(allocator.name, *at, failure="it does not run under strace")
    more = sum(after.get(call, 0) - before.get(call, 0) for call in OS_CALLS)
    figures = {"os_calls": float(max(0, more)), "operations": float(int(total) - WARM_UP)}
    return Run(allocator.name, *at, wall_s=seconds, figures=figures)


def run_idle(launcher: Launcher, row: Row, allocator: Allocator, at: tuple[int, int]) -> Run:
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        report = launcher.start(
            row.command,
            clean_environment(row.environment, allocator.environment),
            allocator.library,
            launcher.cpus,
            stdout,
            stderr,
        )
        failure = describe_failure(report, read_tail(stderr), launcher.timeout)
        figures = parse_idle(read_tail(stdout), row.name)
    if failure is None and "resident_kb" not in figures:
        failure = "its output has no line on idle memory"
    reported = {name: report[name] for name in REPORTED}
    return Run(allocator.name, *at, **reported, failure=failure, figures=figures)


def steady_runner(launcher: Launcher) -> Callable[[Row, Allocator, int, int], Run]:
    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        problem = preload_problem(row.command[0], allocator.library)
        if problem is not None:
            return Run(allocator.name, round_, position, failure=f"not preloaded: {problem}")
        kind = run_steady if row.name == STEADY else run_idle
        return kind(launcher, row, allocator, (round_, position))

    return run
