"""What a trace says about a program, as figures. trace_tables.py prints them."""

import shlex
from typing import Any

import numpy as np
import numpy.typing as npt

from hakmem_lab.base.printable import printable_lines
from hakmem_lab.trace.htrace import (
    ALLOCATIONS,
    FAILED,
    I64,
    OPERATIONS,
    REALLOC_OF,
    REALLOC_TO,
    THREAD_END,
    U32,
    U64,
)
from hakmem_lab.trace.match import NONE, Objects

# From here on the recorder may say how many pages of a block were touched.
LARGE = 65536
MOST_PAIRS = 20
SHARES = (10, 50, 90, 99)
DECADES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)

Bucketed = npt.NDArray[np.int64]


def log2_buckets(values: npt.NDArray[Any]) -> Bucketed:
    """0 for 0, else 1 + the base-2 logarithm, rounded down."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def bucket_bounds(bucket: int) -> dict[str, int]:
    return {"from": 1 << (bucket - 1), "to": (1 << bucket) - 1} if bucket else {"from": 0, "to": 0}


def sums(bucket: Bucketed, weight: npt.NDArray[Any], least: int) -> I64:
    """Sum of the weights in each bucket. In integers: a float64 is not exact above 2^53."""
    total = np.zeros(least, dtype=np.int64)
    np.add.at(total, bucket, weight.astype(np.int64))
    return total


def live_curve(objects: Objects, weight: I64) -> I64:
    """What is live after the event of each rank: bytes when an object's weight is its size."""
    died = objects.died()
    change = np.zeros(len(objects.order), dtype=np.int64)
    change[objects.rank[objects.birth]] += weight
    change[objects.rank[objects.death[died]]] -= weight[died]
    return np.cumsum(change)


def seconds_at(objects: Objects, event: int) -> float:
    trace = objects.trace
    return float(trace.stamp[event] - trace.stamp.min()) / trace.ticks_per_second


def duration(objects: Objects) -> float:
    trace = objects.trace
    said = trace.end.get("seconds")
    if isinstance(said, int | float) and not isinstance(said, bool):
        return float(said)
    if len(trace.stamp) == 0:
        return 0.0
    return float(trace.stamp.max() - trace.stamp.min()) / trace.ticks_per_second


def show_command(information: dict[str, Any]) -> str:
    """The recorded command's first line."""
    words = information.get("command", [])
    text = shlex.join(map(str, words)) if isinstance(words, list) else str(words)
    first, *others = printable_lines(text).split("\n")
    return f"{first} ..." if others else first


def count_events(objects: Objects) -> dict[str, int]:
    counts = np.bincount(objects.trace.operation, minlength=len(OPERATIONS) + 1)
    named = {name: int(count) for name, count in zip(OPERATIONS, counts[1:], strict=True)}
    return {"total": len(objects.order), **named}


def describe_threads(objects: Objects) -> dict[str, int]:
    trace = objects.trace
    first = objects.rank[trace.bounds[:-1]]
    last = trace.bounds[1:] - 1
    ended = trace.operation[last] == THREAD_END
    change = np.zeros(len(objects.order) + 1, dtype=np.int64)
    change[first] += 1
    change[objects.rank[last[ended]].astype(np.int64) + 1] -= 1
    return {
        "count": len(trace.numbers),
        "ended": int(ended.sum()),
        "most_at_once": int(np.cumsum(change).max()),
    }


def describe_sizes(objects: Objects, at_peak: U32) -> list[dict[str, int]]:
    size = objects.size
    bucket = log2_buckets(size)
    most = int(bucket.max(initial=0)) + 1
    counts = np.bincount(bucket, minlength=most)
    total = sums(bucket, size, most)
    peak_counts = np.bincount(bucket[at_peak], minlength=most)
    peak_bytes = sums(bucket[at_peak], size[at_peak], most)
    return [
        {
            **bucket_bounds(index),
            "count": int(counts[index]),
            "bytes": int(total[index]),
            "peak_count": int(peak_counts[index]),
            "peak_bytes": int(peak_bytes[index]),
        }
        for index in np.flatnonzero(counts).tolist()
    ]


