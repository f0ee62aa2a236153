//! Compiles hakmem's C sources as the repository's own build does (cmake/flags.cmake, cmake/library.cmake), without cmake.
//! tests/bindings compares the flags of both, file by file.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = "c/src";
/// What the C interface does not offer, for the crate `hakmem`.
const SHIM: &str = "shim/profile.c";

/// Files that define `malloc` and its family, and the operators of C++: only with the feature `override`.
const OVERRIDE: &[&str] = &[
    "api/override.c",
    "api/override_forms.c",
    "api/cxx.c",
    "api/cxx_arrays.c",
    "api/cxx_forms.c",
    "api/nothrow.cc",
];

/// For a shared library that is preloaded.
const PRELOAD: &[&str] = &["api/deepbind.c", "os/symbols.c"];

/// Built for size: they run at start, at exit, or beside a system call. A name that ends in `/` is a folder.
const COLD: &[&str] = &[
    "policy/",
    "observe/",
    "release/",
    "stack/",
    "sample/",
    "os/os.c",
    "os/locked.c",
    "os/place.c",
    "os/guard_pages.c",
    "os/libc.c",
    "os/loaded.c",
    "os/file.c",
    "os/message.c",
    "os/signal.c",
    "os/fault_handler.c",
    "os/thread.c",
    "os/lock.c",
    "os/call.c",
    "os/clock.c",
    "superslab/unit.c",
    "superslab/unit_os.c",
    "superslab/unit_move.c",
    "superslab/map.c",
    "superslab/meta.c",
    "superslab/huge.c",
    "superslab/dense.c",
    "superslab/warm.c",
    "superslab/aligned.c",
    "superslab/figures.c",
    "superslab/guard_pages.c",
    "superslab/random_place.c",
    "superslab/lock_parts.c",
    "superslab/huge_advice.c",
    "slab/holes.c",
    "api/totals.c",
    "api/atexit.c",
    "api/statistics.c",
    "api/json.c",
    "api/shared.c",
    "api/directory.c",
    "api/blackbox.c",
    "api/box_files.c",
    "api/box_parts.c",
    "api/heaps.c",
    "heap/fork.c",
    "heap/heap.c",
    "heap/samples.c",
    "heap/named.c",
    "heap/named_walk.c",
    "heap/start.c",
    "front/named_front.c",
];

/// With a stack protector in every variant: they read what others wrote, or write text.
const GUARDED: &[&str] = &[
    "policy/",
    "observe/",
    "os/",
    "sample/",
    "stack/",
    "api/totals.c",
    "api/atexit.c",
    "api/statistics.c",
    "api/json.c",
    "api/shared.c",
    "api/directory.c",
    "api/blackbox.c",
    "api/box_files.c",
    "api/box_parts.c",
];

/// The compiler knows these functions and would turn malloc and memset inside calloc into a call of calloc.
const NO_BUILTIN: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
];

fn has_feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

fn is_in(list: &[&str], file: &str) -> bool {
    list.iter()
        .any(|entry| file == *entry || (entry.ends_with('/') && file.starts_with(entry)))
}

/// Every file below `folder`, as a path from there, in the order of their names.
fn files_below(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap())
        .collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push(name);
        }
    }
}

/// What all files have in common.
fn common(hardened: bool) -> cc::Build {
    let variant = if hardened { "hardened" } else { "standard" };
    let mut build = cc::Build::new();
    build
        .include("c/include")
        .include(SOURCES)
        .warnings(false)
        // Whatever the profile of the program: an allocator without optimisation is of no use to a debug build.
        .opt_level(2)
        .force_frame_pointer(false)
        .pic(true)
        .define("NDEBUG", None)
        .define("HAK_VARIANT_NAME", format!("\"{variant}\"").as_str());
    for flag in [
        "-fvisibility=hidden",
        "-fno-semantic-interposition",
        "-fno-plt",
        "-ftls-model=initial-exec",
        // cc's default is a section for each function; here the order is the compiler's.
        "-fno-function-sections",
        "-fno-data-sections",
    ] {
        build.flag(flag);
    }
    build.flag(if hardened {
        "-fstack-protector-strong"
    } else {
        "-fno-stack-protector"
    });
    match env::var("CARGO_CFG_TARGET_ARCH").unwrap().as_str() {
        "x86_64" if hardened => build.flag("-fcf-protection=full"),
        "x86_64" => build.flag("-fcf-protection=return"),
        "aarch64" => build.flag("-mbranch-protection=standard"),
        other => panic!("hakmem runs on x86-64 and aarch64, not on {other}"),
    };
    for name in NO_BUILTIN {
        build.flag(format!("-fno-builtin-{name}"));
    }
    if hardened {
        build.define("HAK_HARDENED", "1");
    }
    if has_probes(&build) {
        build.define("HAK_PROBES", "1");
    }
    build
}

/// Probes for tracers are notes in the file, made by a header that not every system has.
fn has_probes(build: &cc::Build) -> bool {
    let source = out_dir().join("probes.c");
    fs::write(&source, "#include <sys/sdt.h>\n").unwrap();
    build.clone().file(source).try_expand().is_ok()
}

