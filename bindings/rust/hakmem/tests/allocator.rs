//! `Allocator` for single collections: the compiler's on nightly, else allocator-api2's. The global allocator stays libc's here.
#![cfg(any(feature = "nightly", feature = "allocator-api2"))]
#![cfg_attr(feature = "nightly", feature(allocator_api))]

#[cfg(not(feature = "nightly"))]
use allocator_api2::{alloc::Allocator, boxed::Box, vec::Vec};
#[cfg(feature = "nightly")]
use std::alloc::Allocator;
use std::alloc::Layout;
#[cfg(feature = "nightly")]
use std::collections::VecDeque;

use hakmem::{HakMem, Heap};

#[test]
fn collections() {
    let mut numbers = Vec::new_in(HakMem);
    numbers.extend(0..100_000u32);
    assert!(hakmem::owns(numbers.as_ptr()));
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers[..], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert!(!hakmem::owns(vec![1u8].as_ptr()));
}

#[test]
#[cfg(feature = "nightly")]
fn the_compilers_collections() {
    let mut queue = VecDeque::new_in(HakMem);
    for n in 0..1000 {
        queue.push_back(Box::new_in(n * 2, HakMem));
    }
    assert!(queue.iter().all(|value| hakmem::owns(&**value)));
    assert_eq!(*queue[400], 800);
}

#[test]
fn no_bytes_and_other_alignments() {
    let none = Layout::from_size_align(0, 64).unwrap();
    let some = Layout::from_size_align(100, 64).unwrap();
    let more = Layout::from_size_align(200, 4096).unwrap();
    unsafe {
        let block = HakMem.allocate_zeroed(none).unwrap();
        assert_eq!(block.len(), 0);
        let block = HakMem.grow(block.cast(), none, some).unwrap();
        block.cast::<u8>().write_bytes(7, 100);
        let block = HakMem.grow(block.cast(), some, more).unwrap();
        let start = block.cast::<u8>();
        assert_eq!(start.as_ptr() as usize % 4096, 0);
        assert!((0..100).all(|at| start.add(at).read() == 7));
        let block = HakMem.shrink(start, more, none).unwrap();
        assert_eq!(block.len(), 0);
        HakMem.deallocate(block.cast(), none);
    }
}

#[test]
fn what_is_added_is_zero() {
    let heap = Heap::new("zeroed", 0).unwrap();
    zeroed(HakMem);
    zeroed(&heap);
    assert_eq!(heap.stats().live_blocks, 0);
}

fn zeroed(from: impl Allocator) {
    for alignment in [8, 128] {
        let small = Layout::from_size_align(50, alignment).unwrap();
        let large = Layout::from_size_align(300_000, alignment).unwrap();
        unsafe {
            // What was there before is not zero.
            for _ in 0..4 {
                let dirty = from.allocate(large).unwrap().cast::<u8>();
                dirty.write_bytes(9, 300_000);
                from.deallocate(dirty, large);
                let block = from.allocate(small).unwrap().cast::<u8>();
                block.write_bytes(7, 50);
                let grown = from.grow_zeroed(block, small, large).unwrap().cast::<u8>();
                assert!((0..50).all(|at| grown.add(at).read() == 7));
                assert!((50..300_000).all(|at| grown.add(at).read() == 0));
                from.deallocate(grown, large);
            }
        }
    }
}

#[test]
fn collections_in_a_heap() {
    let heap = Heap::new("collections", 4 << 20).unwrap();
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..100_000u32);
    assert!(heap.owns(numbers.as_ptr()));
    assert!(numbers.try_reserve(2_000_000).is_err()); // beyond the limit
    assert_eq!(
        numbers.iter().map(|n| u64::from(*n)).sum::<u64>(),
        4_999_950_000
    );
    assert_eq!(heap.stats().refused, 1);
    let boxes: std::vec::Vec<_> = (0..100).map(|n| Box::new_in([n; 30], &heap)).collect();
    assert!(boxes.iter().all(|each| heap.owns(&**each)));
    assert_eq!(heap.stats().live_blocks, 101);
    drop((numbers, boxes));
    assert_eq!((heap.stats().live_blocks, heap.stats().live_bytes), (0, 0));
}

/// hashbrown takes allocator-api2's trait, or with a feature of its own the compiler's.
#[test]
#[cfg(not(feature = "nightly"))]
fn a_map_of_another_crate() {
    let heap = Heap::new("map", 0).unwrap();
    let mut map = hashbrown::HashMap::with_hasher_in(std::hash::RandomState::new(), &heap);
    for n in 0..10_000u32 {
        map.insert(n, n * 2);
    }
    assert!(heap.stats().live_bytes > 80_000);
    assert!((0..10_000).all(|n| map[&n] == n * 2));
    std::thread::scope(|threads| {
        threads.spawn(move || drop(map)); // another thread may free it
    });
    assert_eq!(heap.stats().live_blocks, 0);
}
