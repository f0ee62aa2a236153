"""scripts/build_peers.py: what cannot be built is missing with a reason, and the rest go on."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from common import BUILD_PEERS, environment, execute

specification = importlib.util.spec_from_file_location("build_peers", BUILD_PEERS)
build_peers = importlib.util.module_from_spec(specification)
sys.modules["build_peers"] = build_peers
specification.loader.exec_module(build_peers)

# An allocator in five lines: libc's own, under another roof.
FAKE = """
#include <stddef.h>
#include <errno.h>
void *__libc_malloc(size_t); void __libc_free(void *); void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t); void *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { return __libc_malloc(n); }
void free(void *p) { __libc_free(p); }
void *calloc(size_t n, size_t s) { return __libc_calloc(n, s); }
void *memalign(size_t a, size_t n) { return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
  return (*p = __libc_memalign(a, n)) ? 0 : ENOMEM;
}
size_t malloc_usable_size(void *p) { return (((size_t *)p)[-1] & ~(size_t)7) - 8; }
"""
REALLOC = "void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }\n"
BUILD_RS = """
use std::process::Command;
fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    let object = format!("{out}/fake.o");
    let archive = format!("{out}/libfake.a");
    for command in [
        vec!["cc", "-O1", "-fPIC", "-c", "fake.c", "-o", &object],
        vec!["ar", "rcs", &archive, &object],
    ] {
        assert!(Command::new(command[0]).args(&command[1..]).status().unwrap().success());
    }
    println!("cargo:rerun-if-changed=fake.c");
}
"""


class TestCase(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hakmem-peers-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.table = ""

    def write(self, name: str, content: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")

    def project(self, name: str, source: str, dependencies: str = "") -> None:
        """A crate that builds libfake.a from `source`, and its entry in the table."""
        self.write(
            f"{name}/Cargo.toml",
            f'[package]\nname = "{name}"\nversion = "1.2.3"\nedition = "2021"\n'
            f"[dependencies]\n{dependencies}\n[workspace]\n",
        )
        self.write(f"{name}/build.rs", BUILD_RS)
        self.write(f"{name}/src/lib.rs", "")
        self.write(f"{name}/fake.c", source)
        if not dependencies:
            lock = f'version = 3\n[[package]]\nname = "{name}"\nversion = "1.2.3"\n'
            self.write(f"{name}/Cargo.lock", lock)
        self.table += f'[[peer]]\nname = "{name}"\nproject = "{name}"\ncrate = "{name}"\n'
        self.table += 'archive = "libfake.a"\nversion = { crate = true }\n'

    def build(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        self.write("peers.toml", self.table)
        output = ["--table", str(self.folder / "peers.toml"), "--output", str(self.folder / "out")]
        # Offline: nothing here is to be fetched.
        env = environment(CARGO_NET_OFFLINE="true", **changes)
        return execute([sys.executable, "-B", str(BUILD_PEERS), *output, *arguments], env=env)

    def built(self, *arguments: str) -> dict[str, dict[str, str]]:
        done = self.build("--jobs", "1", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        entries = json.loads((self.folder / "out" / "peers.json").read_text())
        self.output = done.stdout
        return {entry["name"]: entry for entry in entries}


@unittest.skipUnless(shutil.which("cargo"), "cargo is not installed")
class Building(TestCase):
    def test_what_breaks_is_missing_and_the_rest_go_on(self) -> None:
        self.project("no-such-version", FAKE + REALLOC, 'libmimalloc-sys = "=0.0.999"')
        self.project("not-compiling", FAKE + "int broken(\n")
        self.project("half-an-allocator", FAKE)
        self.project(
            "needs-a-library", FAKE + REALLOC + "int gone(void); int use(void) { return gone(); }\n"
        )
        self.project("good", FAKE + REALLOC)
        self.table += (
            '[[peer]]\nname = "no-package"\npackage = "libno-such"\nlibrary = "libno.so"\n'
        )
        entries = self.built()

        self.assertEqual(
            entries.pop("good"),
            {
                "name": "good",
                "version": "1.2.3",
                "source": "crate good 1.2.3",
                "library": str(self.folder / "out" / "libgood.so"),
            },
        )
        for name, reason in {
            "no-such-version": r"cargo build: error: .*libmimalloc-sys",
            "not-compiling": r"cargo build: fake\.c:\d+:\d+: error: ",
            "half-an-allocator": r"probe: realloc comes from libc\.so\.6, "
            r"not from libhalf-an-allocator\.so",
            "needs-a-library": r"link: .*undefined reference to `gone'",
            "no-package": r"libno-such is not installed|not Debian",
        }.items():
            with self.subTest(name):
                self.assertRegex(entries[name]["missing"], reason)
                self.assertNotIn("library", entries[name])
                self.assertIn(f"{name} ... missing: {entries[name]['missing']}", self.output)
        self.assertIn("1 ready, 5 missing", self.output)

    def test_repaired_then_broken(self) -> None:
        self.project("peer", FAKE + "int broken(\n")
        self.assertIn("missing", self.built()["peer"])
        self.write("peer/fake.c", FAKE + REALLOC)
        library = Path(self.built()["peer"]["library"])
        unchanged = library.stat()
        self.built()
        self.assertEqual(
            library.stat().st_ino, unchanged.st_ino, "nothing changed, it was replaced"
        )
        self.write("peer/fake.c", FAKE)
        self.assertIn("missing", self.built()["peer"])
        self.assertFalse(library.exists(), "the old library must not be measured as the new one")

    def test_only_keeps_the_others(self) -> None:
        self.project("first", FAKE + REALLOC)
        self.project("second", FAKE + REALLOC)
        self.assertEqual(list(self.built("--only", "second")), ["second"])
        self.assertEqual(list(self.built("--only", "first")), ["first", "second"])

    def test_a_group_is_built_when_it_is_named(self) -> None:
        self.project("usual", FAKE + REALLOC)
        self.project("rare", FAKE + REALLOC)
        self.table += 'group = "odd"\n'
        self.assertEqual(list(self.built()), ["usual"])
        for name in ("odd", "rare"):
            self.built("--only", name)
            odd = json.loads((self.folder / "out" / "odd.json").read_text())
            self.assertEqual([entry["name"] for entry in odd], ["rare"])
            self.assertIn("library", odd[0])
            self.assertIn("1 ready, 0 missing", self.output)
        self.assertEqual(list(self.built()), ["usual"])

    def test_more_sources_of_the_crate(self) -> None:
        self.project("peer", FAKE)
        self.write("peer/more/rest.c", '#include "rest.h"\n' + REALLOC)
        self.write("peer/more/rest.h", FAKE.partition("void *malloc")[0])
        self.table += 'crate_sources = ["more/rest.c"]\ninclude = ["more"]\n'
        self.assertIn("library", self.built()["peer"])

    def test_what_was_tried_before_is_not_built_again(self) -> None:
        self.project("peer", FAKE + REALLOC)
        tried = ["--tried", str(self.folder / "tried.toml")]
        self.write("tried.toml", 'peer = "another key"\n')
        self.assertIn("library", self.built(*tried)["peer"])
        key = self.output.partition("(key ")[2].partition(")")[0]
        self.assertRegex(key, "^[0-9a-f]{64}$")
        self.write("tried.toml", f'peer = "{key}"\n')
        self.assertIn("library", self.built(*tried)["peer"], "it is there already")
        shutil.rmtree(self.folder / "out")
        self.assertEqual(self.built(*tried)["peer"]["missing"], "the same was built and tried before")
        self.write("peer/fake.c", FAKE + REALLOC + "int more;\n")
        self.assertIn("library", self.built(*tried)["peer"], "not the same")

    def test_what_was_tried_by_other_tests_is_built_again(self) -> None:
        self.project("peer", FAKE + REALLOC)
        self.write("tests/test.py", "pass\n")
        tried = ["--tried", str(self.folder / "tests/tried.toml")]
        self.write("tests/tried.toml", 'peer = "another key"\n')
        self.built(*tried)
        key = self.output.partition("(key ")[2].partition(")")[0]
        self.write("tests/tried.toml", f'peer = "{key}"\n')
        shutil.rmtree(self.folder / "out")
        self.assertIn("missing", self.built(*tried)["peer"])
        self.write("tests/test.py", "raise AssertionError\n")
        self.assertIn("library", self.built(*tried)["peer"])

    def test_flags_of_the_caller_stay_out(self) -> None:
        self.project("peer", FAKE + REALLOC)
        done = self.build(
            CFLAGS="-nonsense", LDFLAGS="-nonsense", RUSTFLAGS="-nonsense", LD_PRELOAD=""
        )
        self.assertIn("1 ready, 0 missing", done.stdout)


class Refused(TestCase):
    def refused(self, *arguments: str) -> str:
        done = self.build(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertFalse((self.folder / "out").exists())
        return done.stderr

    def test_tables(self) -> None:
        good = 'name = "a"\npackage = "b"\nlibrary = "c"\n'
        for table, words in (
            ("", "no peer"),
            ("[[peer]\n", "peers.toml"),
            (f"[[peer]]\n{good}[[peer]]\n{good}", "name twice"),
            (f'[[peer]]\n{good}colour = "red"\n', "unknown ['colour']; known: ["),
            ('[[peer]]\nname = "A b"\n', "name is not made of"),
            ('[[peer]]\nname = "a"\n', "needs one of crate (with project), package"),
            ('[[peer]]\nname = "a"\ncrate = "b"\nproject = "c"\n', "archive or cmake_target"),
            ('[[peer]]\nname = "a"\npackage = "b"\n', "needs library"),
            ('[[peer]]\nname = "a"\nwheel = "b"\n', "needs library"),
            ('[[peer]]\nname = "a"\nwheel = "b"\nlibrary = "c"\n', "needs project"),
            ('[[peer]]\nname = "a"\nwheel = "b"\nlibrary = "c"\nproject = "d"\n', "needs symbol"),
            (f'[[peer]]\n{good}group = "a"\n', "a group with the name of something else"),
        ):
            with self.subTest(table):
                self.table = table
                self.assertIn(words, self.refused())

    def test_arguments(self) -> None:
        self.table = '[[peer]]\nname = "a"\npackage = "b"\nlibrary = "c"\n'
        self.assertIn("no peer 'z'; there are: a", self.refused("--only", "z"))
        self.assertIn("--jobs: 0: at least 1", self.refused("--jobs", "0"))
        self.assertIn("unrecognized arguments: --frob", self.refused("--frob"))
        self.assertEqual(self.build("--list").stdout, "a\n")


class Wheels(TestCase):
    """A wheel of our own, in a folder instead of a registry."""

    def wheel(self, digest: str = "") -> None:
        library = self.folder / "made.so"
        self.write("made.c", FAKE + REALLOC + "int mi_version(void) { return 30405; }\n")
        execute(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(self.folder / "made.c")])
        place = self.folder / "wheels" / "fake_wheel-3.4.5-py3-none-any.whl"
        place.parent.mkdir()
        about = "fake_wheel-3.4.5.dist-info"
        with zipfile.ZipFile(place, "w") as archive:
            archive.write(library, "fake.prefix/lib/libfake.so.3")
            archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: fake-wheel\nVersion: 3.4.5\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        digest = digest or hashlib.sha256(place.read_bytes()).hexdigest()
        self.write("wheel/requirements.txt", f"fake-wheel==3.4.5 --hash=sha256:{digest}\n")
        self.table = '[[peer]]\nname = "fake"\nproject = "wheel"\nwheel = "fake-wheel"\nlibrary = "libfake.so.3"\n'
        self.table += 'version = { symbol = "mi_version" }\n'
        self.pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(place.parent), "PIP_CONFIG_FILE": os.devnull}

    def taken(self) -> dict[str, str]:
        done = self.build(**self.pip)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (entry,) = json.loads((self.folder / "out" / "peers.json").read_text())
        return dict(entry)

    def test_its_library_is_the_peer(self) -> None:
        self.wheel()
        library = self.folder / "out" / "libfake.so"
        expected = {"name": "fake", "version": "3.4.5", "source": "PyPI fake-wheel 3.4.5", "library": str(library)}
        self.assertEqual(self.taken(), expected)
        self.assertEqual(library.read_bytes(), (self.folder / "made.so").read_bytes())
        # What was fetched once is not asked for again.
        self.pip["PIP_FIND_LINKS"] = str(self.folder / "none")
        self.assertEqual(self.taken(), expected)

    def test_another_file_than_the_known_one_is_refused(self) -> None:
        self.wheel(digest="0" * 64)
        entry = self.taken()
        self.assertRegex(entry["missing"], "pip download: .*(HASH|hash)")
        self.assertNotIn("library", entry)


class UsefulLine(unittest.TestCase):
    def test_of_known_outputs(self) -> None:
        for output, line in (
            ("", "no output"),
            ("one\n\n  two  \n", "two"),
            ("a.c:3: warning: w\na.c:4: error: e\nmake: *** [x] Error 1\n", "a.c:4: error: e"),
            ("error: could not compile `x`\nerror: linker not found\n", "error: linker not found"),
            (
                "error: failed to run custom build command for `x`\n  cc: error: no input\n",
                "cc: error: no input",
            ),
            ("CMake Error at a.txt:4 (find):\n  No X\n", "CMake Error at a.txt:4 (find): No X"),
            ("/bin/sh: 1: gmake: not found\nlater\n", "/bin/sh: 1: gmake: not found"),
        ):
            with self.subTest(output):
                self.assertEqual(build_peers.useful_line(output), line)

    def test_package_names(self) -> None:
        name = build_peers.named_package
        self.assertEqual(name("registry+https://x#libfoo-sys@1.2.3"), ("libfoo-sys", "1.2.3"))
        self.assertEqual(name("path+file:///tmp/foo#1.2.3"), ("foo", "1.2.3"))


if __name__ == "__main__":
    os.environ.pop("CARGO_TARGET_DIR", None)
    sys.exit(unittest.main(verbosity=2))