fn out_dir() -> PathBuf {
    env::var_os("OUT_DIR").expect("run by cargo").into()
}

fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The one that belongs to the compiler, so that it knows the target's files.
fn objcopy(compiler: &cc::Tool) -> OsString {
    if let Some(named) = env::var_os("OBJCOPY") {
        return named;
    }
    let output = compiler
        .to_command()
        .arg("-print-prog-name=objcopy")
        .output();
    let name = output.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
    match name {
        Ok(name) if !name.is_empty() => name.into(),
        _ => "objcopy".into(),
    }
}

/// The compiler's sections for code.
const CODE: [&str; 5] = ["", ".unlikely", ".startup", ".exit", ".hot"];

/// One object of all, in which the internal names are local, so that they cannot clash with those of another library;
/// and whoever uses one function gets the constructors, too. Its code is one section, as in cmake/library.cmake.
fn merge(build: &cc::Build, objects: &[PathBuf]) -> PathBuf {
    let compiler = build.get_compiler();
    let merged = out_dir().join("hakmem-merged.o");
    let mut link = compiler.to_command();
    link.args(["-r", "-nostdlib"]);
    if has_feature("OVERRIDE") {
        link.arg("-Wl,--force-group-allocation"); // as cmake/library.cmake explains
    }
    run(link.arg("-o").arg(&merged).args(objects));
    run(Command::new(objcopy(&compiler))
        .args(["--localize-hidden", "--wildcard"])
        .arg("--localize-symbol=__libc_*") // as cmake/library.cmake explains
        .args(["--weaken-symbol=_Zn*", "--weaken-symbol=_Zd*"])
        .args(CODE.map(|kind| format!("--rename-section=.text{kind}=hakmem_text")))
        .arg(&merged));
    merged
}

/// Which flags each file got, for the test that compares them with cmake's.
fn write_down(notes: &mut String, file: &str, build: &cc::Build) {
    let compiler = build.get_compiler();
    let flags = compiler.args().join(OsStr::new(" "));
    *notes += &format!("{file}: {}\n", flags.to_string_lossy());
}

fn main() {
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap();
    let width = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").unwrap();
    assert!(
        os == "linux" && width == "64",
        "hakmem runs on 64-bit Linux, not on {os} of {width} bits"
    );

    let mut files = Vec::new();
    files_below(Path::new(SOURCES), "", &mut files);
    for file in &files {
        println!("cargo:rerun-if-changed={SOURCES}/{file}");
    }
    // A file that is added changes the folder.
    for path in [SOURCES, "c/include/hakmem.h", SHIM] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=OBJCOPY");
    // Dependents find hakmem.h by it, as DEP_HAKMEM_INCLUDE.
    let include = fs::canonicalize("c/include").unwrap();
    println!("cargo:include={}", include.display());

    let plain = common(has_feature("HARDENED"));
    let mut notes = String::new();
    // By (built for size, with a stack protector, which throws, C++): cc takes several files at once.
    let mut groups: Vec<((bool, bool, bool, bool), cc::Build)> = Vec::new();
    for file in &files {
        // libhakmem-copies.so is a library of its own.
        if !(file.ends_with(".c") || file.ends_with(".cc")) || file.starts_with("copies/") {
            continue;
        }
        if PRELOAD.contains(&file.as_str()) {
            continue;
        }
        let overriding = OVERRIDE.contains(&file.as_str());
        if overriding && !has_feature("OVERRIDE") {
            continue;
        }
        let throws = file.starts_with("api/cxx") && file.ends_with(".c");
        let cxx = file.ends_with(".cc");
        let key = (
            !overriding && is_in(COLD, file),
            !overriding && is_in(GUARDED, file),
            throws,
            cxx,
        );
        let index = groups.iter().position(|(of, _)| *of == key);
        let index = index.unwrap_or_else(|| {
            groups.push((key, group(&plain, key)));
            groups.len() - 1
        });
        let build = &mut groups[index].1;
        build.file(format!("{SOURCES}/{file}"));
        write_down(&mut notes, file, build);
    }
    fs::write(out_dir().join("flags.txt"), notes).unwrap();

    let mut shim = group(&plain, (true, false, false, false));
    shim.file(SHIM);
    let mut objects = shim.compile_intermediates();
    for (_, build) in &groups {
        objects.extend(build.compile_intermediates());
    }
    let merged = merge(&plain, &objects);
    cc::Build::new().object(merged).compile("hakmem_merged");
}

fn group(plain: &cc::Build, (cold, guarded, throws, cxx): (bool, bool, bool, bool)) -> cc::Build {
    let mut build = plain.clone();
    if cold {
        build.opt_level_str("s");
    }
    if guarded {
        build.flag("-fstack-protector-strong");
    }
    if throws {
        build.flag("-fexceptions");
    }
    if cxx {
        build.cpp(true).cpp_link_stdlib(None).std("gnu++17");
        build.flag("-fno-rtti");
    } else {
        build.std("gnu11");
    }
    build
}
