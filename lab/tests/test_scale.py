"""The model of many processors: what it must say where the answer is known, and how it is fed."""

from pathlib import Path

import pytest
from hakmem_lab.analysis.scale import (
    SECTIONS,
    Place,
    Workload,
    entered,
    first_limit,
    speedup,
    throughput,
    workload_of,
)
from hakmem_lab.base.errors import LabError
from hakmem_lab.cli.scale import parse_processors, table
from hakmem_lab.run.callgrind import Function, Profile
from hakmem_lab.run.measure import parse_throughput
from hakmem_lab.run.scale import OPERATIONS, Counted

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"


def test_threads_that_never_meet_scale_with_the_processors() -> None:
    alone = Workload("alone", 10.0, [])
    for processors in (1, 2, 64, 512):
        assert speedup(alone, processors, 100) == pytest.approx(processors)
    assert first_limit(alone, 100) is None


def test_one_lock_is_the_limit() -> None:
    locked = Workload("locked", 900.0, [Place("lock", 1, 100.0, lines=0)])
    assert throughput(locked, 1, 0) == pytest.approx(1 / 1000)
    assert throughput(locked, 512, 0) == pytest.approx(1 / 100, rel=1e-6)
    assert speedup(locked, 512, 0) == pytest.approx(10, rel=1e-6)
    assert first_limit(locked, 0) == ("lock", pytest.approx(10))


def test_two_threads_at_a_place_as_queueing_theory_has_it() -> None:
    # Think time Z, service S, two customers: X(2) = 2 / (Z + S (1 + S / (Z + S))).
    thinks, serves = 30.0, 10.0
    pair = Workload("pair", thinks, [Place("lock", 1, serves, lines=0)])
    expected = 2 / (thinks + serves * (1 + serves / (thinks + serves)))
    assert throughput(pair, 2, 0) == pytest.approx(expected)


def test_lines_that_move_cost_nothing_on_one_processor() -> None:
    place = Place("lock", 1, 50.0)
    assert place.service(100, 1) == 50.0
    assert place.service(100, 2) == pytest.approx(150.0)
    assert place.service(100, 512) == pytest.approx(249.6, abs=0.1)


def test_the_busiest_place_is_named() -> None:
    both = Workload("both", 1000.0, [Place("rare", 0.001, 500.0), Place("often", 0.5, 20.0)])
    limit = first_limit(both, 100)
    assert limit is not None
    assert limit[0] == "often"
    assert limit[1] == pytest.approx(1010.5 / 110)


def profile() -> Profile:
    found = Profile()
    main, acquire = Function("bench", "main"), Function("lib", "span_acquire")
    helper, clone = Function("lib", "span_take"), Function("lib", "span_release.part.0")
    found.own.update({main: 8000, acquire: 1000, helper: 500, clone: 500})
    found.calls.update(
        {(main, acquire): 1500, (acquire, helper): 500, (main, clone): 400, (acquire, clone): 100}
    )
    found.counts.update(
        {(main, acquire): 10, (acquire, helper): 10, (main, clone): 8, (acquire, clone): 2}
    )
    return found


def test_calls_from_inside_of_a_section_are_counted_once() -> None:
    assert entered(profile(), ("span_acquire", "span_release")) == (18, 1900)
    assert entered(profile(), ("nothing",)) == (0, 0)


def test_a_workload_adds_up_to_what_was_measured() -> None:
    workload = workload_of("row", Counted(100, 5000.0, 0.5, profile()))
    (place,) = workload.places
    assert place.name.startswith("slices")
    assert place.visits == pytest.approx(0.18)
    # 10,000 instructions in 2,500 ns outside of the kernel; 1,900 of them in 18 visits
    assert place.hold_ns == pytest.approx(1900 / 18 * 0.25)
    assert workload.alone_ns + place.visits * place.hold_ns == pytest.approx(50.0)


def test_a_place_that_the_longer_run_visited_less_is_none() -> None:
    fewer = profile()
    for call in fewer.counts:
        fewer.counts[call] = -fewer.counts[call]
    assert workload_of("row", Counted(100, 5000.0, 0.5, fewer)).places == []


def test_operations_are_read_out_of_what_a_benchmark_says() -> None:
    text = "allocator: x\npeak_rss_kb=10 minor_faults=3 operations=1000\ncpu_ns_per_op=2.500\n"
    assert parse_throughput(text, OPERATIONS) == 1000
    assert parse_throughput(text.replace("operations=1000", "operations=0"), OPERATIONS) is None


@pytest.mark.parametrize("text", ["", "0", "2,x", "5000", "-1"])
def test_processors_have_to_be_numbers(text: str) -> None:
    with pytest.raises(LabError, match="accepted are numbers from 1 to 4096"):
        parse_processors(text)


def test_the_table_has_a_line_for_each_row() -> None:
    lines = table([Workload("a", 10.0, []), Workload("b", 5.0, [Place("p", 1, 5.0)])], [2, 8], 0)
    assert lines[-2].startswith("| a | 10.0 | 2.0 | 8.0 | none | none |")
    assert lines[-1].startswith("| b | 10.0 |")
    assert lines[-1].endswith("| p, 1,000,000 x 5 ns | 2 |")


def test_the_sections_name_functions_that_there_are() -> None:
    sources = "\n".join(file.read_text() for file in SOURCES.rglob("*.c"))
    for section in SECTIONS:
        for function in section.functions:
            assert f" {function}(" in sources or f"*{function}(" in sources, function
