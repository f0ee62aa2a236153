//! With the feature `hardened` the sizes that Rust hands back are compared with the block: a wrong one stops the program.
//! The program that does wrong is this one again.

use std::alloc::{alloc, dealloc, Layout};
use std::env;
use std::process::{Command, Output};

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

const CASE: &str = "HAKMEM_TEST_MISUSE";

fn run(case: &str) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([
        "--exact",
        "child",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(CASE, case).env_remove("HAKMEM_GUARD");
    command.output().unwrap()
}

fn layout(size: usize, alignment: usize) -> Layout {
    Layout::from_size_align(size, alignment).unwrap()
}

#[test]
#[ignore = "run by the others"]
fn child() {
    let right = layout(200, 16);
    unsafe {
        let block = alloc(right);
        match env::var(CASE).unwrap_or_default().as_str() {
            "size" => dealloc(block, layout(2000, 16)),
            "alignment" => dealloc(block.add(16), layout(184, 4096)),
            "twice" => {
                dealloc(block, right);
                dealloc(block, right);
            }
            _ => dealloc(block, right),
        }
    }
    println!("it went on");
}

#[cfg(feature = "hardened")]
fn stops(case: &str, message: &str) {
    let done = run(case);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success(), "{case}: {told}");
    assert!(told.contains(message), "{case}: {told}");
}

#[test]
fn right_use_goes_on() {
    let done = run("none");
    assert!(done.status.success());
    assert!(String::from_utf8_lossy(&done.stdout).contains("it went on"));
}

#[cfg(feature = "hardened")]
#[test]
fn hardened_stops_at_wrong_sizes_and_double_frees() {
    stops("size", "size");
    stops("alignment", "hakmem: free");
    stops("twice", "double free");
}
