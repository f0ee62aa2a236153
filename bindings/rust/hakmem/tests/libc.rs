//! `HAKMEM_FORCE_LIBC_ALLOC=1` gives the same program libc's malloc, to compare with. The program that is started so is this one again.

use std::env;
use std::process::Command;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

const FORCE: &str = "HAKMEM_FORCE_LIBC_ALLOC";

#[repr(align(4096))]
struct Page([u8; 4096]);

#[test]
#[ignore = "run by the other"]
fn child() {
    let on_libc = env::var_os(FORCE).is_some();
    let mut numbers: Vec<u64> = Vec::new();
    for number in 0..100_000 {
        numbers.push(number);
        assert!(number % 10_000 != 0 || hakmem::owns(numbers.as_ptr()) != on_libc);
    }
    numbers.truncate(1000);
    numbers.shrink_to_fit();
    let page = Box::new(Page([7; 4096]));
    assert_eq!(hakmem::owns(&*page), !on_libc);
    assert!(std::ptr::from_ref(&*page).is_aligned());
    assert!(page.0.iter().all(|&byte| byte == 7));
    assert_eq!(numbers.iter().sum::<u64>(), 499_500);
    println!("on {}", if on_libc { "libc" } else { "hakmem" });
}

fn run(force: Option<&str>) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture"]);
    command.env_remove(FORCE);
    if let Some(force) = force {
        command.env(FORCE, force);
    }
    let done = command.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn an_option_gives_it_libcs_malloc() {
    assert!(run(None).contains("on hakmem"));
    assert!(run(Some("1")).contains("on libc"));
}
