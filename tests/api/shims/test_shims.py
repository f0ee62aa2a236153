#!/usr/bin/env python3
"""Programs on libhakmem.so beside a library whose functions, in the place of libc's, allocate at each call: none of them hangs.

usage: test_shims.py LIBRARY PROGRAM [unittest's arguments]
"""
import os
import platform
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import allocating

library, program = sys.argv[1:3]
HANGS_AFTER = float(os.environ.get("HAK_TEST_HANGS_AFTER", "120"))  # seconds: these programs take two on a machine of their own
VARIANT = os.environ.get("HAK_TEST_VARIANT", "standard")
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def run(command, preload, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
    env.update(environment, LD_PRELOAD=":".join(map(str, preload)))
    try:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANGS_AFTER)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{command} hangs with {preload}") from None


@unittest.skipUnless(platform.machine() == "x86_64", "the functions are written in assembly of x86-64")
class Allocating(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.shim, cls.names = allocating.build(library, Path(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def in_both_orders(self, command, expected, **environment):
        called = Path(self.folder.name) / "called"
        for preload in ((self.shim, library), (library, self.shim)):
            with self.subTest(command=command, first=preload[0]):
                done = run(command, preload, SHIM_CALLED=str(called), **environment)
                self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr[-2000:])
        return set(called.read_text().split())

    def test_programs_of_all_shapes(self):
        called = set()
        for shape in ("one", "threads", "forks", "idle"):
            called |= self.in_both_orders([program, shape], "done\n", HAKMEM_WARM_POOL_DECAY_MS="200")
        # Else nothing was tested: these are called while locks were held, or pages go.
        self.assertLessEqual({"madvise", "munmap", "pthread_create", "pthread_setspecific"} & set(self.names), called)

    def test_number_of_threads_is_asked_past_libc(self):
        # malloc asks for it before each try to start the helper thread. A function in its place that allocates itself, at each call and
        # not only when it is not within one, came back without end.
        self.assertFalse({"fstatat", "fstatat64", "__fxstatat", "__fxstatat64"} & set(self.names))

    def test_options(self):
        environment = {"HAKMEM_STATS_SIGNAL": "USR2", "HAKMEM_STATS_FILE": os.path.join(self.folder.name, "stats"),
                       "HAKMEM_PROFILE": "nonsense", "HAKMEM_SAMPLE_KB": "16", "HAKMEM_NONSENSE": "1"}  # fmt: skip
        self.in_both_orders([program, "threads"], "done\n", **environment)

    def test_counting(self):
        self.in_both_orders([program, "threads"], "done\n", HAKMEM_TINY_HEAP_STATS="1")

    def test_lean(self):
        self.in_both_orders([program, "idle"], "done\n", HAKMEM_PROFILE="lean", HAKMEM_WARM_POOL_DECAY_MS="200")

    if VARIANT == "hardened":  # whose checks these are

        def test_full_guard(self):
            for shape in ("one", "threads", "forks", "idle"):
                self.in_both_orders([program, shape], "done\n", HAKMEM_GUARD="full", HAKMEM_WARM_POOL_DECAY_MS="200")

    def test_lazily(self):
        self.in_both_orders([program, "idle"], "done\n", HAKMEM_SS_MEM_LEAN_DECOMMIT="FREE",
                            HAKMEM_WARM_POOL_DECAY_MS="200")  # fmt: skip

    def test_shell_and_python(self):
        self.in_both_orders(["sh", "-c", "echo $(echo one) two"], "one two\n")
        text = "import threading; t = threading.Thread(target=lambda: print(len([0] * 10**6))); t.start(); t.join()"
        self.in_both_orders([sys.executable, "-c", text], "1000000\n")


@unittest.skipIf(FAKETIME is None, "libfaketime is not installed (package faketime)")
class Faketime(unittest.TestCase):
    def in_both_orders(self, command, expected):
        for preload in ((FAKETIME, library), (library, FAKETIME)):
            with self.subTest(command=command, first=preload[0]):
                done = run(command, preload, FAKETIME="2001-02-03 04:05:06")
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertRegex(done.stdout, expected)

    def test_date(self):
        self.in_both_orders(["date", "+%Y"], "^2001\n")

    def test_perl(self):
        self.in_both_orders(["perl", "-e", "@a = map { $_ x 100 } 1..100000; print 1900 + (localtime)[5]"], "^2001$")

    def test_python_threads(self):
        text = ("import threading, time\n"
                "def work():\n"
                "    for _ in range(20): list(map(str, range(20000))), bytearray(5 << 20), time.time()\n"
                "threads = [threading.Thread(target=work) for _ in range(4)]\n"
                "[t.start() for t in threads], [t.join() for t in threads]\n"
                "print(time.localtime().tm_year)\n")  # fmt: skip
        self.in_both_orders([sys.executable, "-c", text], "^2001\n")

    def test_all_shapes(self):
        for shape in ("one", "threads", "forks", "idle"):
            self.in_both_orders([program, shape], "^done\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
