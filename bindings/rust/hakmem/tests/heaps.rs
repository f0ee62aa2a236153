//! Heaps of the program's own. The global allocator stays libc's here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

use hakmem::{Heap, HeapBox, OutOfMemory};

/// Counts how many of it live.
struct Counted<'a>(&'a AtomicUsize, [u8; 100]);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count, [7; 100])
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn names() {
    for (given, kept) in [
        ("a heap", "a heap"),
        ("", ""),
        ("one\0two", "one"),
        (&"x".repeat(100), &"x".repeat(63)),
        (&"ä".repeat(40), &"ä".repeat(31)), // not half a character
    ] {
        let heap = Heap::new(given, 0).unwrap();
        assert_eq!(heap.name(), kept);
        assert!(format!("{heap:?}").contains("live_blocks: 0"));
    }
}

#[test]
fn boxes_own_their_values() {
    let live = AtomicUsize::new(0);
    let heap = Heap::new("boxes", 0).unwrap();
    let mut first = heap.boxed(Counted::new(&live)).unwrap();
    let second = heap.boxed(Counted::new(&live)).unwrap();
    assert!(heap.owns(&*first) && hakmem::owns(&*second) && !heap.owns(&live));
    first.1[99] = 8;
    assert_eq!((first.1[98], first.1[99]), (7, 8));
    assert_eq!(heap.stats().live_blocks, 2);
    assert!(heap.stats().live_bytes >= 216 && heap.stats().held_bytes >= heap.stats().live_bytes);
    drop(first);
    assert_eq!(
        (live.load(Ordering::Relaxed), heap.stats().live_blocks),
        (1, 1)
    );
    let value = HeapBox::into_inner(second);
    assert_eq!(
        (live.load(Ordering::Relaxed), heap.stats().live_blocks),
        (1, 0)
    );
    drop(value);
    assert_eq!(live.load(Ordering::Relaxed), 0);
    assert!(heap.stats().peak_bytes >= 216);

    heap.boxed(()).unwrap(); // no bytes, no block
    assert_eq!(heap.stats().live_blocks, 0);
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let page = heap.boxed(Page([3; 4096])).unwrap();
    assert!((&raw const *page).addr().is_multiple_of(4096) && page.0.iter().all(|byte| *byte == 3));
    let debug = format!("{:?}", heap.boxed("text").unwrap());
    assert_eq!(debug, "\"text\"");
}

#[test]
fn a_destructor_that_panics_frees_its_block() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let heap = Heap::new("panics", 0).unwrap();
    let block = heap.boxed((Panics, 1u64)).unwrap();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(block)));
    assert!(dropped.is_err());
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn nothing_beyond_the_limit() {
    let live = AtomicUsize::new(0);
    let heap = Heap::new("limited", 10_000).unwrap();
    assert_eq!(heap.stats().limit, 10_000);
    let mut kept = Vec::new();
    while let Ok(block) = heap.boxed(Counted::new(&live)) {
        kept.push(block);
    }
    assert!((50..100).contains(&kept.len()), "{}", kept.len());
    assert_eq!(live.load(Ordering::Relaxed), kept.len()); // what did not fit was dropped
    assert_eq!(heap.stats().refused, 1);
    kept.pop();
    assert!(heap.boxed([0u8; 100]).is_ok());
    assert_eq!(
        OutOfMemory.to_string(),
        "no memory, or beyond the heap's limit"
    );
}

#[test]
fn blocks_are_listed() {
    let heap = Heap::new("listed", 0).unwrap();
    assert!(heap.blocks().is_empty());
    let small: Vec<_> = (0..1000u64).map(|n| heap.boxed([n; 5]).unwrap()).collect();
    let large = heap.boxed([1u8; 200_000]).unwrap();
    let huge = unsafe { hakmem_sys::hak_heap_malloc(heap.as_raw(), 3 << 20) };
    let mut wanted: Vec<*const u8> = small
        .iter()
        .map(|each| (&raw const **each).cast())
        .collect();
    wanted.push((&raw const *large).cast());
    wanted.push(huge.cast_const().cast());
    wanted.sort();
    let mut blocks = heap.blocks();
    blocks.sort_by_key(|block| block.address);
    assert_eq!(
        blocks.iter().map(|block| block.address).collect::<Vec<_>>(),
        wanted
    );
    assert!(blocks.iter().all(|block| block.usable >= 40));
    let total: usize = blocks.iter().map(|block| block.usable).sum();
    assert_eq!(total as u64, heap.stats().live_bytes);
}

#[test]
fn everything_goes_at_once() {
    let live = AtomicUsize::new(0);
    let mut heap = Heap::new("cleared", 1 << 20).unwrap();
    for round in 0..3 {
        for _ in 0..1000 {
            let value: &mut Counted = HeapBox::leak(heap.boxed(Counted::new(&live)).unwrap());
            value.1[0] = 1;
        }
        // Without their destructors.
        assert_eq!(live.load(Ordering::Relaxed), 1000 * (round + 1));
        assert_eq!(heap.stats().live_blocks, 1000);
        heap.clear().unwrap();
        assert_eq!((heap.stats().live_blocks, heap.stats().peak_bytes), (0, 0));
        assert_eq!((heap.name(), heap.stats().limit), ("cleared", 1 << 20));
    }
}

/// A heap goes where its last owner is, and its blocks may be freed by any thread.
#[test]
fn threads() {
    let heap = Arc::new(Heap::new("shared", 0).unwrap());
    let threads: Vec<_> = (0..4u64)
        .map(|seed| {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                let mut kept = Vec::new();
                for n in 0..5000 {
                    kept.push(heap.boxed([seed * 10_000 + n; 4]).unwrap());
                    if n % 3 == 0 {
                        kept.swap_remove((n / 2) as usize % kept.len());
                    }
                    if n % 1000 == 0 {
                        assert!(heap.blocks().len() >= kept.len());
                    }
                }
                assert!(kept
                    .iter()
                    .all(|each| each.iter().all(|word| *word == each[0])));
            })
        })
        .collect();
    for each in threads {
        each.join().unwrap();
    }
    assert_eq!(heap.stats().live_blocks, 0);

    let own = Heap::new("moved", 0).unwrap();
    HeapBox::leak(own.boxed([1u8; 5000]).unwrap());
    thread::spawn(move || drop(own)).join().unwrap();
    thread::scope(|scope| {
        let block = heap.boxed(String::from("text")).unwrap();
        scope.spawn(move || assert_eq!(*block, "text"));
    });
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn the_interface_for_c() {
    let heap = Heap::new("raw", 0).unwrap();
    unsafe {
        let block = hakmem_sys::hak_heap_malloc(heap.as_raw(), 100);
        assert!(heap.owns(block) && heap.stats().live_blocks == 1);
        hakmem_sys::hak_free(block);
    }
    assert_eq!(heap.stats().live_blocks, 0);
}
