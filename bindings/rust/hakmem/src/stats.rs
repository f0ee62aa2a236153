//! Statistics.

use std::ffi::c_uint;
use std::mem::size_of;

use hakmem_sys::{
    hak_class_stats, hak_class_stats_get, hak_memory_stats, hak_memory_stats_get, hak_stats,
    hak_stats_get, HAK_TIER_HUGE, HAK_TIER_LARGE,
};

/// A structure that has some of the fields of a C structure.
macro_rules! figures {
    ($(#[$about:meta])* $name:ident of $c:ident { $($(#[$note:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$note])* pub $field: u64,)*
        }

        impl $name {
            pub(crate) fn of(from: &$c) -> Self {
                Self { $($field: from.$field,)* }
            }
        }
    };
}
pub(crate) use figures;

figures! {
    /// Totals since the start of the process: [`stats`].
    Stats of hak_stats {
        /// Units of 2 MiB that hold blocks.
        superslabs_live,
        /// Units kept empty for reuse.
        superslabs_warm,
        /// The most units that ever held blocks at once.
        superslabs_peak,
        /// Blocks above 1 MiB in use.
        huge_live,
        /// Bytes mapped for them.
        huge_bytes,
        /// Heaps of threads that live.
        heaps_active,
        /// Heaps of ended threads, waiting for a new one.
        heaps_parked,
        /// System calls made.
        os_mmap,
        /// System calls made.
        os_munmap,
        /// System calls made.
        os_mprotect,
        /// System calls made.
        os_madvise,
        /// System calls made.
        os_mremap,
        /// Of all these, those that the kernel refused.
        os_failed,
        /// Address space held for blocks, kept units included.
        bytes_mapped,
        /// Bytes of slabs, and of blocks up to 1 MiB, inside of units.
        bytes_slab,
        /// Bytes of metadata.
        bytes_metadata,
    }
}

figures! {
    /// Where memory is now, in bytes: [`memory_stats`].
    MemoryStats of hak_memory_stats {
        /// Resident memory of the whole process, as the kernel counts it.
        resident,
        /// Blocks with the program.
        live,
        /// Free blocks whose pages stay because of live ones beside them.
        pinned,
        /// Free blocks that threads keep for their next allocations.
        bins,
        /// Empty memory kept for a while (`HAKMEM_WARM_POOL_DECAY_MS`).
        cached,
        /// Descriptors and heaps.
        metadata,
        /// Pages given back to the kernel inside of memory that is held.
        given,
    }
}

/// By the size of its blocks, how memory is managed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// Up to 64 KiB: in slabs, by size class.
    Small,
    /// Up to 1 MiB.
    Large,
    /// Above.
    Huge,
}

/// Figures of one size class, or of all blocks of a tier above them: [`class_stats`].
///
/// Numbers of blocks, `alloc` to `free_remote`, are only there when the process counts (`HAKMEM_STATS=text` and its like).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// Which sizes these are.
    pub tier: Tier,
    /// Does the process count blocks?
    pub counting: bool,
    /// Bytes of a block; 0 for Large and Huge.
    pub block_size: u64,
    /// Blocks handed out.
    pub alloc: u64,
    /// Blocks taken back.
    pub free: u64,
    /// Of `alloc`: from the thread's own list.
    pub fast: u64,
    /// Of `alloc`: the list had to be filled.
    pub slow: u64,
    /// Of `free`: by the thread that owns the slab.
    pub free_fast_local: u64,
    /// Of `free`: by another thread.
    pub free_remote: u64,
    /// Slabs (Large, Huge: blocks) that were there without asking the operating system.
    pub warm_hits: u64,
    /// The operating system was asked for memory for them.
    pub warm_misses: u64,
    /// Memory put aside ahead of need.
    pub warm_prefilled: u64,
}

/// Totals since the start of the process.
///
/// ```
/// # #[global_allocator]
/// # static GLOBAL: hakmem::HakMem = hakmem::HakMem;
/// let before = hakmem::stats();
/// let block = vec![0u8; 5 << 20];
/// assert_eq!(hakmem::stats().huge_live, before.huge_live + 1);
/// # drop(block);
/// ```
pub fn stats() -> Stats {
    let mut figures = hak_stats {
        size: size_of::<hak_stats>() as u32,
        ..Default::default()
    };
    // SAFETY: the size is that of the structure.
    let error = unsafe { hak_stats_get(&mut figures) };
    debug_assert_eq!(error, 0);
    Stats::of(&figures)
}

/// Where the memory is now. Walks all units, so its time grows with the memory that is held.
///
/// ```
/// # #[global_allocator]
/// # static GLOBAL: hakmem::HakMem = hakmem::HakMem;
/// let block = vec![1u8; 100_000];
/// let memory = hakmem::memory_stats();
/// assert!(memory.live >= 100_000 && memory.resident >= 100_000);
/// # drop(block);
/// ```
pub fn memory_stats() -> MemoryStats {
    let mut figures = hak_memory_stats {
        size: size_of::<hak_memory_stats>() as u32,
        ..Default::default()
    };
    // SAFETY: the size is that of the structure.
    let error = unsafe { hak_memory_stats_get(&mut figures) };
    debug_assert_eq!(error, 0);
    MemoryStats::of(&figures)
}

fn one_class(number: c_uint) -> Option<ClassStats> {
    let mut c = hak_class_stats {
        size: size_of::<hak_class_stats>() as u32,
        ..Default::default()
    };
    // SAFETY: the size is that of the structure; a number without a class is an error.
    if unsafe { hak_class_stats_get(number, &mut c) } != 0 {
        return None;
    }
    Some(ClassStats {
        tier: match c.tier {
            HAK_TIER_LARGE => Tier::Large,
            HAK_TIER_HUGE => Tier::Huge,
            _ => Tier::Small,
        },
        counting: c.counting != 0,
        block_size: c.block_size,
        alloc: c.alloc,
        free: c.free,
        fast: c.fast,
        slow: c.slow,
        free_fast_local: c.free_fast_local,
        free_remote: c.free_remote,
        warm_hits: c.warm_hits,
        warm_misses: c.warm_misses,
        warm_prefilled: c.warm_prefilled,
    })
}

/// Figures of all size classes by ascending size, then of Large and Huge blocks.
///
/// ```
/// let sizes: Vec<u64> = hakmem::class_stats().map(|class| class.block_size).collect();
/// assert_eq!(sizes[..3], [16, 32, 48]);
/// ```
pub fn class_stats() -> impl Iterator<Item = ClassStats> {
    (0..).map_while(one_class)
}
