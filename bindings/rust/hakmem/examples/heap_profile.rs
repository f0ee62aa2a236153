//! Who allocated what lives: writes a profile to the file that is named, for pprof, and waits until its input ends, so that
//! hakmem's tool can look, too. `cargo run --example heap_profile heap.prof`
use std::fs::File;
use std::hint::black_box;
use std::io;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

#[inline(never)]
fn much_is_kept() -> Vec<Vec<u8>> {
    (0..50_000).map(|n| vec![n as u8; 400]).collect()
}

#[inline(never)]
fn little_is_kept() -> Vec<Vec<u8>> {
    (0..5_000).map(|n| vec![n as u8; 400]).collect()
}

fn main() -> io::Result<()> {
    let path = std::env::args()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: heap_profile FILE"))?;
    // Finer than one in 2 MiB, since this is a small program. It counts from the next sample on, or after 64 MiB.
    hakmem::profile::set_rate(Some(16 * 1024));
    for _ in 0..100 {
        black_box(vec![0u8; 1 << 20]);
    }
    let kept = (much_is_kept(), little_is_kept());
    hakmem::profile::dump(&mut File::create(&path)?)?;
    println!("written: {path}");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    drop(kept);
    Ok(())
}
