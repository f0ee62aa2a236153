"""hakmem.*: what a program learns of the allocator that it runs on."""

import importlib.metadata
import json
import os
import signal
import sys

import pytest
from conftest import HAKMEM, on_hakmem, run

import hakmem

MIB = 1 << 20
ASKING = [
    hakmem.heap_stats,
    hakmem.memory_stats,
    hakmem.class_stats,
    hakmem.trim,
    hakmem.version,
    hakmem.variant,
    hakmem.loaded_library,
]


def test_it_serves_the_process() -> None:
    found = on_hakmem(
        "import hakmem, json; print(json.dumps([hakmem.is_active(), hakmem.version(),"
        " hakmem.variant(), hakmem.loaded_library()]))"
    )
    assert found == [
        True,
        importlib.metadata.version("hakmem"),
        "standard",
        hakmem.library_path(),
    ]


@pytest.mark.parametrize("function", ASKING, ids=lambda function: function.__name__)
def test_a_process_on_libc_is_told_what_to_do(function) -> None:  # type: ignore[no-untyped-def]
    assert not hakmem.is_active()
    with pytest.raises(hakmem.NotActiveError, match=r"not loaded.*hakmem run python"):
        function()


def test_a_traceback_names_the_error_as_programs_import_it() -> None:
    error = hakmem.NotActiveError
    assert f"{error.__module__}.{error.__qualname__}" == "hakmem.NotActiveError"


def test_a_process_sent_to_libc_is_told_so() -> None:
    code = (
        "import hakmem, json\n"
        "try: hakmem.heap_stats()\n"
        "except hakmem.NotActiveError as error: print(json.dumps([hakmem.is_active(), str(error)]))"
    )
    active, why = on_hakmem(code, HAKMEM_FORCE_LIBC_ALLOC="1")
    assert not active
    assert "HAKMEM_FORCE_LIBC_ALLOC" in why


def test_live_memory_is_what_the_program_holds() -> None:
    code = """
import hakmem, json
before = hakmem.memory_stats()
held = [bytearray(8000) for _ in range(8000)]
during = hakmem.memory_stats()
del held
after = hakmem.memory_stats()
print(json.dumps([during.live - before.live, after.live - before.live,
                  during.resident - before.resident]))
"""
    grown, left, resident = on_hakmem(code)
    asked = 8000 * 8000
    assert asked <= grown <= asked * 1.125 + MIB  # README: at most 12.5% is lost to rounding
    assert abs(left) < MIB
    assert resident >= asked * 0.95


def test_trim_gives_back_what_is_unused() -> None:
    code = """
import hakmem, json
held = [bytearray(30000) for _ in range(2000)]
del held
before = hakmem.memory_stats()
given = hakmem.trim()
after = hakmem.memory_stats()
again = hakmem.trim()
print(json.dumps([before.bins + before.cached, after.bins + after.cached, given,
                  before.resident - after.resident, again]))
"""
    # Given back only by trim, not by the clock.
    kept, left, given, resident, again = on_hakmem(code, "--profile", "speed")
    assert kept > 16 * MIB
    assert left < MIB
    assert given >= (kept - left) * 0.9
    assert resident > given / 2
    assert again < MIB


def test_huge_blocks_are_counted() -> None:
    code = """
import hakmem, json
before = hakmem.heap_stats()
held = [bytearray(8 << 20) for _ in range(3)]
during = hakmem.heap_stats()
del held
after = hakmem.heap_stats()
print(json.dumps([during.huge_live - before.huge_live, during.huge_bytes - before.huge_bytes,
                  after.huge_live - before.huge_live, during.os_mmap, during.bytes_metadata]))
"""
    more, more_bytes, left, maps, metadata = on_hakmem(code)
    assert more == 3
    assert 24 * MIB <= more_bytes <= 33 * MIB
    assert left == 0
    assert maps > 0
    assert metadata > 0


