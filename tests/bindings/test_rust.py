#!/usr/bin/env python3
"""bindings/rust: tested with every feature, free of warnings, packed, and built as cmake builds the library.

Usage: test_rust.py SOURCE_DIR WORK_DIR
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import unittest
from pathlib import Path

SOURCE, WORK = Path(sys.argv[1]), Path(sys.argv[2])
RUST = SOURCE / "bindings" / "rust"
TARGET = WORK / "target"
TOOL = os.environ.get("HAKMEM_TEST_TOOL", "")
CMAKE = os.environ.get("HAKMEM_TEST_CMAKE", "cmake")
COMPILERS = {"CC": os.environ.get("HAKMEM_TEST_CC", "cc"), "CXX": os.environ.get("HAKMEM_TEST_CXX", "c++")}
# The sources are compiled for each set of features and each way to build, mostly with the same flags: once where there is ccache.
CACHED = {name: f"ccache {compiler}" for name, compiler in COMPILERS.items()} | {"CCACHE_NOHASHDIR": "1"}
# What takes time, and nobody here has use for: debug information (but LookedInto), and notes for the next compilation.
QUICKLY = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
JOBS = os.environ.get("HAKMEM_TEST_JOBS") or str(os.cpu_count() or 1)  # compilers at once
SKIP = 77
LOOKED_AT = Path(__file__).with_name("looked-at.toml")
CRATES = ("hakmem-sys", "hakmem")
# What of a command line decides the code: optimisation, features, definitions, the language.
DECIDES = re.compile(r"-(O|f|D|std=)")
# Of places on this machine, colours, and by which libhakmem.so's linker script knows functions and variables.
PASSED_OVER = re.compile(r"-f(file-prefix-map|diagnostics-color|(no-)?(function|data)-sections)")


def environment() -> dict[str, str]:
    """Nothing of the caller's that changes what is built, or how an allocator works."""
    unwanted = re.compile(r"(HAKMEM_|CARGO_(BUILD|PROFILE|INCREMENTAL|ENCODED)|RUSTFLAGS|RUSTDOCFLAGS|C(XX)?FLAGS|LD_PRELOAD)")
    kept = {name: value for name, value in os.environ.items() if not unwanted.match(name)}
    compilers = CACHED if shutil.which("ccache") else COMPILERS
    return kept | compilers | QUICKLY | {"CARGO_TARGET_DIR": str(TARGET), "CARGO_TERM_COLOR": "never", "CARGO_BUILD_JOBS": JOBS}


def execute(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    options.setdefault("env", environment())
    options.setdefault("cwd", RUST)
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=900, **options)


def cargo(*arguments: str, toolchain: str = "") -> subprocess.CompletedProcess[str]:
    return execute("cargo", *([f"+{toolchain}"] if toolchain else []), *arguments)


def has_component(name: str) -> bool:
    return execute("cargo", name, "--version").returncode == 0


def key_of_benchmarks() -> str:
    """Of all that clippy reads of this workspace to look at them, and of clippy itself."""
    total = hashlib.sha256(execute("cargo", "clippy", "--version").stdout.encode())
    files = [RUST / "Cargo.toml", RUST / "Cargo.lock", RUST / "hakmem/Cargo.toml", RUST / "hakmem-sys/Cargo.toml"]
    for folder in ("compare", "hakmem/src", "hakmem-sys/src"):
        files += sorted(path for path in (RUST / folder).rglob("*") if path.is_file())
    for path in files:
        total.update(f"{path.relative_to(RUST)}\0".encode() + path.read_bytes())
    return total.hexdigest()


