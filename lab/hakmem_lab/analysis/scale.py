"""A model of many processors: threads that work by themselves and meet at a few places.

A closed queueing network: each of N threads, one a processor, works `alone_ns` for an operation and
then visits places that one thread at a time can be in (a lock, a cache line that is written). Mean
value analysis gives its throughput exactly for first come, first served and exponential times
(Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks", 1980). Real
times vary less, so real queues are shorter: the model errs to the pessimistic side.

What it leaves out: memory bandwidth, the kernel's own locks (page faults), and threads that outnumber
processors.
"""

from collections.abc import Sequence
from dataclasses import dataclass


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
