//! Heaps of the program's own: hakmem's, mimalloc's (`mi_heap_*`) and jemalloc's (arenas without a thread cache), all in one
//! program. `bench/own_heaps.c` measures the same with each allocator alone in its process (docs/heaps.md).

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::NonNull;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use hakmem_compare::work::Draw;

/// A heap, which is destroyed with all its blocks when it is dropped.
trait OwnHeap: Sized {
    const NAME: &'static str;
    fn create() -> Self;
    fn allocate(&self, size: usize) -> NonNull<u8>;
    /// # Safety
    /// `block` lives, in this heap.
    unsafe fn free(&self, block: NonNull<u8>);
}

fn there(block: *mut c_void) -> NonNull<u8> {
    NonNull::new(block.cast()).expect("no memory")
}

struct Hakmem(hakmem::Heap);

impl OwnHeap for Hakmem {
    const NAME: &'static str = "hakmem";

    fn create() -> Self {
        Self(hakmem::Heap::new("bench", 0).expect("no heap"))
    }

    fn allocate(&self, size: usize) -> NonNull<u8> {
        // SAFETY: a heap that lives.
        there(unsafe { hakmem_sys::hak_heap_malloc(self.0.as_raw(), size) })
    }

    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: the caller's.
        unsafe { hakmem_sys::hak_free(block.as_ptr().cast()) }
    }
}

#[cfg(feature = "mimalloc")]
struct Mimalloc(*mut libmimalloc_sys::mi_heap_t);

#[cfg(feature = "mimalloc")]
impl OwnHeap for Mimalloc {
    const NAME: &'static str = "mimalloc";

    fn create() -> Self {
        // SAFETY: always allowed.
        let heap = unsafe { libmimalloc_sys::mi_heap_new() };
        assert!(!heap.is_null(), "no heap");
        Self(heap)
    }

    fn allocate(&self, size: usize) -> NonNull<u8> {
        // SAFETY: a heap that lives.
        there(unsafe { libmimalloc_sys::mi_heap_malloc(self.0, size) })
    }

    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: the caller's.
        unsafe { libmimalloc_sys::mi_free(block.as_ptr().cast()) }
    }
}

#[cfg(feature = "mimalloc")]
impl Drop for Mimalloc {
    fn drop(&mut self) {
        // SAFETY: nobody has the heap any more.
        unsafe { libmimalloc_sys::mi_heap_destroy(self.0) }
    }
}

#[cfg(feature = "jemalloc")]
struct Jemalloc(u32);

#[cfg(feature = "jemalloc")]
impl OwnHeap for Jemalloc {
    const NAME: &'static str = "jemalloc";

    fn create() -> Self {
        let (mut arena, mut bytes) = (0u32, size_of::<u32>());
        // SAFETY: the name is one, and the number is as long as its type.
        let failed = unsafe {
            tikv_jemalloc_sys::mallctl(
                c"arenas.create".as_ptr(),
                (&raw mut arena).cast(),
                &raw mut bytes,
                std::ptr::null_mut(),
                0,
            )
        };
        assert_eq!(failed, 0, "no arena");
        Self(arena)
    }

    fn allocate(&self, size: usize) -> NonNull<u8> {
        use tikv_jemalloc_sys::{mallocx, MALLOCX_ARENA, MALLOCX_TCACHE_NONE};
        // SAFETY: an arena that lives, and a size that is not 0.
        there(unsafe { mallocx(size, MALLOCX_ARENA(self.0 as usize) | MALLOCX_TCACHE_NONE) })
    }

    unsafe fn free(&self, block: NonNull<u8>) {
        use tikv_jemalloc_sys::{dallocx, MALLOCX_TCACHE_NONE};
        // SAFETY: the caller's.
        unsafe { dallocx(block.as_ptr().cast(), MALLOCX_TCACHE_NONE) }
    }
}

#[cfg(feature = "jemalloc")]
impl Drop for Jemalloc {
    fn drop(&mut self) {
        let name = std::ffi::CString::new(format!("arena.{}.destroy", self.0)).expect("no zero");
        let nothing = std::ptr::null_mut();
        // SAFETY: nobody has the arena any more.
        let failed = unsafe {
            tikv_jemalloc_sys::mallctl(name.as_ptr(), nothing, nothing.cast(), nothing, 0)
        };
        assert_eq!(failed, 0, "the arena stays");
    }
}

/// One heap: `blocks` of 16 to 1,024 bytes, of which `pairs` are freed and replaced at random; then all go at once.
fn work<H: OwnHeap>(blocks: usize, pairs: usize) {
    let heap = H::create();
    let mut draw = Draw(88_172_645_463_325_252);
    let size = |draw: &mut Draw| 16 + draw.below(1009) as usize;
    let mut live: Vec<NonNull<u8>> = Vec::with_capacity(blocks);
    for _ in 0..blocks {
        live.push(heap.allocate(size(&mut draw)));
    }
    for _ in 0..pairs {
        let at = draw.below(blocks as u64) as usize;
        // SAFETY: a live block, which is replaced.
        unsafe { heap.free(live[at]) };
        live[at] = heap.allocate(size(&mut draw));
        // SAFETY: at least 16 bytes.
        unsafe { live[at].write(at as u8) };
    }
    black_box(&live);
}

fn measure<H: OwnHeap>(criterion: &mut Criterion) {
    for (name, blocks, pairs) in [
        ("replaced", 1000, 20_000),
        ("short-lived", 100, 100),
        ("large", 50_000, 1000),
    ] {
        criterion
            .benchmark_group(format!("heaps/{name}"))
            .bench_function(BenchmarkId::from_parameter(H::NAME), |bencher| {
                bencher.iter(|| work::<H>(blocks, pairs))
            });
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    measure::<Hakmem>(&mut criterion);
    #[cfg(feature = "mimalloc")]
    measure::<Mimalloc>(&mut criterion);
    #[cfg(feature = "jemalloc")]
    measure::<Jemalloc>(&mut criterion);
    criterion.final_summary();
}
