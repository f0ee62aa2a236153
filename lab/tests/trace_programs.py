"""Programs that never ran: traces whose truth is known."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from htrace_writer import (
    ALIGNED,
    CALLOC,
    FAILED,
    FREE,
    MALLOC,
    REALLOC_OF,
    REALLOC_TO,
    THREAD_END,
    TOUCHED,
    Event,
    write_trace,
)

NANOSECONDS = {"page_size": 4096, "ticks_per_second": 1_000_000_000, "command": ["none"]}


@dataclass
class Program:
    """What happened, in the order in which it did. Every size is there once, so that it names its
    block; `pairs` has the size of each block, who allocated it and who gave it up (None: nobody).
    """

    events: dict[int, list[Event]] = field(default_factory=dict)
    pairs: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    most_bytes: int = 0

    def write(self, path: Path, **options: object) -> Path:
        return write_trace(path, self.events, **{"information": NANOSECONDS, **options})


class Maker:
    """Runs a made-up program. Addresses are reused at once, as allocators do."""

    def __init__(self, seed: int, step: int, large: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.program = Program()
        self.step = step
        self.clock = 1000
        self.tied = False
        self.free: list[int] = []
        self.next_address = 1 << 20
        self.live: list[tuple[int, int, int]] = []  # address, size, owner
        self.bytes = 0
        self.factor = 1009 if large else 1

    def draw(self, count: int) -> int:
        return int(self.random.integers(0, count))

    def tick(self) -> int:
        """Mostly later, sometimes the same; never three times the same."""
        more = self.draw(3) * self.step
        if more == 0 and self.tied:
            more = self.step
        self.tied = more == 0
        self.clock += more
        return self.clock

    def record(
        self, thread: int, operation: int, address: int, size: int, alignment: int = 0
    ) -> None:
        event = (self.tick(), operation, address, size, alignment)
        self.program.events.setdefault(thread, []).append(event)

    def new_block(self, thread: int) -> tuple[int, int]:
        if self.free and self.draw(4):
            address = self.free.pop()
        else:
            address = self.next_address
            self.next_address += 1 << 20
        size = (len(self.program.pairs) + 1) * self.factor
        self.program.pairs[size] = (thread, None)
        self.bytes += size
        self.program.most_bytes = max(self.program.most_bytes, self.bytes)
        self.live.append((address, size, thread))
        return address, size

    def take(self, thread: int) -> int:
        """A live block, mostly one of the last; given up by `thread`. Its address."""
        at = len(self.live) - 1 - min(self.draw(20) * self.draw(3), len(self.live) - 1)
        address, size, owner = self.live.pop(at)
        if owner != thread:  # handing a block over takes time
            self.clock += self.step
        self.program.pairs[size] = (owner, thread)
        self.free.append(address)
        self.bytes -= size
        return address

    def act(self, thread: int, release: float) -> None:
        chance = self.random.random()
        if self.live and chance < release:
            address = self.take(thread)
            if self.draw(5) == 0:
                self.record(thread, TOUCHED, address, self.draw(4))
            self.record(thread, FREE, address, 0)
        elif self.live and chance < release + 0.1:
            if self.draw(3) == 0:
                address = self.live[self.draw(len(self.live))][0]
                self.record(thread, REALLOC_OF, address, 0)
                self.record(thread, FAILED, address, 1 << 60)
                return
            old = self.take(thread)
            self.record(thread, REALLOC_OF, old, 0)
            self.record(thread, REALLOC_TO, *self.new_block(thread))
        elif chance > 0.98:
            self.record(thread, FAILED, 0, 1 << 60)
        else:
            address, size = self.new_block(thread)
            operation = (MALLOC, CALLOC, ALIGNED)[self.draw(3)]
            self.record(thread, operation, address, size, 6 if operation == ALIGNED else 0)


def make_program(
    seed: int, threads: int = 4, events: int = 400, step: int = 50, large: bool = False
) -> Program:
    """Threads come and go; half of what one allocates another one frees."""
    maker = Maker(seed, step, large)
    running = [0]
    born = 1
    for at in range(events):
        if born < threads and maker.draw(events // threads) == 0:
            running.append(born)
            born += 1
        thread = running[maker.draw(len(running))]
        maker.act(thread, 0.3 if at < events / 2 else 0.6)
        if len(running) > 1 and maker.draw(events) < 2:
            gone = running.pop(1 + maker.draw(len(running) - 1))
            if gone in maker.program.events:
                maker.record(gone, THREAD_END, 0, 0)
    return maker.program


def skewed(program: Program, thread: int, by: int) -> Program:
    """The same with a thread whose clock is off."""
    events = {
        number: [(stamp + by * (number == thread), *rest) for stamp, *rest in own]
        for number, own in program.events.items()
    }
    return Program(events, program.pairs, program.most_bytes)


def in_order(events: dict[int, list[Event]]) -> list[tuple[int, Event]]:
    """All events by stamp, merged by hand: frees first where stamps are equal, but no thread's
    order is changed."""
    rest = {thread: list(reversed(own)) for thread, own in events.items() if own}
    done: list[tuple[int, Event]] = []
    while rest:
        keys = sorted(
            (own[-1][0], own[-1][1] not in (FREE, REALLOC_OF, TOUCHED), thread)
            for thread, own in rest.items()
        )
        thread = keys[0][2]
        done.append((thread, rest[thread].pop()))
        if not rest[thread]:
            del rest[thread]
    return done
