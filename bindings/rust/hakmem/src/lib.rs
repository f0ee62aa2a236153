//! The memory allocator hakmem for Rust programs, on Linux.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: hakmem::HakMem = hakmem::HakMem;
//!
//! let text = Box::new("on hakmem");
//! assert!(hakmem::owns(&*text));
//! ```
//!
//! - [`memory_stats`], [`stats`] and [`class_stats`] tell where the memory is, [`purge`] gives back what is free.
//! - [`profile`] tells who allocated it.
//! - [`Heap`] is a heap of the program's own: with a name, a limit, its figures, and the end of all its blocks at once.
//! - `malloc` and `free` stay libc's, so libraries in C allocate there; with the feature `override` they are hakmem's, too.
//! - The feature `hardened` stops the program where memory is freed twice, with a wrong size, or written to after it was freed.
//! - Options come from the environment, as in every program on hakmem: `HAKMEM_PROFILE=lean`, `HAKMEM_STATS=text` and
//!   the rest. hakmem's tool looks into Rust programs, too: `hakmem stats PID`, `hakmem prof PID`.
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![warn(missing_docs)]

#[cfg(any(feature = "nightly", feature = "allocator-api2"))]
mod allocator;
mod global;
mod heap;
pub mod profile;
mod stats;

use std::ffi::{c_char, CStr};

pub use global::HakMem;
pub use heap::{Block, Heap, HeapBox, HeapStats, OutOfMemory};
pub use stats::{class_stats, memory_stats, stats, ClassStats, MemoryStats, Stats, Tier};

fn text(from: *const c_char) -> &'static str {
    // SAFETY: the library's own constants, which are ASCII.
    unsafe { CStr::from_ptr(from) }.to_str().unwrap_or("")
}

/// Version of the allocator, for example `"0.1.0"`.
pub fn version() -> &'static str {
    // SAFETY: always allowed.
    text(unsafe { hakmem_sys::hak_version() })
}

/// `"standard"`, or `"hardened"` with that feature.
pub fn variant() -> &'static str {
    // SAFETY: as above.
    text(unsafe { hakmem_sys::hak_variant() })
}

/// Gives unused memory back to the operating system: what this thread and ended ones keep, and what is kept for all.
/// Returns the bytes. By itself hakmem does so about a second after memory was freed.
///
/// ```
/// # #[global_allocator]
/// # static GLOBAL: hakmem::HakMem = hakmem::HakMem;
/// let lines: Vec<String> = (0..100_000).map(|n| format!("{n:100}")).collect();
/// drop(lines);
/// assert!(hakmem::purge() > 10_000_000);
/// ```
pub fn purge() -> usize {
    // SAFETY: always allowed.
    unsafe { hakmem_sys::hak_purge() }
}

/// Does `pointer` lead into memory of this allocator? Any pointer may be asked for: nothing is read through it.
pub fn owns<T: ?Sized>(pointer: *const T) -> bool {
    // SAFETY: never reads through the pointer.
    unsafe { hakmem_sys::hak_owns(pointer.cast()) }
}

/// Bytes that a block really holds, at least as many as were asked for.
///
/// Rust's own interface does not allow to use more of a block than its layout says, so this is for statistics.
///
/// # Safety
/// `pointer` is the start of a live block of this allocator.
pub unsafe fn usable_size(pointer: *const u8) -> usize {
    // SAFETY: the caller's.
    unsafe { hakmem_sys::hak_usable_size(pointer.cast()) }
}

/// For programs that move their blocks together after a peak, so that memory goes back: is this one of few blocks in its
/// slab? Then allocate a new one, copy, and free the old one by [`free_moved`].
///
/// # Safety
/// `pointer` is the start of a live block of this allocator.
pub unsafe fn should_move(pointer: *const u8) -> bool {
    // SAFETY: the caller's.
    unsafe { hakmem_sys::hak_should_move(pointer.cast()) }
}

/// Frees a block that was moved, so that its place is not the next one to be handed out.
///
/// # Safety
/// `pointer` is the start of a live block of this allocator, which ends here.
pub unsafe fn free_moved(pointer: *mut u8) {
    // SAFETY: the caller's.
    unsafe { hakmem_sys::hak_free_moved(pointer.cast()) }
}
