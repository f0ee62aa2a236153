"""Reading traces: the round trip, and what is said of a damaged file."""

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import htrace_writer as writer
import numpy as np
import pytest
import zstandard
from htrace_writer import FREE, MALLOC, THREAD_END, Event

from hakmem_lab.base.errors import LabError
from hakmem_lab.trace.htrace import EVENT_MEMORY, Trace, column, read_trace

HIGH = (1 << 64) - 1
SMALL: dict[int, list[Event]] = {
    0: [(10, MALLOC, 4096, 100), (20, MALLOC, 8192, 5), (30, FREE, 4096, 0)],
    1: [(15, 3, 65536, 64, 6), (25, FREE, 8192, 0), (40, THREAD_END, 0, 0)],
}


def events_of(trace: Trace) -> dict[int, list[tuple[int, ...]]]:
    found = {}
    for index, number in enumerate(trace.numbers.tolist()):
        part = slice(int(trace.bounds[index]), int(trace.bounds[index + 1]))
        columns = (trace.stamp, trace.operation, trace.address, trace.size, trace.alignment)
        found[number] = list(zip(*(column[part].tolist() for column in columns), strict=True))
    return found


def padded(threads: Mapping[int, Sequence[Event]]) -> dict[int, list[tuple[int, ...]]]:
    return {thread: [(*event, 0)[:5] for event in events] for thread, events in threads.items()}


