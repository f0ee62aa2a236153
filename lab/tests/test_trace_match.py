"""Matching against a model that walks through the events, and what becomes of odd ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from htrace_writer import FAILED, FREE, MALLOC, REALLOC_OF, REALLOC_TO, TOUCHED, Event, write_trace
from trace_programs import NANOSECONDS, in_order, make_program, skewed

from hakmem_lab.trace.htrace import read_trace
from hakmem_lab.trace.match import NONE, Objects, match

Pairs = dict[int, tuple[int, int | None]]


def matched(file: Path) -> Objects:
    return match(read_trace(file))


def matched_events(path: Path, events: Mapping[int, Sequence[Event]]) -> Objects:
    return matched(write_trace(path / "t", events, information=NANOSECONDS))


def pairs_of(objects: Objects) -> Pairs:
    """Size of each block: allocated by, freed by. Blocks that were lost count as not freed."""
    found: Pairs = {}
    number = objects.trace.numbers[objects.thread]
    for index, birth in enumerate(objects.birth.tolist()):
        death = int(objects.death[index])
        freed = death != NONE and not objects.lost[index]
        found[int(objects.trace.size[birth])] = (
            int(number[birth]),
            int(number[death]) if freed else None,
        )
    return found


@pytest.mark.parametrize("seed", range(30))
def test_programs(tmp_path: Path, seed: int) -> None:
    """Threads hand blocks to each other, addresses are reused at once, stamps are often equal."""
    program = make_program(seed, threads=1 + seed % 5, events=600)
    objects = matched(program.write(tmp_path / "t"))
    assert pairs_of(objects) == program.pairs
    found = vars(objects.anomalies)
    found.pop("reordered")  # equal stamps
    assert not any(found.values()), found


def test_handoff_is_seen(tmp_path: Path) -> None:
    """The programs above do what they are for."""
    program = make_program(4, threads=5, events=600)
    handed = [pair for pair in program.pairs.values() if pair[1] is not None and pair[0] != pair[1]]
    assert len(handed) > 50


@pytest.mark.parametrize("by", [-300, -100, 100, 300])
def test_clocks_that_differ_a_little(tmp_path: Path, by: int) -> None:
    """Up to a microsecond nearly every pair is still found, and what is not is counted."""
    program = make_program(7, threads=4, events=4000, step=200)
    objects = matched(skewed(program, 1, by).write(tmp_path / "t"))
    assert objects.anomalies.reordered > 0
    found = pairs_of(objects)
    wrong = sum(found[size] != pair for size, pair in program.pairs.items())
    assert wrong <= len(program.pairs) * 0.02
    counted = objects.anomalies
    assert wrong == 0 or counted.free_missing + counted.free_unknown > 0


def soup(seed: int) -> dict[int, list[Event]]:
    """Events that make no sense, on a few addresses, no two at the same time or near another."""
    random = np.random.default_rng(seed)
    threads: dict[int, list[Event]] = {}
    stamps = np.sort(random.choice(1_000_000, 300, replace=False)) * 10_000_000
    for size, stamp in enumerate(stamps.tolist(), start=1):
        thread = int(random.integers(0, 3))
        address = 4096 * int(random.integers(1, 9))
        operation = (MALLOC, MALLOC, FREE, FREE, REALLOC_OF, TOUCHED)[int(random.integers(0, 6))]
        own = threads.setdefault(thread, [])
        given = size if operation in (MALLOC, TOUCHED) else 0
        own.append((stamp, operation, address, given))
        if operation == REALLOC_OF:
            choice = int(random.integers(0, 3))
            if choice < 2:
                own.append((stamp + 1, (REALLOC_TO, FAILED)[choice], address + 4096 * choice, size))
    return threads


def model(threads: dict[int, list[Event]]) -> tuple[Pairs, dict[str, int]]:
    pairs: Pairs = {}
    live: dict[int, int] = {}
    counts = dict.fromkeys(("free_missing", "free_unknown", "realloc_unknown", "realloc_cut"), 0)
    after = {
        (thread, event): own[at + 1][1] if at + 1 < len(own) else 0
        for thread, own in threads.items()
        for at, event in enumerate(own)
    }
    for thread, event in in_order(threads):
        _, operation, address, size = event[:4]
        if operation in (MALLOC, REALLOC_TO):
            counts["free_missing"] += address in live
            live[address] = size
            pairs[size] = (thread, None)
        elif operation == REALLOC_OF and after[thread, event] != REALLOC_TO:
            counts["realloc_cut"] += after[thread, event] != FAILED
        elif operation in (FREE, REALLOC_OF):
            if address not in live:
                counts["free_unknown" if operation == FREE else "realloc_unknown"] += 1
                continue
            of = live.pop(address)
            pairs[of] = (pairs[of][0], thread)
    return pairs, counts


@pytest.mark.parametrize("seed", range(30))
def test_nonsense(tmp_path: Path, seed: int) -> None:
    threads = soup(seed)
    pairs, counts = model(threads)
    objects = matched_events(tmp_path, threads)
    assert pairs_of(objects) == pairs
    found = vars(objects.anomalies)
    assert {name: found[name] for name in counts} == counts
    assert sum(counts.values()) > 20


# --- one case each -------------------------------------------------------------------------------


def test_equal_stamps(tmp_path: Path) -> None:
    """A free goes before the allocation of another thread, never before its own thread's."""
    objects = matched_events(
        tmp_path,
        {
            0: [(1, MALLOC, 4096, 10), (5, MALLOC, 8192, 11), (5, FREE, 8192, 0)],
            1: [(5, MALLOC, 4096, 12)],
            2: [(5, FREE, 4096, 0)],
        },
    )
    assert pairs_of(objects) == {10: (0, 2), 11: (0, 0), 12: (1, None)}
    assert not objects.anomalies.any()


