"""What the model of many processors (analysis/scale.py) needs to know of a program, measured.

callgrind counts how often each function runs, and its instructions; runs without it, on one CPU,
give the time. Each program runs in two lengths, whose difference is free of its start.
"""

from dataclasses import dataclass, replace

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.callgrind import Profile
from hakmem_lab.run.instructions import run_callgrind, subtract
from hakmem_lab.run.measure import Launcher
from hakmem_lab.run.rows import Row

# In place of the throughput.
OPERATIONS = r"^peak_rss_kb=.* operations=(\d+)$"
PLAIN_RUNS = 3  # the fastest counts
RATE = "HAKMEM_PROF_RATE"  # 0: callgrind and the timed run do the same work


@dataclass(frozen=True)
class Counted:
    """What a run did, or what a longer one did more."""

    operations: int
    spent_ns: float  # processor time of all
    user_share: float
    profile: Profile


def count_row(launcher: Launcher, allocator: Allocator, row: Row) -> Counted:
    variables = {**row.environment, RATE: "0"}
    plain = replace(row, environment=variables, cpus=1, pattern=OPERATIONS)
    runs = [launcher.run(plain, allocator, round_, 0) for round_ in range(PLAIN_RUNS)]
    for run in runs:
        if run.failure is not None:
            raise LabError(f"{row.name}: {run.failure}")
    fastest = min(runs, key=lambda run: run.cpu_s)
    profile = run_callgrind(launcher, allocator, list(row.command), variables)
    if isinstance(profile, str):
        raise LabError(f"{row.name}: does not run under valgrind: {profile}")
    share = fastest.user_s / fastest.cpu_s if fastest.cpu_s > 0 else 1.0
    return Counted(int(fastest.throughput_per_s or 0), fastest.cpu_s * 1e9, share, profile)


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
