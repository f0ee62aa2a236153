//! Who allocated what lives: the sample of all blocks that hakmem keeps from the start, one in 2 MiB on average.
//!
//! ```
//! # #[global_allocator]
//! # static GLOBAL: hakmem::HakMem = hakmem::HakMem;
//! # fn main() -> std::io::Result<()> {
//! let before = hakmem::profile::rate();
//! hakmem::profile::set_rate(Some(64 * 1024)); // finer, for a while
//! // ...
//! let mut heap = Vec::new();
//! hakmem::profile::dump(&mut heap)?; // or a file: then `pprof program heap.prof`
//! hakmem::profile::set_rate(before);
//! # assert!(heap.starts_with(b"heap profile: "));
//! # Ok(())
//! # }
//! ```
//!
//! From outside, with names, as a table or a flame graph, and without a line of code: `hakmem prof PID`.

use std::ffi::c_void;
use std::io::{self, Write};
use std::ptr;

use hakmem_sys::{
    hak_rust_place, hak_rust_profile_places, hak_rust_profile_rate, hak_rust_profile_set_rate,
};

/// Bytes between two samples on average; `None`: none are taken. `HAKMEM_PROF_RATE` sets it at start.
pub fn rate() -> Option<u64> {
    // SAFETY: always allowed.
    u64::try_from(unsafe { hak_rust_profile_rate() }).ok()
}

/// Takes a sample in so many bytes from now on, or none. Each thread hears of it after its next sample, or its next 64 MiB.
/// `Some(0)` is taken for `None`. A rate below 64 KiB costs time that shows.
pub fn set_rate(bytes: Option<u64>) {
    let bytes = bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    // SAFETY: always allowed.
    unsafe { hak_rust_profile_set_rate(bytes) }
}

/// A place where blocks were allocated, with estimates of all of its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Return addresses of the calls that led to it, innermost first.
    pub addresses: Vec<u64>,
    /// Blocks that live.
    pub live_blocks: u64,
    /// Bytes that live.
    pub live_bytes: u64,
    /// Blocks since the start.
    pub allocated_blocks: u64,
    /// Bytes since the start.
    pub allocated_bytes: u64,
}

unsafe extern "C" fn add(place: *const hak_rust_place, places: *mut c_void) {
    // SAFETY: hak_rust_profile_places calls this with a place that is whole, and with the context of `places`.
    let (place, places) = unsafe { (&*place, &mut *places.cast::<Vec<Place>>()) };
    // SAFETY: so many addresses are there, which are never freed or changed.
    let addresses = unsafe { std::slice::from_raw_parts(place.addresses, place.depth as usize) };
    places.push(Place {
        addresses: addresses.to_vec(),
        live_blocks: place.live_blocks,
        live_bytes: place.live_bytes,
        allocated_blocks: place.allocated_blocks,
        allocated_bytes: place.allocated_bytes,
    });
}

/// All places where sampled blocks were allocated.
///
/// # Errors
/// In the child of a `fork`, which cannot trust what its parent was writing.
pub fn places() -> io::Result<Vec<Place>> {
    let mut places: Vec<Place> = Vec::new();
    // SAFETY: `add` gets the context that it expects, and does not unwind.
    let trusted = unsafe { hak_rust_profile_places(add, ptr::addr_of_mut!(places).cast()) };
    if trusted {
        Ok(places)
    } else {
        Err(io::Error::other(
            "the samples of a fork's child cannot be trusted",
        ))
    }
}

/// Writes a heap profile, in the text format that gperftools has made common: `pprof program file` shows what lives
/// (`-sample_index=alloc_space`: all that was allocated). Sizes are estimates already; names are found by pprof.
///
/// # Errors
/// Of writing, of reading `/proc/self/maps`, and those of [`places`].
pub fn dump(to: &mut impl Write) -> io::Result<()> {
    let places = places()?;
    let sum = |of: fn(&Place) -> u64| places.iter().map(of).sum::<u64>();
    // One string, so that a file is written by one call.
    let mut text = format!(
        "heap profile: {}: {} [{}: {}] @ heapprofile\n",
        sum(|place| place.live_blocks),
        sum(|place| place.live_bytes),
        sum(|place| place.allocated_blocks),
        sum(|place| place.allocated_bytes),
    );
    for place in &places {
        text += &format!(
            "{}: {} [{}: {}] @",
            place.live_blocks, place.live_bytes, place.allocated_blocks, place.allocated_bytes
        );
        for address in &place.addresses {
            text += &format!(" {address:#x}");
        }
        text.push('\n');
    }
    text += "\nMAPPED_LIBRARIES:\n";
    text += &std::fs::read_to_string("/proc/self/maps")?;
    to.write_all(text.as_bytes())
}