def test_classes() -> None:
    code = """
import hakmem, json
held = [bytearray(5000) for _ in range(1000)]
print(json.dumps([[c.tier, c.tier.name, c.counting, c.block_size, c.alloc, c.fast + c.slow, c.free,
                   c.free_fast_local + c.free_remote] for c in hakmem.class_stats()]))
"""
    for options, counting in ((), False), (("--stats=json",), True):
        classes = on_hakmem(code, *options)
        sizes = [c[3] for c in classes]
        assert [c[1] for c in classes[-2:]] == ["LARGE", "HUGE"]
        assert {c[1] for c in classes[:-2]} == {"SMALL"}
        assert sizes[:-2] == sorted(set(sizes[:-2]))
        assert sizes[0] == 16
        assert sizes[-3] == 65536
        assert all(c[2] is counting for c in classes)
        assert all(c[4] == c[5] and c[6] == c[7] for c in classes)
        served = next(c for c in classes if c[3] >= 5001)
        assert served[4] >= 1000 if counting else served[4] == 0


def test_small_objects_are_pythons_own_unless_told_otherwise() -> None:
    code = """
import hakmem, json
before = hakmem.memory_stats().live
held = [(number, number) for number in range(300000)]
print(hakmem.memory_stats().live - before)
"""
    list_alone = 300000 * 8
    assert on_hakmem(code) < list_alone * 2
    assert on_hakmem(code, PYTHONMALLOC="malloc") > 300000 * 56


def test_any_thread_may_ask() -> None:
    code = """
import hakmem, json, threading
failed = []
def work(number):
    try:
        for _ in range(200):
            held = [bytearray(3000 + number) for _ in range(20)]
            assert hakmem.memory_stats().live > 0 and hakmem.heap_stats().heaps_active > 0
            assert len(hakmem.class_stats()) > 50 and hakmem.trim() >= 0
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(failed))
"""
    assert on_hakmem(code) == []


def test_a_forked_child_has_its_own_figures() -> None:
    code = """
import hakmem, json, os
held = bytearray(16 << 20)
before = hakmem.memory_stats().live
reads, writes = os.pipe()
if os.fork() == 0:
    held = None
    hakmem.trim()
    os.write(writes, json.dumps([hakmem.is_active(), hakmem.memory_stats().live]).encode())
    os._exit(0)
os.wait()
print(json.dumps([json.loads(os.read(reads, 1000)), before, hakmem.memory_stats().live]))
"""
    (active, in_child), before, after = on_hakmem(code)
    assert active
    assert in_child < before - 15 * MIB
    assert abs(after - before) < MIB


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_run_on_it(method: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import hakmem, json, multiprocessing, os
def work(number):
    held = [bytearray(2000) for _ in range(number)]
    return os.getpid(), hakmem.is_active(), hakmem.memory_stats().live > number * 2000
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(json.dumps([os.getpid(), pool.map(work, [1000, 2000, 3000, 4000])]))
"""
    )
    done = run([*HAKMEM, "run", sys.executable, str(program)])
    assert done.returncode == 0, done.stderr
    parent, answers = json.loads(done.stdout)
    assert all(active and enough for _, active, enough in answers)
    assert parent not in {pid for pid, _, _ in answers}


def test_preloaded_without_the_tool() -> None:
    done = run(
        [sys.executable, "-c", "import hakmem; print(hakmem.is_active())"],
        LD_PRELOAD=hakmem.library_path(),
    )
    assert done.stdout == "True\n", done.stderr


def test_hardened_stops_a_double_free() -> None:
    code = """
import ctypes, hakmem
print(hakmem.variant(), flush=True)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
block = libc.malloc(100)
libc.free(block)
libc.free(block)
print("survived")
"""
    done = run([*HAKMEM, "run", "--variant", "hardened", sys.executable, "-c", code])
    assert done.stdout == "hardened\n"
    assert done.returncode == -signal.SIGABRT
    assert "double free" in done.stderr


def test_paths() -> None:
    standard = hakmem.library_path()
    hardened = hakmem.library_path("hardened")
    assert os.path.isabs(standard)
    assert os.path.isabs(hardened)
    assert os.path.dirname(standard) != os.path.dirname(hardened)
    assert os.access(hakmem.tool_path(), os.X_OK)
    with pytest.raises(ValueError, match="'fast': unknown; one of standard, hardened"):
        hakmem.library_path("fast")
