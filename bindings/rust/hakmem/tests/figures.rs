//! Statistics move with what the program does. One test a process, for they are the process' own.

use hakmem::Tier;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

const MIB: u64 = 1 << 20;

#[test]
fn statistics_follow_the_program() {
    let (stats, memory) = (hakmem::stats(), hakmem::memory_stats());
    assert!(stats.heaps_active >= 1 && stats.os_mmap > 0 && stats.bytes_metadata > 0);

    let small: Vec<Box<[u8; 1000]>> = (0..20_000).map(|n| Box::new([n as u8; 1000])).collect();
    let huge = vec![1u8; 30 << 20];
    let (now, memory_now) = (hakmem::stats(), hakmem::memory_stats());
    assert_eq!(now.huge_live, stats.huge_live + 1);
    assert!(now.huge_bytes >= stats.huge_bytes + 30 * MIB);
    assert!(now.bytes_slab >= stats.bytes_slab + 19 * MIB);
    assert!(now.bytes_mapped >= stats.bytes_mapped + 45 * MIB);
    assert!(now.superslabs_live > stats.superslabs_live);
    assert!(memory_now.live >= memory.live + 49 * MIB);
    assert!(memory_now.resident >= memory.resident + 40 * MIB);

    drop((small, huge));
    hakmem::purge();
    let (after, memory_after) = (hakmem::stats(), hakmem::memory_stats());
    assert_eq!(after.huge_live, stats.huge_live);
    assert!(after.superslabs_peak >= now.superslabs_live);
    assert!(
        memory_after.live < memory.live + MIB,
        "{memory:?} {memory_after:?}"
    );
    assert!(
        memory_after.resident < memory_now.resident - 40 * MIB,
        "{memory_now:?} {memory_after:?}"
    );

    // A block of 30 MiB and slabs for 20 MB were new.
    let classes: Vec<_> = hakmem::class_stats().collect();
    let of_tier = |tier| classes.iter().filter(move |class| class.tier == tier);
    assert_eq!(of_tier(Tier::Large).count(), 1);
    assert_eq!(of_tier(Tier::Huge).count(), 1);
    assert!(of_tier(Tier::Small).count() > 50);
    assert!(classes
        .windows(2)
        .all(|two| two[1].block_size > two[0].block_size || two[1].tier != Tier::Small));
    let kilobyte = classes.iter().find(|class| class.block_size >= 1000);
    let supplied = |class: &hakmem::ClassStats| class.warm_hits + class.warm_misses;
    assert!(supplied(kilobyte.unwrap()) >= 300);
    assert!(supplied(of_tier(Tier::Huge).next().unwrap()) >= 1);
}

#[test]
fn names() {
    assert_eq!(hakmem::version(), env!("CARGO_PKG_VERSION"));
    let expected = if cfg!(feature = "hardened") {
        "hardened"
    } else {
        "standard"
    };
    assert_eq!(hakmem::variant(), expected);
}
