//! The sampler's rate and its figures, as the program itself sees them. A process of its own, for the rate is one.

use std::hint::black_box;

use hakmem::profile;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

const BLOCKS: usize = 20_000;
const SIZE: usize = 1000;

/// Boxes, since blocks are to be counted.
#[allow(clippy::vec_box)]
#[inline(never)]
fn keep_much() -> Vec<Box<[u8; SIZE]>> {
    (0..BLOCKS)
        .map(|n| black_box(Box::new([n as u8; SIZE])))
        .collect()
}

/// So that this thread hears of the rate: it does after its next sample, or after 64 MiB.
fn hear() {
    for _ in 0..100 {
        black_box(vec![0u8; 1 << 20]);
    }
}

fn sums() -> (u64, u64, u64) {
    let places = profile::places().unwrap();
    let sum = |of: fn(&profile::Place) -> u64| places.iter().map(of).sum();
    (
        sum(|place| place.live_bytes),
        sum(|place| place.live_blocks),
        sum(|place| place.allocated_bytes),
    )
}

#[test]
fn rate_places_and_dump() {
    if std::env::var_os("HAKMEM_PROF_RATE").is_none() {
        assert_eq!(profile::rate(), Some(2 << 20));
    }
    profile::set_rate(Some(16 * 1024));
    assert_eq!(profile::rate(), Some(16 * 1024));
    hear();

    // 1,200 samples: within 15% in all but one of a million runs.
    let before = sums();
    let kept = keep_much();
    let now = sums();
    let (bytes, blocks) = (now.0 - before.0, now.1 - before.1);
    let all = (BLOCKS * SIZE) as u64;
    assert!(bytes.abs_diff(all) < all * 15 / 100, "{bytes} of {all}");
    assert!(
        blocks.abs_diff(BLOCKS as u64) < BLOCKS as u64 * 15 / 100,
        "{blocks} of {BLOCKS}"
    );
    let places = profile::places().unwrap();
    let largest = places
        .iter()
        .max_by_key(|place| place.live_bytes)
        .expect("there are some");
    assert!(largest.live_bytes > all / 2);
    assert!(largest.addresses.len() >= 3, "{:x?}", largest.addresses);

    let mut text = Vec::new();
    profile::dump(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("@ heapprofile"), "{}", lines[0]);
    let maps = lines
        .iter()
        .position(|line| *line == "MAPPED_LIBRARIES:")
        .unwrap();
    assert!(lines[1..maps - 1]
        .iter()
        .all(|line| line.contains("] @ 0x")));
    assert!(lines[maps + 1..]
        .iter()
        .any(|line| line.contains("r-xp") && line.contains("profile-")));

    drop(kept);
    let after = sums();
    assert!(after.0 < before.0 + all / 10, "{before:?} {after:?}");
    assert!(after.2 >= now.2, "what was allocated stays counted");

    profile::set_rate(None);
    assert_eq!(profile::rate(), None);
    hear();
    let off = sums();
    black_box(keep_much());
    assert_eq!(sums().2, off.2, "no sample is taken");
    profile::set_rate(Some(0));
    assert_eq!(profile::rate(), None);
}
