"""Plans, executed by a model of bench/replay whose threads run in a random order."""

import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from htrace_writer import (
    FREE,
    MALLOC,
    REALLOC_OF,
    REALLOC_TO,
    THREAD_END,
    TOUCHED,
    Event,
    write_trace,
)
from trace_programs import NANOSECONDS, make_program

from hakmem_lab.base.errors import LabError
from hakmem_lab.trace.htrace import read_trace
from hakmem_lab.trace.match import match
from hakmem_lab.trace.replay_order import POOL_SLOTS, place_pools
from hakmem_lab.trace.replay_plan import ALL_PAGES, make_plan

START, WINDOW = 7, 8


@dataclass
class PlayedThread:
    records: list[tuple[int, int, int]]
    stays: bool
    number: int
    acts: int
    rank: int
    after: int
    at: int = 0
    window: int | None = None
    running: bool = False
    begun: bool = False
    old: int | None = None  # size, between the halves of a realloc


@dataclass
class Player:
    """The plan as the file has it, and the state of a replay."""

    path: Path
    slots: dict[int, int] = field(default_factory=dict)  # size of the block in each
    pairs: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    live: int = 0
    most: int = 0
    calls: int = 0
    most_ahead: int = 0
    waiting: set[int] = field(default_factory=set)  # threads, until another has done something

    def __post_init__(self) -> None:
        content = self.path.read_bytes()
        head = struct.unpack_from("<8sIIIIQQQ", content)
        magic, self.page_size, threads, windows, self.main, self.size, count, self.said = head
        assert magic == b"HTPLAN1\n"
        table = [struct.unpack_from("<QQQIIII", content, 48 + 40 * i) for i in range(threads)]
        self.left = list(struct.unpack_from(f"<{windows}I", content, 48 + 40 * threads))
        start = (48 + 40 * threads + 4 * windows + 15) // 16 * 16
        assert len(content) == start + 16 * count
        records = [struct.unpack_from("<QII", content, start + 16 * i) for i in range(count)]
        self.threads = [
            PlayedThread(records[first : first + length], bool(stays), number, acts, rank, after)
            for first, length, acts, stays, number, rank, after in table
        ]
        assert sorted(thread.rank for thread in self.threads) == list(range(threads))
        assert sum(len(thread.records) for thread in self.threads) == count
        self.threads[self.main].running = True

    def done(self) -> int:
        return next((w for w, count in enumerate(self.left) if count), len(self.left))

    def put(self, thread: PlayedThread, slot: int, size: int) -> None:
        assert slot < self.size
        assert slot not in self.slots, "a slot is empty before it is used"
        self.slots[slot] = size
        self.pairs[size] = (thread.number, None)
        self.live += size
        self.most = max(self.most, self.live)
        self.calls += 1

    def take(self, thread: PlayedThread, slot: int, size: int) -> bool:
        if slot not in self.slots:
            return False
        assert self.slots.pop(slot) == size, "the right block is in its slot"
        self.pairs[size] = (self.pairs[size][0], thread.number)
        self.live -= size
        return True

    def step(self, thread: PlayedThread) -> bool:
        """Does a record; False when it has to wait."""
        ended = {other.rank for other in self.threads if other.begun and other.at >= other.acts}
        if not ended.issuperset(range(thread.after)):
            return False
        thread.begun = True
        what, slot, _ = thread.records[thread.at]
        operation, size = what & 15, what >> 16
        if operation == WINDOW:
            if thread.window is not None:
                assert slot > thread.window
                self.left[thread.window] -= 1
                thread.window = None
                self.waiting.clear()
            if slot > self.done() + 1:
                return False
            thread.window = slot
        elif operation == START:
            assert not self.threads[slot].running and self.threads[slot].at == 0
            self.threads[slot].running = True
        elif operation in (FREE, REALLOC_OF):
            if not self.take(thread, slot, size):
                return False
            self.calls += operation == FREE
            thread.old = size
        else:
            if operation == REALLOC_TO:
                assert thread.old is not None
                thread.old = None
            self.put(thread, slot, size)
        if thread.window is not None:
            self.most_ahead = max(self.most_ahead, thread.window - self.done())
        thread.at += 1
        if thread.at == len(thread.records) and thread.window is not None:
            self.left[thread.window] -= 1
        return True

    def play(self, seed: int) -> None:
        """Runs to the end; a thread often runs on for a while before another has its turn."""
        random = np.random.default_rng(seed)
        while True:
            able = [
                i
                for i, thread in enumerate(self.threads)
                if thread.running and thread.at < len(thread.records) and i not in self.waiting
            ]
            if not able:
                assert not self.waiting, "no thread waits for ever"
                break
            index = able[int(random.integers(0, len(able)))]
            for _ in range(int(random.integers(1, 100))):
                thread = self.threads[index]
                if thread.at == len(thread.records):
                    break
                if not self.step(thread):
                    self.waiting.add(index)
                    break
                self.waiting.clear()


