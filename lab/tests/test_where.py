"""Where the bytes of a peak are: figures whose truth is known."""

import csv
import io
import os
import subprocess
from pathlib import Path

import pytest
from conftest import compile_c
from htrace_writer import FREE, MALLOC, TOUCHED, write_trace
from trace_programs import NANOSECONDS

from hakmem_lab.analysis.where import (
    OURS,
    compose,
    compositions,
    missed,
    overall,
    where_words,
)
from hakmem_lab.report.html import Soaks, render
from hakmem_lab.report.where_table import as_csv, as_markdown
from hakmem_lab.run import memory_map
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.composition import is_known, split_ours
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.usable import usable_sizes
from hakmem_lab.trace.asked import Blocks, asked_for
from hakmem_lab.trace.htrace import read_trace
from hakmem_lab.trace.match import match

pytestmark = pytest.mark.slow
Monkey = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]

SMAPS = """
1000-3000 r-xp 00000000 08:01 11 /usr/bin/program
Rss: 8 kB
Pss: 4 kB
3000-4000 rw-p 00002000 08:01 11 /usr/bin/program
Rss: 4 kB
Pss: 4 kB
4000-6000 rw-p 00000000 00:00 0
Rss: 8 kB
Pss: 8 kB
9000-19000 rw-p 00000000 00:00 0 [heap]
Rss: 64 kB
Pss: 32 kB
20000-22000 rw-p 00000000 08:01 12 /opt/liballocator.so
Rss: 8 kB
Pss: 8 kB
22000-23000 rw-p 00000000 00:00 0
Rss: 4 kB
Pss: 4 kB
24000-25000 rw-p 00000000 00:00 0
Rss: 4 kB
Pss: 4 kB
7ff000-800000 rw-p 00000000 00:00 0 [stack]
Rss: 4 kB
Pss: 4 kB
"""


def test_kinds_of_mappings(monkeypatch: Monkey) -> None:
    """Behind the library's data lies a mapping with a page of it, and one of the heap."""
    behind = {"/usr/bin/program": 8, "/opt/liballocator.so": 2}
    monkeypatch.setattr(memory_map, "unwritten_kib", lambda path: behind[path])
    areas = memory_map.parse_areas(SMAPS)
    alone = memory_map.sums(areas, "/opt/liballocator.so", False)
    assert alone == {"heap": 70, "library": 10, "program": 20, "stack": 4}
    shared = memory_map.sums(areas, "", True)
    assert shared == {"heap": 38, "library": 0, "program": 26, "stack": 4}


def test_data_that_begin_as_zeros(tmp_path: Path) -> None:
    source = (
        "char zeros[1 << 20]; int main(int n, char **w) { zeros[n] = **w; return zeros[2 * n]; }"
    )
    kib = memory_map.unwritten_kib(str(compile_c(source, tmp_path / "zeros")))
    assert 1020 <= kib <= 1028
    assert memory_map.unwritten_kib("/etc/passwd") == memory_map.unwritten_kib("/none") == 0


def test_processes_below_this_one() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as process:
        try:
            for _ in range(1000):
                found = memory_map.descendants(os.getpid())
                if len(found) >= 2:
                    break
            assert process.pid in found and len(found) >= 2
            assert memory_map.resident_kib(process.pid) > 0
            assert memory_map.read_areas(process.pid)
        finally:
            for pid in memory_map.descendants(process.pid):
                os.kill(pid, 9)
            process.kill()
    assert memory_map.resident_kib(process.pid) == 0
    assert memory_map.read_areas(process.pid) == []


SAID = {
    "equation": {
        "live": 1000 << 10,
        "slack": 10 << 10,
        "caches": 400 << 10,
        "fragmentation": 90 << 10,
        "metadata": 60 << 10,
    },
    "parts": {"spans": 100 << 10, "free_slices": 50 << 10, "warm_pool": 0, "unused": 30 << 10},
    "classes": [{"memory": {"caches": 250 << 10}}],
    "threads": [
        {"bins": 300 << 10, "outgoing": 60 << 10, "inbox": 0},
        {"bins": 100 << 10, "outgoing": 0, "inbox": 40 << 10},
    ],
}


def test_the_parts_of_hakmem_add_up() -> None:
    ours = split_ours(SAID, 20)
    assert list(ours) == list(OURS)
    assert ours["transit_kb"] == 50  # a fifth of what bins and batches keep
    assert ours["bins_kb"] == 200
    assert (ours["free_kb"], ours["unused_kb"], ours["tables_kb"]) == (60, 30, 40)
    assert sum(ours.values()) == 1000 + 10 + 400 + 90 + 60 - 20


def test_what_was_asked_for_at_the_peak(tmp_path: Path) -> None:
    """Two blocks of 100, one of 24, and one of 1 MiB of which 3 pages were touched; before, a block
    that has gone by then, and behind the peak one that makes no new one."""
    events = {
        0: [
            (1, MALLOC, 0x10000, 4000, 0),
            (2, FREE, 0x10000, 0, 0),
            (3, MALLOC, 0x20000, 100, 0),
            (4, MALLOC, 0x30000, 100, 0),
            (5, MALLOC, 0x40000, 24, 0),
            (6, MALLOC, 0x100000, 1 << 20, 0),
            (7, TOUCHED, 0x100000, 3, 0),
            (8, FREE, 0x100000, 0, 0),
            (9, MALLOC, 0x50000, 50, 0),
        ]
    }
    file = write_trace(tmp_path / "a.htrace", events, information=NANOSECONDS)
    asked = asked_for(match(read_trace(file)))
    assert asked.blocks == (
        Blocks(24, 0, 1, 24, 1),
        Blocks(100, 0, 2, 200, 2),
        Blocks(1 << 20, 0, 1, 3 * 4096, 0),
    )
    assert (asked.count, asked.bytes, asked.touched) == (4, (1 << 20) + 224, 224 + 3 * 4096)
    assert asked.with_rounding([32, 112, 2 << 20], 8) == 32 + 2 * 112 + 3 * 4096 + 4 * 8


