"""The chart of a suite, and what a report says first."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import in_this_process
from samples import HOSTILE, ROUNDS, row_of, steady, suite, write_samples

from hakmem_lab.analysis.soak import Judgement
from hakmem_lab.report.chart import NARROW, WIDE, Overview, draw, overview_of
from hakmem_lab.report.opening import LINES_MOST, opening_lines, section_names
from hakmem_lab.run.results import Result, read_result

ROOT = Path(__file__).resolve().parents[2]
CHARTS = {"overview.svg": WIDE, "overview-narrow.svg": NARROW}


def overview(result: Result | None = None) -> Overview:
    found = overview_of(result or suite())
    assert found is not None
    return found


def slower_row(name: str, times: float) -> Result:
    """The samples' suite; on one row more hakmem needs `times` what it needs on the others."""
    result = suite()
    row = row_of(name, 1, ["b/tree"])
    row.runs = [
        replace(run, throughput_per_s=(run.throughput_per_s or 0) / times)
        if run.allocator == "hakmem"
        else run
        for run in row.runs
    ]
    result.rows.append(row)
    return result


def test_ratios_are_the_peers_to_hakmems() -> None:
    found = overview()
    assert (found.subject, found.rows, found.rounds) == ("hakmem 0.1.0", 14, ROUNDS)
    assert [peer.name for peer in found.peers] == ["mimalloc3", "glibc"]  # the fastest first
    assert found.peers[0].time.mean.value == pytest.approx(10 / 8)
    assert found.peers[1].time.mean.value == pytest.approx(11 / 8)
    assert found.peers[1].memory.mean.value == pytest.approx(1800 / 2000, rel=1e-3)


def test_rows_that_are_lost_are_counted_and_drawn() -> None:
    assert overview().peers[0].time.lost == 0
    assert overview().peers[1].memory.lost == 14
    result = slower_row("slow", 4)
    assert overview(result).peers[0].time.lost == 1
    drawn = draw(overview(result), WIDE)
    assert drawn.count('class="bar bad"') == 1  # memory of glibc
    assert drawn.count('class="bar good"') == 3
    assert ">1/15<" in drawn and ">15/15<" not in drawn.split("Peak memory")[0]
    # Within the noise: nobody has lost.
    assert overview(slower_row("slow", 1.27)).peers[0].time.lost == 0


def test_bars_are_sorted_and_stand_beside_their_figures() -> None:
    time, memory = draw(overview(), WIDE).split(">Peak memory<")
    assert time.index(">mimalloc3<") < time.index(">glibc<")
    assert memory.index(">glibc<") < memory.index(">mimalloc3<")
    assert ">1.25<" in time and ">1.25 to 1.25<" in time
    assert ">0.90<" in memory


def test_one_bar_for_each_peer_however_many_rows() -> None:
    few, many = draw(overview(suite(3)), WIDE), draw(overview(suite(60)), WIDE)
    assert few.count('class="bar ') == many.count('class="bar ') == 4


def test_nothing_to_compare_is_no_chart() -> None:
    assert overview_of(steady(0, 100)) is None
    assert overview_of(replace(suite(), rows=suite().rows[:1])) is None
    alone = suite()
    alone.settings["peers"] = []
    assert overview_of(alone) is None


@pytest.mark.parametrize("layout", CHARTS.values(), ids=["wide", "narrow"])
def test_the_chart_is_a_picture_that_asks_for_nothing(layout: object) -> None:
    assert layout in (WIDE, NARROW)
    result = suite()
    result.allocators[2] = replace(result.allocators[2], version=HOSTILE)
    drawn = draw(overview(result), WIDE if layout is WIDE else NARROW)
    parsed = ElementTree.fromstring(drawn)
    width, height = (float(parsed.attrib[name]) for name in ("width", "height"))
    assert parsed.attrib["viewBox"] == f"0 0 {width:.0f} {height:g}"
    assert "prefers-color-scheme: dark" in drawn
    assert not re.search(r"<(script|image|use|a)\b|url\(|@import|href", drawn)
    spaces = "{http://www.w3.org/2000/svg}"
    for words in parsed.iter(f"{spaces}text"):
        # A letter is half as wide as high: no text reaches beyond the picture.
        size = {"title": 18.0, "faint small": 12.0}.get(words.attrib.get("class", ""), 13.0)
        share = 0.5 if words.attrib.get("text-anchor") == "middle" else 1
        end = float(words.attrib["x"]) + share * size * 0.53 * len(words.text or "")
        assert end <= width, words.text