def planned(file: Path, window: int) -> Player:
    plan = make_plan(match(read_trace(file)), window)
    plan.write(file.with_suffix(".plan"))
    return Player(file.with_suffix(".plan"))


def planned_events(path: Path, events: dict[int, list[Event]], window: int = 100) -> Player:
    return planned(write_trace(path / "t", events, information=NANOSECONDS), window)


@pytest.mark.parametrize("window", [1, 5, 40, 10_000])
@pytest.mark.parametrize("seed", range(12))
def test_programs(tmp_path: Path, seed: int, window: int) -> None:
    """In whatever order the threads run: every free finds its block, slots are never overwritten,
    nobody waits for ever or is more than a window ahead, and everything is done."""
    program = make_program(seed, threads=1 + seed % 6, events=500)
    program.write(tmp_path / "t")
    for order in range(4):
        player = planned(tmp_path / "t", window)
        player.play(order)
        assert player.pairs == program.pairs
        assert player.calls == player.said
        assert not any(player.left)
        assert player.most_ahead <= 1
        assert all(thread.running for thread in player.threads)
        if len(player.threads) == 1:
            assert player.most == program.most_bytes
        elif window == 1:  # one event ahead
            assert player.most <= program.most_bytes + max(program.pairs)


@pytest.mark.parametrize("seed", range(6))
def test_peak_stays_near(tmp_path: Path, seed: int) -> None:
    """Nobody runs ahead by more than what two windows allocate."""
    program = make_program(seed, threads=5, events=4000)
    program.write(tmp_path / "t")
    player = planned(tmp_path / "t", 50)
    player.play(seed)
    largest = max(program.pairs)
    assert player.most <= program.most_bytes + 100 * largest
    assert len(player.left) >= 4000 / 50 * 0.8


def test_slots_are_few(tmp_path: Path) -> None:
    """As many as blocks at once with one thread; with more, also those of the open windows."""
    program = make_program(1, threads=1, events=3000)
    player = planned(program.write(tmp_path / "t"), 64)
    live = most = 0
    for event in program.events[0]:
        live += (event[1] in (1, 2, 3)) - (event[1] == FREE)
        most = max(most, live)
    assert most <= player.size <= max(POOL_SLOTS, 2 * most)
    assert len(player.left) == 1
    used = {slot for what, slot, _ in player.threads[0].records if what & 15 != WINDOW}
    assert len(used) == most


def test_slots_of_ended_threads_are_used_again(tmp_path: Path) -> None:
    """A thousand threads that live one after the other need the slots of a few."""
    events: dict[int, list[Event]] = {0: [(1, MALLOC, 4096, 1)]}
    clock = 10
    for thread in range(1, 1001):
        own = [(clock + i, MALLOC, (i + 2) << 12, clock + i) for i in range(20)]
        own += [(clock + 20 + i, FREE, (i + 2) << 12, 0) for i in range(20)]
        events[thread] = [*own, (clock + 41, THREAD_END, 0, 0)]
        clock += 50
    player = planned_events(tmp_path, events, window=100)
    assert player.size <= 16 + 32 * 10
    player.play(0)
    assert player.calls == 1 + 1000 * 40
    assert [thread.stays for thread in player.threads] == [True] + [False] * 1000


def test_pools() -> None:
    bases, total = place_pools([5, 20, 16, 100], [0, 0, 4, 9], [1, 9, 9, 9])
    assert bases == [0, 16, 0, 48]  # the third has the place of the first, three windows later
    assert total == 48 + 128


def test_threads_are_started_by_the_one_before(tmp_path: Path) -> None:
    player = planned_events(
        tmp_path,
        {
            7: [(1, MALLOC, 4096, 1), (5, FREE, 8192, 0)],
            3: [(2, MALLOC, 8192, 2), (4, MALLOC, 12288, 3)],
            9: [(3, MALLOC, 16384, 4)],
            8: [(6, 7, 0, 5)],  # only a failure: nothing to replay
        },
    )
    kinds = {
        thread.number: [(what & 15, slot) for what, slot, _ in thread.records if what & 15 > 6]
        for thread in player.threads
    }
    numbers = [thread.number for thread in player.threads]
    assert numbers == [3, 7, 8, 9]
    assert kinds[7] == [(WINDOW, 0), (START, numbers.index(3))]
    assert kinds[3] == [(WINDOW, 0), (START, numbers.index(9))]
    assert kinds[9] == [(WINDOW, 0)] and kinds[8] == []
    assert player.threads[player.main].number == 7