def quantiles(values: npt.NDArray[Any]) -> dict[str, float]:
    found = np.percentile(values, SHARES) if len(values) else np.zeros(len(SHARES))
    named = {f"p{share}": float(value) for share, value in zip(SHARES, found, strict=True)}
    return {**named, "max": float(values.max(initial=0))}


def describe_lifetimes(objects: Objects) -> dict[str, Any]:
    """Of the blocks that were freed; a realloc ends one and begins another."""
    trace = objects.trace
    died = np.flatnonzero(objects.died() & ~objects.lost)
    birth, death, size = objects.birth[died], objects.death[died], objects.size[died]
    events = objects.rank[death].astype(np.int64) - objects.rank[birth]
    # Clocks of CPUs may differ by a few ticks.
    ticks = np.where(trace.stamp[death] > trace.stamp[birth], trace.stamp[death], 0)
    ticks = np.where(ticks > 0, ticks - trace.stamp[birth], 0)
    seconds = ticks / trace.ticks_per_second
    by_events = log2_buckets(events)
    most = int(by_events.max(initial=0)) + 1
    counts, total = np.bincount(by_events, minlength=most), sums(by_events, size, most)
    decade = np.searchsorted(np.array(DECADES), seconds, side="right")
    decade_counts = np.bincount(decade, minlength=len(DECADES) + 1)
    decade_bytes = sums(decade, size, len(DECADES) + 1)
    edges: list[float | None] = [0.0, *DECADES, None]
    return {
        "count": len(died),
        "events": quantiles(events),
        "seconds": quantiles(seconds),
        "by_events": [
            {**bucket_bounds(i), "count": int(counts[i]), "bytes": int(total[i])}
            for i in np.flatnonzero(counts).tolist()
        ],
        "by_seconds": [
            {
                "from": edges[i],
                "to": edges[i + 1],
                "count": int(decade_counts[i]),
                "bytes": int(decade_bytes[i]),
            }
            for i in np.flatnonzero(decade_counts).tolist()
        ],
    }


