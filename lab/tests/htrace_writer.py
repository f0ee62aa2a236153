"""Writes traces: the format again, written from docs/trace-format.md and not from the reader."""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

HEADER = bytes.fromhex("89485452430d0a1a") + struct.pack("<II", 1, 0)
MALLOC, CALLOC, ALIGNED, FREE, REALLOC_OF, REALLOC_TO, FAILED, TOUCHED, THREAD_END = range(1, 10)
MASK = (1 << 64) - 1

# (stamp, operation, address, size[, alignment's logarithm])
Event = tuple[int, ...]

INFORMATION = {
    "command": ["program", "word"],
    "pid": 1,
    "started": "2026-01-02T03:04:05Z",
    "page_size": 4096,
    "ticks_per_second": 1000,
    "hakmem_version": "1",
    "machine": "test",
}


def planes(values: Sequence[int], width: int) -> bytes:
    return b"".join(bytes((value >> 8 * i) & 0xFF for value in values) for i in range(width))


def frame(
    kind: int, raw: bytes, thread: int = 0, count: int = 0, stamp: int = 0, address: int = 0,
    wrong: dict[str, Any] | None = None,
) -> bytes:  # fmt: skip
    """A frame; `wrong` are fields of its head that are to be so, or its payload."""
    wrong = wrong or {}
    stored = wrong.get("payload", zstandard.ZstdCompressor().compress(raw))
    fields = {
        "magic": b"HTF1", "kind": kind, "zero": 0, "thread": thread, "count": count,
        "raw": len(raw), "stored": len(stored), "stamp": stamp, "address": address,
        "checksum": zlib.crc32(stored),
    }  # fmt: skip
    fields |= {name: value for name, value in wrong.items() if name in fields}
    head = struct.pack("<4sHHIIIIQQI", *fields.values())
    return bytes(head + struct.pack("<I", zlib.crc32(head)) + stored)


def events_frame(thread: int, events: Sequence[Event], **wrong: Any) -> bytes:
    stamp, address = events[0][0], events[0][2]
    columns: list[list[int]] = [[], [], [], []]
    last = (stamp, address)
    for event in events:
        columns[0].append((event[0] - last[0]) & MASK)
        columns[1].append((event[2] - last[1]) & MASK)
        columns[2].append(event[3])
        columns[3].append(event[1] + 256 * (event[4] if len(event) > 4 else 0))
        last = (event[0], event[2])
    raw = b"".join(planes(c, width) for c, width in zip(columns, (8, 8, 8, 4), strict=True))
    return frame(1, raw, thread, len(events), stamp, address, wrong)


def json_frame(kind: int, content: object) -> bytes:
    return frame(kind, json.dumps(content).encode())


def trace_bytes(
    threads: Mapping[int, Sequence[Event]], size: int = 100, information: object = INFORMATION,
    end: object = None,
) -> bytes:  # fmt: skip
    """A whole file: frames of at most `size` events, the threads' in turn."""
    parts = [HEADER, json_frame(2, information)]
    longest = max((len(events) for events in threads.values()), default=0)
    for at in range(0, longest, size):
        for thread, events in threads.items():
            if events[at : at + size]:
                parts.append(events_frame(thread, events[at : at + size]))
    count = sum(map(len, threads.values()))
    parts.append(json_frame(3, end or {"events": count, "threads": len(threads), "status": 0}))
    return b"".join(parts)


def write_trace(path: Path, threads: Mapping[int, Sequence[Event]], **options: Any) -> Path:
    path.write_bytes(trace_bytes(threads, **options))
    return path


def by_thread(events: Iterable[tuple[int, Event]]) -> dict[int, list[Event]]:
    """Pairs of thread and event, in any order of threads, as the threads' lists."""
    threads: dict[int, list[Event]] = {}
    for thread, event in events:
        threads.setdefault(thread, []).append(event)
    return threads
