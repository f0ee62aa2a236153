//! `HakMem` as `Allocator`: for single collections of a program whose global allocator is another one.

use std::alloc::{AllocError, Allocator, GlobalAlloc, Layout};
use std::ptr::{self, NonNull};

use crate::HakMem;

fn slice(block: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    NonNull::new(ptr::slice_from_raw_parts_mut(block, size)).ok_or(AllocError)
}

/// What stands for a block of no bytes.
fn nothing(layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    slice(ptr::without_provenance_mut(layout.align()), 0)
}

/// # Safety
/// `block` is a live block of the layout `old`.
unsafe fn resize(
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    // SAFETY: the caller's; realloc where neither size is 0 and the alignment stays.
    unsafe {
        if old.size() != 0 && new.size() != 0 && old.align() == new.align() {
            return slice(HakMem.realloc(block.as_ptr(), old, new.size()), new.size());
        }
        let moved = HakMem.allocate(new)?;
        let to = moved.as_ptr().cast::<u8>();
        to.copy_from_nonoverlapping(block.as_ptr(), old.size().min(new.size()));
        HakMem.deallocate(block, old);
        Ok(moved)
    }
}

// SAFETY: as for GlobalAlloc. All values of HakMem are the same allocator, so they may be copied and moved.
unsafe impl Allocator for HakMem {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return nothing(layout);
        }
        // SAFETY: the size is not 0.
        slice(unsafe { self.alloc(layout) }, layout.size())
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return nothing(layout);
        }
        // SAFETY: the size is not 0.
        slice(unsafe { self.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller's: a live block of this layout.
            unsafe { self.dealloc(block.as_ptr(), layout) }
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's: a live block of the old layout.
        unsafe { resize(block, old, new) }
    }

    #[inline]
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's: a live block of the old layout.
        unsafe { resize(block, old, new) }
    }
}
