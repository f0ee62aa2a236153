//! The programs that are measured: built by cargo, run, and asked for figures.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use hakmem_compare::load;
use serde_json::Value;

pub struct Program {
    pub allocator: String,
    path: PathBuf,
}

/// Options of allocators would make one of them another one.
const NOT_FOR_PROGRAMS: [&str; 4] = [
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "_RJEM_MALLOC_CONF",
];

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// With the allocators that this program was built with, so that cargo has nothing to build that is not wanted.
fn features() -> String {
    let all = [
        ("criterion", true),
        ("jemalloc", cfg!(feature = "jemalloc")),
        ("mimalloc", cfg!(feature = "mimalloc")),
        ("snmalloc", cfg!(feature = "snmalloc")),
    ];
    let named = all.iter().filter(|(_, there)| *there);
    named.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

/// Has cargo build all of them; by name, the reference last.
pub fn build() -> Result<Vec<Program>, String> {
    let output = cargo()
        .args(["bench", "--no-run", "--benches", "--locked"])
        .args(["--message-format=json-render-diagnostics"])
        .args(["--no-default-features", "--features", &features()])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("cargo could not build the programs".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<Program> = text.lines().filter_map(built).collect();
    programs.sort_by(|a, b| a.allocator.cmp(&b.allocator));
    Ok(programs)
}

/// A line of cargo's: a program of `benches`, or something else.
fn built(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let target = &message["target"];
    // The one about heaps is for criterion alone.
    (target["kind"][0] == "bench" && target["name"] != "heaps").then_some(())?;
    Some(Program {
        allocator: target["name"].as_str()?.to_owned(),
        path: message["executable"].as_str()?.into(),
    })
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    for name in NOT_FOR_PROGRAMS {
        command.env_remove(name);
    }
    command
}

/// Microseconds that a piece of work takes, as criterion estimates them.
pub fn time_work(program: &Program, work: &str, seconds: u64) -> Result<f64, String> {
    // Beside the programs, in the build's own folder.
    let kept = program.path.ancestors().nth(3).unwrap_or(Path::new("."));
    let kept = kept.join("criterion");
    let done = command(program)
        .args(["--bench", "--noplot", "--quiet", "--measurement-time"])
        .arg(seconds.to_string())
        .arg(format!("^{work}/"))
        .env("CRITERION_HOME", &kept)
        .output()
        .map_err(|error| format!("{}: {error}", program.path.display()))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{work} on {}: {told}", program.allocator));
    }
    let path = kept
        .join(work)
        .join(&program.allocator)
        .join("new/estimates.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let estimates: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let nanoseconds = estimates["median"]["point_estimate"].as_f64();
    Ok(nanoseconds.ok_or("criterion has no median")? / 1000.0)
}

/// What a server came to under load.
pub struct Served {
    pub processor_us: f64,
    pub median_us: f64,
    pub p99_us: f64,
    pub peak_mib: f64,
    pub idle_mib: f64,
}

/// A line of /proc/PID/status, in MiB.
fn mib_of(status: &str, name: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Ends with the one who looks at it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn file(&self, name: &str) -> Result<String, String> {
        let path = format!("/proc/{}/{name}", self.0.id());
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    }

    fn mib(&self, name: &str) -> Result<f64, String> {
        let found = mib_of(&self.file("status")?, name);
        found.ok_or_else(|| format!("the kernel tells no {name}"))
    }

    /// Processor time of all of its threads, in microseconds.
    fn processor_us(&self) -> Result<f64, String> {
        const US_A_TICK: f64 = 10_000.0; // the kernel's unit for programs is 1/100 s on every machine that hakmem runs on
        let text = self.file("stat")?;
        // The name before it may hold spaces.
        let fields: Vec<&str> = text
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        match (ticks(11), ticks(12)) {
            (Some(user), Some(system)) => Ok((user + system) * US_A_TICK),
            _ => Err("the kernel tells no processor time".into()),
        }
    }
}

fn start(program: &Program) -> Result<(Running, SocketAddr), String> {
    let mut child = command(program)
        .arg("serve")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.path.display()))?;
    let output = child.stdout.take();
    let running = Running(child);
    let mut line = String::new();
    BufReader::new(output.ok_or("the server has no output")?)
        .read_line(&mut line)
        .map_err(|error| format!("the server: {error}"))?;
    let address = line
        .trim()
        .parse()
        .map_err(|_| "the server does not start")?;
    Ok((running, address))
}

pub fn time_server(program: &Program, time: Duration) -> Result<Served, String> {
    let failed = |error: std::io::Error| format!("load on {}: {error}", program.allocator);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(failed)?;
    let (running, address) = start(program)?;
    // Fills the store.
    let warm = time / 4;
    runtime.block_on(load::run(address, warm)).map_err(failed)?;
    let before = running.processor_us()?;
    let measured = runtime.block_on(load::run(address, time)).map_err(failed)?;
    let used = running.processor_us()? - before;
    let peak_mib = running.mib("VmHWM:")?;
    runtime.block_on(load::clear(address)).map_err(failed)?;
    thread::sleep(Duration::from_secs(3));
    Ok(Served {
        processor_us: used / measured.requests.max(1) as f64,
        median_us: measured.wait_below(0.5).into(),
        p99_us: measured.wait_below(0.99).into(),
        peak_mib,
        idle_mib: running.mib("VmRSS:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_in_mib() {
        let status = "Name:\tx\nVmHWM:\t    3072 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(mib_of(status, "VmHWM:"), Some(3.0));
        assert_eq!(mib_of(status, "VmRSS:"), Some(1.0));
        assert_eq!(mib_of(status, "VmSwap:"), None);
    }

    #[test]
    fn the_kernel_tells_what_is_measured() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(mib_of(&status, "VmHWM:").unwrap() > 0.1);
        let running = Running(Command::new("sleep").arg("60").spawn().unwrap());
        assert!(running.processor_us().is_ok());
    }

    #[test]
    fn which_of_cargos_lines_are_programs() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"hakmem"},"executable":"/t/hakmem-1"}"#;
        let program = built(line).unwrap();
        assert_eq!(program.allocator, "hakmem");
        assert_eq!(program.path, Path::new("/t/hakmem-1"));
        assert!(built(&line.replace("bench", "lib")).is_none());
        assert!(built("   Compiling x").is_none());
    }
}
