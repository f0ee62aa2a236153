"""Reads allocation traces; docs/trace-format.md is the contract.

The events of a thread lie one behind the other, the threads one after the other: what a thread did
is a slice of every array. That takes 26 bytes an event; matching (trace_match.py) and planning
(replay_plan.py) come on top.
"""

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import zstandard

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.reading import refuse_kind

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

MAGIC = bytes.fromhex("89485452430D0A1A")
VERSION = 1
HEADER = struct.Struct("<8sII")
FRAME_MAGIC = b"HTF1"
HEAD = struct.Struct("<4sHHIIIIQQII")
EVENTS, INFORMATION, END = 1, 2, 3
MOST_RAW = 16 << 20  # bytes of a payload before compression
MOST_STORED = MOST_RAW + (1 << 20)  # zstd adds less than that to what it cannot compress
EVENT_BYTES = 28
EVENT_MEMORY = 130  # bytes an event, from reading to the plan: 90 to 120 measured
MOST_EVENTS = 1 << 32  # positions are kept in 32 bits
LEAST_PAGE, MOST_PAGE = 512, 1 << 24
MOST_SIZE = 1 << 47  # bytes: the address space of a process

MALLOC, CALLOC, ALIGNED, FREE, REALLOC_OF, REALLOC_TO, FAILED, TOUCHED, THREAD_END = range(1, 10)
OPERATIONS = (
    *("malloc", "calloc", "aligned", "free", "realloc of", "realloc to", "failed", "touched"),
    "thread end",
)

ALLOCATIONS = np.isin(np.arange(THREAD_END + 1), (MALLOC, CALLOC, ALIGNED, REALLOC_TO))
RELEASES = np.isin(np.arange(THREAD_END + 1), (FREE, REALLOC_OF, TOUCHED))

# progress(part done, of 1): called now and then.
ProgressFunction = Callable[[float], None]


class FaultError(Exception):
    """What is wrong with a trace, and where. `cut`: the file ends too early, nothing else."""

    def __init__(self, offset: int, problem: str, cut: bool = False) -> None:
        super().__init__(problem)
        self.offset, self.problem, self.cut = offset, problem, cut


@dataclass(frozen=True)
class Frame:
    """The head of a frame; `offset` is where it begins."""

    offset: int
    kind: int
    thread: int
    count: int
    raw: int
    stored: int
    stamp: int
    address: int
    checksum: int


@dataclass
class Trace:
    """The events of a file, thread by thread. Thread i (an index; `numbers[i]` is the recording's
    number) has the events bounds[i] to bounds[i + 1]."""

    path: Path
    numbers: U32
    bounds: I64
    stamp: U64
    address: U64
    size: U64
    operation: U8
    alignment: U8  # base-2 logarithm
    information: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def page_size(self) -> int:
        return int(self.information.get("page_size", 4096))

    @property
    def ticks_per_second(self) -> float:
        """The one measured over the whole run, when it is known."""
        start = self.information.get("ticks_per_second", 1e9)
        return float(self.end.get("ticks_per_second", start))

    def thread_of_event(self) -> U32:
        return np.repeat(np.arange(len(self.numbers), dtype=np.uint32), np.diff(self.bounds))


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# --- frames --------------------------------------------------------------------------------------


def read_header(stream: IO[bytes]) -> None:
    head = stream.read(HEADER.size)
    magic = head[: len(MAGIC)]
    if not MAGIC.startswith(magic) or not head:
        hint = "; a transfer as text changed it" if b"HTRC" in head else ""
        raise FaultError(0, f"not an allocation trace of hakmem{hint}")
    if len(head) < HEADER.size:
        raise FaultError(
            0, f"the file ends in its header, after {len(head)} of {HEADER.size} bytes"
        )
    _, version, reserved = HEADER.unpack(head)
    if version != VERSION:
        raise FaultError(8, f"version {version}; this hakmem-lab reads {VERSION}")
    if reserved != 0:
        raise FaultError(12, f"the header's last four bytes are {reserved}, not 0")


