"""What an allocator makes of sizes: usable sizes, asked of the allocator itself in a Python that it
is preloaded into."""

import json
import subprocess
import sys
from collections.abc import Sequence

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import clean_environment, last_lines

SECONDS = 120.0
# A block's header at glibc, which its usable size does not contain. The others that are known keep
# none beside their blocks.
GLIBC_HEADER = 8
PROGRAM = """
import ctypes, json, sys

class Object(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("file", "base", "symbol", "address")]

libc = ctypes.CDLL("libc.so.6")
own = ctypes.CDLL(sys.argv[1])

def base_of(function):
    found = Object()
    libc.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(found))
    return found.base

if base_of(own.malloc) != base_of(own.malloc_usable_size):
    sys.exit("it has no malloc_usable_size")
for name in ("malloc", "aligned_alloc"):
    getattr(own, name).restype = ctypes.c_void_p
own.malloc.argtypes = [ctypes.c_size_t]
own.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
own.malloc_usable_size.restype = ctypes.c_size_t
own.malloc_usable_size.argtypes = own.free.argtypes = [ctypes.c_void_p]
usable = []
for size, alignment in json.load(sys.stdin):
    blocks = [
        own.aligned_alloc(alignment, size) if alignment > 16 else own.malloc(size)
        for _ in range(1 + min(31, (1 << 20) // max(1, size)))
    ]
    usable.append(min(own.malloc_usable_size(block) if block else size for block in blocks))
    for block in blocks:
        own.free(block)
print(json.dumps(usable))
"""


def header_of(allocator: Allocator) -> int:
    return GLIBC_HEADER if allocator.name == "glibc" else 0


def usable_sizes(allocator: Allocator, sizes: Sequence[tuple[int, int]]) -> list[int]:
    """The usable size of a block of each (size, alignment): the smallest of several, since the
    first ones may be larger blocks that had been free."""
    preload = {"LD_PRELOAD": allocator.library} if allocator.library else {}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROGRAM, allocator.library or "libc.so.6"],
            env=clean_environment(allocator.environment, preload),
            input=json.dumps(list(sizes)),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        usable = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{allocator.name}: its usable sizes cannot be asked: {error}") from None
    if not isinstance(usable, list) or len(usable) != len(sizes):
        said = last_lines(done.stderr) or f"exit code {done.returncode}"
        raise LabError(f"{allocator.name}: its usable sizes cannot be asked: {said}")
    return [int(size) for size in usable]