def describe_handoff(objects: Objects) -> dict[str, Any]:
    """Blocks that another thread gave up than the one that asked for them."""
    died = np.flatnonzero(objects.died() & ~objects.lost)
    by = objects.thread[objects.birth[died]].astype(np.int64)
    to = objects.thread[objects.death[died]].astype(np.int64)
    handed = by != to
    size = objects.size[died[handed]].astype(np.int64)
    pair = by[handed] * len(objects.trace.numbers) + to[handed]
    kinds, inverse, counts = np.unique(pair, return_inverse=True, return_counts=True)
    total = sums(inverse.astype(np.int64), size, len(kinds))
    numbers = objects.trace.numbers
    first = np.argsort(-counts, kind="stable")[:MOST_PAIRS].tolist()
    return {
        "freed": len(died),
        "blocks": int(handed.sum()),
        "bytes": int(size.sum()),
        "kinds_of_pairs": len(kinds),
        "pairs": [
            {
                "allocated_by": int(numbers[kinds[i] // len(numbers)]),
                "freed_by": int(numbers[kinds[i] % len(numbers)]),
                "blocks": int(counts[i]),
                "bytes": int(total[i]),
            }
            for i in first
        ],
    }


def describe_peak(objects: Objects) -> tuple[dict[str, Any], U32]:
    """The peaks, and which objects are live at that of the bytes."""
    live_bytes = live_curve(objects, objects.size.astype(np.int64))
    live_blocks = live_curve(objects, np.ones(len(objects.birth), dtype=np.int64))
    peak: dict[str, Any] = {}
    for name, curve in (("bytes", live_bytes), ("blocks", live_blocks)):
        at = int(curve.argmax())
        peak[name] = {
            "bytes": int(live_bytes[at]),
            "blocks": int(live_blocks[at]),
            "event": at,
            "seconds": seconds_at(objects, int(objects.order[at])),
            "position": at / max(1, len(curve) - 1),
        }
    at = peak["bytes"]["event"]
    born = objects.rank[objects.birth] <= at
    gone = objects.died()
    gone[gone] = objects.rank[objects.death[gone]] <= at
    return peak, np.flatnonzero(born & ~gone).astype(np.uint32)


def describe_reallocs(objects: Objects) -> dict[str, int]:
    trace = objects.trace
    to = np.flatnonzero(trace.operation == REALLOC_TO)
    of = to - 1
    # The format promises it; a realloc without its first half is counted, not compared.
    known = (of >= 0) & (trace.operation[of] == REALLOC_OF) & (objects.of_event[of] != NONE)
    to, of = to[known], of[known]
    old, new = objects.size[objects.of_event[of]], trace.size[to]
    moved = trace.address[of] != trace.address[to]
    failed = trace.operation == FAILED
    failed &= trace.address != 0
    return {
        "count": len(known),
        "in_place": int((~moved).sum()),
        "moved": int(moved.sum()),
        "grown": int((new > old).sum()),
        "shrunk": int((new < old).sum()),
        "copied_bytes": int(np.minimum(old, new)[moved].astype(np.int64).sum()),
        "failed": int(failed.sum()),
    }


def describe_alignments(objects: Objects) -> list[dict[str, int]]:
    alignment = objects.trace.alignment[objects.birth].astype(np.int64)
    counts = np.bincount(alignment, minlength=1)
    total = sums(alignment, objects.size, len(counts))
    return [
        {"alignment": 1 << i, "count": int(counts[i]), "bytes": int(total[i])}
        for i in np.flatnonzero(counts).tolist()
        if i
    ]


def pages_of(size: U64, page: int) -> I64:
    """Pages that a block of this size covers when it begins with one."""
    return ((size.astype(np.int64) + page - 1) // page).astype(np.int64)


def describe_touched(objects: Objects) -> dict[str, Any]:
    """Of the blocks of at least 64 KiB; `share` is that of those whose pages were counted."""
    size = objects.size
    large = size >= LARGE
    counted = large & (objects.touched >= 0)
    pages = pages_of(size[counted], objects.trace.page_size)
    # A block that does not begin with a page covers one more.
    touched = np.minimum(objects.touched[counted], pages)
    total = int(pages.sum())
    return {
        "blocks": int(large.sum()),
        "counted": int(counted.sum()),
        "pages": total,
        "touched": int(touched.sum()),
        "share": int(touched.sum()) / total if total else None,
    }


def describe_trace(objects: Objects) -> dict[str, Any]:
    """All figures; the keys are those of trace-info --json."""
    trace = objects.trace
    asked = ALLOCATIONS[trace.operation]
    figures: dict[str, Any] = {
        "file": str(trace.path),
        "warnings": list(trace.warnings),
        "information": trace.information,
        "end": trace.end,
        "seconds": duration(objects),
        "events": count_events(objects),
        "anomalies": dict(vars(objects.anomalies)),
        "allocations": {"count": int(asked.sum()), "bytes": int(objects.size.sum())},
    }
    if len(trace.stamp) == 0:
        return figures
    peak, at_peak = describe_peak(objects)
    left = ~objects.died()
    return {
        **figures,
        "threads": describe_threads(objects),
        "peak": peak,
        "left": {"blocks": int(left.sum()), "bytes": int(objects.size[left].sum())},
        "sizes": describe_sizes(objects, at_peak),
        "lifetimes": describe_lifetimes(objects),
        "handoff": describe_handoff(objects),
        "realloc": describe_reallocs(objects),
        "alignment": describe_alignments(objects),
        "touched": describe_touched(objects),
    }