def random_events(generator: np.random.Generator, count: int) -> list[Event]:
    return [
        (
            int(generator.integers(0, HIGH, dtype=np.uint64, endpoint=True)),
            int(generator.integers(1, 10)),
            int(generator.integers(0, HIGH, dtype=np.uint64, endpoint=True)),
            int(generator.integers(0, 1 << 47)),
            int(generator.integers(0, 48)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_round_trip(tmp_path: Path, size: int) -> None:
    """Any stamps, addresses and sizes, also ones whose differences wrap, frames of any length."""
    generator = np.random.default_rng(size)
    threads = {thread: random_events(generator, 50 + 13 * thread) for thread in (0, 3, 700)}
    trace = read_trace(writer.write_trace(tmp_path / "t", threads, size=size))
    assert events_of(trace) == padded(threads)
    assert trace.warnings == []
    assert (trace.page_size, trace.ticks_per_second) == (4096, 1000)
    assert trace.information == writer.INFORMATION


@pytest.mark.parametrize("width", [4, 8])
def test_planes(width: int) -> None:
    values = [0, 1, 255, 256, (1 << 8 * width) - 1, 0x01020304]
    raw = np.frombuffer(b"xy" + writer.planes(values, width), dtype=np.uint8)
    assert column(raw, 2, len(values), width).tolist() == values


def test_ticks_of_the_end_count(tmp_path: Path) -> None:
    end = {"events": 6, "ticks_per_second": 2500.5, "seconds": 1}
    trace = read_trace(writer.write_trace(tmp_path / "t", SMALL, end=end))
    assert trace.ticks_per_second == 2500.5


def test_unknown_kinds_are_skipped(tmp_path: Path) -> None:
    content = writer.trace_bytes(SMALL)
    (tmp_path / "t").write_bytes(content[:16] + writer.frame(9, b"new") + content[16:])
    assert events_of(read_trace(tmp_path / "t")) == padded(SMALL)


def test_oddities_are_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "t"
    file.write_bytes(writer.HEADER + writer.events_frame(0, SMALL[0]))
    warnings = " ".join(read_trace(file).warnings)
    assert "no frame of information" in warnings and "no frame of its end" in warnings
    writer.write_trace(file, SMALL, end={"events": 7})
    assert read_trace(file).warnings == [f"{file}: its end says 7 events, there are 6"]
    writer.write_trace(file, SMALL, end={"events": 6, "lost": 3})
    (warning,) = read_trace(file).warnings
    assert warning.startswith(f"{file}: 3 calls are not in it: ")
    writer.write_trace(file, {0: SMALL[0][:1]}, end={"events": 7, "lost": 1})
    wrong, warning = read_trace(file).warnings
    assert wrong == f"{file}: its end says 7 events, there is 1"
    assert warning.startswith(f"{file}: 1 call is not in it: ")


def test_one_event_of_one_thread(tmp_path: Path) -> None:
    """Told in the singular."""
    content = writer.trace_bytes({0: SMALL[0][:1]})
    (tmp_path / "t").write_bytes(content[:-1])
    (warning,) = read_trace(tmp_path / "t").warnings
    assert warning.endswith("; 1 event of 1 thread before it can be used")


# --- a part --------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 10, 57, 399, 400, 10_000])
def test_first_events(tmp_path: Path, most: int) -> None:
    """The first events of all threads, also of one whose only frame is the last in the file."""
    generator = np.random.default_rng(most)
    stamps = np.sort(generator.choice(1 << 40, 400, replace=False)).tolist()
    events = [(stamp, MALLOC, stamp << 4, 16) for stamp in stamps]
    owner = generator.choice(3, 400, p=[0.7, 0.25, 0.05])
    threads = {t: [e for e, o in zip(events, owner, strict=True) if o == t] for t in range(3)}
    content = writer.trace_bytes(threads, size=25)
    begins = frames_of(content)
    # Frames in the order in which they became full; information and end where they were.
    full = sorted(begins[1:-1], key=lambda at: last_stamp(content, at))
    file = tmp_path / "t"
    file.write_bytes(
        content[: begins[1]]
        + b"".join(content[at : at + frame_size(content, at)] for at in full)
        + content[begins[-1] :]
    )
    trace = read_trace(file, most=most)
    read = sorted(trace.stamp.tolist())
    assert read == stamps[: len(read)]
    assert {t for t in range(3) if threads[t][0][0] <= read[-1]} == set(trace.numbers.tolist())
    for thread, found in events_of(trace).items():
        assert found == padded(threads)[thread][: len(found)]
    if len(read) < 400:
        # The frames that hold them hold others too, 25 at most for each thread.
        assert most - 75 <= len(read) <= most + 25
        assert trace.warnings == [f"{file}: the first {len(read)} of 400 events are used"]
    else:
        assert most > 375 and trace.warnings == []


def test_memory_is_asked_for_before(tmp_path: Path) -> None:
    file = writer.write_trace(tmp_path / "t", SMALL, size=1)
    room = 3 * EVENT_MEMORY
    said = f"{file}: 6 events need some 0 MiB of memory, 0 MiB are available; --events 3 reads"
    with pytest.raises(LabError, match=re.escape(said)):
        read_trace(file, memory=room)
    with pytest.raises(LabError, match="4 events need"):
        read_trace(file, most=4, memory=room)
    assert len(read_trace(file, most=3, memory=room).stamp) == 3
    assert len(read_trace(file, memory=2 * room).stamp) == 6


# --- damage --------------------------------------------------------------------------------------


def frame_size(content: bytes, at: int) -> int:
    return 48 + int(struct.unpack_from("<I", content, at + 20)[0])


def last_stamp(content: bytes, at: int) -> int:
    """Of a frame of events: when it became full."""
    raw = zstandard.ZstdDecompressor().decompress(content[at + 48 : at + frame_size(content, at)])
    count = int(struct.unpack_from("<I", content, at + 12)[0])
    differences = column(np.frombuffer(raw, dtype=np.uint8), 0, count, 8)
    return int(struct.unpack_from("<Q", content, at + 24)[0]) + int(differences.sum())


def frames_of(content: bytes) -> list[int]:
    """Where the frames begin."""
    at, found = 16, []
    while at < len(content):
        found.append(at)
        at += frame_size(content, at)
    return found


def usable(content: bytes, offset: int) -> int:
    """Events of the whole frames that end at or before `offset`."""
    total = 0
    for begin, end in zip(frames_of(content), [*frames_of(content)[1:], len(content)], strict=True):
        if end <= offset:
            total += struct.unpack_from("<I", content, begin + 12)[0]
    return total


def test_cut_off_at_every_byte(tmp_path: Path) -> None:
    """In the header nothing can be used; anywhere behind it the whole frames are, with a warning
    that names where the broken one begins and how many events there are."""
    content = writer.trace_bytes(SMALL, size=2)
    file = tmp_path / "t"
    begins = [*frames_of(content), len(content)]
    for length in range(len(content)):
        file.write_bytes(content[:length])
        if length < 16:
            with pytest.raises(LabError, match=f"^{file}: offset 0: "):
                read_trace(file)
            continue
        trace = read_trace(file)
        events = usable(content, length)
        assert len(trace.stamp) == events
        if length in begins:  # nothing is broken, but the end is missing
            assert any("no frame of its end" in text for text in trace.warnings)
            continue
        broken = max(begin for begin in begins if begin < length)
        (warning,) = trace.warnings
        assert warning.startswith(f"{file}: offset {broken}: the file ends in a frame"), warning
        assert f"; {events} event{'' if events == 1 else 's'} of " in warning and warning.endswith(
            "can be used"
        )


def test_every_byte_damaged(tmp_path: Path) -> None:
    """Wherever a byte is changed, the error names the offset of the frame, what can be used and the
    option; with the option that much is read."""
    content = writer.trace_bytes(SMALL, size=2)
    file = tmp_path / "t"
    begins = frames_of(content)
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 0x41
        file.write_bytes(changed)
        with pytest.raises(LabError) as error:
            read_trace(file)
        text = str(error.value)
        if at < 16:
            assert text.startswith(f"{file}: offset {8 if at in range(8, 12) else at // 12 * 12}: ")
            continue
        frame = max(begin for begin in begins if begin <= at)
        events = usable(content, frame)
        assert text.startswith(f"{file}: offset {frame}: "), text
        assert f"; {events} event{'' if events == 1 else 's'} of " in text
        assert text.endswith("before it can be used: --damaged goes on with them")
        trace = read_trace(file, damaged=True)
        assert len(trace.stamp) == events
        assert trace.warnings[0].startswith(f"{file}: offset {frame}: ")


@pytest.mark.parametrize(
    "changes, offset, words",
    [
        ({"magic": b"HTF2"}, 0, "no frame begins here"),
        ({"zero": 1}, 6, "bytes 6 and 7 of the frame's head are 1, not 0"),
        ({"count": 4}, 12, "4 events in 84 bytes"),
        ({"raw": 17 << 20}, 16, "a payload of 17825792 bytes; at most 16777216"),
        ({"raw": 85}, 12, "3 events in 85 bytes"),
        ({"stored": 20 << 20}, 20, "a payload of 20971520 bytes in the file"),
        ({"checksum": 5}, 0, "the checksum of the frame's payload is wrong"),
        ({"payload": b"no zstd at all"}, 0, "not one zstd frame"),
        ({"payload": b""}, 0, "not one zstd frame"),
    ],
)
def test_heads_that_are_consistent_but_wrong(
    tmp_path: Path, changes: dict[str, object], offset: int, words: str
) -> None:
    """Their checksum is right: somebody wrote them so."""
    content = writer.trace_bytes(SMALL)
    file = tmp_path / "t"
    file.write_bytes(content + writer.events_frame(0, SMALL[0], **changes) + bytes(20 << 20))
    with pytest.raises(LabError) as error:
        read_trace(file)
    assert f": offset {len(content) + offset}: " in str(error.value)
    assert words in str(error.value)
    assert "; 6 events of 2 threads before it can be used" in str(error.value)


def test_payloads_that_are_wrong(tmp_path: Path) -> None:
    file = tmp_path / "t"
    bomb = zstandard.ZstdCompressor().compress(bytes(50 << 20))
    two = zstandard.ZstdCompressor().compress(bytes(84)) * 2
    for extra, words in (
        (writer.events_frame(0, SMALL[0], payload=bomb), "52428800 bytes, its head says 84"),
        (writer.events_frame(0, SMALL[0], payload=two), "not one zstd frame"),
        (writer.events_frame(0, [(1, 10, 1, 1)]), "its event 0 cannot be: operation 10"),
        (writer.events_frame(0, [(1, 0, 1, 1)]), "operation 0"),
        (writer.events_frame(0, [(1, 1, 1, 1, 48)]), "alignment 2^48"),
        (writer.events_frame(0, [(1, 1, 1, 1 << 60)]), "size 1152921504606846976"),
        (writer.frame(2, b"{"), "its payload is not JSON"),
        (writer.json_frame(2, [1]), "its payload is no JSON object"),
        (writer.json_frame(2, {"page_size": 4097}), "page_size 4097; a power of 2"),
        (writer.json_frame(3, {"ticks_per_second": "x"}), "ticks_per_second 'x'"),
        (writer.frame(2, b"[" * 100_000), "its payload is not JSON"),
    ):
        content = writer.trace_bytes(SMALL)
        file.write_bytes(content + extra)
        with pytest.raises(LabError) as error:
            read_trace(file)
        assert f": offset {len(content)}: " in str(error.value) and words in str(error.value)


def test_impossible_sizes_may_fail(tmp_path: Path) -> None:
    """Asking for more than there can be is refused, and that is recorded."""
    trace = read_trace(writer.write_trace(tmp_path / "t", {0: [(1, writer.FAILED, 0, HIGH)]}))
    assert trace.size.tolist() == [HIGH]


def test_sizes_of_frees_are_the_programs(tmp_path: Path) -> None:
    """free_sized may be given any number; one that was allocated cannot be."""
    trace = read_trace(writer.write_trace(tmp_path / "t", {0: [(1, FREE, 4096, HIGH)]}))
    assert trace.size.tolist() == [HIGH]
    writer.write_trace(tmp_path / "t", {0: [(1, MALLOC, 4096, HIGH)]})
    with pytest.raises(LabError, match="its event 0 cannot be"):
        read_trace(tmp_path / "t")


def test_other_files(tmp_path: Path) -> None:
    file = tmp_path / "t"
    for content, words in (
        (b"", "not an allocation trace"),
        (b"some text that is longer than a header", "not an allocation trace"),
        (b"HTRC\n\x1a" + bytes(20), "a transfer as text changed it"),
        (writer.HEADER[:8] + struct.pack("<II", 2, 0), "version 2; this hakmem-lab reads 1"),
    ):
        file.write_bytes(content)
        with pytest.raises(LabError, match=words):
            read_trace(file, damaged=True)
    with pytest.raises(LabError, match="No such file"):
        read_trace(tmp_path / "absent")


def test_writer_knows_the_checksums() -> None:
    """The tests above rest on them: CRC-32 as everybody has it."""
    content = writer.trace_bytes(SMALL)
    head = content[16:64]
    assert zlib.crc32(head[:44]) == struct.unpack("<I", head[44:])[0]
    assert zlib.crc32(b"123456789") == 0xCBF43926
