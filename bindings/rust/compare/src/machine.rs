//! What the figures depend on: the machine, and the versions of the crates.

use std::fs;

const CRATES: [&str; 3] = ["mimalloc", "tikv-jemallocator", "snmalloc-rs"];

/// The version of a crate in the text of a Cargo.lock.
fn version_in(lock: &str, name: &str) -> Option<String> {
    let named = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != named);
    let version = lines.nth(1)?.strip_prefix("version = \"")?;
    Some(version.trim_end_matches('"').to_owned())
}

/// A line of /proc/cpuinfo.
fn model_in(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

pub fn described() -> String {
    let lock = include_str!("../../Cargo.lock");
    let crates: Vec<String> = CRATES
        .iter()
        .filter_map(|name| Some(format!("{name} {}", version_in(lock, name)?)))
        .collect();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "hakmem {}; {}. {}, {processors} processors, Linux {}.",
        env!("CARGO_PKG_VERSION"),
        crates.join(", "),
        model_in(&cpuinfo).unwrap_or("a processor without a name"),
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_crate_itself() {
        let lock = "[[package]]\nname = \"libmimalloc-sys\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"mimalloc\"\nversion = \"0.1.52\"\n";
        assert_eq!(version_in(lock, "mimalloc").as_deref(), Some("0.1.52"));
        assert_eq!(version_in(lock, "malloc"), None);
        for name in CRATES {
            assert!(version_in(include_str!("../../Cargo.lock"), name).is_some());
        }
    }

    #[test]
    fn models() {
        assert_eq!(
            model_in("a\t: b\nmodel name\t: X 1\nmodel name\t: Y\n"),
            Some("X 1")
        );
        assert_eq!(model_in(""), None);
    }
}
