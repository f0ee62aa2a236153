//! Heaps of the program's own.

use std::alloc::{GlobalAlloc, Layout};
use std::error::Error;
use std::ffi::{c_void, CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use hakmem_sys::{
    hak_heap, hak_heap_aligned_alloc, hak_heap_calloc, hak_heap_create, hak_heap_destroy,
    hak_heap_malloc, hak_heap_name, hak_heap_of, hak_heap_realloc, hak_heap_stats,
    hak_heap_stats_get, hak_heap_walk,
};

use crate::global::ALIGNMENT;
use crate::stats::figures;
use crate::HakMem;

/// A heap for blocks that belong together: the session of a user, a cache with a limit, a document. Its blocks are
/// counted, may have no more than a limit together, and are gone at once when it is dropped.
///
/// ```
/// let session = hakmem::Heap::new("session", 64 << 20)?;
/// let mut text = session.boxed([0u8; 1000])?;
/// text[0] = 1;
/// assert_eq!(session.stats().live_blocks, 1);
/// drop(text);
/// assert_eq!(session.stats().live_blocks, 0);
/// # Ok::<(), hakmem::OutOfMemory>(())
/// ```
///
/// Whatever holds a block borrows the heap, so no block outlives it:
///
/// ```compile_fail,E0505
/// let heap = hakmem::Heap::new("short", 0).unwrap();
/// let kept = heap.boxed(1).unwrap();
/// drop(heap);
/// println!("{}", *kept);
/// ```
///
/// With the feature `allocator-api2` (or `nightly`) a reference to a heap is an `Allocator`, for collections:
///
/// ```
/// # #[cfg(all(feature = "allocator-api2", not(feature = "nightly")))] {
/// let cache = hakmem::Heap::new("cache", 1 << 30)?;
/// let mut names = hashbrown::HashMap::with_hasher_in(std::hash::RandomState::new(), &cache);
/// names.insert(1, "one");
/// assert!(cache.stats().live_bytes > 0);
/// # }
/// # Ok::<(), hakmem::OutOfMemory>(())
/// ```
///
/// Any thread may allocate, free and drop: each call takes the heap's lock. Values that are still in a heap when it is
/// dropped are not: their memory goes without their destructors, as with `mem::forget`.
pub struct Heap {
    raw: NonNull<hak_heap>,
}

// SAFETY: a heap belongs to no thread. hak_heap_* may be called by any: they take the heap's lock.
unsafe impl Send for Heap {}
// SAFETY: as above; the one call that must be alone, hak_heap_destroy, needs the value itself (Drop) or `&mut`.
unsafe impl Sync for Heap {}

/// There is no memory, or the heap's limit does not allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("no memory, or beyond the heap's limit")
    }
}

impl Error for OutOfMemory {}

figures! {
    /// Of one heap, all of one moment: [`Heap::stats`].
    HeapStats of hak_heap_stats {
        /// Blocks that live.
        live_blocks,
        /// Bytes that these really have.
        live_bytes,
        /// The most that `live_bytes` ever was.
        peak_bytes,
        /// Bytes of the memory that the heap has for them.
        held_bytes,
        /// The limit of `live_bytes`; 0: none.
        limit,
        /// Allocations that would have been beyond it.
        refused,
    }
}

/// A live block of a heap: [`Heap::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Where it starts. By the time it is read the block may have been freed.
    pub address: *const u8,
    /// Bytes that it really has.
    pub usable: usize,
}

/// The C interface copies so many bytes of a name.
const NAME_MOST: usize = 63;

/// The longest start of `name` that the C interface takes as it is.
fn shortened(name: &str) -> CString {
    let name = name.split('\0').next().unwrap_or("");
    let mut end = name.len().min(NAME_MOST);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    CString::new(&name[..end]).unwrap_or_default()
}

fn create(name: &CStr, limit: usize) -> Result<NonNull<hak_heap>, OutOfMemory> {
    // SAFETY: a name that ends with a zero, and any limit.
    NonNull::new(unsafe { hak_heap_create(name.as_ptr(), limit) }).ok_or(OutOfMemory)
}

