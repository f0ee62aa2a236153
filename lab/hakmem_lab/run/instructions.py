"""Instructions of an operation under callgrind: a figure that a busy machine does not disturb.

random_mixed runs N and 2N iterations; the difference is free of start-up and exit. It is split by
who spends it: the program itself (the harness), the function that malloc is, what that calls, and
the same for free.
"""

import re
import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.shape import Count, Record, Signed
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.callgrind import Function, Profile, parse_callgrind
from hakmem_lab.run.measure import Launcher, clean_environment, describe_failure, read_tail
from hakmem_lab.run.preload import preload_problem

LARGEST = 12  # functions that a result keeps


@dataclass(frozen=True)
class InstructionCount(Record):
    """Instructions an operation; the total is the sum of the six figures below it."""

    allocator: str
    operations: Count
    total: Signed = 0.0
    harness: Signed = 0.0
    malloc: Signed = 0.0
    malloc_slow: Signed = 0.0
    free: Signed = 0.0
    free_slow: Signed = 0.0
    other: Signed = 0.0
    functions: dict[str, Signed] = field(default_factory=dict)
    failure: str | None = None

    @property
    def pair(self) -> float:
        """A malloc and its free: two operations of random_mixed, without the harness."""
        return 2 * (self.total - self.harness)


def subtract(large: Profile, small: Profile) -> Profile:
    """What the longer run spent more."""
    profile = Profile()
    for function in large.own.keys() | small.own.keys():
        profile.own[function] = large.own.get(function, 0) - small.own.get(function, 0)
    for call in large.calls.keys() | small.calls.keys():
        profile.calls[call] = large.calls.get(call, 0) - small.calls.get(call, 0)
        profile.counts[call] = large.counts.get(call, 0) - small.counts.get(call, 0)
    return profile


def role_of(function: Function) -> str:
    """malloc or free, by the name that callgrind found for what the program calls."""
    name = function.name.lower()
    if "free" in name or "delete" in name:
        return "free"
    return "malloc" if "alloc" in name or "operator new" in name else "other"


def functions_of(profile: Profile, program: str) -> set[Function]:
    """The program's functions, and the stubs through which it calls libraries: callgrind shows
    those without an object or a name."""
    own = {function for function in profile.own if function.object == program}
    stubs = {
        callee
        for caller, callee in profile.calls
        if caller in own and callee.object == "???" and callee.name.startswith("0x")
    }
    return own | stubs


def split(profile: Profile, program: str, allocator: str, operations: int) -> InstructionCount:
    """Divides a profile by the program's calls into other objects.

    The figures of one role: `own` in the functions that the program calls, `slow` in all that these
    call. A function that both reach counts where its caller stands, as callgrind keeps the cost of
    each call apart.
    """
    sums: dict[str, float] = defaultdict(float)
    harness = functions_of(profile, program)
    sums["harness"] = sum(profile.own.get(function, 0) for function in harness)
    entered: dict[Function, int] = defaultdict(int)
    for (caller, callee), cost in profile.calls.items():
        if caller in harness and callee not in harness:
            entered[callee] += cost
    for function, inclusive in entered.items():
        role = role_of(function)
        own = min(profile.own.get(function, 0), inclusive)
        if role == "other":
            continue
        sums[role] += own
        sums[f"{role}_slow"] += inclusive - own
    total = profile.total()
    sums["other"] = total - sum(sums.values())
    largest = sorted(profile.own.items(), key=lambda item: -item[1])[:LARGEST]
    return InstructionCount(
        allocator,
        operations,
        total / operations,
        sums["harness"] / operations,
        sums["malloc"] / operations,
        sums["malloc_slow"] / operations,
        sums["free"] / operations,
        sums["free_slow"] / operations,
        sums["other"] / operations,
        functions={
            f"{Path(function.object).name}: {function.name}": round(cost / operations, 3)
            for function, cost in largest
            if cost / operations >= 0.01
        },
    )


def run_callgrind(
    launcher: Launcher, allocator: Allocator, command: list[str], environment: dict[str, str]
) -> Profile | str:
    """The profile of one run, or why there is none."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise LabError("valgrind is missing: run scripts/setup.sh bench")
    with (
        tempfile.TemporaryDirectory(prefix="hakmem-lab-") as directory,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        out = Path(directory) / "callgrind.out"
        report = launcher.start(
            [valgrind, "-q", "--tool=callgrind", f"--callgrind-out-file={out}", *command],
            clean_environment(environment, allocator.environment),
            allocator.library,
            launcher.cpus[-1:],
            stdout,
            stderr,
        )
        failure = describe_failure(report, read_tail(stderr), launcher.timeout)
        if failure is not None:
            # valgrind's own lines say more than the numbers it puts in front of them.
            return re.sub(r"==\d+==\s*", "", failure)
        text = out.read_text(encoding="utf-8", errors="replace") if out.is_file() else ""
    return parse_callgrind(text)


def count_instructions(
    launcher: Launcher,
    allocator: Allocator,
    program: Path,
    iterations: int,
    slots: int,
    environment: dict[str, str],
) -> InstructionCount:
    """Instructions of an iteration of random_mixed under `allocator`."""
    problem = preload_problem(str(program), allocator.library)
    if problem is not None:
        return InstructionCount(allocator.name, iterations, failure=f"not preloaded: {problem}")
    profiles: list[Profile] = []
    for count in (iterations, 2 * iterations):
        profile = run_callgrind(
            launcher, allocator, [str(program), str(count), str(slots), "1"], environment
        )
        if isinstance(profile, str):
            failure = f"does not run under valgrind: {profile}"
            return InstructionCount(allocator.name, iterations, failure=failure)
        profiles.append(profile)
    difference = subtract(profiles[1], profiles[0])
    return split(difference, str(program.resolve()), allocator.name, iterations)
