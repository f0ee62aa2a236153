"""From events to objects: which free belongs to which allocation, over all threads.

Events are ordered by stamp (frees first where stamps are equal, but never against the order of
their thread). In that order an address alternates between allocation and free, so sorting by
address puts the two of a pair side by side: no loop over events is needed.

What does not alternate is an anomaly. Two of them are an order that the stamps got wrong by a
little, and are put right by raising the stamp of the event that came too early:

  allocation, allocation, free, free      the first free was before the second allocation
  free, allocation (neither has another)  the allocation was before the free

The others are counted: a block that is allocated again was given up without a free that was seen
(it ends right there), and a free of a block that nobody is seen to allocate is left out.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hakmem_lab.trace.htrace import (
    ALLOCATIONS,
    FAILED,
    FREE,
    I64,
    REALLOC_OF,
    REALLOC_TO,
    RELEASES,
    TOUCHED,
    U32,
    U64,
    ProgressFunction,
    Trace,
)

Bools = npt.NDArray[np.bool_]

NONE = np.uint32(0xFFFFFFFF)
REPAIRS = 4  # orders that are tried
# How much too early an event may be: clocks of CPUs differ by less.
LATE_ALLOCATION = 1e-3  # seconds; the free that was overtaken proves the order
LATE_FREE = 1e-6  # seconds; a guess, so it has to be a near miss


@dataclass
class Anomalies:
    """How many events were not as they have to be."""

    stamps_backwards: int = 0  # a thread's stamp below that of its event before
    reordered: int = 0  # put right by raising a stamp
    free_missing: int = 0  # allocated again while live
    free_unknown: int = 0  # of a block that nobody is seen to allocate
    realloc_unknown: int = 0  # the same for realloc; counts as a malloc
    realloc_cut: int = 0  # the recording ends within it

    def any(self) -> bool:
        return any(vars(self).values())


@dataclass
class Objects:
    """The blocks of a trace in the order of their allocation. Events are positions in the trace's
    arrays; ranks are positions in the order of all events."""

    trace: Trace
    thread: U32  # of each event
    order: U32  # event at each rank
    rank: U32  # of each event
    birth: U32  # event that allocated
    death: U32  # event that freed, reallocated, or allocated the address again; NONE: never
    lost: Bools  # died because the address was allocated again
    of_event: U32  # object that the event allocates or gives up; NONE: none
    touched: I64  # pages; -1: not recorded
    anomalies: Anomalies

    @property
    def size(self) -> U64:
        return self.trace.size[self.birth]

    def died(self) -> Bools:
        found: Bools = self.death != NONE
        return found


def rising(trace: Trace, stamp: U64) -> int:
    """Raises stamps that are below the one before in their thread; how many there were."""
    backwards = 0
    for first, last in zip(trace.bounds[:-1], trace.bounds[1:], strict=True):
        part = stamp[first:last]
        falls = int((part[1:] < part[:-1]).sum())
        if falls:
            backwards += falls
            np.maximum.accumulate(part, out=part)
    return backwards


def order_events(trace: Trace, stamp: U64) -> U32:
    """The events in the order of all threads; `stamp` rises within each thread."""
    if len(stamp) == 0:
        return np.zeros(0, dtype=np.uint32)
    # Where stamps are equal a release goes first, unless an allocation is before it in its thread:
    # the highest class so far among the thread's events of one stamp.
    later = (~RELEASES[trace.operation]).astype(np.uint32)
    starts = np.ones(len(stamp), dtype=np.bool_)
    np.not_equal(stamp[1:], stamp[:-1], out=starts[1:])
    starts[trace.bounds[:-1]] = True
    run = np.cumsum(starts, dtype=np.int64) * 2
    later = (np.maximum.accumulate(run + later) - run).astype(np.uint8)
    low, high = int(stamp.min()), int(stamp.max())
    if high - low < 1 << 62:
        key = ((stamp - np.uint64(low)) << np.uint64(1)) | later
        return np.argsort(key, kind="stable").astype(np.uint32)
    return np.lexsort((later, stamp)).astype(np.uint32)


def joined_reallocs(trace: Trace, thread: U32) -> tuple[Bools, Bools]:
    """Which events are a realloc's first half that has its second, and one that has none."""
    first = trace.operation == REALLOC_OF
    follows = np.zeros(len(first), dtype=np.uint8)
    if len(first) > 1:
        follows[:-1] = np.where(thread[1:] == thread[:-1], trace.operation[1:], 0)
    return first & (follows == REALLOC_TO), first & (follows != REALLOC_TO) & (follows != FAILED)


@dataclass
class Sorted:
    """The events that allocate and give up blocks, by address and then by rank."""

    event: U32
    allocates: Bools
    same: Bools  # address, as the next one's
    paired: Bools  # an allocation whose free is next


def sort_by_address(trace: Trace, order: U32, alive: Bools) -> Sorted:
    event = order[alive[order]]
    event = event[np.argsort(trace.address[event], kind="stable")]
    address = trace.address[event]
    allocates = ALLOCATIONS[trace.operation[event]]
    same = np.zeros(len(event), dtype=np.bool_)
    np.equal(address[1:], address[:-1], out=same[:-1])
    paired = same & allocates
    paired[:-1] &= ~allocates[1:]
    return Sorted(event, allocates, same, paired)


