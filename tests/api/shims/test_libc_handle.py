#!/usr/bin/env python3
"""Blocks go from the program's malloc to the free of libc's own handle, and back (docs/decisions/0031).

usage: test_libc_handle.py LIBRARY [unittest's arguments]
"""
import os
import shutil
import subprocess
import sys
import unittest

library = sys.argv[1]

CTYPES = """
import ctypes
import sys
libc, program = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
for each in libc, program:
    for name in "malloc", "calloc", "realloc", "strdup":
        getattr(each, name).restype = ctypes.c_void_p
    each.malloc.argtypes = [ctypes.c_size_t]
    each.calloc.argtypes = [ctypes.c_size_t] * 2
    each.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    each.free.argtypes = [ctypes.c_void_p]
    each.strdup.argtypes = [ctypes.c_char_p]
for size in 1, 24, 1000, 30000, 200000, 5000000:
    for one, other in (libc, program), (program, libc):
        other.free(one.malloc(size))
        other.free(one.calloc(1, size))
        other.free(one.realloc(other.malloc(size), 3 * size))
        other.free(one.strdup(b"x" * min(size, 1000)))
print("done")
"""

FIDDLE = """
require "fiddle"
handle = Fiddle.dlopen("libc.so.6")
program = Fiddle::Handle::DEFAULT
pointer, size, nothing = Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_VOID
make = ->(from) { Fiddle::Function.new(from["malloc"], [size], pointer) }
drop = ->(from) { Fiddle::Function.new(from["free"], [pointer], nothing) }
100.times { drop[handle].call(make[program].call(100)); drop[program].call(make[handle].call(100)) }
puts "done"
"""


def run(*command):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
    return subprocess.run(command, env=env | {"LD_PRELOAD": library}, capture_output=True, text=True, timeout=120)


class Handle(unittest.TestCase):
    def check(self, *command):
        done = run(*command)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr[-2000:])

    def test_ctypes(self):
        self.check(sys.executable, "-c", CTYPES, "libc.so.6")

    def test_ctypes_by_path(self):
        with open("/proc/self/maps", encoding="utf-8") as maps:
            path = next(line.split()[-1] for line in maps if "/libc.so.6" in line)
        self.check(sys.executable, "-c", CTYPES, path)

    @unittest.skipIf(shutil.which("ruby") is None, "ruby is not installed")
    def test_fiddle(self):
        self.check("ruby", "-e", FIDDLE)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