@pytest.mark.parametrize("name", CHARTS)
def test_the_kept_charts_are_what_the_command_draws(name: str) -> None:
    """`make charts` draws them: a figure that was typed, or is of another run, stands out."""
    (kept,) = [
        file
        for file in (ROOT / "docs/results").glob("suite-*.json.zst")
        if re.fullmatch(r"suite-\d+\.\d+\.\d+\.json\.zst", file.name)
    ]
    assert (ROOT / "docs/results" / name).read_text() == draw(
        overview(read_result(kept)), CHARTS[name]
    )


# --- the opening ----------------------------------------------------------------------------------


def test_sections_have_names_of_their_own() -> None:
    one = replace(suite(), rows=suite().rows[:1])
    files = [Path("a.json"), Path("b.json"), Path("c.json"), Path("x/c.json")]
    names = section_names(list(zip(files, [suite(), one, suite(), suite()], strict=True)))
    assert names == [
        "Benchmarks: 14 rows, 6 rounds (a)",
        "Benchmarks: mixed400, 6 rounds",
        "Benchmarks: 14 rows, 6 rounds (c) 3",
        "Benchmarks: 14 rows, 6 rounds (c) 4",
    ]
    (steady_name,) = section_names([(Path("s.json"), steady(0, 100))])
    assert steady_name == "Steady and idle: 2 rows, 6 rounds"


def test_the_opening_says_what_was_measured_and_what_was_lost() -> None:
    result = slower_row("slow", 4)
    lines = opening_lines([(Path("a.json"), result)], [])
    assert len(lines) == 4
    assert "hakmem 0.1.0 beside 2 other allocators on 15 benchmarks, 6 rounds of each" in lines[0]
    assert lines[1].startswith("Time: in the geometric mean mimalloc3 needs ")
    assert ", glibc " in lines[1]
    assert lines[2].startswith("Peak memory: in the geometric mean glibc needs 0.90 times")
    assert "on 1 of 15 rows" in lines[3] and "mimalloc3 on slow" in lines[3] and "3.20" in lines[3]
    assert "No peer is more than 3% faster" in opening_lines([(Path("a"), suite())], [])[3]


def test_the_opening_has_five_lines_at_most() -> None:
    judged = [Judgement("a", True, ""), Judgement("b", None, ""), Judgement("c", False, "")]
    programs = replace(suite(), kind="programs")
    lines = opening_lines([(Path("a"), suite()), (Path("b"), programs)], judged)
    assert len(lines) == LINES_MOST
    assert lines[4].startswith("14 real programs: 0.80 of mimalloc3's processor time")
    assert lines[4].endswith("Soaks, rule R4: 1 of 3 limits held.")
    assert opening_lines([], []) == []


def test_chart_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result, _ = write_samples(tmp_path)
    output = tmp_path / "drawn.svg"
    for words, layout in (([], WIDE), (["--narrow"], NARROW)):
        code, out, _ = in_this_process(monkeypatch, capsys, "chart", result, "-o", output, *words)
        assert code == 0 and out == f"written: {output}\n"
        assert f'width="{layout.width}"' in output.read_text().splitlines()[0]
    from hakmem_lab.run.results import write_result

    write_result(steady(0, 100), tmp_path / "steady.json")
    code, _, err = in_this_process(
        monkeypatch, capsys, "chart", tmp_path / "steady.json", "-o", tmp_path / "no.svg"
    )
    assert code == 2 and "a result of the suite" in err
    assert not (tmp_path / "no.svg").exists()
