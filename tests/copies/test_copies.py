"""libhakmem-copies.so: each function that it checks does its work, a copy that leaves its block ends the program by the right line, and
real calls of the allocator's own are not looked at."""

import os
import re
import resource
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

LIBRARY = os.environ["HAKMEM_TEST_LIBRARY"]
COPIES = os.environ["HAKMEM_TEST_COPIES"]
FUNCTIONS = os.environ["HAKMEM_TEST_FUNCTIONS"]
TOOL = os.environ["HAKMEM_TEST_TOOL"]
OBJDUMP = os.environ["HAKMEM_TEST_OBJDUMP"]
CMAKE = os.environ["HAKMEM_TEST_CMAKE"]
BUILD = os.environ["HAKMEM_TEST_BUILD"]
BOTH = f"{LIBRARY}:{COPIES}"
MODES = ("off", "light", "full")
OFF = "hakmem: copies are not checked: "


def without_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(*command: str, preload: str = BOTH, **changes: str) -> subprocess.CompletedProcess:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    env = kept | changes | ({"LD_PRELOAD": preload} if preload else {})
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=60, preexec_fn=without_core
    )


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def names() -> dict[str, bool]:
    """Each function, and whether it reads memory as well."""
    lines = [line.split() for line in run(FUNCTIONS, preload="").stdout.splitlines()]
    return {line[0]: len(line) == 1 for line in lines}


def plain(name: str) -> str:
    """What a message calls it."""
    return name.removeprefix("__").removesuffix("_chk")


class Copies(unittest.TestCase):
    def assert_well(self, done: subprocess.CompletedProcess) -> None:
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "well\n", ""), done.args)

    def assert_stopped(self, done: subprocess.CompletedProcess, name: str, what: str) -> None:
        self.assertEqual(done.returncode, -signal.SIGABRT, f"{done}")
        due = done.stdout.removeprefix("due ").strip()
        line = rf"hakmem: {name}\(\): {due}: {what} beyond the end of its block \(\d+ bytes; room for 56\)\n"
        self.assertRegex(done.stderr, f"^{line}$")

    def test_all_that_is_exported_is_tried(self) -> None:
        lines = output("nm", "-D", "--defined-only", COPIES).splitlines()
        self.assertEqual({line.split()[2] for line in lines}, set(names()))

    def test_right_uses(self) -> None:
        for preload in ("", COPIES, BOTH, f"{COPIES}:{LIBRARY}"):
            for name in names():
                done = run(FUNCTIONS, name, preload=preload)
                if preload == COPIES:
                    self.assertTrue(done.stderr.startswith(OFF), f"{done}")
                    done.stderr = ""
                self.assert_well(done)

    def test_right_uses_in_other_modes_and_of_samples(self) -> None:
        sampled = {"HAKMEM_PROF_RATE": "1", "HAKMEM_PROF_MOST": "0"}
        for more in ({}, sampled, sampled | {"HAKMEM_GUARD_SAMPLE": "1"}):
            for mode in MODES:
                for name in names():
                    self.assert_well(run(FUNCTIONS, name, HAKMEM_GUARD=mode, **more))

    def test_mistakes(self) -> None:
        for mode in MODES:
            for name, reads in names().items():
                for what in ("writes", "reads") if reads else ("writes",):
                    with self.subTest(mode=mode, name=name, what=what):
                        done = run(FUNCTIONS, name, what, HAKMEM_GUARD=mode)
                        self.assert_stopped(done, plain(name), what)

    def test_a_guarded_sample(self) -> None:
        """Its size is that of the request, and nothing lives behind it."""
        env = {"HAKMEM_PROF_RATE": "1", "HAKMEM_PROF_MOST": "0", "HAKMEM_GUARD_SAMPLE": "1"}
        for mode in MODES:
            self.assert_stopped(run(FUNCTIONS, "memcpy", "writes", HAKMEM_GUARD=mode, **env), "memcpy", "writes")

    def test_other_memory_is_not_looked_at(self) -> None:
        self.assert_well(run(FUNCTIONS, "on-own-memory"))

    def test_the_compilers_checks_stay(self) -> None:
        for preload in (BOTH, COPIES):
            done = run(FUNCTIONS, "object", preload=preload)
            self.assertEqual(done.returncode, -signal.SIGABRT)
            self.assertIn("buffer overflow detected", done.stderr)

    def test_without_a_library_it_says_once_that_it_is_off(self) -> None:
        done = run(FUNCTIONS, "memcpy", "writes", preload=COPIES)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count(OFF), 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_the_allocators_own_calls_are_known_by_their_address(self) -> None:
        """A call in a function's last place would have its caller's address."""
        code = output(OBJDUMP, "-d", "--no-show-raw-insn", LIBRARY)
        if "file format elf64-x86-64" not in code:
            self.skipTest("reads x86-64 code")
        exported = "|".join(map(re.escape, names()))
        self.assertGreater(len(re.findall(rf"\bcall\b.*<(?:{exported})@", code)), 10)
        self.assertEqual(re.findall(rf"^.*\bj\w+\b.*<(?:{exported})@.*$", code, re.MULTILINE), [])

    def test_the_tool_preloads_it(self) -> None:
        self.assert_well(run(TOOL, "run", "--check-copies", "--", FUNCTIONS, "memcpy", preload=""))
        done = run(TOOL, "run", "--check-copies", FUNCTIONS, "strcpy", "writes", preload="")
        self.assert_stopped(done, "strcpy", "writes")
        done = run(TOOL, "run", "--check-copies", "--", "/bin/sh", "-c", "echo $LD_PRELOAD", preload="")
        self.assertEqual(done.stdout.strip(), f"{os.path.realpath(LIBRARY)}:{os.path.realpath(COPIES)}")
        done = run(TOOL, "run", "--", FUNCTIONS, "memset", "writes", preload="")
        self.assertNotIn("beyond", done.stderr)

    def test_a_library_without_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder, "libhakmem.so")
            alone.write_bytes(Path(LIBRARY).read_bytes())
            done = run(TOOL, "run", "--check-copies", "--library", str(alone), "--", "/bin/true", preload="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the hardened build has one", done.stderr)

    def test_it_is_installed_beside_the_library(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            output(CMAKE, "--install", BUILD, "--prefix", folder)
            (library,) = Path(folder).rglob("libhakmem.so")
            copies = library.parent / "libhakmem-copies.so"
            self.assertTrue(copies.is_file() and (library.parent / "libhakmem-copies.so.0").is_file())
            done = run(TOOL, "run", "--library", str(library), "--check-copies", FUNCTIONS, "memcpy", "reads", preload="")
            self.assert_stopped(done, "memcpy", "reads")


if __name__ == "__main__":
    unittest.main()
