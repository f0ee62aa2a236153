//! HakMem as the global allocator: what GlobalAlloc promises, and that it is really in use.

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, GlobalAlloc, Layout, System};
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

use hakmem::HakMem;

#[global_allocator]
static GLOBAL: HakMem = HakMem;

const ALIGNMENTS: [usize; 9] = [1, 2, 8, 16, 32, 64, 4096, 65536, 4 << 20];
const SIZES: [usize; 12] = [
    1, 7, 16, 17, 100, 1024, 1025, 8192, 70_000, 1_000_000, 1_048_577, 5_000_000,
];

fn each_layout(mut run: impl FnMut(Layout)) {
    for alignment in ALIGNMENTS {
        for size in SIZES {
            run(Layout::from_size_align(size, alignment).unwrap());
        }
    }
}

/// Which bytes are looked at: of large blocks some in each page, and the last one. All would take seconds in a debug build.
fn places(size: usize) -> impl Iterator<Item = usize> {
    let step = if size > 65536 { 1021 } else { 1 };
    (0..size).step_by(step).chain([size - 1])
}

/// Something else for each byte, and for each block.
fn fill(block: *mut u8, size: usize, seed: usize) {
    for at in places(size) {
        unsafe { block.add(at).write((at * 31 + seed) as u8) };
    }
}

fn is_filled(block: *const u8, size: usize, seed: usize) -> bool {
    places(size).all(|at| unsafe { block.add(at).read() } == (at * 31 + seed) as u8)
}

fn is_zero(block: *const u8, size: usize) -> bool {
    let bytes = unsafe { std::slice::from_raw_parts(block, size) };
    bytes
        .chunks(4096)
        .all(|part| part == &[0; 4096][..part.len()])
}

#[test]
fn blocks_are_aligned_and_apart() {
    let mut blocks = Vec::new();
    each_layout(|layout| unsafe {
        let block = alloc(layout);
        assert!(!block.is_null(), "{layout:?}");
        assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
        assert!(hakmem::owns(block), "{layout:?}");
        assert!(hakmem::usable_size(block) >= layout.size(), "{layout:?}");
        fill(block, layout.size(), blocks.len());
        blocks.push((block, layout));
    });
    for (number, (block, layout)) in blocks.into_iter().enumerate() {
        assert!(is_filled(block, layout.size(), number), "{layout:?}");
        unsafe { dealloc(block, layout) };
    }
}

#[test]
fn zeroed_blocks_are_zero_where_others_were_dirty() {
    each_layout(|layout| unsafe {
        let dirty: Vec<*mut u8> = (0..4).map(|_| alloc(layout)).collect();
        for block in dirty {
            block.write_bytes(0xa5, layout.size());
            dealloc(block, layout);
        }
        let block = alloc_zeroed(layout);
        assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
        assert!(is_zero(block, layout.size()), "{layout:?}");
        dealloc(block, layout);
    });
}

#[test]
fn realloc_keeps_content_and_alignment() {
    each_layout(|layout| unsafe {
        for to in [1, layout.size() / 2, layout.size() + 1, 3 * layout.size()] {
            if to == 0 {
                continue;
            }
            let common = to.min(layout.size());
            let block = alloc(layout);
            fill(block, common, to);
            let moved = realloc(block, layout, to);
            assert_eq!(moved as usize % layout.align(), 0, "{layout:?} -> {to}");
            assert!(is_filled(moved, common, to), "{layout:?} -> {to}");
            let now = Layout::from_size_align(to, layout.align()).unwrap();
            dealloc(moved, now);
        }
    });
}

#[test]
fn what_cannot_be_had_is_null_and_nothing_is_lost() {
    let huge = Layout::from_size_align(isize::MAX as usize - 4095, 16).unwrap();
    let far = Layout::from_size_align(16, 1 << 40).unwrap();
    let small = Layout::from_size_align(100, 16).unwrap();
    unsafe {
        // Hidden from the compiler, which may drop an allocation that nobody uses.
        assert!(black_box(alloc(huge)).is_null());
        assert!(black_box(alloc_zeroed(huge)).is_null());
        assert!(black_box(alloc(far)).is_null());
        let block = alloc(small);
        fill(block, 100, 5);
        assert!(black_box(realloc(block, small, isize::MAX as usize - 15)).is_null());
        assert!(is_filled(block, 100, 5));
        dealloc(block, small);
    }
}

