"""Statistics as the library has them. Names are those of ``hakmem.h``; all sizes are in bytes."""

import enum
from dataclasses import dataclass


@dataclass(frozen=True)
class HeapStats:
    """Totals since the process started. Each is right by itself, sums may be a moment apart."""

    superslabs_live: int  #: units of 2 MiB that hold at least one slab or span
    superslabs_warm: int  #: units of 2 MiB kept empty for reuse
    superslabs_peak: int  #: most units that were ever live at once
    huge_live: int  #: blocks above 1 MiB in use
    huge_bytes: int  #: bytes mapped for them
    heaps_active: int  #: heaps with a living thread
    heaps_parked: int  #: heaps of ended threads, waiting for a new one
    os_mmap: int  #: system calls made, by kind
    os_munmap: int
    os_mprotect: int
    os_madvise: int
    os_mremap: int
    os_failed: int  #: of these, refused by the kernel
    bytes_mapped: int  #: bytes of address space held for blocks, warm units included
    bytes_slab: int  #: bytes of slabs and spans handed out inside SuperSlabs
    bytes_metadata: int  #: bytes of metadata in use


@dataclass(frozen=True)
class MemoryStats:
    """Where memory is now, all in bytes.

    What is resident beyond the sum of ``live`` to ``metadata`` is not the allocator's: code,
    stacks, and the arenas of Python's own allocator for objects up to 512 bytes, which come from
    ``mmap`` unless ``PYTHONMALLOC=malloc`` is set.
    """

    resident: int  #: of the whole process, as the system counts it
    live: int  #: blocks with the program
    pinned: int  #: free blocks whose pages stay because of live ones in the same page
    bins: int  #: free blocks that threads keep for their next allocations
    cached: int  #: empty memory kept for a while: see HAKMEM_WARM_POOL_DECAY_MS
    metadata: int  #: descriptors and heaps
    given: int  #: pages given back to the system inside memory that is held


class Tier(enum.IntEnum):
    """How blocks of a class are kept."""

    SMALL = 0  #: up to 64 KiB, in slabs
    LARGE = 1  #: up to 1 MiB, all such blocks together
    HUGE = 2  #: above, all such blocks together


@dataclass(frozen=True)
class ClassStats:
    """Figures of one size class since the process started, over all threads.

    ``alloc`` to ``free_remote`` are numbers of blocks, and 0 unless ``counting``; the last three
    are numbers of slabs (Large: spans, Huge: blocks).
    """

    tier: Tier
    counting: bool  #: HAKMEM_STATS or a variable like it was set when the program started
    block_size: int  #: bytes of a block; 0 for Large and Huge
    alloc: int  #: handed out: fast + slow
    free: int  #: taken back: free_fast_local + free_remote
    fast: int  #: of alloc: from the thread's own list, without a lock
    slow: int  #: of alloc: the list was empty and had to be filled
    free_fast_local: int  #: of free: by the thread that owns the slab
    free_remote: int  #: of free: by another thread
    warm_hits: int  #: slabs had without asking the operating system
    warm_misses: int  #: the operating system was asked for memory for them
    warm_prefilled: int  #: memory put aside for them ahead of need