impl Heap {
    /// A heap of that name, which `hakmem stats` and `hakmem top` show, cut to 63 bytes and at the first zero byte. `limit`: bytes
    /// that its live blocks may have together, as [`usable_size`](crate::usable_size) tells them; 0: no limit.
    ///
    /// # Errors
    /// There is no memory, 65,535 heaps exist, or the process has `HAKMEM_FORCE_LIBC_ALLOC=1`.
    pub fn new(name: &str, limit: usize) -> Result<Self, OutOfMemory> {
        let raw = create(&shortened(name), limit)?;
        Ok(Self { raw })
    }

    pub(crate) fn room(&self) -> Room {
        Room(self.as_raw())
    }

    /// For the functions of `hakmem-sys`. What these allocate is gone when the heap is dropped or cleared.
    pub fn as_raw(&self) -> *mut hak_heap {
        self.raw.as_ptr()
    }

    /// The name that it was made with.
    pub fn name(&self) -> &str {
        // SAFETY: lives as long as the heap, and was cut where a character ends.
        unsafe { CStr::from_ptr(hak_heap_name(self.as_raw())) }
            .to_str()
            .unwrap_or("")
    }

    /// What it holds now.
    pub fn stats(&self) -> HeapStats {
        let mut all = hak_heap_stats {
            size: size_of::<hak_heap_stats>() as u32,
            ..Default::default()
        };
        // SAFETY: the size is the structure's.
        unsafe { hak_heap_stats_get(self.as_raw(), &mut all) };
        HeapStats::of(&all)
    }

    /// Is there a live block of this heap at that address? Any pointer may be asked for: nothing is read through it.
    pub fn owns<T: ?Sized>(&self, pointer: *const T) -> bool {
        // SAFETY: never reads through the pointer.
        ptr::eq(unsafe { hak_heap_of(pointer.cast()) }, self.as_raw())
    }

    /// Puts `value` into the heap.
    ///
    /// # Errors
    /// There is no memory, or the limit does not allow it; `value` is dropped.
    pub fn boxed<T>(&self, value: T) -> Result<HeapBox<'_, T>, OutOfMemory> {
        let layout = Layout::new::<T>();
        let place = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: the size is not 0.
            NonNull::new(unsafe { self.room().alloc(layout) }.cast()).ok_or(OutOfMemory)?
        };
        // SAFETY: room for a T, that nobody else knows.
        unsafe { place.write(value) };
        Ok(HeapBox {
            place,
            heap: self,
            owns: PhantomData,
        })
    }

    /// All live blocks of one moment, in no particular order. Other threads that use the heap wait meanwhile; the list itself
    /// is memory of the global allocator.
    pub fn blocks(&self) -> Vec<Block> {
        struct Visited {
            list: Vec<Block>,
        }
        /// Allocates nothing, since the global allocator may be made of this very heap, and does not panic.
        unsafe extern "C" fn visit(block: *mut c_void, usable: usize, to: *mut c_void) -> bool {
            // SAFETY: what hak_heap_walk was given.
            let visited = unsafe { &mut *to.cast::<Visited>() };
            let room = visited.list.len() < visited.list.capacity();
            if room {
                let address = block.cast_const().cast();
                visited.list.push(Block { address, usable });
            }
            room
        }
        loop {
            // More may come until the walk begins.
            let wanted = self.stats().live_blocks as usize;
            let list = Vec::with_capacity(wanted + wanted / 8 + 16);
            let mut visited = Visited { list };
            // SAFETY: the visitor keeps to what a visitor may do, and `visited` outlives the walk.
            if unsafe { hak_heap_walk(self.as_raw(), visit, (&raw mut visited).cast()) } {
                return visited.list;
            }
        }
    }

    /// Frees all blocks at once, as dropping the heap and making it anew; its peak and refusals count from 0. What is in them is not
    /// dropped. Nobody has any of them any more, since each borrows the heap.
    ///
    /// # Errors
    /// There is no memory for the new one; the heap is as it was.
    pub fn clear(&mut self) -> Result<(), OutOfMemory> {
        let limit = self.stats().limit as usize;
        let fresh = create(&shortened(self.name()), limit)?;
        let old = std::mem::replace(&mut self.raw, fresh);
        // SAFETY: `&mut self`: no other thread uses the heap, and no block of it is borrowed.
        unsafe { hak_heap_destroy(old.as_ptr()) };
        Ok(())
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: the owner drops it, so nobody uses it or borrows a block of it.
        unsafe { hak_heap_destroy(self.as_raw()) };
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Heap")
            .field("name", &self.name())
            .field("stats", &self.stats())
            .finish()
    }
}