#[test]
fn collections_live_in_hakmem() {
    let text = String::from("a string that has no room in itself");
    let vector: Vec<u64> = (0..100_000).collect();
    let map: HashMap<u32, Box<u32>> = (0..1000).map(|n| (n, Box::new(n * n))).collect();
    assert!(hakmem::owns(text.as_ptr()));
    assert!(hakmem::owns(vector.as_ptr()));
    assert!(map.values().all(|value| hakmem::owns(&**value)));
    assert_eq!(map[&31], Box::new(961));
    assert!(!hakmem::owns(&GLOBAL), "that is a static");
    let local = 0;
    assert!(!hakmem::owns(&local), "that is on the stack");
}

#[test]
fn malloc_is_hakmems_only_with_override() {
    let layout = Layout::from_size_align(64, 8).unwrap();
    let block = unsafe { System.alloc(layout) };
    assert_eq!(hakmem::owns(block), cfg!(feature = "override"));
    unsafe { System.dealloc(block, layout) };
}

#[test]
fn threads_allocate_and_free_for_each_other() {
    const THREADS: usize = 8;
    const BLOCKS: usize = 5000;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
        .map(|_| mpsc::channel::<(usize, Vec<u8>)>())
        .unzip();
    let work = receivers.into_iter().enumerate().map(|(own, receiver)| {
        let next = senders[(own + 1) % THREADS].clone();
        thread::spawn(move || {
            let mut sum = 0;
            for number in 0..BLOCKS {
                let seed = number * THREADS + own;
                let mut block = vec![0u8; 1 + seed * 37 % 3000];
                fill(block.as_mut_ptr(), block.len(), seed);
                next.send((seed, block)).unwrap();
                while let Ok((seed, block)) = receiver.try_recv() {
                    assert!(is_filled(block.as_ptr(), block.len(), seed));
                    sum += 1;
                }
            }
            drop(next);
            // What is still on its way, until the thread before has ended.
            while let Ok((seed, block)) = receiver.recv() {
                assert!(is_filled(block.as_ptr(), block.len(), seed));
                sum += 1;
            }
            sum
        })
    });
    let work: Vec<_> = work.collect();
    drop(senders);
    let sum: usize = work.into_iter().map(|one| one.join().unwrap()).sum();
    assert_eq!(sum, THREADS * BLOCKS);
}

#[test]
fn thread_locals_with_destructors() {
    thread_local! {
        static KEPT: std::cell::RefCell<BTreeMap<u64, String>> = const { std::cell::RefCell::new(BTreeMap::new()) };
    }
    for round in 0..50 {
        let work = move || {
            KEPT.with_borrow_mut(|map| {
                map.extend((0..100).map(|n| (n, format!("{round} {n}"))));
                map.len()
            })
        };
        assert_eq!(thread::spawn(work).join().unwrap(), 100);
    }
}

#[test]
fn moved_blocks() {
    let layout = Layout::from_size_align(48, 16).unwrap();
    unsafe {
        let blocks: Vec<*mut u8> = (0..20_000).map(|_| alloc(layout)).collect();
        // One in sixteen stays: then its slab is nearly empty, and others have room.
        for (number, block) in blocks.iter().enumerate() {
            if number % 16 != 0 {
                dealloc(*block, layout);
            }
        }
        hakmem::purge();
        let mut moved = 0;
        for block in blocks.iter().step_by(16) {
            if hakmem::should_move(*block) {
                let to = alloc(layout);
                to.copy_from_nonoverlapping(*block, layout.size());
                hakmem::free_moved(*block);
                dealloc(to, layout);
                moved += 1;
            } else {
                dealloc(*block, layout);
            }
        }
        assert!(moved > 0);
    }
}
