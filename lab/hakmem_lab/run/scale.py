"""What the model of many processors (analysis/scale.py) needs to know of a program, measured.

callgrind counts how often each function runs, and its instructions; runs without it, on one CPU,
give the time. Each program runs in two lengths, whose difference is free of its start.
"""

import re
import tempfile
from dataclasses import dataclass

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.callgrind import Profile
from hakmem_lab.run.instructions import run_callgrind, subtract
from hakmem_lab.run.measure import Launcher, clean_environment, describe_failure, read_tail
from hakmem_lab.run.rows import Row

OPERATIONS = re.compile(r"^peak_rss_kb=.* operations=(\d+)$", re.MULTILINE)
SPENT = re.compile(r"^cpu_ns_per_op=([\d.]+)$", re.MULTILINE)
PLAIN_RUNS = 3  # the fastest counts
RATE = "HAKMEM_PROF_RATE"  # 0: callgrind and the timed run do the same work


def parse_run(text: str) -> tuple[int, float]:
    """Operations, and nanoseconds of processor time of one, as a benchmark program says them."""
    operations, spent = OPERATIONS.search(text), SPENT.search(text)
    if operations is None or spent is None or int(operations[1]) == 0:
        raise LabError(f"not the output of a benchmark program: {text[-200:]!r}")
    return int(operations[1]), float(spent[1])


def run_plain(
    launcher: Launcher, allocator: Allocator, row: Row, rate: dict[str, str]
) -> tuple[str, float]:
    """What it said, and the kernel's share of its processor time."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        report = launcher.start(
            row.command,
            clean_environment(row.environment, allocator.environment, rate),
            allocator.library,
            launcher.cpus[-1:],
            stdout,
            stderr,
        )
        failure = describe_failure(report, read_tail(stderr), launcher.timeout)
        if failure is not None:
            raise LabError(f"{row.name}: {failure}")
        user, system = float(report["user_s"]), float(report["system_s"])
        return read_tail(stdout), system / (user + system) if user + system > 0 else 0.0


@dataclass(frozen=True)
class Counted:
    """What a run did, or what a longer one did more."""

    operations: int
    spent_ns: float  # processor time of all
    user_share: float
    profile: Profile


def count_row(launcher: Launcher, allocator: Allocator, row: Row) -> Counted:
    rate = {RATE: "0"}
    runs = []
    for _ in range(PLAIN_RUNS):
        said, kernel_share = run_plain(launcher, allocator, row, rate)
        runs.append((*parse_run(said), 1 - kernel_share))
    operations, ns, user_share = min(runs, key=lambda run: run[1])
    profile = run_callgrind(launcher, allocator, list(row.command), {**row.environment, **rate})
    if isinstance(profile, str):
        raise LabError(f"{row.name}: does not run under valgrind: {profile}")
    return Counted(operations, operations * ns, user_share, profile)


def measure_row(launcher: Launcher, allocator: Allocator, row: Row) -> Counted:
    """Raises LabError for a row that does not run, or whose lengths do not differ."""
    long = count_row(launcher, allocator, row)
    short = count_row(launcher, allocator, row.shortened())
    operations = long.operations - short.operations
    spent_ns = long.spent_ns - short.spent_ns
    if operations <= 0 or spent_ns <= 0:
        raise LabError(f"{row.name}: the long run did no more than the short one")
    profile = subtract(long.profile, short.profile)
    return Counted(operations, spent_ns, long.user_share, profile)
