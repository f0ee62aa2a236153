"""From a trace to a plan: what each thread of bench/replay has to do, in order.

The plan is a total order that every thread's own order agrees with. A thread waits in two cases only,
for what is earlier in that order, so that a replay cannot hang:

- **Blocks.** Freeing or reallocating a block of another thread waits until it is in its slot.
- **Windows.** The order is cut into windows; a thread begins one when all windows but the one before
  it are done by everybody. Nobody runs ahead by more, so the peak of memory is that of the recording.

A slot is the place of a block's address. A block that its own thread frees has a slot of that thread's,
reused at once; one that another thread frees gets a slot that was empty for a whole window, so that
nobody can take the address before for it. Slots are stacks (the one emptied last is used next, as it
is in the cache), found by matching them like parentheses instead of running through the events.
"""

import heapq
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hakmem_lab.errors import LabError
from hakmem_lab.htrace import (
    FREE,
    I64,
    MALLOC,
    REALLOC_OF,
    REALLOC_TO,
    THREAD_END,
    U32,
    ProgressFunction,
    Trace,
)
from hakmem_lab.trace_info import LARGE, live_curve, log2_buckets, pages_of
from hakmem_lab.trace_match import NONE, Bools, Objects

MAGIC = b"HTPLAN1\n"
HEADER = struct.Struct("<8sIIIIQQQ")
RECORD = np.dtype([("what", "<u8"), ("slot", "<u4"), ("pages", "<u4")])
THREAD = np.dtype([("first", "<u8"), ("count", "<u8"), ("stays", "<u4"), ("number", "<u4")])
START, WINDOW = 7, 8  # operations beside those of the trace
AWAITED = 16  # bit of `what`: another thread may be waiting for this block
ALL_PAGES = 0xFFFFFFFF

WINDOW_EVENTS = 65536
# A window also ends when so much of the live bytes is allocated in it, but not below so many bytes
# and events: windows of a few events would replay the order of threads instead of the allocator.
WINDOW_SHARE = 1 / 16
WINDOW_BYTES = 2 << 20
WINDOW_LEAST = 64
LEAD = 1  # windows; bench/replay.c has the same
POOL_SLOTS = 16  # two lines: threads' slots do not share one


@dataclass
class Plan:
    """A plan in memory, as it goes to the file."""

    page_size: int
    main: int  # index of the thread that is the process's first
    slots: int
    calls: int
    threads: npt.NDArray[np.void]
    windows: U32  # threads that take part in each
    records: npt.NDArray[np.void]

    def write(self, path: Path) -> None:
        head = HEADER.pack(
            MAGIC, self.page_size, len(self.threads), len(self.windows), self.main, self.slots,
            len(self.records), self.calls,
        )  # fmt: skip
        tables = self.threads.tobytes() + self.windows.astype("<u4").tobytes()
        padding = bytes(-(len(head) + len(tables)) % 16)
        try:
            with path.open("wb") as stream:
                stream.write(head + tables + padding)
                self.records.tofile(stream)
        except OSError as error:
            said = error.strerror or str(error)
            size = len(head) + len(tables) + self.records.nbytes
            raise LabError(f"{path}: {said}; the plan takes {size >> 20} MiB") from None


# --- order ---------------------------------------------------------------------------------------


def reallocated(objects: Objects) -> Bools:
    """Second halves of reallocs whose old block is known; the others become a malloc."""
    trace = objects.trace
    known = np.zeros(len(trace.operation), dtype=np.bool_)
    first = (trace.operation == REALLOC_OF) & (objects.of_event != NONE)
    known[1:] = first[:-1]
    return known & (trace.operation == REALLOC_TO)


def kept_events(objects: Objects) -> Bools:
    """Events that the plan has: of known blocks, and the end of a thread behind all its others."""
    trace = objects.trace
    kept = objects.of_event != NONE
    last = trace.bounds[1:] - 1
    kept[last] |= trace.operation[last] == THREAD_END
    return kept


