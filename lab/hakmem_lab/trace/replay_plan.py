"""From a trace to a plan: what each thread of bench/replay has to do, in order. replay_order.py
says why that cannot hang.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hakmem_lab.base.errors import LabError
from hakmem_lab.trace.htrace import (
    FREE,
    I64,
    MALLOC,
    REALLOC_OF,
    REALLOC_TO,
    THREAD_END,
    U8,
    U32,
    U64,
    ProgressFunction,
    Trace,
)
from hakmem_lab.trace.info import LARGE, log2_buckets, pages_of
from hakmem_lab.trace.match import Bools, Objects
from hakmem_lab.trace.replay_order import (
    LEAD,
    WINDOW_EVENTS,
    Order,
    assign_slots,
    make_order,
    reallocated,
)

MAGIC = b"HTPLAN1\n"
HEADER = struct.Struct("<8sIIIIQQQ")
RECORD = np.dtype([("what", "<u8"), ("slot", "<u4"), ("pages", "<u4")])
THREAD = np.dtype(
    [
        *(("first", "<u8"), ("count", "<u8"), ("acts", "<u8")),
        *(("stays", "<u4"), ("number", "<u4"), ("rank", "<u4"), ("after", "<u4")),
    ]
)
START, WINDOW = 7, 8  # operations beside those of the trace
AWAITED = 16  # bit of `what`: another thread may be waiting for this block
ALL_PAGES = 0xFFFFFFFF
PART = 1 << 20  # events of which records are made at a time


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
        of_kind = of_kind[np.argsort(ended[counted[of_kind]], kind="stable")]
        asks = large[large_kind == wanted]
        last = np.searchsorted(ended[counted[of_kind]], ended[asks], side="right") - 1
        part = share[of_kind[np.maximum(last, 0)]]
        pages[asks] = np.minimum(np.ceil(part * covered[asks]), ALL_PAGES).astype(np.uint32)
    pages[counted] = np.minimum(objects.touched[counted], ALL_PAGES).astype(np.uint32)
    return pages


@dataclass
class Blocks:
    """Of each object: its slot, the pages to touch, and whether another thread frees it."""

    slot: U32
    pages: U32
    handed: Bools
    slots: int


def find_blocks(objects: Objects, order: Order) -> Blocks:
    died = objects.died()
    handed = died.copy()
    handed[died] = objects.thread[objects.birth[died]] != objects.thread[objects.death[died]]
    slot, slots = assign_slots(objects, order, handed)
    return Blocks(slot, touched_pages(objects), handed, slots)


# --- records -------------------------------------------------------------------------------------


def start_events(objects: Objects, order: Order) -> tuple[U32, U32]:
    """Threads and the events before which they are started: the last one of any thread before their
    own first, most likely that of the thread that started them in the recording."""
    bounds = np.searchsorted(order.kept, objects.trace.bounds)
    threads = np.flatnonzero(bounds[1:] > bounds[:-1])
    first = order.position[order.kept[bounds[threads]]].astype(np.int64)
    later = first > 0
    return threads[later].astype(np.uint32), order.at[first[later] - 1]


def pack(operation: U8, alignment: U8, size: U64) -> U64:
    what = operation.astype(np.uint64)
    what |= alignment.astype(np.uint64) << np.uint64(8)
    what |= size << np.uint64(16)
    return what


@dataclass
class Layout:
    """Where the records of each kept event are, in this order: enter a window, start a thread, free
    a block that was lost, the call itself."""

    enters: Bools
    ends: I64  # behind the event's last record
    lengths: npt.NDArray[np.uint8]
    starting: npt.NDArray[np.intp]  # kept events before which a thread is started
    started: U32  # the threads
    lost: npt.NDArray[np.intp]  # objects whose free is missing
    losing: npt.NDArray[np.intp]  # kept events before which they are freed

    def before(self, event: npt.NDArray[np.intp]) -> I64:
        return self.ends[event] - self.lengths[event]


def lay_out(objects: Objects, order: Order) -> Layout:
    kept = order.kept
    enters = np.ones(len(kept), dtype=np.bool_)
    window = order.window[kept]
    np.not_equal(window[1:], window[:-1], out=enters[1:])
    del window
    bounds = np.searchsorted(kept, objects.trace.bounds)
    enters[bounds[:-1][bounds[:-1] < bounds[1:]]] = True
    lengths = enters.astype(np.uint8)
    lengths += objects.trace.operation[kept] != THREAD_END
    started, events = start_events(objects, order)
    starting = np.searchsorted(kept, events)
    lost = np.flatnonzero(objects.lost)
    losing = np.searchsorted(kept, objects.death[lost])
    # One event starts one thread at most, and takes the place of one lost block.
    lengths[starting] += 1
    lengths[losing] += 1
    ends = np.cumsum(lengths, dtype=np.int64)
    return Layout(enters, ends, lengths, starting, started, lost, losing)


def fill_calls(
    objects: Objects, order: Order, layout: Layout, blocks: Blocks, records: npt.NDArray[np.void]
) -> int:
    """Writes the records of the calls; how many they are."""
    trace = objects.trace
    size = objects.size
    joined = reallocated(objects)
    soon = np.zeros(len(size), dtype=np.bool_)
    handed = blocks.handed
    soon[handed] = (
        order.window[objects.death[handed]] - order.window[objects.birth[handed]]
    ) <= LEAD
    calls = 0
    for begin in range(0, len(order.kept), PART):
        part = slice(begin, begin + PART)
        acts = trace.operation[order.kept[part]] != THREAD_END
        event = order.kept[part][acts]
        of = objects.of_event[event]
        operation = trace.operation[event]
        operation[(operation == REALLOC_TO) & ~joined[event]] = MALLOC
        what = pack(operation, trace.alignment[event], size[of])
        what[(objects.birth[of] == event) & soon[of]] |= np.uint64(AWAITED)
        at = layout.ends[part][acts] - 1
        records["what"][at] = what
        records["slot"][at] = blocks.slot[of]
        records["pages"][at] = blocks.pages[of]
        calls += int((operation != REALLOC_OF).sum())
    return calls


def thread_table(trace: Trace, order: Order, layout: Layout) -> npt.NDArray[np.void]:
    table = np.zeros(len(trace.numbers), dtype=THREAD)
    table["number"] = trace.numbers
    events = np.searchsorted(order.kept, trace.bounds)
    bounds = np.where(events > 0, layout.ends[events - 1], 0)
    table["first"] = bounds[:-1]
    table["count"] = np.diff(bounds)
    # Threads that have events; the others are not started, and are the last in the order of ends.
    begin, end = events[:-1], events[1:]
    there = begin < end
    begin, last = begin[there], end[there] - 1
    calls = trace.operation[order.kept[last]] != THREAD_END
    table["acts"][there] = np.where(
        calls, layout.ends[last], np.where(last > begin, layout.ends[last - 1], bounds[:-1][there])
    )
    table["acts"][there] -= table["first"][there]
    position = order.position[order.kept[np.where(calls, last, np.maximum(last - 1, begin))]]
    number = np.arange(len(table), dtype=np.uint32)
    table["rank"][there] = np.argsort(np.argsort(position))
    table["rank"][~there] = number[len(position) :]
    table["after"][there] = np.searchsorted(np.sort(position), order.position[order.kept[begin]])
    table["stays"] = trace.operation[trace.bounds[1:] - 1] != THREAD_END
    return table


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
    blocks = find_blocks(objects, order)
    progress(0.7)
    layout = lay_out(objects, order)
    records = np.zeros(int(layout.ends[-1]), dtype=RECORD)

    at = layout.before(np.flatnonzero(layout.enters))
    entered = order.window[order.kept[layout.enters]]
    records["what"][at] = WINDOW
    records["slot"][at] = entered
    taking_part = np.bincount(entered, minlength=len(order.starts)).astype(np.uint32)
    del at, entered
    at = layout.before(layout.starting) + layout.enters[layout.starting]
    records["what"][at] = START
    records["slot"][at] = layout.started
    lost = layout.lost
    frees = np.full(len(lost), FREE, dtype=np.uint8)
    at = layout.ends[layout.losing] - 2  # the call is behind it
    records["what"][at] = pack(frees, np.zeros_like(frees), objects.size[lost])
    records["slot"][at] = blocks.slot[lost]
    records["pages"][at] = blocks.pages[lost]
    calls = len(lost) + fill_calls(objects, order, layout, blocks, records)
    progress(1.0)
    main = int(objects.thread[order.at[0]])
    table = thread_table(trace, order, layout)
    return Plan(trace.page_size, main, blocks.slots, calls, table, taking_part, records)