/// A heap's blocks by their layouts. Who has a `Room` must not use it when the heap is gone.
#[derive(Clone, Copy)]
pub(crate) struct Room(*mut hak_heap);

// SAFETY: as for HakMem; blocks come from the heap, stay in it when they are resized, and live until they are freed or the heap is
// gone.
unsafe impl GlobalAlloc for Room {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size, and an alignment that is a power of two.
        unsafe {
            if layout.align() <= ALIGNMENT {
                hak_heap_malloc(self.0, layout.size()).cast()
            } else {
                hak_heap_aligned_alloc(self.0, layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above; the block that is cleared has at least the layout's bytes.
        unsafe {
            if layout.align() <= ALIGNMENT {
                return hak_heap_calloc(self.0, 1, layout.size()).cast();
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
        // SAFETY: the caller's: a live block, with the layout that it was allocated with. It knows its heap.
        unsafe { HakMem.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above. The caller says that `size` is not 0, which would free the block, and no overflow.
        unsafe {
            if layout.align() <= ALIGNMENT {
                return hak_heap_realloc(self.0, block.cast(), size).cast();
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

/// A value in a heap: [`Heap::boxed`]. As a `Box`, it owns the value and drops it.
pub struct HeapBox<'h, T> {
    place: NonNull<T>,
    heap: &'h Heap,
    owns: PhantomData<T>,
}

// SAFETY: as a Box: whoever has it has the value. Any thread may free a block of a heap.
unsafe impl<T: Send> Send for HeapBox<'_, T> {}
// SAFETY: as above: a shared one gives shared references to the value, and one to the heap, which is Sync.
unsafe impl<T: Sync> Sync for HeapBox<'_, T> {}

impl<'h, T> HeapBox<'h, T> {
    /// Frees the block and returns the value.
    pub fn into_inner(this: Self) -> T {
        let this = std::mem::ManuallyDrop::new(this);
        // SAFETY: the value moves out, and the block, which is not used any more, is freed without dropping it.
        unsafe {
            let value = this.place.read();
            this.free();
            value
        }
    }

    /// Leaves the value in its heap for as long as that lives. It is not dropped.
    pub fn leak(this: Self) -> &'h mut T
    where
        T: 'h,
    {
        // SAFETY: nobody else has the block, and the heap, which is borrowed for 'h, is not dropped before.
        unsafe { std::mem::ManuallyDrop::new(this).place.as_mut() }
    }

    /// # Safety
    /// The block is not used afterwards.
    unsafe fn free(&self) {
        let layout = Layout::new::<T>();
        if layout.size() != 0 {
            // SAFETY: the caller's; allocated by `boxed` with this layout.
            unsafe { self.heap.room().dealloc(self.place.as_ptr().cast(), layout) }
        }
    }
}

impl<T> Drop for HeapBox<'_, T> {
    fn drop(&mut self) {
        /// Frees the block also where the value's destructor panics.
        struct Free<'a, 'h, T>(&'a HeapBox<'h, T>);
        impl<T> Drop for Free<'_, '_, T> {
            fn drop(&mut self) {
                // SAFETY: the box is being dropped.
                unsafe { self.0.free() }
            }
        }
        let place = self.place.as_ptr();
        let _free = Free(self);
        // SAFETY: the value is the box', and is not used afterwards.
        unsafe { ptr::drop_in_place(place) }
    }
}

impl<T> Deref for HeapBox<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a live value.
        unsafe { self.place.as_ref() }
    }
}

impl<T> DerefMut for HeapBox<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: a live value, borrowed by nobody else.
        unsafe { self.place.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for HeapBox<'_, T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}