def window_starts(objects: Objects, at: U32, most: int) -> I64:
    """Positions at which windows begin. `at` are the kept events in their order."""
    if len(objects.trace.numbers) < 2:
        return np.zeros(1, dtype=np.int64)
    live = live_curve(objects, objects.size.astype(np.int64))[objects.rank[at]]
    allocated = np.zeros(len(objects.order), dtype=np.int64)
    allocated[objects.birth] = objects.size.astype(np.int64)
    allocated = np.cumsum(allocated[at])
    starts: list[int] = []
    here = 0
    while here < len(at):
        starts.append(here)
        room = max(WINDOW_BYTES, int(live[here] * WINDOW_SHARE))
        before = int(allocated[here - 1]) if here else 0
        full = int(np.searchsorted(allocated, before + room, side="right"))
        here = min(here + most, max(here + min(WINDOW_LEAST, most), full))
    return np.array(starts, dtype=np.int64)


@dataclass
class Order:
    """Where the kept events are: `position` in the order of all, and their window."""

    kept: U32  # events, thread by thread
    at: U32  # events, in the order of all
    position: U32  # of each event that is kept
    starts: I64  # positions of the windows
    window: U32  # of each event that is kept


def make_order(objects: Objects, window_events: int) -> Order:
    trace = objects.trace
    mask = kept_events(objects)
    kept = np.flatnonzero(mask).astype(np.uint32)
    at = objects.order[mask[objects.order]]
    position = np.zeros(len(mask), dtype=np.uint32)
    position[at] = np.arange(len(at), dtype=np.uint32)
    starts = window_starts(objects, at, window_events)
    window = np.zeros(len(mask), dtype=np.uint32)
    window[at] = np.searchsorted(starts, np.arange(len(at)), side="right") - 1
    # Both halves of a realloc are one call.
    first = np.flatnonzero((trace.operation == REALLOC_OF) & mask)
    window[first] = window[first + 1]
    return Order(kept, at, position, starts, window)


# --- slots ---------------------------------------------------------------------------------------


def stack_slots(pops: Bools, item: U32, slot: U32, own: U32) -> int:
    """Slots of one pool. In the order of time, `pops` says where an item takes a slot and where it
    gives it up. Fills `slot` for the items, from 0; how many slots there are. `own` is room for a
    number of each item.

    A pop that brings more items than ever takes a new slot; any other takes the one on top of the
    stack of empty ones, and that is the one whose push reached the same height last.
    """
    live = np.cumsum(np.where(pops, 1, -1))
    most = np.maximum.accumulate(live)
    fresh = pops.copy()
    fresh[1:] &= most[1:] > most[:-1]
    first = item[fresh]
    again = ~fresh
    height = (most - live + pops)[again]
    by_height = np.argsort(height, kind="stable")
    moves = item[again][by_height]
    taken = pops[again][by_height]
    takers = item[pops]
    own[takers] = np.arange(len(takers), dtype=np.uint32)
    parent = np.arange(len(takers), dtype=np.uint32)
    parent[own[moves[taken]]] = own[moves[np.flatnonzero(taken) - 1]]
    while True:
        further = parent[parent]
        if np.array_equal(further, parent):
            break
        parent = further
    number = np.zeros(len(takers), dtype=np.uint32)
    number[own[first]] = np.arange(len(first), dtype=np.uint32)
    slot[takers] = number[parent]
    return len(first)


def place_pools(sizes: list[int], begins: list[int], ends: list[int]) -> tuple[list[int], int]:
    """Where each pool lies in the table, and the table's size. One whose blocks are all gone for
    LEAD windows makes room for the next one of the same size, rounded up to a power of 2: a program
    that starts a thread for each request needs the slots of a few of them."""
    bases = [0] * len(sizes)
    free: dict[int, list[int]] = {}
    ending: list[tuple[int, int, int]] = []  # window from which it is free, size, base
    total = 0
    for pool in sorted(range(len(sizes)), key=lambda pool: begins[pool]):
        while ending and ending[0][0] <= begins[pool]:
            _, size, base = heapq.heappop(ending)
            free.setdefault(size, []).append(base)
        size = max(POOL_SLOTS, 1 << (sizes[pool] - 1).bit_length())
        if free.get(size):
            bases[pool] = free[size].pop()
        else:
            bases[pool] = total
            total += size
        heapq.heappush(ending, (ends[pool] + LEAD + 1, size, bases[pool]))
    return bases, total


