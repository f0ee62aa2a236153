"""The loop: order, failures, Ctrl-C; and the figures of the tables on a result made by hand."""

import io
from collections.abc import Callable

import pytest
from conftest import GLIBC
from rich.console import Console

from hakmem_lab.analysis import summary
from hakmem_lab.report.show import print_result
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher, Run
from hakmem_lab.run.results import Result
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import Pace, Reporter, run_rounds

MACHINE = {
    "kernel": "Linux",
    "cpu_model": "test",
    "cpus": 2,
    "memory_mib": 1,
    "transparent_huge_pages": "never",
    "load_average": 0.0,
}
ROWS = [Row(name, ("p",), "wall", "single") for name in ("one", "two")]
NAMES = ("glibc", "hakmem", "mimalloc3")


def make_result(names: tuple[str, ...] = NAMES, kind: str = "suite") -> Result:
    chosen = [Allocator(name, "1", "test") for name in names]
    peers = [name for name in names if name != "hakmem"]
    return Result(kind, [], {"peers": peers}, MACHINE, chosen)


def quiet() -> Reporter:
    return Reporter(Console(file=io.StringIO()))


def printed(result: Result) -> str:
    text = io.StringIO()
    print_result(result, Console(file=text, width=200))
    return text.getvalue()


def test_rounds_are_interleaved() -> None:
    taken: list[tuple[str, str, int, int]] = []

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        taken.append((row.name, allocator.name, round_, position))
        return Run(allocator.name, round_, position, wall_s=1.0)

    result = make_result()
    saved: list[int] = []
    run_rounds(result, ROWS, 4, run, None, lambda r: saved.append(len(r.rows[0].runs)), quiet())
    assert len(taken) == 4 * 2 * 3
    assert saved == [3, 6, 9, 12]
    for index in range(8):  # each row of each round: every allocator once
        group = taken[3 * index : 3 * index + 3]
        assert sorted(name for _, name, _, _ in group) == sorted(NAMES)
        assert len({(row, round_) for row, _, round_, _ in group}) == 1
        assert [position for *_, position in group] == [1, 2, 3]
    assert [name for _, name, *_ in taken[:3]] != [name for _, name, *_ in taken[6:9]]


def test_a_failing_allocator_sits_out_and_the_rest_runs() -> None:
    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        failure = "SIGSEGV" if (row.name, allocator.name) == ("one", "hakmem") else None
        return Run(allocator.name, round_, position, wall_s=1.0, failure=failure)

    result = make_result()
    run_rounds(result, ROWS, 3, run, None, None, quiet())
    one, two = result.rows
    assert [run.allocator for run in one.runs].count("hakmem") == 1
    assert [run.allocator for run in two.runs].count("hakmem") == 3
    assert len(one.good_runs("mimalloc3")) == 3
    assert one.failure("hakmem") == "SIGSEGV"
    assert "one on hakmem: SIGSEGV" in printed(result)
    assert "one: failed: SIGSEGV" in printed(result)


def test_a_real_crash_is_reported_and_the_rest_runs(
    launcher: Launcher,
    make_row: Callable[..., Row],
    library: Callable[[str], Allocator],
) -> None:
    result = make_result()
    result.allocators = [GLIBC, library("abort"), library("bump")]
    row = make_row("ops", "20000", measure="throughput")
    run_rounds(result, [row], 2, launcher.run, None, None, quiet())
    assert result.rows[0].failure("abort") == "SIGABRT: broken: no malloc today"
    assert len(result.rows[0].good_runs("glibc")) == 2
    assert len(result.rows[0].good_runs("bump")) == 2
    assert "ops on abort: SIGABRT: broken: no malloc today" in printed(result)


def test_ctrl_c_keeps_the_finished_runs() -> None:
    count = 0

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        nonlocal count
        count += 1
        if count == 11:
            raise KeyboardInterrupt
        return Run(allocator.name, round_, position, wall_s=1.0, peak_rss_kb=1024)

    result = make_result()
    run_rounds(result, ROWS, 5, run, None, None, quiet())
    assert result.interrupted
    assert sum(len(row.runs) for row in result.rows) == 10
    text = printed(result)
    assert "stopped before the end" in text
    assert "two" in text and "Geometric means" in text


def test_ctrl_c_before_the_first_run_leaves_a_result() -> None:
    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        raise KeyboardInterrupt

    result = make_result()
    run_rounds(result, ROWS, 5, run, None, None, quiet())
    assert result.interrupted and not result.rows[0].runs
    assert "stopped before the end" in printed(result)


def test_missing_rows_and_allocators_are_not_run_but_named() -> None:
    result = make_result()
    result.allocators[2] = Allocator("mimalloc3", "1", "test", missing="no cargo")
    rows = [ROWS[0], Row("away", ("q",), "cpu", "large", missing="not built")]
    run_rounds(
        result, rows, 1, lambda r, a, i, p: Run(a.name, i, p, wall_s=1.0), None, None, quiet()
    )
    assert [run.allocator for run in result.rows[0].runs] == ["glibc", "hakmem"]
    assert not result.rows[1].runs
    text = printed(result)
    assert "away: not built" in text and "missing: no cargo" in text
    assert summary.baseline_of(result) == "glibc"


def test_system_calls_are_counted_once_before_the_rounds() -> None:
    events: list[str] = []

    def count(row: Row, allocator: Allocator) -> dict[str, int] | None:
        events.append("count")
        return {"mmap": 3, "brk": 4} if allocator.name != "glibc" else None

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        events.append("run")
        return Run(allocator.name, round_, position, wall_s=1.0)

    result = make_result()
    run_rounds(result, ROWS, 2, run, count, None, quiet())
    assert events == ["count"] * 6 + ["run"] * 12
    assert summary.system_calls(result.rows[0], "hakmem") == 7
    assert summary.system_calls(result.rows[0], "glibc") is None
    assert "hakmem: brk 8, mmap 6" in printed(result)


