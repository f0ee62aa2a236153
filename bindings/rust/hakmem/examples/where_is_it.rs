//! Fills memory, frees most of it, and tells where it is. `HAKMEM_PROFILE=lean cargo run --release --example where_is_it`
use std::collections::HashMap;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

fn tell(when: &str) {
    let memory = hakmem::memory_stats();
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    println!(
        "{when:<16} resident {:6.1} MiB: live {:6.1}, pinned {:5.1}, in threads {:5.1}, kept {:5.1}, metadata {:4.1}",
        mib(memory.resident),
        mib(memory.live),
        mib(memory.pinned),
        mib(memory.bins),
        mib(memory.cached),
        mib(memory.metadata)
    );
}

fn main() {
    tell("at start");
    let mut map: HashMap<u64, String> = (0..1_000_000)
        .map(|n| (n, format!("the value of the key with the number {n}")))
        .collect();
    tell("a million");
    map.retain(|n, _| n % 100 == 0);
    tell("one in a hundred");
    drop(map);
    tell("none");
    let bytes = hakmem::purge();
    tell(&format!("purged {} MiB", bytes >> 20));
}