def assign_slots(objects: Objects, order: Order, handed: Bools) -> tuple[U32, int]:
    """The slot of each object, and how many there are."""
    count = len(objects.birth)
    slot = np.zeros(count, dtype=np.uint32)
    if count == 0:
        return slot, 0
    died = objects.died()
    death = objects.death[died]
    taken = order.position[objects.birth].astype(np.int64) * 2 + 1
    # A slot that was waited for is empty for a whole window before it is used again.
    clear = np.append(order.starts, [np.iinfo(np.int64).max // 2] * (LEAD + 1))
    given = order.position[death].astype(np.int64)
    given = np.where(handed[died], clear[order.window[death] + LEAD + 1], given) * 2
    pool = objects.thread[objects.birth] * np.uint32(2) + handed
    item = np.arange(count, dtype=np.uint32)
    items = np.concatenate([item, item[died]])
    pops = np.arange(len(items)) < count
    # By pool and then by time.
    in_order = np.lexsort((np.concatenate([taken, given]), pool[items]))
    items, pops = items[in_order], pops[in_order]
    pools, first = np.unique(pool[items], return_index=True)
    bounds = [*first.tolist(), len(items)]
    end = np.full(count, len(order.starts), dtype=np.int64)
    end[died] = order.window[death]
    own = np.empty(count, dtype=np.uint32)
    sizes, begins, ends = [], [], []
    for low, high in zip(bounds[:-1], bounds[1:], strict=True):
        sizes.append(stack_slots(pops[low:high], items[low:high], slot, own))
        begins.append(int(order.window[objects.birth[items[low]]]))
        ends.append(int(end[items[low:high]].max()))
    bases, total = place_pools(sizes, begins, ends)
    if total > ALL_PAGES:
        raise LabError(f"{objects.trace.path}: {total} blocks at once are more than a plan can hold")
    slot += np.array(bases, dtype=np.uint32)[np.searchsorted(pools, pool)]
    return slot, total


# --- pages ---------------------------------------------------------------------------------------


def touched_pages(objects: Objects) -> U32:
    """Pages to touch of each object: all of the smaller ones; of the larger ones what was recorded,
    or the share of the last one recorded of its power of two, else of the nearest one."""
    size = objects.size
    pages = np.full(len(size), ALL_PAGES, dtype=np.uint32)
    counted = np.flatnonzero((size >= LARGE) & (objects.touched >= 0))
    if len(counted) == 0:
        return pages
    ended = np.full(len(size), len(objects.order), dtype=np.int64)
    died = objects.died()
    ended[died] = objects.rank[objects.death[died]]
    covered = pages_of(size, objects.trace.page_size)
    share = np.minimum(1.0, objects.touched[counted] / covered[counted])
    kind = log2_buckets(size[counted])
    known = np.unique(kind)
    large = np.flatnonzero((size >= LARGE) & (objects.touched < 0))
    large_kind = log2_buckets(size[large])
    for wanted in np.unique(large_kind).tolist():
        nearest = int(known[np.abs(known - wanted).argmin()])
        of_kind = np.flatnonzero(kind == nearest)
        of_kind = of_kind[np.argsort(ended[counted[of_kind]])]
        asks = large[large_kind == wanted]
        last = np.searchsorted(ended[counted[of_kind]], ended[asks]) - 1
        part = share[of_kind[np.maximum(last, 0)]]
        pages[asks] = np.minimum(np.ceil(part * covered[asks]), ALL_PAGES).astype(np.uint32)
    pages[counted] = np.minimum(objects.touched[counted], ALL_PAGES).astype(np.uint32)
    return pages


# --- records -------------------------------------------------------------------------------------


def start_events(objects: Objects, order: Order) -> tuple[U32, U32]:
    """Threads and the events before which they are started: the last one of any thread before their
    own first, most likely that of the thread that started them in the recording."""
    thread = objects.thread[order.at]
    threads, first = np.unique(thread, return_index=True)
    later = first > 0
    return threads[later].astype(np.uint32), order.at[first[later] - 1]


def pack(operation: npt.NDArray[np.generic], alignment: object, size: object) -> npt.NDArray[np.uint64]:
    what = operation.astype(np.uint64) | (np.asarray(alignment).astype(np.uint64) << np.uint64(8))
    return what | (np.asarray(size).astype(np.uint64) << np.uint64(16))


def make_plan(
    objects: Objects,
    window_events: int = WINDOW_EVENTS,
    progress: ProgressFunction = lambda part: None,
) -> Plan:
    trace: Trace = objects.trace
    if len(objects.birth) == 0:
        raise LabError(f"{trace.path}: there is no allocation in it to replay")
    order = make_order(objects, window_events)
    progress(0.2)
    died = objects.died()
    handed = died.copy()
    handed[died] = objects.thread[objects.birth[died]] != objects.thread[objects.death[died]]
    slot, slots = assign_slots(objects, order, handed)
    progress(0.6)
    pages = touched_pages(objects)
    size = objects.size

    kept = order.kept
    thread = objects.thread[kept]
    window = order.window[kept]
    enters = np.ones(len(kept), dtype=np.bool_)
    enters[1:] = (thread[1:] != thread[:-1]) | (window[1:] != window[:-1])
    started, starting = start_events(objects, order)
    starts = np.zeros(len(trace.operation), dtype=np.bool_)
    starts[starting] = True
    frees = np.zeros(len(trace.operation), dtype=np.bool_)
    frees[objects.death[objects.lost]] = True
    acts = trace.operation[kept] != THREAD_END
    # Records of an event: enter a window, start a thread, free what was lost, the call itself.
    lengths = enters.astype(np.int64) + starts[kept] + frees[kept] + acts
    ends = np.cumsum(lengths)
    here = np.zeros(len(trace.operation), dtype=np.int64)  # of each event: its first record
    here[kept] = ends - lengths
    records = np.zeros(int(ends[-1]), dtype=RECORD)

    at = here[kept[enters]]
    records["what"][at] = WINDOW
    records["slot"][at] = window[enters]
    here[kept[enters]] += 1
    at = here[starting]
    records["what"][at] = START
    records["slot"][at] = started
    here[starting] += 1
    lost = np.flatnonzero(objects.lost)
    at = here[objects.death[lost]]
    records["what"][at] = pack(np.full(len(lost), FREE), 0, size[lost])
    records["slot"][at] = slot[lost]
    records["pages"][at] = pages[lost]
    here[objects.death[lost]] += 1
    progress(0.8)

    event = kept[acts]
    of = objects.of_event[event]
    operation = trace.operation[event]
    operation = np.where((operation == REALLOC_TO) & ~reallocated(objects)[event], MALLOC, operation)
    what = pack(operation, trace.alignment[event], size[of])
    soon = np.zeros(len(size), dtype=np.bool_)
    soon[handed] = (
        order.window[objects.death[handed]] - order.window[objects.birth[handed]]
    ) <= LEAD
    what[(objects.birth[of] == event) & soon[of]] |= np.uint64(AWAITED)
    at = here[event]
    records["what"][at] = what
    records["slot"][at] = slot[of]
    records["pages"][at] = pages[of]

    table = np.zeros(len(trace.numbers), dtype=THREAD)
    table["number"] = trace.numbers
    last = np.cumsum(np.bincount(thread, weights=lengths, minlength=len(table)).astype(np.int64))
    table["first"] = np.concatenate([[0], last[:-1]])
    table["count"] = last - table["first"].astype(np.int64)
    table["stays"] = trace.operation[trace.bounds[1:] - 1] != THREAD_END
    taking_part = np.bincount(window[enters], minlength=len(order.starts)).astype(np.uint32)
    calls = int((operation != REALLOC_OF).sum()) + len(lost)
    progress(1.0)
    main = int(objects.thread[order.at[0]])
    return Plan(trace.page_size, main, slots, calls, table, taking_part, records)