def test_time_left() -> None:
    pace = Pace(["a", "a", "b", "c"])
    assert pace.seconds_left() == 0
    pace.finish("a", 2.0)
    assert pace.seconds_left() == 6.0  # a again, and two guesses
    pace.finish("b", 10.0)
    assert pace.seconds_left() == 2.0 + 6.0
    pace.drop("c")
    assert pace.seconds_left() == 2.0


def known_result() -> Result:
    """hakmem takes 2 s of best glibc's 1 s on `one`, and half of it on `two`."""
    seconds = {
        "one": {"glibc": 1.0, "hakmem": 2.0, "mimalloc3": 4.0},
        "two": {"glibc": 1.0, "hakmem": 0.5, "mimalloc3": 1.0},
    }
    memory = {"glibc": 100, "hakmem": 400, "mimalloc3": 200}

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        name = allocator.name
        wall = seconds[row.name][name] * (1 + 0.01 * round_)
        return Run(name, round_, position, wall_s=wall, peak_rss_kb=memory[name], minor_faults=5)

    result = make_result()
    run_rounds(result, ROWS, 6, run, None, None, quiet())
    return result


def test_ratios_bests_and_means() -> None:
    result = known_result()
    one, two = result.rows
    peers = summary.peers_of(result)
    assert peers == ["glibc", "mimalloc3"]
    assert summary.subjects_of(result) == ["hakmem"]
    assert summary.best_by_cost(one, peers) == "glibc"
    ratio = summary.cost_ratio(one, "hakmem", "glibc")
    assert ratio is not None and (ratio.low, ratio.value, ratio.high) == pytest.approx((2, 2, 2))
    assert summary.lowest_memory(two, summary.memory_peers(result)) == "mimalloc3"
    means = {means.allocator: means for means in summary.geometric_means(result)}
    hakmem = means["hakmem"]
    assert hakmem.time is not None and hakmem.memory is not None
    assert hakmem.time.value == pytest.approx(0.5)  # of 0.5 and 0.5
    assert hakmem.memory.value == pytest.approx(2.0)
    assert hakmem.time_to_best == pytest.approx(2**0.5)  # of 2 and 1


def test_what_falls_short() -> None:
    result = known_result()
    assert summary.suite_shortfalls(result, "hakmem") == [
        "one: time 2.00 x glibc, at most 1.03",
        "one: peak memory 2.00 x mimalloc3, at most 1.15",
        "two: peak memory 2.00 x mimalloc3, at most 1.15",
    ]
    result.rows[1].bar = 0.4
    assert "two: time 0.50 x glibc, at most 0.41" in summary.suite_shortfalls(result, "hakmem")


def test_throughput_with_many_threads_is_held_against_few() -> None:
    per_second = {"mixed-2T": 100.0, "mixed-64T": 80.0, "handoff-1-1": 10.0, "handoff-32-32": 10.0}
    rows = [
        Row(name, ("p",), "throughput", "threads" if index % 2 == 0 else "many-threads")
        for index, name in enumerate(per_second)
    ]

    kept = {"hakmem": 1.0, "glibc": 0.5, "mimalloc3": 1.5}  # of mixed-64T's

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        factor = kept.get(allocator.name, 1.0) if row.name == "mixed-64T" else 1.0
        return Run(allocator.name, round_, position, throughput_per_s=factor * per_second[row.name])

    result = make_result()
    run_rounds(result, rows, 3, run, None, None, quiet())
    few, many, _, handoff = result.rows
    peers = summary.peers_of(result)
    assert summary.scaling_ratio(result, few, "hakmem", peers) is None
    assert summary.scaling(result, few, "hakmem") is None
    assert summary.scaling(result, many, "hakmem") == pytest.approx(0.8)
    assert summary.scaling(result, handoff, "hakmem") == pytest.approx(1.0)
    # The median of two peers lies between them: no more than hakmem keeps.
    assert not [s for s in summary.suite_shortfalls(result, "hakmem") if "throughput" in s]
    kept["glibc"] = 1.3
    result = make_result()
    run_rounds(result, rows, 3, run, None, None, quiet())
    shortfalls = summary.suite_shortfalls(result, "hakmem")
    assert "mixed-64T: throughput 0.80 x that of mixed-2T; the median peer's 1.12 x" in shortfalls
    assert "Many threads" in printed(result)


def test_tables_show_the_figures() -> None:
    text = printed(known_result())
    assert "2.00 [2.00, 2.00]" in text
    assert "hakmem falls short in 3:" in text


def test_outputs_are_compared_with_glibcs() -> None:
    result = make_result(kind="programs")
    outputs = {"one": {"glibc": "x", "hakmem": "x", "mimalloc3": "y"}, "two": {}}

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        output = outputs[row.name].get(allocator.name, str(round_))
        return Run(allocator.name, round_, position, wall_s=1.0, peak_rss_kb=9, output=output)

    run_rounds(result, ROWS, 2, run, None, None, quiet())
    one, two = result.rows
    assert summary.output_verdict(one, "hakmem") == "same"
    assert summary.output_verdict(one, "mimalloc3") == "differs"
    assert summary.output_verdict(two, "hakmem") == "varies"
    assert "one on mimalloc3" in printed(result)
    assert summary.program_shortfalls(result, "mimalloc3") == [
        "one: output differs from that on glibc"
    ]
