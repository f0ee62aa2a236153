//! `Allocator` for single collections, on nightly compilers. The global allocator stays libc's here.
#![cfg(feature = "nightly")]
#![feature(allocator_api)]

use std::alloc::{Allocator, Layout};
use std::collections::VecDeque;

use hakmem::HakMem;

#[test]
fn collections() {
    let mut numbers = Vec::new_in(HakMem);
    numbers.extend(0..100_000u32);
    assert!(hakmem::owns(numbers.as_ptr()));
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers, (0..10).collect::<Vec<u32>>());
    assert!(!hakmem::owns(vec![1u8].as_ptr()));

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