def test_threads_wait_for_those_that_were_done(tmp_path: Path) -> None:
    """The second one's end is stamped late, but its last call was before the third one began."""
    events: dict[int, list[Event]] = {
        0: [(1, MALLOC, 4096, 1), (2, MALLOC, 8192, 2), (90, FREE, 4096, 0)],
        1: [(10, MALLOC, 65536, 3), (20, FREE, 65536, 0), (60, THREAD_END, 0, 0)],
        2: [(30, MALLOC, 65536, 4), (40, FREE, 65536, 0), (80, THREAD_END, 0, 0)],
        3: [(35, MALLOC, 131072, 5), (70, THREAD_END, 0, 0)],
        4: [(85, THREAD_END, 0, 0)],
    }
    for window in (1, 100):
        player = planned_events(tmp_path, events, window)
        assert [thread.after for thread in player.threads] == [0, 0, 1, 1, 3]
        assert [thread.rank for thread in player.threads] == [4, 0, 2, 1, 3]
        # Behind the last call are the entry into the end's window and starts of threads, no calls.
        for thread in player.threads:
            rest = [what & 15 for what, _, _ in thread.records[thread.acts :]]
            assert set(rest) <= {START, WINDOW}
            assert thread.acts == 0 or thread.records[thread.acts - 1][0] & 15 not in (
                START,
                WINDOW,
            )
        player.play(window)


def test_lost_blocks_are_freed(tmp_path: Path) -> None:
    """Where the recording has no free: before the address is used again, by who does that."""
    events: dict[int, list[Event]] = {
        0: [(1, MALLOC, 4096, 1), (2, MALLOC, 8192, 2), (9_000_000, FREE, 4096, 0)],
        1: [(8_000_000, MALLOC, 4096, 3)],
    }
    player = planned_events(tmp_path, events)
    player.play(0)
    assert player.pairs == {1: (0, 1), 2: (0, None), 3: (1, 0)}


def test_unknown_blocks(tmp_path: Path) -> None:
    """A realloc of one is a malloc, a free of one is nothing."""
    events: dict[int, list[Event]] = {
        0: [(1, FREE, 4096, 0), (2, REALLOC_OF, 8192, 0), (3, REALLOC_TO, 12288, 7)],
    }
    (thread,) = planned_events(tmp_path, events).threads
    assert [what & 15 for what, *_ in thread.records] == [WINDOW, MALLOC]


def test_pages(tmp_path: Path) -> None:
    """All of small blocks; what was recorded of large ones; else the share of the last one of the
    same power of two, or of the first one, or of the nearest power."""
    large = 70_000  # 18 pages
    events: dict[int, list[Event]] = {
        0: [(1, MALLOC, 1 << 20, 65535), (2, MALLOC, 2 << 20, large), (3, MALLOC, 3 << 20, large),
            (4, FREE, 3 << 20, 0), (5, TOUCHED, 2 << 20, 9), (6, FREE, 2 << 20, 0),
            (7, MALLOC, 2 << 20, large + 1), (8, TOUCHED, 2 << 20, 18), (9, FREE, 2 << 20, 0),
            (10, MALLOC, 2 << 20, large + 2), (11, MALLOC, 3 << 20, 40 * 4096),
            (12, MALLOC, 4 << 20, large + 3), (13, TOUCHED, 4 << 20, 0), (14, FREE, 4 << 20, 0),
            (15, MALLOC, 5 << 20, large)]
    }  # fmt: skip
    (thread,) = planned_events(tmp_path, events).threads
    made = [pages for what, _, pages in thread.records if what & 15 == MALLOC]
    assert made == [ALL_PAGES, 9, 9, 18, 0, 0, 0, 0]
    # A block that is left takes the share of one that was left, of which exit() told.
    events[0] += [(16, MALLOC, 6 << 20, large), (17, MALLOC, 7 << 20, large),
                  (18, TOUCHED, 6 << 20, 3)]  # fmt: skip
    (thread,) = planned_events(tmp_path, events).threads
    made = [pages for what, _, pages in thread.records if what & 15 == MALLOC]
    assert made == [ALL_PAGES, 9, 9, 18, 3, 7, 0, 3, 3, 3]
    # A free says the same as its allocation, so that the mark is looked for where it was written.
    freed = [pages for what, _, pages in thread.records if what & 15 == FREE]
    assert freed == [9, 9, 18, 0]


def test_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no allocation in it to replay"):
        planned_events(tmp_path, {0: [(1, FREE, 4096, 0)]})


def test_order_of_windows_is_cut_by_bytes(tmp_path: Path) -> None:
    """Large blocks make windows short, so that the peak stays near; but not shorter than a few
    events."""
    own: list[list[tuple[int, ...]]]
    own = [[(2 * i + t, MALLOC, (2 * i + t) << 20, 1 << 19) for i in range(500)] for t in (0, 1)]
    player = planned_events(tmp_path, {0: own[0], 1: own[1]}, window=65536)
    counts = Counter(
        slot for t in player.threads for what, slot, _ in t.records if what & 15 == WINDOW
    )
    assert len(counts) == len(player.left) == pytest.approx(1000 / 64, abs=1)
