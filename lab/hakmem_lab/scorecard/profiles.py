"""The three profiles side by side: figures that have no bar of their own, too."""

from collections.abc import Callable
from dataclasses import dataclass

from hakmem_lab.run.steady import IDLE_95, IDLE_100
from hakmem_lab.scorecard.evidence import PROFILES, Evidence
from hakmem_lab.scorecard.processes import idle_memory, steady_calls
from hakmem_lab.scorecard.rows import (
    MIXED,
    Find,
    against_mimalloc,
    all_rows,
    costs,
    peak_of,
    peaks,
    share_of_mimalloc,
)
from hakmem_lab.scorecard.soak import found_in, resident
from hakmem_lab.scorecard.verdicts import Bar, Found

NO_BAR = Bar(0, "")


@dataclass(frozen=True)
class Aspect:
    """A figure that every profile has."""

    what: str
    find: Callable[[str], Find]
    digits: int
    unit: str = ""
    scientific: bool = False

    def found(self, evidence: Evidence) -> dict[str, Found | None]:
        return {profile: self.find(profile)(evidence, NO_BAR) for profile in PROFILES}


ASPECTS = (
    Aspect("random_mixed: throughput / mimalloc 3's", share_of_mimalloc, 1, "%"),
    Aspect("random_mixed: peak", lambda p: peak_of(MIXED, p), 2, " MB"),
    Aspect("time / mimalloc 3, geometric mean", lambda p: against_mimalloc(costs, all_rows, p), 3),
    Aspect("peak / mimalloc 3, geometric mean", lambda p: against_mimalloc(peaks, all_rows, p), 3),
    Aspect("system calls an operation", lambda p: steady_calls((p,)), 0, "", scientific=True),
    Aspect("idle, 95% freed, resident", lambda p: idle_memory(IDLE_95, p), 1, " MB"),
    Aspect("idle, all freed, resident", lambda p: idle_memory(IDLE_100, p), 1, " MB"),
    Aspect(
        "soak, resident", lambda p: lambda evidence, _bar: found_in(evidence, p, resident), 2, " MB"
    ),
)
