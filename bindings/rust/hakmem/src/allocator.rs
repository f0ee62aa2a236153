//! `HakMem` and `Heap` as `Allocator`: for single collections of a program, whatever its global allocator is.
//!
//! The trait is the compiler's with `nightly`, else that of the crate allocator-api2. (Not both: a feature of that crate makes them one.)

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{self, NonNull};

#[cfg(not(feature = "nightly"))]
use allocator_api2::alloc::{AllocError, Allocator};
#[cfg(feature = "nightly")]
use std::alloc::{AllocError, Allocator};

use crate::{HakMem, Heap};

type Memory = Result<NonNull<[u8]>, AllocError>;

fn slice(block: *mut u8, size: usize) -> Memory {
    NonNull::new(ptr::slice_from_raw_parts_mut(block, size)).ok_or(AllocError)
}

/// What stands for a block of no bytes.
fn nothing(layout: Layout) -> Memory {
    slice(ptr::without_provenance_mut(layout.align()), 0)
}

fn allocate(from: impl GlobalAlloc, layout: Layout) -> Memory {
    if layout.size() == 0 {
        return nothing(layout);
    }
    // SAFETY: the size is not 0.
    slice(unsafe { from.alloc(layout) }, layout.size())
}

fn allocate_zeroed(from: impl GlobalAlloc, layout: Layout) -> Memory {
    if layout.size() == 0 {
        return nothing(layout);
    }
    // SAFETY: the size is not 0.
    slice(unsafe { from.alloc_zeroed(layout) }, layout.size())
}

/// # Safety
/// `block` is a live block of `of` and of that layout.
unsafe fn deallocate(of: impl GlobalAlloc, block: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        // SAFETY: the caller's.
        unsafe { of.dealloc(block.as_ptr(), layout) }
    }
}

/// # Safety
/// `block` is a live block of `of` and of the layout `old`.
unsafe fn resize(
    of: impl GlobalAlloc + Copy,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Memory {
    // SAFETY: the caller's; realloc where neither size is 0 and the alignment stays.
    unsafe {
        if old.size() != 0 && new.size() != 0 && old.align() == new.align() {
            let moved = of.realloc(block.as_ptr(), old, new.size());
            return slice(moved, new.size());
        }
        let moved = allocate(of, new)?;
        let to = moved.as_ptr().cast::<u8>();
        to.copy_from_nonoverlapping(block.as_ptr(), old.size().min(new.size()));
        deallocate(of, block, old);
        Ok(moved)
    }
}

/// # Safety
/// As above.
unsafe fn grow_zeroed(
    of: impl GlobalAlloc + Copy,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Memory {
    // SAFETY: the caller's; what is cleared lies behind the old bytes and inside the new ones.
    unsafe {
        let grown = resize(of, block, old, new)?;
        let behind = grown.as_ptr().cast::<u8>().add(old.size());
        behind.write_bytes(0, new.size() - old.size());
        Ok(grown)
    }
}

macro_rules! allocator {
    (|$self:ident| $blocks:expr) => {
        #[inline]
        fn allocate(&$self, layout: Layout) -> Memory {
            allocate($blocks, layout)
        }

        #[inline]
        fn allocate_zeroed(&$self, layout: Layout) -> Memory {
            allocate_zeroed($blocks, layout)
        }

        #[inline]
        unsafe fn deallocate(&$self, block: NonNull<u8>, layout: Layout) {
            // SAFETY: the caller's: a live block of this layout.
            unsafe { deallocate($blocks, block, layout) }
        }

        #[inline]
        unsafe fn grow(&$self, block: NonNull<u8>, old: Layout, new: Layout) -> Memory {
            // SAFETY: the caller's: a live block of the old layout.
            unsafe { resize($blocks, block, old, new) }
        }

        #[inline]
        unsafe fn grow_zeroed(&$self, block: NonNull<u8>, old: Layout, new: Layout) -> Memory {
            // SAFETY: as above.
            unsafe { grow_zeroed($blocks, block, old, new) }
        }

        #[inline]
        unsafe fn shrink(&$self, block: NonNull<u8>, old: Layout, new: Layout) -> Memory {
            // SAFETY: as above.
            unsafe { resize($blocks, block, old, new) }
        }
    };
}

// SAFETY: as for GlobalAlloc. All values of HakMem are the same allocator, so they may be copied and moved.
unsafe impl Allocator for HakMem {
    allocator!(|self| *self);
}

// SAFETY: as for GlobalAlloc. A copy of the reference is the same heap. Its blocks live until they are freed or the heap is dropped
// or cleared, which it is not while it is borrowed. (Not for Heap itself, which may be cleared by its owner.)
unsafe impl Allocator for &Heap {
    allocator!(|self| self.room());
}
