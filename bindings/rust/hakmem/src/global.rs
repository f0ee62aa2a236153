//! `HakMem` as `GlobalAlloc`.

use std::alloc::{GlobalAlloc, Layout};

use hakmem_sys::{
    hak_aligned_alloc, hak_calloc, hak_free_aligned_sized, hak_free_sized, hak_malloc, hak_realloc,
};

/// hakmem, to be named as the program's allocator:
///
/// ```
/// #[global_allocator]
/// static GLOBAL: hakmem::HakMem = hakmem::HakMem;
/// ```
///
/// There is one heap a process, however many values of this type there are. Alignments may go up to 16 GiB; above,
/// allocating fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HakMem;

/// What every block is aligned to.
pub(crate) const ALIGNMENT: usize = 16;

// SAFETY: hak_* have the contracts of malloc and free, which are those of GlobalAlloc: blocks do not overlap, a failure
// is NULL, nothing unwinds. Sizes and alignments that are handed back are those of the layout, which the caller repeats.
unsafe impl GlobalAlloc for HakMem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size, and an alignment that is a power of two.
        unsafe {
            if layout.align() <= ALIGNMENT {
                hak_malloc(layout.size()).cast()
            } else {
                hak_aligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above; the block that is cleared has at least the layout's bytes.
        unsafe {
            if layout.align() <= ALIGNMENT {
                return hak_calloc(1, layout.size()).cast();
            }
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's: a live block, with the layout that it was allocated with.
        unsafe {
            if layout.align() <= ALIGNMENT {
                hak_free_sized(block.cast(), layout.size());
            } else {
                hak_free_aligned_sized(block.cast(), layout.align(), layout.size());
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above. The caller says that `size` is not 0, which would free the block, and no overflow.
        unsafe {
            if layout.align() <= ALIGNMENT {
                return hak_realloc(block.cast(), size).cast();
            }
            // realloc knows nothing of alignments.
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}