def test_overtaken_free(tmp_path: Path) -> None:
    """The address cannot be allocated again before it was freed."""
    objects = matched_events(
        tmp_path,
        {
            0: [(100, MALLOC, 4096, 10), (900, FREE, 4096, 0)],
            1: [(800, MALLOC, 4096, 11), (801, MALLOC, 8192, 12), (950, FREE, 4096, 0)],
        },
    )
    assert pairs_of(objects) == {10: (0, 0), 11: (1, 1), 12: (1, None)}
    assert objects.anomalies.reordered == 1
    # What its thread did later is later too.
    ranks = {
        int(size): int(objects.rank[b]) for size, b in zip(objects.size, objects.birth, strict=True)
    }
    assert ranks[12] > ranks[11] > int(objects.rank[objects.death[0]])


def test_free_before_its_allocation(tmp_path: Path) -> None:
    events = {0: [(1000, MALLOC, 4096, 10)], 1: [(500, FREE, 4096, 0), (600, MALLOC, 8192, 11)]}
    objects = matched_events(tmp_path, events)
    assert pairs_of(objects) == {10: (0, 1), 11: (1, None)}
    # Not a near miss: a block from before the recording, and one that is still there.
    events[0] = [(5000, MALLOC, 4096, 10)]
    objects = matched_events(tmp_path, events)
    assert pairs_of(objects) == {10: (0, None), 11: (1, None)}
    assert (objects.anomalies.free_unknown, objects.anomalies.reordered) == (1, 0)


def test_stamps_that_go_backwards(tmp_path: Path) -> None:
    objects = matched_events(
        tmp_path, {0: [(50, MALLOC, 4096, 10), (40, FREE, 4096, 0), (45, MALLOC, 4096, 11)]}
    )
    assert pairs_of(objects) == {10: (0, 0), 11: (0, None)}
    assert objects.anomalies.stamps_backwards == 1


def test_reallocs(tmp_path: Path) -> None:
    objects = matched_events(
        tmp_path,
        {
            0: [(1, MALLOC, 4096, 10), (2, REALLOC_OF, 4096, 0), (3, REALLOC_TO, 4096, 20),
                (4, REALLOC_OF, 4096, 0), (5, FAILED, 4096, 99), (6, REALLOC_OF, 4096, 0),
                (7, REALLOC_TO, 8192, 5), (8, REALLOC_OF, 123 << 12, 0),
                (9, REALLOC_TO, 456 << 12, 6), (10, REALLOC_OF, 8192, 0)],
        },
    )  # fmt: skip
    assert pairs_of(objects) == {10: (0, 0), 20: (0, 0), 5: (0, None), 6: (0, None)}
    assert (objects.anomalies.realloc_unknown, objects.anomalies.realloc_cut) == (1, 1)


def test_touched_pages(tmp_path: Path) -> None:
    """They belong to the block whose free comes next in the thread."""
    objects = matched_events(
        tmp_path,
        {
            0: [(1, MALLOC, 1 << 20, 100_000), (2, MALLOC, 2 << 20, 200_000),
                (3, TOUCHED, 1 << 20, 7), (4, FREE, 1 << 20, 0),
                (5, TOUCHED, 3 << 20, 9), (6, FREE, 2 << 20, 0)],
        },
    )  # fmt: skip
    assert objects.touched.tolist() == [7, -1]


def test_touched_pages_at_exit(tmp_path: Path) -> None:
    """Of a block that is there then; if it is freed after all, what is said at its free counts."""
    objects = matched_events(
        tmp_path,
        {
            0: [(1, MALLOC, 1 << 20, 100_000), (2, FREE, 1 << 20, 0),
                (3, MALLOC, 1 << 20, 200_000), (4, MALLOC, 2 << 20, 300_000),
                (6, TOUCHED, 1 << 20, 7), (7, TOUCHED, 2 << 20, 8), (8, TOUCHED, 3 << 20, 9),
                (12, TOUCHED, 4 << 20, 6), (13, MALLOC, 4 << 20, 500_000)],
            1: [(5, MALLOC, 3 << 20, 400_000), (9, FREE, 3 << 20, 0),
                (10, TOUCHED, 2 << 20, 11), (11, FREE, 2 << 20, 0)],
        },
    )  # fmt: skip
    sizes = [100_000, 200_000, 300_000, 400_000, 500_000]
    assert objects.size.tolist() == sizes
    assert objects.touched.tolist() == [-1, 7, 11, 9, -1]


def test_nothing(tmp_path: Path) -> None:
    objects = matched_events(tmp_path, {})
    assert len(objects.birth) == 0 and not objects.anomalies.any()
    objects = matched_events(tmp_path, {0: [(1, FAILED, 0, 5)], 1: [(2, FREE, 4096, 0)]})
    assert len(objects.birth) == 0 and objects.anomalies.free_unknown == 1
