"""What the scorecard judges: one result for each purpose, and soaks. Who is who in a result.

A purpose has one file, so that no second one can win over the first:
docs/results/suite-0.1.0.json.zst is of the purpose `suite`. A file of another name has the purpose
that its kind of result is for.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.soak import Series
from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator, is_hakmem
from hakmem_lab.run.results import Result, RowResult

PROFILES = ("speed", "balanced", "lean")
DEFAULT_PROFILE = "balanced"
ALIASES = {"MIXED_TINYV3_C7_SAFE": "speed", "MIXED_TINYV3_C7_BALANCED": "balanced"}
GLIBC, MIMALLOC = "glibc", summary.BASELINE
# Each of these has to be in a run that is about the best of all; one of several builds is enough.
PEERS = (
    (GLIBC,),
    (MIMALLOC,),
    ("mimalloc2",),
    ("snmalloc",),
    ("rpmalloc",),
    ("jemalloc",),
    ("tcmalloc", "debian-tcmalloc"),
)
# Whose lowest memory is the mark: those that keep caches for threads.
LEAN_PEERS = frozenset(name for names in PEERS[1:] for name in names)

SUITE, PROGRAMS, STEADY_KIND, INSTRUCTIONS = "suite", "programs", "steady", "instructions"
VARIANTS, SAMPLING, STARTUP, SOAK = "variants", "sampling", "startup", "soak"
SERVERS = "servers"
# Each purpose and the kind of result that it takes; the order of docs/scorecard.md's last sections.
KINDS = {
    SUITE: "suite",
    STEADY_KIND: "steady",
    INSTRUCTIONS: "instructions",
    PROGRAMS: "programs",
    SERVERS: "servers",
    VARIANTS: "suite",
    SAMPLING: "suite",
    STARTUP: "compare",
}
KB_IN_MB = 1000  # MB are thousands of the kernel's kB


@dataclass(frozen=True)
class Source:
    """A result and the name it is called by."""

    name: str
    result: Result


@dataclass(frozen=True)
class SoakRun:
    source: str
    series: Series


@dataclass(frozen=True)
class Evidence:
    results: dict[str, Source] = field(default_factory=dict)  # by purpose
    soaks: list[SoakRun] = field(default_factory=list)
    # The suite as it is today: the bar of each row, and the rows with 8 and 64 threads.
    bars: dict[str, float] = field(default_factory=dict)
    many_threads: tuple[str, ...] = ()

    def of(self, purpose: str) -> Source | None:
        """The result of a purpose; short runs are none: of a tenth of the work start-up counts."""
        source = self.results.get(purpose)
        return None if source is None or source.result.settings.get("quick") else source

    def add(self, source: Source) -> None:
        purpose = purpose_of(stem_of(source.name), source.result.kind)
        if purpose is None:
            return
        if purpose in self.results:
            raise LabError(
                f"{source.name}: a second result for {purpose}, beside"
                f" {self.results[purpose].name}; one run is judged"
            )
        self.results[purpose] = source


def stem_of(file: Path | str) -> str:
    """A result's name without its folder and endings: suite-0.1.0 of suite-0.1.0.json.zst."""
    return Path(Path(file).name.removesuffix(".zst")).stem


def purpose_of(stem: str, kind: str) -> str | None:
    """What a file is for: suite-0.1.0 says it by its name, results by its kind."""
    named = re.sub(r"-\d+(\.\d+)+$", "", stem)
    if KINDS.get(named) == kind:
        return named
    return next((purpose for purpose, its_kind in KINDS.items() if its_kind == kind), None)


# --- who is who -----------------------------------------------------------------------------------


def profile_of(allocator: Allocator) -> str | None:
    """The profile of an allocator that is hakmem with nothing but that set; None for all others."""
    variables = dict(allocator.environment)
    profile = variables.pop("HAKMEM_PROFILE", None)
    if variables:
        return None
    if profile is not None:
        profile = ALIASES.get(profile, profile)
        return profile if profile in PROFILES else None
    return DEFAULT_PROFILE if allocator.name == "hakmem" else None


def subject(result: Result, profile: str = DEFAULT_PROFILE) -> str | None:
    """The allocator that is hakmem in `profile`."""
    able = [a for a in result.allocators if a.missing is None and profile_of(a) == profile]
    # "hakmem" before a variant that comes to the same.
    able.sort(key=lambda a: a.name != "hakmem")
    return able[0].name if able else None


def peers(result: Result) -> list[str]:
    return [a.name for a in result.allocators if a.missing is None and not is_hakmem(a)]


def absent_peers(result: Result) -> str:
    """Which of those that have to be beside hakmem are not."""
    there = set(peers(result))
    absent = [names[0] for names in PEERS if not there.intersection(names)]
    return f"without {', '.join(absent)}" if absent else ""


def lean_peers(result: Result) -> list[str]:
    return [name for name in peers(result) if name in LEAN_PEERS]


def if_there(result: Result, name: str) -> str | None:
    return name if name in result.allocator_names() else None


def row_called(result: Result, name: str) -> RowResult | None:
    """The row; None where it did not run."""
    found = (row for row in result.rows if row.name == name and row.missing is None)
    return next(found, None)