def repair(trace: Trace, thread: U32, stamp: U64, by_address: Sorted) -> int:
    """Raises the stamps of events that came too early (see above); how many."""
    event, allocates, same = by_address.event, by_address.allocates, by_address.same
    if len(event) < 2:
        return 0
    paired_before = np.zeros(len(event), dtype=np.bool_)
    paired_before[1:] = by_address.paired[:-1]

    def shifted(values: Bools, by: int) -> Bools:
        out = np.zeros(len(values), dtype=np.bool_)
        if len(values) > by:
            out[:-by] = values[by:]
        return out

    def raise_above(early: U32, late: U32, most: float) -> int:
        gap = stamp[late] - stamp[early]
        wrong = (thread[early] != thread[late]) & (gap <= most * trace.ticks_per_second)
        # Two repairs of one event: the later one counts.
        np.maximum.at(stamp, early[wrong], stamp[late[wrong]] + np.uint64(1))
        return int(wrong.sum())

    frees = ~allocates
    overtaken = allocates & same & shifted(allocates & same, 1) & shifted(frees & same, 2)
    at = np.flatnonzero(overtaken & shifted(frees, 3))
    count = raise_above(event[at + 1], event[at + 2], LATE_ALLOCATION) if len(at) else 0
    alone = frees & ~paired_before & same & shifted(allocates & ~by_address.paired, 1)
    at = np.flatnonzero(alone)
    return count + (raise_above(event[at], event[at + 1], LATE_FREE) if len(at) else 0)


def touched_pages(objects: Objects) -> None:
    """Takes over what the recording says on touched pages: of a block whose free comes next, or
    that was there at exit(). What is said at its free counts, also when that comes after exit()."""
    trace = objects.trace
    told = np.flatnonzero(trace.operation == TOUCHED)
    if len(told) == 0:
        return
    after = np.minimum(told + 1, len(trace.operation) - 1)
    freed = (objects.thread[told] == objects.thread[after]) & RELEASES[trace.operation[after]]
    freed &= trace.address[told] == trace.address[after]
    freed &= objects.of_event[after] != NONE
    left = told[~freed]
    # Blocks at these addresses in the order of their births: they are few.
    there = np.flatnonzero(np.isin(trace.address[objects.birth], trace.address[left]))
    for event in left.tolist():
        rank = objects.rank[event]
        same = there[trace.address[objects.birth[there]] == trace.address[event]]
        same = same[objects.rank[objects.birth[same]] < rank]
        if len(same) == 0:
            continue
        death = objects.death[same[-1]]
        if death == NONE or objects.rank[death] > rank:
            objects.touched[same[-1]] = int(trace.size[event])
    objects.touched[objects.of_event[after[freed]]] = trace.size[told[freed]].astype(np.int64)


def match(trace: Trace, progress: ProgressFunction = lambda part: None) -> Objects:
    """Finds the objects of a trace."""
    thread = trace.thread_of_event()
    found = Anomalies()
    stamp = trace.stamp.copy()
    found.stamps_backwards = rising(trace, stamp)
    joined, cut = joined_reallocs(trace, thread)
    found.realloc_cut = int(cut.sum())
    alive = ALLOCATIONS[trace.operation] | (trace.operation == FREE) | joined
    for attempt in range(REPAIRS):
        order = order_events(trace, stamp)
        progress((attempt * 2 + 1) / (2 * REPAIRS + 2))
        by_address = sort_by_address(trace, order, alive)
        progress((attempt * 2 + 2) / (2 * REPAIRS + 2))
        repaired = repair(trace, thread, stamp, by_address) if attempt + 1 < REPAIRS else 0
        found.reordered += repaired
        if repaired == 0:
            break
        rising(trace, stamp)
    rank = np.empty(len(order), dtype=np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)

    event, allocates, same = by_address.event, by_address.allocates, by_address.same
    at = np.flatnonzero(allocates)
    birth = event[at]
    death = np.full(len(at), NONE, dtype=np.uint32)
    ends = same[at]
    death[ends] = event[at[ends] + 1]
    lost = ends & ~by_address.paired[at]
    found.free_missing = int(lost.sum())
    by_birth = np.argsort(rank[birth])
    birth, death, lost = birth[by_birth], death[by_birth], lost[by_birth]

    of_event = np.full(len(order), NONE, dtype=np.uint32)
    number = np.arange(len(birth), dtype=np.uint32)
    of_event[birth] = number
    freed = (death != NONE) & ~lost
    of_event[death[freed]] = number[freed]
    unknown = event[~allocates]
    unknown = unknown[of_event[unknown] == NONE]
    found.realloc_unknown = int((trace.operation[unknown] == REALLOC_OF).sum())
    found.free_unknown = len(unknown) - found.realloc_unknown
    touched = np.full(len(birth), -1, dtype=np.int64)
    objects = Objects(trace, thread, order, rank, birth, death, lost, of_event, touched, found)
    touched_pages(objects)
    progress(1.0)
    return objects
