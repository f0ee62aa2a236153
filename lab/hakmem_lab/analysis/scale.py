"""A model of many processors: threads that work by themselves and meet at a few places.

A closed queueing network: each of N threads, one a processor, works `alone_ns` for an operation and
then visits places that one thread at a time can be in (a lock, a cache line that is written). Mean
value analysis gives its throughput exactly for first come, first served and exponential times
(Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks", 1980). Real
times vary less, so real queues are shorter: the model errs to the pessimistic side.

What a function does before it has its lock is counted as if it had it: an upper bound, too.

What it leaves out: memory bandwidth, the kernel's own locks (page faults), and threads that outnumber
processors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.callgrind import Profile
from hakmem_lab.run.scale import Counted


@dataclass(frozen=True)
class Place:
    """Where one thread at a time can be."""

    name: str
    visits: float  # an operation, of each thread
    hold_ns: float  # of a visit, while nobody else is there
    lines: int = 2  # cache lines that move to whoever comes after another processor

    def service(self, line_ns: float, processors: int) -> float:
        """Nanoseconds of a visit; with more than one processor, the last one there was another."""
        return self.hold_ns + self.lines * line_ns * (1 - 1 / processors)


@dataclass(frozen=True)
class Workload:
    """Of one operation of one thread; `alone_ns` has all but the places."""

    name: str
    alone_ns: float
    places: Sequence[Place]


def throughput(workload: Workload, processors: int, line_ns: float) -> float:
    """Operations a nanosecond of `processors` threads together."""
    services = [place.service(line_ns, processors) for place in workload.places]
    waiting = [0.0] * len(services)  # threads at each place
    rate = 0.0
    for threads in range(1, processors + 1):
        times = [
            place.visits * service * (1 + there)
            for place, service, there in zip(workload.places, services, waiting, strict=True)
        ]
        rate = threads / (workload.alone_ns + sum(times))
        waiting = [rate * time for time in times]
    return rate


def speedup(workload: Workload, processors: int, line_ns: float) -> float:
    return throughput(workload, processors, line_ns) / throughput(workload, 1, line_ns)


def first_limit(workload: Workload, line_ns: float) -> tuple[str, float] | None:
    """The place that is always busy first, and from how many processors on; None: no place is."""
    busiest: tuple[str, float] | None = None
    total = workload.alone_ns + sum(p.visits * p.hold_ns for p in workload.places)
    for place in workload.places:
        busy = place.visits * (place.hold_ns + place.lines * line_ns)
        if busy <= 0:
            continue
        processors = max(1.0, total / busy)
        if busiest is None or processors < busiest[1]:
            busiest = (place.name, processors)
    return busiest


# --- out of what was counted ---------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """A place by the library's functions that hold it."""

    name: str
    functions: tuple[str, ...]


SECTIONS = (
    Section("slices (superslab_lock)", ("span_acquire", "span_release", "span_resize")),
    Section("units (unit_lock)", ("unit_acquire", "unit_release")),
    Section("list of heaps (heap_list_lock)", ("take_cache", "park")),
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


def workload_of(name: str, counted: Counted) -> Workload:
    operations = counted.operations
    ns = counted.spent_ns / operations
    total = counted.profile.total()
    if total == 0:
        raise LabError(f"{name}: callgrind counted nothing")
    ns_an_instruction = ns * counted.user_share * operations / total
    places = []
    inside = 0.0
    for section in SECTIONS:
        count, cost = entered(counted.profile, section.functions)
        if count <= 0 or cost <= 0:  # the longer run may have had fewer, by chance
            continue
        inside += cost * ns_an_instruction / operations
        places.append(
            Place(
                section.name,
                count / operations,
                cost / count * ns_an_instruction,
            )
        )
    return Workload(name, max(ns - inside, 0.0), places)