class TestCase(unittest.TestCase):
    maxDiff = None

    def passes(self, *arguments: str, toolchain: str = "") -> str:
        done = cargo(*arguments, toolchain=toolchain)
        self.assertEqual(done.returncode, 0, f"cargo {' '.join(arguments)}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def all_pass(self, *arguments: str, toolchain: str = "") -> int:
        """How many there were."""
        output = self.passes("test", "--locked", *arguments, toolchain=toolchain)
        return sum(int(count) for count in re.findall(r"^test result: ok\. (\d+) passed", output, re.MULTILINE))


class Tested(TestCase):
    def test_as_it_is(self) -> None:
        self.assertGreater(self.all_pass(), 20)

    def test_hardened(self) -> None:
        self.assertGreater(self.all_pass("--features", "hakmem/hardened,hakmem-sys/hardened"), 20)

    def test_override(self) -> None:
        self.assertGreater(self.all_pass("--features", "hakmem/override,hakmem-sys/override"), 20)

    def test_other_crates_collections(self) -> None:
        features = ("--features", "hakmem/allocator-api2")
        self.assertGreater(self.all_pass("-p", "hakmem", *features, "--test", "allocator", "--test", "heaps"), 10)
        self.assertGreater(self.all_pass("-p", "hakmem", *features, "--doc"), 5)

    def test_optimised(self) -> None:
        self.assertGreater(self.all_pass("--release", "--tests"), 15)

    def test_nightly(self) -> None:
        there = execute("rustup", "toolchain", "list").stdout if shutil.which("rustup") else ""
        if "nightly" not in there:
            self.skipTest("no nightly compiler is installed")
        # The feature is the trait, which these two use; the others would be compiled alike.
        arguments = ("-p", "hakmem", "--features", "nightly", "--target-dir", str(WORK / "nightly"))
        self.assertGreater(self.all_pass(*arguments, "--test", "allocator", "--test", "heaps", toolchain="nightly"), 10)

    def test_what_measures(self) -> None:
        """Without the allocators to compare with, which take minutes to build; and without criterion: test_clippy_of_benchmarks."""
        self.assertGreater(self.all_pass("-p", "hakmem-compare", "--no-default-features", "--lib", "--bins"), 5)


class Clean(TestCase):
    def test_clippy(self) -> None:
        if not has_component("clippy"):
            self.skipTest("clippy is not installed")
        every = ("clippy", "--locked", "--all-targets")
        self.passes(*every, "--", "-D", "warnings")
        self.passes(*every, "--features", "hakmem/hardened,hakmem/override,hakmem/allocator-api2", "--", "-D", "warnings")

    def test_clippy_of_benchmarks(self) -> None:
        """Forty crates are compiled for them, in a quarter of the time that all of this takes."""
        if not has_component("clippy"):
            self.skipTest("clippy is not installed")
        key = key_of_benchmarks()
        if key == tomllib.loads(LOOKED_AT.read_text(encoding="utf-8"))["benchmarks"]:
            self.skipTest("the same was looked at before")
        every = ("clippy", "--locked", "--all-targets", "-p", "hakmem-compare")
        self.passes(*every, "--no-default-features", "--features", "criterion", "--", "-D", "warnings")
        print(f'{LOOKED_AT.name}: benchmarks = "{key}"')

    def test_format(self) -> None:
        if not has_component("fmt"):
            self.skipTest("rustfmt is not installed")
        self.passes("fmt", "--all", "--check")

    def test_documentation(self) -> None:
        done = execute(
            "cargo", "doc", "--locked", "--no-deps", env=environment() | {"RUSTDOCFLAGS": "-D warnings"}
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class Packed(TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        packages = [word for crate in CRATES for word in ("-p", crate)]
        # Verified: unpacked elsewhere and built, hakmem with the hakmem-sys that was packed. A tree that is being worked on is dirty.
        cls.done = cargo("package", "--locked", "--allow-dirty", *packages)

    def names(self, crate: str) -> dict[str, tarfile.TarInfo]:
        version = re.search(r'^version = "(.+)"', (RUST / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertIsNotNone(version)
        with tarfile.open(TARGET / "package" / f"{crate}-{version[1]}.crate") as archive:
            return {entry.name.partition("/")[2]: entry for entry in archive.getmembers()}

    def test_verified(self) -> None:
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        for crate in CRATES:
            self.assertRegex(self.done.stderr, rf"Verifying {crate} v")

    def test_sources_are_in_the_package(self) -> None:
        entries = self.names("hakmem-sys")
        self.assertTrue(all(entry.isfile() for entry in entries.values()), "a link leads nowhere once it is unpacked")
        expected = {f"c/{path.relative_to(SOURCE)}" for path in (SOURCE / "src").rglob("*") if path.is_file()}
        self.assertGreater(len(expected), 100)
        self.assertEqual({name for name in entries if name.startswith("c/src/")}, expected)
        for name in ("c/include/hakmem.h", "shim/profile.c", "build.rs", "LICENSE"):
            self.assertIn(name, entries)

    def test_nothing_else_is_in_the_package(self) -> None:
        for name in self.names("hakmem"):
            self.assertRegex(name, r"^(Cargo\.(toml|toml\.orig|lock)|\.cargo_vcs_info\.json|LICENSE|README\.md|(src|tests|examples)/\w+\.rs)$")


def decisive(command: list[str]) -> dict[str, object]:
    """What the words of a command line come to, where the last one counts."""
    result: dict[str, object] = {}
    for word in command:
        if not DECIDES.match(word) or PASSED_OVER.match(word):
            continue
        if word.startswith(("-O", "-std")):
            result[word[:2]] = word
        elif word.startswith("-D"):
            name, _, value = word[2:].partition("=")
            result["-D" + name] = value
        elif word.startswith("-fstack-protector") or word == "-fno-stack-protector":
            result["stack-protector"] = word
        else:
            result[word[2:].removeprefix("no-").partition("=")[0]] = word[2:].partition("=")[2] or not word.startswith("-fno-")
    return result


class Flags(TestCase):
    """Each file is compiled with what cmake gives it: build.rs repeats cmake/flags.cmake and cmake/library.cmake."""

    def of_cmake(self, variant: str) -> dict[str, dict[str, object]]:
        build = WORK / f"cmake-{variant}"
        shutil.rmtree(build, ignore_errors=True)
        options = (f"-DHAK_VARIANT={variant}", "-DBUILD_TESTING=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        done = execute(CMAKE, "-G", "Ninja", "-S", SOURCE, "-B", build, *options, env=environment() | COMPILERS)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {}
        for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
            if re.search(r"CMakeFiles/hakmem_(core|override)\.dir/", entry["command"]):
                name = str(Path(entry["file"]).relative_to(SOURCE / "src"))
                found[name] = decisive(shlex.split(entry["command"]))
        return found

    def of_cargo(self, features: str) -> dict[str, dict[str, object]]:
        output = self.passes(
            "build", "--locked", "-p", "hakmem-sys", "--features", features, "--message-format=json-render-diagnostics"
        )
        messages = [json.loads(line) for line in output.splitlines()]
        folders = [
            message["out_dir"]
            for message in messages
            if message["reason"] == "build-script-executed" and "hakmem-sys" in message["package_id"]
        ]
        self.assertEqual(len(folders), 1)
        lines = Path(folders[0], "flags.txt").read_text(encoding="utf-8").splitlines()
        # Quotes are the definition's own here, and no shell's.
        return {name: decisive(flags.split()) for name, flags in (line.split(": ", 1) for line in lines)}

    def same(self, variant: str, features: str) -> None:
        cmake, rust = self.of_cmake(variant), self.of_cargo(features)
        self.assertGreater(len(cmake), 60)
        self.assertEqual(sorted(cmake), sorted(rust))
        for name, flags in cmake.items():
            with self.subTest(name):
                self.assertEqual(flags, rust[name])

    def test_standard(self) -> None:
        self.same("standard", "override")

    def test_hardened(self) -> None:
        self.same("hardened", "override,hardened")


class LookedInto(TestCase):
    """A program that writes a profile of itself, and waits."""

    def setUp(self) -> None:
        # Debug information of these two alone, by which pprof finds names.
        debug = ("--config", "profile.dev.package.hakmem.debug=true")
        self.passes("build", "--locked", "-p", "hakmem", "--example", "heap_profile", *debug)
        self.profile = WORK / "heap.prof"
        self.profile.unlink(missing_ok=True)
        program = TARGET / "debug" / "examples" / "heap_profile"
        self.program = program
        self.process = subprocess.Popen(
            [str(program), str(self.profile)], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.end)
        self.assertIn("written", self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate("", timeout=60)
        self.assertEqual(self.process.returncode, 0)

    def tool(self, *arguments: str) -> str:
        if not TOOL:
            self.skipTest("the tool was not built")
        done = execute(TOOL, *arguments, str(self.process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_stats(self) -> None:
        document = json.loads(self.tool("stats", "--format", "json"))
        live = document["equation"]["live"]
        self.assertGreater(live, 55_000 * 400)
        self.assertLess(live, 55_000 * 700)

    def test_prof(self) -> None:
        text = self.tool("prof")
        much, little = text.find("much_is_kept"), text.find("little_is_kept")
        self.assertGreaterEqual(much, 0, text)
        self.assertGreater(little, much, text)

    def test_dump_is_read_by_pprof(self) -> None:
        go = shutil.which("go")
        if go is None:
            self.skipTest("Go is not installed")
        done = execute(go, "tool", "pprof", "-top", "-cum", "-unit=B", "-nodefraction=0", self.program, self.profile)
        self.assertEqual(done.returncode, 0, done.stderr)
        bytes_of = {}
        for line in done.stdout.splitlines():
            found = re.match(r"\s*\S+\s+\S+\s+\S+\s+(\d+)B\s+\S+\s+(.*\w+_is_kept)", line)
            if found:
                name = re.search(r"\w+_is_kept", found[2])[0]
                bytes_of[name] = max(bytes_of.get(name, 0), int(found[1]))
        # 50,000 blocks of 400 bytes, 1,200 samples; 5,000 are 120 of them. The vectors are 1.2 MB and 120 KB more.
        self.assertAlmostEqual(bytes_of.get("much_is_kept", 0) / 21.2e6, 1, delta=0.2, msg=done.stdout)
        self.assertAlmostEqual(bytes_of.get("little_is_kept", 0) / 2.12e6, 1, delta=0.6, msg=done.stdout)


if __name__ == "__main__":
    if shutil.which("cargo") is None:
        print("cargo is not installed")
        sys.exit(SKIP)
    WORK.mkdir(parents=True, exist_ok=True)
    # For this machine alone: some crates bring others for Windows.
    host = re.search(r"^host: (\S+)", execute("rustc", "-vV").stdout, re.MULTILINE)
    fetched = cargo("fetch", "--locked", *(("--target", host[1]) if host else ()))
    if fetched.returncode != 0:
        print(f"crates cannot be had here: {fetched.stderr.strip()[-300:]}")
        sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1], verbosity=2)
