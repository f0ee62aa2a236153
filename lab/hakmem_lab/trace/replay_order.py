"""Which thread waits for what in a replay, and where blocks lie meanwhile.

The plan is a total order that every thread's own order agrees with. A thread waits in three cases
only, for what is earlier in that order, so that a replay cannot hang:

- **Blocks.** Freeing or reallocating a block of another thread waits until it is in its slot.
- **Windows.** The order is cut into windows; a thread begins one when all windows but the one
  before it are done by everybody. Nobody runs ahead by more, so the peak of memory is that of the
  recording.
- **Threads.** One begins when those have done their last call that had in the recording: so no more
  of them are there at once, and what a thread left is not in use by it any more.

A slot is the place of a block's address. A block that its own thread frees has a slot of that
thread's, reused at once; one that another thread frees gets a slot that was empty for a whole
window, so that nobody can take the address before for it. Slots are stacks (the one emptied last is
used next, as it is in the cache), found by matching them like parentheses instead of running
through the events.
"""

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hakmem_lab.base.errors import LabError
from hakmem_lab.trace.htrace import I64, REALLOC_OF, REALLOC_TO, THREAD_END, U32
from hakmem_lab.trace.info import live_curve
from hakmem_lab.trace.match import NONE, Bools, Objects

WINDOW_EVENTS = 65536
# A window also ends when so much of the live bytes is allocated in it, but not below so many bytes
# and events: windows of a few events would replay the order of threads instead of the allocator.
WINDOW_SHARE = 1 / 16
WINDOW_BYTES = 2 << 20
WINDOW_LEAST = 64
LEAD = 1  # windows; bench/replay.c has the same
POOL_SLOTS = 16  # two lines: threads' slots do not share one
MOST_SLOTS = 0xFFFFFFFF


# --- order ---------------------------------------------------------------------------------------


def reallocated(objects: Objects) -> Bools:
    """Second halves of reallocs whose old block is known; the others become a malloc."""
    trace = objects.trace
    known = np.zeros(len(trace.operation), dtype=np.bool_)
    first = (trace.operation == REALLOC_OF) & (objects.of_event != NONE)
    known[1:] = first[:-1]
    known &= trace.operation == REALLOC_TO
    return known


def kept_events(objects: Objects) -> Bools:
    """Events that the plan has: of known blocks, and the end of a thread behind all its others."""
    trace = objects.trace
    kept: Bools = objects.of_event != NONE
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
    # In 32 bits where they do: these arrays are the most that planning takes.
    number_type = np.int32 if len(pops) < 1 << 31 else np.int64
    live = np.cumsum(pops.view(np.int8) * np.int8(2) - np.int8(1), dtype=number_type)
    most = np.maximum.accumulate(live)
    fresh = pops.copy()
    fresh[1:] &= most[1:] > most[:-1]
    first = item[fresh]
    again = ~fresh
    most -= live
    most += pops
    by_height = np.flatnonzero(again)
    by_height = by_height[np.argsort(most[again], kind="stable")]
    del live, most, again
    moves, taken = item[by_height], pops[by_height]
    del by_height
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
    # By pool and then by time, which needs 34 bits.
    key = pool[items].astype(np.int64) << 34
    key[:count] |= taken
    key[count:] |= np.minimum(given, (1 << 34) - 1)
    del taken, given, item
    in_order = np.argsort(key, kind="stable")
    del key
    items, pops = items[in_order], in_order < count
    del in_order
    first = np.ones(len(items), dtype=np.bool_)
    np.not_equal(pool[items[1:]], pool[items[:-1]], out=first[1:])
    bounds = [*np.flatnonzero(first).tolist(), len(items)]
    pools = pool[items[bounds[:-1]]]
    end = np.full(count, len(order.starts), dtype=np.int64)
    end[died] = order.window[death]
    own = np.empty(count, dtype=np.uint32)
    sizes, begins, ends = [], [], []
    for low, high in pairwise(bounds):
        sizes.append(stack_slots(pops[low:high], items[low:high], slot, own))
        begins.append(int(order.window[objects.birth[items[low]]]))
        ends.append(int(end[items[low:high]].max()))
    bases, total = place_pools(sizes, begins, ends)
    if total > MOST_SLOTS:
        raise LabError(
            f"{objects.trace.path}: {total} blocks at once are more than a plan can hold"
        )
    slot += np.array(bases, dtype=np.uint32)[np.searchsorted(pools, pool)]
    return slot, total
