"""What the model of many processors (analysis/scale.py) needs to know of a program, measured.

callgrind counts how often the functions run in which one thread at a time can be, and the
instructions they take; runs without it, on one CPU, give the time of an instruction. Each program
runs in two lengths, whose difference is free of its start. What such a function does before it has
its lock is counted as if it had it: the figures are upper bounds.
"""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.analysis.scale import Place, Workload
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


@dataclass(frozen=True)
class Section:
    """A place by the library's functions that hold it. `copies`: there are so many of its kind,
    and threads spread over them."""

    name: str
    functions: tuple[str, ...]
    copies: int = 1


SECTIONS = (
    Section("slices (superslab_lock)", ("span_acquire", "span_release", "span_resize")),
    Section("units (unit_lock)", ("unit_acquire", "unit_release")),
    Section("list of heaps (heap_list_lock)", ("take_heap", "park")),
    Section("common heaps", ("take_common",), copies=5),
)


def entered(profile: Profile, names: Sequence[str]) -> tuple[int, int]:
    """Calls of these functions from others, and instructions of these calls."""
    count = cost = 0
    for (caller, callee), instructions in profile.calls.items():
        plain = callee.name.partition("'")[0].partition(".")[0]
        if plain in names and caller.name not in names:
            count += profile.counts[caller, callee]
            cost += instructions
    return count, cost


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


def workload_of(
    name: str, profile: Profile, operations: int, ns: float, user_share: float
) -> Workload:
    """`ns`: processor time of an operation on one CPU, `user_share` of it outside of the kernel."""
    total = profile.total()
    if total == 0:
        raise LabError(f"{name}: callgrind counted nothing")
    ns_an_instruction = ns * user_share * operations / total
    places = []
    inside = 0.0
    for section in SECTIONS:
        count, cost = entered(profile, section.functions)
        if count == 0:
            continue
        inside += cost * ns_an_instruction / operations
        places.append(
            Place(
                section.name,
                count / operations / section.copies,
                cost / count * ns_an_instruction,
            )
        )
    return Workload(name, max(ns - inside, 0.0), places)


@dataclass(frozen=True)
class Counted:
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


def measure_row(launcher: Launcher, allocator: Allocator, row: Row) -> Workload:
    """Raises LabError for a row that does not run, or whose lengths do not differ."""
    long = count_row(launcher, allocator, row)
    short = count_row(launcher, allocator, row.shortened())
    operations = long.operations - short.operations
    spent_ns = long.spent_ns - short.spent_ns
    if operations <= 0 or spent_ns <= 0:
        raise LabError(f"{row.name}: the long run did no more than the short one")
    difference = subtract(long.profile, short.profile)
    ns = spent_ns / operations
    return workload_of(row.name, difference, operations, ns, long.user_share)