def test_a_build_under_another_name_is_known(tmp_path: Path) -> None:
    """By its link's target, and by what is in the file."""
    old, other = tmp_path / "old.so", tmp_path / "other.so"
    old.write_bytes(b"\x7fELF HAKMEM_PROFILE")
    other.write_bytes(b"\x7fELF")
    assert is_known(Allocator("now", "1", "s", "/none/libhakmem.so.0.1.0"))
    assert is_known(Allocator("old", "1", "s", str(old)))
    assert not is_known(Allocator("other", "1", "s", str(other)))
    assert not is_known(Allocator("glibc", "1", "s"))


def test_usable_sizes_of_glibc() -> None:
    glibc = Allocator("glibc", "1", "test")
    sizes = [(1, 0), (24, 0), (25, 0), (100, 64)]
    assert usable_sizes(glibc, sizes)[:3] == [24, 24, 40]


def result_of(asked: bool) -> Result:
    ours = dict.fromkeys(OURS, 10.0) | {"live_kb": 1000.0, "own_kb": 200.0}
    files = {"library_kb": 5.0, "program_kb": 50.0, "stack_kb": 5.0}
    on_hakmem = {**ours, **files, "polled_kb": 1350.0}
    on_glibc = {**files, "heap_kb": 1500.0, "polled_kb": 1560.0}
    row = RowResult("p", "program", "", "wall", 1.0, ["p"], {})
    for name, figures in (("glibc", on_glibc), ("hakmem", on_hakmem)):
        row.runs.append(Run(name, 1, 1, wall_s=1.0, peak_rss_kb=1600, figures=figures))
    settings: dict[str, object] = {"peers": ["glibc"], "base": "glibc"}
    if asked:
        rounded = {"hakmem": 1000 << 10, "glibc": 950 << 10}
        of_trace = {"bytes": 910 << 10, "blocks": 7, "touched": 900 << 10, "rounded": rounded}
        settings["asked"] = {"p": of_trace}
    machine = {
        "kernel": "k", "cpu_model": "c", "cpus": 1, "memory_mib": 1,
        "transparent_huge_pages": "h", "load_average": 0.0,
    }  # fmt: skip
    known = [Allocator("glibc", "1", "s"), Allocator("hakmem", "1", "s")]
    return Result("where", ["hakmem-lab", "where"], settings, machine, known, [row])


@pytest.mark.parametrize("asked", [False, True])
def test_parts_add_up_to_what_is_resident(asked: bool) -> None:
    result = result_of(asked)
    for one in compositions(result, result.rows[0]):
        assert sum(one.parts.values()) == pytest.approx(one.resident)
        assert one.parts["own_kb"] == 200  # glibc's too: it cannot be told there
        assert ("asked_kb" in one.parts) == asked


def test_what_was_asked_for_and_its_rounding() -> None:
    result = result_of(True)
    ours = compose(result, result.rows[0], "hakmem")
    theirs = compose(result, result.rows[0], "glibc")
    assert ours is not None and theirs is not None
    assert (ours.parts["asked_kb"], ours.parts["rounding_kb"]) == pytest.approx((900, 100))
    assert (theirs.parts["asked_kb"], theirs.parts["rounding_kb"]) == (900, 50)
    assert theirs.parts["kept_kb"] == 1300 - 950


def test_room_that_realloc_leaves_is_rounding() -> None:
    """More lives than was asked for at the peak with its rounding."""
    result = result_of(True)
    result.rows[0].runs[1].figures["live_kb"] = 1200
    ours = compose(result, result.rows[0], "hakmem")
    assert ours is not None
    assert (ours.parts["asked_kb"], ours.parts["rounding_kb"]) == pytest.approx((900, 300))


def test_a_look_that_missed_the_peak() -> None:
    result = result_of(True)
    assert missed(result) == [
        "p on hakmem: looked at 1.3 of the 1.6 MiB of the kernel's peak; the rest is in no part"
    ]


def test_words_and_exports() -> None:
    result = result_of(True)
    (line,) = where_words(result)
    assert line.startswith(
        "p at the peak: hakmem 1.3 MiB, of which 0.9 asked for, 0.2 the program's"
    )
    assert line.endswith("0.87 of glibc's")
    told = overall(result)
    assert told is not None and told.startswith("Where the bytes of the peak of p are on hakmem")
    assert "asked for by the program 67%" in told
    table = list(csv.DictReader(io.StringIO(as_csv(result))))
    sums = {
        name: sum(
            float(r["kib"]) for r in table if r["allocator"] == name and r["part"] != "resident"
        )
        for name in ("glibc", "hakmem")
    }
    assert sums == pytest.approx({"glibc": 1560, "hakmem": 1350}, abs=1)
    assert "| bins |" not in as_markdown(result)  # 0.01 MiB is among the small ones
    assert "| resident when looked at | 1.5 | 1.3 |" in as_markdown(result)
    page = render([(Path("w.json"), result)], Soaks())
    assert told.replace("'", "&#39;") in page and "slabs&#39; memory that was no block yet" in page
