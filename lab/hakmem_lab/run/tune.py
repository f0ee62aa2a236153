"""Which settings of hakmem `tune` tries on a program, and the two phases in which it does."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import Reporter, RunFunction, run_rounds

DEFAULT = "balanced"
PROFILES = (DEFAULT, "speed", "lean")
PROFILE = "HAKMEM_PROFILE"
# Options that may change time or peak of a program and take nothing else away from it. Not here:
# what guards and profiles (HAKMEM_PROF_RATE=0 would blind the tools), what only changes memory at
# rest, which a peak does not show, and reserved huge pages, which can end a child of fork.
OPTIONS: tuple[tuple[str, str], ...] = (
    ("HAKMEM_SS_HUGEPAGE", "off"),
    ("HAKMEM_BINS_KB", "256"),
    ("HAKMEM_BINS_KB", "65536"),
    ("HAKMEM_WARM_POOL_MB", "0"),
    ("HAKMEM_WARM_POOL_DECAY_MS", "10000"),
    ("HAKMEM_BACKGROUND", "0"),
    ("HAKMEM_PREWARM_MB", "64"),
)
NODES_OPTION = ("HAKMEM_NUMA", "0")  # where there are several memory nodes
NODES = Path("/sys/devices/system/node")


def memory_nodes() -> int:
    return sum(1 for _ in NODES.glob("node[0-9]*"))


def label(environment: dict[str, str]) -> str:
    """The name of a setting in a result: `lean`, `lean BINS_KB=256`."""
    profile = environment.get(PROFILE, DEFAULT)
    rest = [f"{n.removeprefix('HAKMEM_')}={v}" for n, v in environment.items() if n != PROFILE]
    return " ".join(rest if profile == DEFAULT and rest else [profile, *rest])


def setting(library: Allocator, environment: dict[str, str]) -> Allocator:
    own = {**library.environment, **environment}
    words = " ".join(f"{name}={value}" for name, value in environment.items())
    source = f"{library.source}, {words}" if words else library.source
    return replace(library, name=label(environment), environment=own, source=source)


def profile_environment(name: str) -> dict[str, str]:
    return {} if name == DEFAULT else {PROFILE: name}


def first_settings(library: Allocator) -> list[Allocator]:
    """The profiles, and each option alone on the default profile."""
    options = [*OPTIONS, *([NODES_OPTION] if memory_nodes() > 1 else [])]
    environments = [profile_environment(name) for name in PROFILES]
    environments += [{name: value} for name, value in options]
    return [setting(library, environment) for environment in environments]


# --- the two phases -------------------------------------------------------------------------------


class VaryingStatusError(LabError):
    """The program ends well and badly under one and the same setting."""


def refuse_varying_ends(run: RunFunction) -> RunFunction:
    """A setting whose first run fails is tried again; one that fails and ends well is no setting's
    fault but the program's, and then figures would be of different work."""
    good: set[str] = set()

    def refuse(name: str, failure: str) -> None:
        raise VaryingStatusError(
            f"the program does not end alike each time: {name}: ended well, and then {failure}"
            if name in good
            else f"the program does not end alike each time: {name}: {failure}, and then well"
        )

    def checked(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        taken = run(row, allocator, round_, position)
        if taken.failure is None:
            good.add(allocator.name)
        elif allocator.name in good:
            refuse(allocator.name, taken.failure)
        elif run(row, allocator, round_, position).failure is None:
            refuse(allocator.name, taken.failure)
        return taken

    return checked


@dataclass(frozen=True)
class Phase:
    """Rounds of some settings; each phase is a row of the result."""

    row: Row
    settings: Sequence[Allocator]
    rounds: int


def run_phase(
    result: Result,
    phase: Phase,
    run: RunFunction,
    save: Callable[[Result], None],
    reporter: Reporter,
    deadline: float | None,
) -> bool:
    """Adds the phase's row to the result. False: the time was up before its last round."""
    before = list(result.rows)
    part = replace(result, allocators=list(phase.settings), rows=[])
    known = {allocator.name for allocator in result.allocators}
    result.allocators += [a for a in phase.settings if a.name not in known]
    longest, began, stopped = 0.0, time.monotonic(), False

    def time_is_up() -> bool:
        """Whether the next round would end behind the deadline, by the longest one so far."""
        nonlocal longest, began, stopped
        now = time.monotonic()
        longest, began = max(longest, now - began), now
        stopped = deadline is not None and now + longest > deadline
        return stopped

    def keep(_: Result) -> None:
        save(replace(result, rows=[*before, *part.rows]))

    try:
        run_rounds(part, [phase.row], phase.rounds, run, None, keep, reporter, enough=time_is_up)
    finally:
        result.rows = [*before, *part.rows]
        result.interrupted = part.interrupted
    return not stopped
