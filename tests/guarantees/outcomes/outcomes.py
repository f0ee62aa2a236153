#!/usr/bin/env python3
"""How programs end that misuse memory in the 51 ways of hardened_malloc's test directory, as its runner expects it.

usage: outcomes.py MODE LIBRARY PROGRAM     MODE: light full
Prints how many end so. Exit: 1 a program does not end as is said here; better is wrong as well: say so here then.
"""

import resource
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, __file__.rsplit("/", 2)[0])
from guarantees import environment  # noqa: E402

STOPPED, FAULT = -signal.SIGABRT, -signal.SIGSEGV
WELL = (
    "aligned_sized_delete_small aligned_sized_delete_small_min_align aligned_sized_delete_large free_sized_small "
    "free_sized_large read_after_free_small string_overflow malloc_object_size malloc_object_size_offset "
    "impossibly_large_malloc uninitialized_read_small uninitialized_read_large realloc_init large_array_growth "
    "malloc_object_size_zero calloc_overflow calloc_zeroed malloc_zero_different malloc_noreuse"
)
FAULTS = (
    "overflow_large_1_byte overflow_large_8_byte read_after_free_large read_zero_size write_after_free_large "
    "write_after_free_large_reuse write_zero_size"
)
# Why a program ends otherwise.
RUNS_ON = "a string that fills its block is followed by a byte that is not zero: a zero written there is seen"
ANSWERS = "hak_room says that no block lives there, and the program goes on"
KEPT = "a Large block is kept for the next one of its size, and its memory stays as it was"
NO_CANARY = "only full has canaries"
OTHERWISE = {
    "full": {
        "string_overflow": RUNS_ON,
        "invalid_malloc_object_size_small": ANSWERS,
        "invalid_malloc_object_size_small_quarantine": ANSWERS,
    },
    "light": {
        "invalid_aligned_sized_delete_large": "the size fits the block's class",
        "overflow_large_1_byte": "the guard is at the span's end",
        "overflow_large_8_byte": "the guard is at the span's end",
        "overflow_small_1_byte": NO_CANARY,
        "overflow_small_8_byte": NO_CANARY,
        "read_after_free_large": KEPT,
        "read_after_free_small": "the link in a free block's first two words is not zero",
        "string_overflow": "the next block begins there",
        "write_after_free_large": KEPT,
        "write_after_free_large_reuse": KEPT,
        "write_after_free_small_reuse": "the block has its next owner at once",
        "invalid_malloc_object_size_small": ANSWERS,
        "invalid_malloc_object_size_small_quarantine": ANSWERS,
    },
}
TIMEOUT = 60  # seconds


def wanted(name: str) -> int:
    return 0 if name in WELL.split() else FAULT if name in FAULTS.split() else STOPPED


def run(program: str, name: str, library: str, mode: str) -> int:
    done = subprocess.run(
        [program, name],
        env=environment(library, {"HAKMEM_GUARD": mode}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )
    if b"cannot be preloaded" in done.stderr or done.returncode == 2:
        sys.exit(f"{name}: not tried: {done.stderr!r}")
    return done.returncode


def main(mode: str, library: str, program: str) -> int:
    names = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    unknown = {*WELL.split(), *FAULTS.split(), *OTHERWISE[mode]} - set(names)
    wrong = [f"{name}: no such program" for name in sorted(unknown)]
    as_expected = 0
    for name in names:
        ended = run(program, name, library, mode)
        reason = OTHERWISE[mode].get(name)
        as_expected += ended == wanted(name)
        if (ended == wanted(name)) == (reason is not None):
            wrong.append(f"{name}: {ended}, wanted {wanted(name)}" + (f"; said here: {reason}" if reason else ""))
    print(f"{mode}: {as_expected} of {len(names)} end as hardened_malloc's runner expects")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
