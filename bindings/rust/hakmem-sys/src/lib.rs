//! The C interface of the memory allocator hakmem, which this crate builds from its sources: `hakmem.h` in Rust.
//!
//! Programs use the crate `hakmem`, which makes it Rust's global allocator. The contracts of all functions are those of
//! `hakmem.h`; dependents with C code of their own find it in the folder that cargo names `DEP_HAKMEM_INCLUDE`.
//!
//! ```
//! unsafe {
//!     let block = hakmem_sys::hak_malloc(100);
//!     assert!(hakmem_sys::hak_usable_size(block) >= 100);
//!     hakmem_sys::hak_free_sized(block, 100);
//! }
//! ```
#![no_std]
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_uint, c_void};

/// `hak_class_stats::tier`: blocks of slabs, up to 64 KiB.
pub const HAK_TIER_SMALL: u32 = 0;
/// `hak_class_stats::tier`: up to 1 MiB.
pub const HAK_TIER_LARGE: u32 = 1;
/// `hak_class_stats::tier`: above.
pub const HAK_TIER_HUGE: u32 = 2;

/// Totals since start. `size` is set before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct hak_stats {
    pub size: u32,
    pub version: u32,
    pub superslabs_live: u64,
    pub superslabs_warm: u64,
    pub superslabs_peak: u64,
    pub huge_live: u64,
    pub huge_bytes: u64,
    pub heaps_active: u64,
    pub heaps_parked: u64,
    pub os_mmap: u64,
    pub os_munmap: u64,
    pub os_mprotect: u64,
    pub os_madvise: u64,
    pub os_mremap: u64,
    pub os_failed: u64,
    pub bytes_mapped: u64,
    pub bytes_slab: u64,
    pub bytes_metadata: u64,
}

/// Where memory is now, in bytes. `size` is set before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct hak_memory_stats {
    pub size: u32,
    pub version: u32,
    pub resident: u64,
    pub live: u64,
    pub pinned: u64,
    pub bins: u64,
    pub cached: u64,
    pub metadata: u64,
    pub given: u64,
}

/// Figures of one size class, or of a tier above them. `size` is set before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct hak_class_stats {
    pub size: u32,
    pub version: u32,
    pub tier: u32,
    pub counting: u32,
    pub block_size: u64,
    pub alloc: u64,
    pub free: u64,
    pub fast: u64,
    pub slow: u64,
    pub free_fast_local: u64,
    pub free_remote: u64,
    pub warm_hits: u64,
    pub warm_misses: u64,
    pub warm_prefilled: u64,
}

/// A place where sampled blocks were allocated; not a part of `hakmem.h`.
#[doc(hidden)]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hak_rust_place {
    pub addresses: *const u64,
    pub depth: u64,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub allocated_blocks: u64,
    pub allocated_bytes: u64,
}

/// A heap of the program's own. Only behind pointers.
#[repr(C)]
pub struct hak_heap {
    _private: [u8; 0],
}

/// See `hak_heap_stats_get`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hak_heap_stats {
    pub size: u32,
    pub version: u32,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub held_bytes: u64,
    pub limit: u64,
    pub refused: u64,
}

extern "C" {
    pub fn hak_malloc(size: usize) -> *mut c_void;
    pub fn hak_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn hak_realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
    pub fn hak_reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void;
    pub fn hak_free(ptr: *mut c_void);
    pub fn hak_free_sized(ptr: *mut c_void, size: usize);
    pub fn hak_free_aligned_sized(ptr: *mut c_void, alignment: usize, size: usize);
    pub fn hak_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    pub fn hak_usable_size(ptr: *const c_void) -> usize;

    pub fn hak_owns(ptr: *const c_void) -> bool;
    pub fn hak_room(ptr: *const c_void) -> usize;
    pub fn hak_purge() -> usize;
    pub fn hak_should_move(ptr: *const c_void) -> bool;
    pub fn hak_free_moved(ptr: *mut c_void);
    pub fn hak_version() -> *const c_char;
    pub fn hak_variant() -> *const c_char;

    pub fn hak_stats_get(stats: *mut hak_stats) -> c_int;
    pub fn hak_memory_stats_get(stats: *mut hak_memory_stats) -> c_int;
    pub fn hak_class_stats_get(number: c_uint, stats: *mut hak_class_stats) -> c_int;

    pub fn hak_heap_create(name: *const c_char, limit: usize) -> *mut hak_heap;
    pub fn hak_heap_destroy(heap: *mut hak_heap);
    pub fn hak_heap_malloc(heap: *mut hak_heap, size: usize) -> *mut c_void;
    pub fn hak_heap_calloc(heap: *mut hak_heap, count: usize, size: usize) -> *mut c_void;
    pub fn hak_heap_aligned_alloc(
        heap: *mut hak_heap,
        alignment: usize,
        size: usize,
    ) -> *mut c_void;
    pub fn hak_heap_realloc(heap: *mut hak_heap, ptr: *mut c_void, size: usize) -> *mut c_void;
    pub fn hak_heap_of(ptr: *const c_void) -> *mut hak_heap;
    pub fn hak_heap_name(heap: *const hak_heap) -> *const c_char;
    pub fn hak_heap_stats_get(heap: *mut hak_heap, stats: *mut hak_heap_stats) -> c_int;
    pub fn hak_heap_walk(
        heap: *mut hak_heap,
        visit: unsafe extern "C" fn(*mut c_void, usize, *mut c_void) -> bool,
        argument: *mut c_void,
    ) -> bool;
    pub fn hak_heap_each(
        visit: unsafe extern "C" fn(*mut hak_heap, *mut c_void) -> bool,
        argument: *mut c_void,
    ) -> bool;

    #[doc(hidden)]
    pub fn hak_rust_profile_rate() -> i64;
    #[doc(hidden)]
    pub fn hak_rust_profile_set_rate(bytes: i64);
    #[doc(hidden)]
    pub fn hak_rust_profile_places(
        each: unsafe extern "C" fn(*const hak_rust_place, *mut c_void),
        context: *mut c_void,
    ) -> bool;
}