def parse_head(head: bytes, offset: int) -> Frame:
    magic, kind, zero, thread, count, raw, stored, stamp, address, checksum, own = HEAD.unpack(head)
    if magic != FRAME_MAGIC:
        raise FaultError(offset, f"no frame begins here (HTF1 is wanted, found {magic!r})")
    if zlib.crc32(head[:44]) != own:
        raise FaultError(offset, "the checksum of the frame's head is wrong")
    frame = Frame(offset, kind, thread, count, raw, stored, stamp, address, checksum)
    if zero != 0:
        raise FaultError(offset + 6, f"bytes 6 and 7 of the frame's head are {zero}, not 0")
    if raw > MOST_RAW:
        raise FaultError(offset + 16, f"a payload of {raw} bytes; at most {MOST_RAW} are accepted")
    if stored > MOST_STORED:
        raise FaultError(offset + 20, f"a payload of {stored} bytes in the file, for {raw} bytes")
    if kind == EVENTS and raw != count * EVENT_BYTES:
        problem = f"{count} events in {raw} bytes; {EVENT_BYTES} bytes each are wanted"
        raise FaultError(offset + 12, problem)
    return frame


def scan(stream: IO[bytes], size: int) -> tuple[list[Frame], FaultError | None]:
    """The heads of the frames, up to the first fault."""
    frames: list[Frame] = []
    offset = HEADER.size
    while offset < size:
        stream.seek(offset)
        head = stream.read(HEAD.size)
        if len(head) < HEAD.size:
            if not FRAME_MAGIC.startswith(head[:4]):
                return frames, FaultError(offset, "no frame begins here (HTF1 is wanted)")
            said = f"the file ends in a frame's head, after {len(head)} of {HEAD.size} bytes"
            return frames, FaultError(offset, said, cut=True)
        try:
            frame = parse_head(head, offset)
        except FaultError as fault:
            return frames, fault
        payload = offset + HEAD.size
        if payload + frame.stored > size:
            said = f"the file ends in a frame, {size - payload} of {frame.stored} bytes are there"
            return frames, FaultError(offset, said, cut=True)
        frames.append(frame)
        offset = payload + frame.stored
    return frames, None


