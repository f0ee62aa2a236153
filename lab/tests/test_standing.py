"""Where hakmem stands: the words that the scorecard begins with."""

from dataclasses import replace
from pathlib import Path

import pytest
from scorecard_samples import EVEN, ROOT, ROWS, counted, in_row, suite

from hakmem_lab.base.paths import Paths
from hakmem_lab.cli.scorecard import kept_version, no_evidence
from hakmem_lab.run.results import Result
from hakmem_lab.scorecard.evidence import Evidence, Source
from hakmem_lab.scorecard.page import render_scorecard, whose_figures
from hakmem_lab.scorecard.standing import AHEAD, BEHIND, OPEN, standings


def evidence(*results: Result) -> Evidence:
    found = no_evidence(Paths(ROOT))
    for result in results:
        found.add(Source(f"{result.kind}.json", result))
    return found


def words(*results: Result) -> dict[str, tuple[str, str]]:
    return {s.title: (s.word, s.best) for s in standings(evidence(*results))}


def slower(name: str, factor: float) -> Result:
    return suite(lambda _row, who, _round: factor if who == name else 1.0)


def test_ahead_level_and_behind() -> None:
    time = "time on benchmarks"
    assert words(suite())[time] == (AHEAD, "mimalloc3")
    assert words(slower("hakmem", EVEN))[time] == (OPEN, "mimalloc3")
    assert words(slower("hakmem", EVEN * 1.05))[time] == (BEHIND, "mimalloc3")
    # Whom it is hardest to beat is another question for memory.
    assert words(suite())["peak memory on benchmarks"] == (AHEAD, "glibc")


def test_one_row_does_not_decide() -> None:
    assert words(suite(in_row("tree", hakmem=3.0)))["time on benchmarks"][0] == AHEAD


def test_rounds_that_differ_leave_it_open() -> None:
    def around(_row: str, name: str, round_: int) -> float:
        return EVEN * (1 + (round_ - 3.5) / 20) if name == "hakmem" else 1.0

    assert words(suite(around))["time on benchmarks"][0] == OPEN


def test_rounds_without_an_interval_leave_it_open() -> None:
    assert words(suite(rounds=2))["time on benchmarks"][0] == OPEN


def test_says_where_hakmem_failed() -> None:
    result = suite()
    row = next(row for row in result.rows if row.name == "tree")
    row.runs = [replace(r, failure="crashed") if r.allocator == "hakmem" else r for r in row.runs]
    (time, *_) = standings(evidence(result))
    assert time.basis == f"{len(ROWS) - 1} of {len(ROWS)} rows, without tree"


def test_instructions_are_counts() -> None:
    title = "instructions of a malloc and its free"
    assert words(counted(hakmem=38.0, glibc=90.0, mimalloc3=50.0))[title] == (AHEAD, "mimalloc3")
    assert words(counted(hakmem=51.0, glibc=90.0, mimalloc3=50.0))[title] == (BEHIND, "mimalloc3")


def test_the_page_begins_with_it() -> None:
    text = render_scorecard(evidence(), [], "9.9.9")
    found = [text.index(part) for part in ("A **goal** is", "## Where hakmem stands", "## Goals")]
    assert found == sorted(found)
    assert "No result has a peer to compare with." in text


def test_says_whose_figures_they_are() -> None:
    one = suite()
    one.settings["commit"] = "abc"
    (text, _) = whose_figures(evidence(one), "0.2.0", "0.1.0")
    assert "those of version 0.1.0**; 0.2.0 has not been measured yet." in text
    assert "of commit abc." in text
    other = replace(counted(hakmem=38.0), settings={"commit": "def"})
    (text, _) = whose_figures(evidence(one, other), "0.1.0", "0.1.0")
    assert "measured on 2 commits (abc: suite; def: instructions)" in text
    assert "`make results` measures all of them anew" in text


@pytest.mark.parametrize(("wanted", "found"), [("0.2.0", "0.1.10"), ("0.1.9", "0.1.9")])
def test_results_of_the_newest_version_there_is(tmp_path: Path, wanted: str, found: str) -> None:
    for name in ("suite-0.1.9.json.zst", "suite-0.1.10.json", "soak-0.1.2", "notes-abc.md"):
        (tmp_path / name).touch()
    assert kept_version(tmp_path, wanted) == found
    assert kept_version(tmp_path / "nowhere", "1.0.0") == "1.0.0"
