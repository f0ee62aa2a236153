"""What a recorded program asked for at its peak: blocks by size, and what was touched of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hakmem_lab.base.errors import LabError
from hakmem_lab.trace.htrace import ALIGNED, EVENT_MEMORY, I64, read_trace
from hakmem_lab.trace.info import LARGE, live_curve
from hakmem_lab.trace.match import Objects, match
from hakmem_lab.trace.replay_plan import touched_pages


@dataclass(frozen=True)
class Blocks:
    """Live blocks of one size and alignment at the peak. Bytes of `touched` were ever written or
    read, `whole` of the blocks to their end."""

    size: int
    alignment: int
    count: int
    touched: int
    whole: int


@dataclass(frozen=True)
class AskedFor:
    """At the moment when most bytes that were touched live."""

    blocks: tuple[Blocks, ...]
    page: int

    @property
    def count(self) -> int:
        return sum(of.count for of in self.blocks)

    @property
    def bytes(self) -> int:
        return sum(of.size * of.count for of in self.blocks)

    @property
    def touched(self) -> int:
        return sum(of.touched for of in self.blocks)

    def sizes(self) -> list[tuple[int, int]]:
        return [(of.size, of.alignment) for of in self.blocks]

    def with_rounding(self, usable: Sequence[int], header: int) -> int:
        """Bytes with what an allocator adds, given the usable size of each of sizes(). Of a large
        block the pages behind its last one are never touched."""
        total = 0
        for of, given in zip(self.blocks, usable, strict=True):
            if of.size >= LARGE:
                given = min(given, -(-of.size // self.page) * self.page)
            total += of.touched + of.whole * max(0, given - of.size) + of.count * header
        return total


def touched_bytes(objects: Objects) -> I64:
    """Of each block, at most its size."""
    size = objects.size.astype(np.int64)
    pages = touched_pages(objects).astype(np.int64)
    touched: I64 = np.minimum(size, pages * objects.trace.page_size)
    return touched


def asked_for(objects: Objects) -> AskedFor:
    touched = touched_bytes(objects)
    at = int(live_curve(objects, touched).argmax()) if len(touched) else 0
    gone = objects.died()
    gone[gone] = objects.rank[objects.death[gone]] <= at
    live = np.flatnonzero((objects.rank[objects.birth] <= at) & ~gone)
    if len(live) == 0:
        return AskedFor((), objects.trace.page_size)
    birth = objects.birth[live]
    aligned = objects.trace.operation[birth] == ALIGNED
    exponent = np.where(aligned, objects.trace.alignment[birth], 0).astype(np.int64)
    size, used = objects.size[live].astype(np.int64), touched[live]
    kinds, inverse = np.unique(np.stack([size, exponent]), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    counts = np.bincount(inverse, minlength=kinds.shape[1])
    whole = np.bincount(inverse[used == size], minlength=kinds.shape[1])
    of_kind = np.zeros(kinds.shape[1], dtype=np.int64)
    np.add.at(of_kind, inverse, used)
    blocks = tuple(
        Blocks(int(s), 1 << int(a) if a else 0, int(c), int(t), int(w))
        for s, a, c, t, w in zip(*kinds, counts, of_kind, whole, strict=True)
    )
    return AskedFor(blocks, objects.trace.page_size)


def read_asked(files: Sequence[Path], memory: int) -> AskedFor:
    """Of the process that asked for most at its peak, among those that were recorded."""
    found: list[AskedFor] = []
    for file in files:
        try:
            found.append(asked_for(match(read_trace(file, memory=memory))))
        except MemoryError as error:
            needed = f"some {EVENT_MEMORY} bytes an event are needed"
            raise LabError(f"{file}: not enough memory: {needed} ({error})") from None
    most = max(found, key=lambda asked: asked.touched)
    if most.count == 0:
        raise LabError(f"{files[0]}: nothing was allocated in it")
    return most