def read_payload(stream: IO[bytes], frame: Frame, unpack: zstandard.ZstdDecompressor) -> bytes:
    stream.seek(frame.offset + HEAD.size)
    stored = stream.read(frame.stored)
    if len(stored) < frame.stored:
        raise FaultError(frame.offset, "the file became shorter while it was read", cut=True)
    if zlib.crc32(stored) != frame.checksum:
        raise FaultError(frame.offset, "the checksum of the frame's payload is wrong")
    try:
        # Asked first: decompress() believes the payload and would fetch as much memory as it says.
        said = zstandard.frame_content_size(stored)
        if said not in (-1, frame.raw):
            raise FaultError(
                frame.offset, f"its payload has {said} bytes, its head says {frame.raw}"
            )
        raw = unpack.decompress(stored, max_output_size=frame.raw or 1, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise FaultError(frame.offset, f"its payload is not one zstd frame: {error}") from None
    if len(raw) != frame.raw:
        raise FaultError(
            frame.offset, f"its payload has {len(raw)} bytes, its head says {frame.raw}"
        )
    return raw


# --- what is in them -----------------------------------------------------------------------------


def column(raw: U8, at: int, count: int, width: int) -> npt.NDArray[Any]:
    """The column that begins at value number 1 of byte `at`: planes of bytes, lowest first."""
    planes = raw[at : at + count * width].reshape(width, count)
    return np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(count)


def read_events(trace: Trace, frame: Frame, payload: bytes, at: int) -> None:
    """Puts a frame's events at position `at` of the arrays."""
    count = frame.count
    if count == 0:
        return
    raw = np.frombuffer(payload, dtype=np.uint8)
    place = slice(at, at + count)
    # Sums wrap modulo 2^64, as the differences do.
    for array, start, first in (
        (trace.stamp, 0, frame.stamp),
        (trace.address, 8 * count, frame.address),
    ):
        np.cumsum(column(raw, start, count, 8), out=array[place])
        array[place] += np.uint64(first)
    trace.size[place] = size = column(raw, 16 * count, count, 8)
    what = column(raw, 24 * count, count, 4)
    operation, alignment = what & 0xFF, what >> 8
    wrong = (operation < MALLOC) | (operation > THREAD_END) | (alignment > 47)
    # Only of blocks that were had: a program may well ask for the impossible and be refused.
    wrong |= ALLOCATIONS[operation % len(ALLOCATIONS)] & (size >= MOST_SIZE)
    if wrong.any():
        first = int(wrong.argmax())
        said = f"operation {operation[first]}, alignment 2^{alignment[first]}, size {size[first]}"
        raise FaultError(frame.offset, f"its event {first} cannot be: {said}")
    trace.operation[place] = operation
    trace.alignment[place] = alignment


def read_object(frame: Frame, payload: bytes) -> dict[str, Any]:
    """The JSON of a frame; the values that are used are checked."""
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise FaultError(frame.offset, f"its payload is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise FaultError(frame.offset, "its payload is no JSON object")
    page = content.get("page_size", 4096)
    if isinstance(page, bool) or not isinstance(page, int) or page & (page - 1):
        raise FaultError(frame.offset, f"page_size {page!r}; a power of 2 is wanted")
    if not LEAST_PAGE <= page <= MOST_PAGE:
        said = f"page_size {page}; {LEAST_PAGE} to {MOST_PAGE} is wanted"
        raise FaultError(frame.offset, said)
    ticks = content.get("ticks_per_second", 1e9)
    if isinstance(ticks, bool) or not isinstance(ticks, int | float) or not 0 < ticks < 1e15:
        raise FaultError(frame.offset, f"ticks_per_second {ticks!r}; a number above 0 is wanted")
    return content


def empty_trace(path: Path, frames: list[Frame]) -> tuple[Trace, list[int]]:
    """A trace with room for the events of `frames`, and where each frame's events go."""
    lengths: dict[int, int] = {}
    for frame in frames:
        if frame.kind == EVENTS and frame.count:
            lengths[frame.thread] = lengths.get(frame.thread, 0) + frame.count
    numbers = sorted(lengths)
    bounds = np.cumsum([0, *(lengths[number] for number in numbers)])
    total = int(bounds[-1])
    if total >= MOST_EVENTS:
        raise LabError(f"{path}: {total} events; at most {MOST_EVENTS - 1} can be read")
    following = dict(zip(numbers, bounds.tolist(), strict=False))
    places: list[int] = []
    for frame in frames:
        places.append(following.get(frame.thread, 0))
        if frame.kind == EVENTS and frame.count:
            following[frame.thread] += frame.count
    trace = Trace(
        path,
        np.array(numbers, dtype=np.uint32),
        bounds.astype(np.int64),
        stamp=np.empty(total, dtype=np.uint64),
        address=np.empty(total, dtype=np.uint64),
        size=np.empty(total, dtype=np.uint64),
        operation=np.empty(total, dtype=np.uint8),
        alignment=np.empty(total, dtype=np.uint8),
    )
    return trace, places


def read_frames(
    path: Path, stream: IO[bytes], frames: list[Frame], progress: ProgressFunction
) -> tuple[Trace, int, FaultError | None]:
    """The trace of `frames`; with a fault, how many frames before it were good."""
    trace, places = empty_trace(path, frames)
    unpack = zstandard.ZstdDecompressor()
    for index, frame in enumerate(frames):
        if index % 16 == 0:
            progress(index / len(frames))
        if frame.kind not in (EVENTS, INFORMATION, END):
            continue
        try:
            payload = read_payload(stream, frame, unpack)
            if frame.kind == EVENTS:
                read_events(trace, frame, payload, places[index])
            elif frame.kind == INFORMATION:
                trace.information = read_object(frame, payload)
            else:
                trace.end = read_object(frame, payload)
        except FaultError as fault:
            return trace, index, fault
    return trace, len(frames), None


def first_frames(frames: list[Frame], most: int) -> tuple[list[Frame], int | None]:
    """The frames of the first `most` events or a few more, and the stamp of the first one that is
    left out; None when that is none. Frames are in the file as they became full, so that what a
    thread with few events did first may stand at the end."""
    begins: dict[int, int] = {}  # highest stamp of each thread so far: never before its last frame
    stamps: list[int] = []
    for frame in frames:
        if frame.kind == EVENTS:
            begins[frame.thread] = max(begins.get(frame.thread, 0), frame.stamp)
        stamps.append(begins[frame.thread] if frame.kind == EVENTS else -1)
    total = 0
    for at in sorted(range(len(frames)), key=lambda at: stamps[at]):
        if total >= most and frames[at].kind == EVENTS:
            kept = [f for f, stamp in zip(frames, stamps, strict=True) if stamp < stamps[at]]
            return kept, stamps[at]
        total += frames[at].count if frames[at].kind == EVENTS else 0
    return frames, None


def cut_trace(trace: Trace, stamp: int) -> None:
    """Leaves out what is not before `stamp`."""
    early = trace.stamp < stamp
    lengths = np.add.reduceat(early, trace.bounds[:-1], dtype=np.int64)
    trace.numbers = trace.numbers[lengths > 0]
    trace.bounds = np.cumsum([0, *lengths[lengths > 0]], dtype=np.int64)
    for name in ("stamp", "address", "size", "operation", "alignment"):
        setattr(trace, name, getattr(trace, name)[early])


def complaints(trace: Trace, frames: list[Frame]) -> list[str]:
    """What is odd about a file whose frames are all good."""
    found: list[str] = []
    if not trace.information:
        found.append("it has no frame of information: pages of 4096 bytes, nanoseconds assumed")
    if not any(frame.kind == END for frame in frames):
        found.append("it has no frame of its end: the recorder was killed, or is still running")
    said = trace.end.get("events")
    if said is not None and said != len(trace.stamp):
        there = "is" if len(trace.stamp) == 1 else "are"
        found.append(f"its end says {counted(said, 'event')}, there {there} {len(trace.stamp)}")
    lost = trace.end.get("lost", 0)
    if lost:
        calls = "1 call is" if lost == 1 else f"{lost} calls are"
        found.append(f"{calls} not in it: of signal handlers, or of too many threads")
    return found


def check_memory(path: Path, frames: list[Frame], most: int | None, memory: int) -> None:
    total = sum(frame.count for frame in frames if frame.kind == EVENTS)
    events = total if most is None else min(most, total)
    if events * EVENT_MEMORY <= memory:
        return
    raise LabError(
        f"{path}: {events} events need some {events * EVENT_MEMORY >> 20} MiB of memory,"
        f" {memory >> 20} MiB are available; --events {memory // EVENT_MEMORY} reads the first ones"
    )


def read_trace(
    path: Path,
    damaged: bool = False,
    progress: ProgressFunction = lambda part: None,
    most: int | None = None,
    memory: int | None = None,
) -> Trace:
    """Reads a trace, or about its first `most` events; a LabError when they would not fit into
    `memory` bytes. A file that was cut off is read as far as it goes, with a warning; any other
    damage is a LabError unless `damaged`, which then reads up to it. What lies behind a damage is
    left out: a lost frame's frees would be missing there."""
    try:
        if path.exists():
            refuse_kind(path, path.stat().st_mode, pipes=False)
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            read_header(stream)
            frames, fault = scan(stream, size)
            if memory is not None:
                check_memory(path, frames, most, memory)
            stamp = None
            if most is not None:
                frames, stamp = first_frames(frames, most)
            trace, good, worse = read_frames(path, stream, frames, progress)
            if worse is not None:
                fault = worse
                frames = frames[:good]
                trace, _, _ = read_frames(path, stream, frames, progress)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None
    except FaultError as header:
        raise LabError(f"{path}: offset {header.offset}: {header.problem}") from None
    if stamp is not None:
        said = trace.end.pop("events", None)
        cut_trace(trace, stamp)
        of = f" of {said}" if said is not None else ""
        are = "event is" if len(trace.stamp) == 1 and not of else "events are"
        trace.warnings.append(f"{path}: the first {len(trace.stamp)}{of} {are} used")
    if fault is None:
        trace.warnings += [f"{path}: {text}" for text in complaints(trace, frames)]
        return trace
    events = counted(len(trace.stamp), "event")
    usable = f"{events} of {counted(len(trace.numbers), 'thread')} before it can be used"
    text = f"{path}: offset {fault.offset}: {fault.problem}; {usable}"
    if not fault.cut and not damaged:
        raise LabError(f"{text}: --damaged goes on with them")
    trace.warnings.append(text)
    return trace
