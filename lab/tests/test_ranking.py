"""rank: whether two results put the allocators in the same order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import in_this_process
from samples import MACHINE
from test_verdict import SPREAD, result_of, row_of

from hakmem_lab.analysis.ranking import ahead, common_allocators, compare_orders
from hakmem_lab.analysis.verdict import memory_by_round
from hakmem_lab.run.results import Result, RowResult, write_result


def rows(first: dict[str, float], second: dict[str, float], noise: float = 1.0) -> list[RowResult]:
    """Two rows with these times; `noise`: how much wider than SPREAD."""
    generator = np.random.default_rng(3)
    return [
        row_of(
            {
                name: list(seconds * (1 + (generator.permutation(SPREAD) - 1) * noise))
                for name, seconds in costs.items()
            }
        )
        for costs in (first, second)
    ]


NAMES = ["a", "b", "c"]


def test_the_same_order() -> None:
    first, second = rows({"a": 1.0, "b": 1.1, "c": 1.2}, {"a": 0.1, "b": 0.2, "c": 0.3})
    pairs = compare_orders(first, second, NAMES, RowResult.costs)
    assert (pairs.all, pairs.first, pairs.second) == (3, 3, 3)
    assert pairs.alike == [("a", "b"), ("a", "c"), ("b", "c")]
    assert pairs.opposite == []
    assert pairs.tau == pytest.approx(1)


def test_the_other_way_round() -> None:
    first, second = rows({"a": 1.0, "b": 1.1, "c": 1.2}, {"a": 3.0, "b": 2.0, "c": 4.0})
    pairs = compare_orders(first, second, NAMES, RowResult.costs)
    assert pairs.opposite == [("a", "b")]
    assert pairs.alike == [("a", "c"), ("b", "c")]
    assert pairs.tau == pytest.approx(1 / 3)


def test_noise_does_not_count() -> None:
    first, second = rows({"a": 1.0, "b": 1.01, "c": 2.0}, {"a": 1.01, "b": 1.0, "c": 2.0}, 20)
    pairs = compare_orders(first, second, NAMES, RowResult.costs)
    assert (pairs.first, pairs.second) == (2, 2)
    assert pairs.alike == [("a", "c"), ("b", "c")]
    assert pairs.opposite == []


def test_memory_without_any_spread() -> None:
    row = row_of({"a": [1.0] * 6, "b": [1.0] * 6, "c": [1.0] * 6})
    row.runs = [replace(r, peak_rss_kb=100_000 + (r.allocator == "b")) for r in row.runs]
    assert ahead(row, memory_by_round, "a", "b") == "a"
    assert ahead(row, memory_by_round, "b", "c") == "c"
    assert ahead(row, memory_by_round, "a", "c") is None
    assert ahead(row, memory_by_round, "a", "away") is None


def test_two_runs_tell_nothing_apart() -> None:
    row = row_of({"a": [1.0, 1.1], "b": [2.0, 2.1]})
    assert ahead(row, RowResult.costs, "a", "b") is None


def test_what_ran_in_both() -> None:
    first, second = rows({"a": 1.0, "b": 1.1}, {"b": 1.0, "c": 1.1})
    assert common_allocators(first, second, result_of(first)) == ["b"]


def complete(row: RowResult) -> Result:
    """With all that a result file has to have."""
    result = result_of(row)
    result.command = ["hakmem-lab", "compare"]
    result.machine = MACHINE
    return result


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = rows({"a": 1.0, "b": 1.1, "c": 1.2}, {"a": 3.0, "b": 2.0, "c": 4.0})
    files = tmp_path / "program.json", tmp_path / "replay.json"
    for row, file in zip((first, second), files, strict=True):
        write_result(complete(row), file)
    code, out, err = in_this_process(monkeypatch, capsys, "rank", *files)
    assert (code, err) == (0, "")
    assert (
        "time: of 3 pairs the first tells 3 apart, the second 3, both 3: 2 the same way, 1" in out
    )
    assert "  a ahead of b in the first, behind it in the second" in out
    assert "peak memory: of 3 pairs the first tells 0 apart" in out
    assert "Kendall's tau of the medians unknown" in out  # all peaks are the same

    code, out, err = in_this_process(monkeypatch, capsys, "rank", *files, "--row", "other")
    assert (code, out) == (2, "")
    assert "no row other; it has job" in err

    write_result(complete(row_of({"a": [1.0], "z": [1.0]})), files[1])
    code, out, err = in_this_process(monkeypatch, capsys, "rank", *files)
    assert (code, out) == (2, "")
    assert "fewer than two allocators ran in both" in err
