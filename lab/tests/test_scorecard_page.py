"""The page of the scorecard: where figures come from, bad files, and the one that is kept."""

import json
import re
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest
from samples import allocators, soak_csv, suite, write_samples
from scorecard_samples import ROOT, RunScorecard, tables_of

from hakmem_lab.base.reading import read_bytes, unpacked
from hakmem_lab.cli.scorecard import usual_sources
from hakmem_lab.run.results import write_result

pytestmark = pytest.mark.slow
RESULTS = ROOT / "docs/results"


def test_names_do_not_break_the_table(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    result = suite()
    result.allocators = [replace(a, source="a|b <script>") for a in allocators()[:4]]
    result.rows = []
    write_result(result, tmp_path / "s.json")
    _, text, _ = run_scorecard("--results", tmp_path / "s.json")
    assert "a\\|b &lt;script>" in text
    assert "<script" not in text


def test_profiles_without_figures(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    write_result(replace(suite(), rows=[]), tmp_path / "empty.json")
    (tmp_path / "nobody.csv").write_text(soak_csv(30, 1))
    words = ("--results", tmp_path / "empty.json", "--soak", tmp_path / "nobody.csv")
    found = tables_of(run_scorecard(*words)[1])
    profiles = [line for line in found.values() if "speed" in line]
    assert len(profiles) > 5
    assert {line[p] for line in profiles for p in ("speed", "balanced", "lean")} == {"not measured"}


def test_where_it_comes_from(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    result, soak = write_samples(tmp_path)
    code, text, _ = run_scorecard(result, "--soak", soak)
    assert code == 0
    assert "**suite.json** (sha256 " in text and "**balanced.csv** (sha256 " in text
    assert "`hakmem-lab suite`" in text and "- mimalloc3 3.4.3: a crate" in text
    assert run_scorecard(result, "--soak", soak)[1] == text


# --- bad files ------------------------------------------------------------------------------------


def test_a_missing_file_is_named(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    for option in ("--results", "--soak"):
        code, text, complaint = run_scorecard(option, tmp_path / "away.json")
        assert (code, text) == (2, "")
        assert complaint == f"hakmem-lab: {tmp_path}/away.json: No such file or directory\n"


def test_the_field_that_is_wrong_is_named(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    file, _ = write_samples(tmp_path)
    content = json.loads(file.read_text())
    content["rows"][2]["runs"][1]["wall_s"] = "long"
    file.write_text(json.dumps(content))
    code, text, complaint = run_scorecard("--results", file)
    assert (code, text) == (2, "")
    assert f"{file}: rows[2].runs[1].wall_s: wanted is a number, not 'long'" in complaint


def test_a_file_that_is_cut_off(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    file, soak = write_samples(tmp_path)
    file.write_text(file.read_text()[:-100])
    code, _, complaint = run_scorecard("--results", file)
    assert code == 2 and f"{file}: not JSON, or cut off" in complaint
    soak.write_text(soak.read_text()[:-3])
    code, _, complaint = run_scorecard("--soak", soak)
    assert code == 2 and f"{soak}:1801: cut off: no newline at the end" in complaint
    soak.write_text("epoch,elapsed_s,throughput_ops_s,rss_kb\n1,2,fast,2000\n")
    code, _, complaint = run_scorecard("--soak", soak)
    assert code == 2 and f"{soak}:2: column 3 (throughput_ops_s): not a number: 'fast'" in complaint


def test_the_scorecard_that_was_there_stays(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    (tmp_path / "scorecard.md").write_text("old")
    code, text, _ = run_scorecard("--results", tmp_path / "away.json")
    assert (code, text) == (2, "old")


def test_two_files_of_one_name(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    result, _ = write_samples(tmp_path)
    (tmp_path / "sub").mkdir()
    other, _ = write_samples(tmp_path / "sub")
    code, _, complaint = run_scorecard("--results", result, "--results", other)
    assert code == 2 and "a second file called suite" in complaint


def test_two_files_for_one_purpose(run_scorecard: RunScorecard, tmp_path: Path) -> None:
    """Nobody chooses the better of two runs."""
    for name in ("suite-1.0.json", "again.json"):
        write_result(suite(), tmp_path / name)
    files = (tmp_path / "suite-1.0.json", tmp_path / "again.json")
    code, text, complaint = run_scorecard(*files)
    assert (code, text) == (2, "")
    assert "again.json: a second result for suite, beside suite-1.0.json" in complaint


def test_what_is_taken_when_nothing_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "docs/results"
    (kept / "soak-9.8.7").mkdir(parents=True)
    for name in ("steady-profiles-9.8.7", "steady-9.8.7", "suite-9.8.7", "suite-1.0.0", "other"):
        (kept / f"{name}.json").touch()
    results, soaks = usual_sources(kept, "9.8.7")
    assert [file.stem for file in results] == ["suite-9.8.7", "steady-9.8.7"]
    assert soaks == [kept / "soak-9.8.7"]
    assert usual_sources(kept, "2.0.0") == ([], [])


# --- the one that is kept -------------------------------------------------------------------------


# Not part of a word or of a checksum; digits may be in groups of three.
FIGURE = re.compile(r"(?<![\w.])[-+]?\d+(?: \d{3})*(?:\.\d+)?(?!\.?\w)")


def without_figures(text: str) -> tuple[str, list[tuple[float, float]]]:
    """The text with its figures left out; each of those, and a unit of its last digit."""
    figures = []
    for found in FIGURE.findall(text):
        digits = found.replace(" ", "")
        behind = len(digits.partition(".")[2])
        figures.append((float(digits), 10.0**-behind))
    return FIGURE.sub("#", text), figures


def differences(made: str, kept: str) -> list[str]:
    """Lines that differ by more than the rounding of their last digit: processors add up in
    different orders, and a figure may lie between two that can be printed."""
    wrong = []
    for new, old in zip_longest(made.splitlines(), kept.splitlines(), fillvalue=""):
        (text, figures), (old_text, old_figures) = without_figures(new), without_figures(old)
        near = text == old_text and all(
            unit == old_unit and abs(a - b) <= 1.01 * unit
            for (a, unit), (b, old_unit) in zip(figures, old_figures, strict=True)
        )
        if not near:
            wrong.append(f"made: {new}\nkept: {old}")
    return wrong


def test_rounding_is_no_difference() -> None:
    kept = "| 12.5% | 11.0 to 13.9 | 60 000 | 18 runs | 0a1b2c |"
    assert differences(kept.replace("13.9", "14.0").replace("60 000", "59 999"), kept) == []
    for other in ("12.7%", "12.5", "-12.5%", "12.50%"):
        assert differences(kept.replace("12.5%", other), kept) != [], other
    assert differences(kept.replace("0a1b2c", "0a1b3c"), kept) != []
    assert differences(kept.replace("18 runs", "20 runs"), kept) != []
    assert differences(f"{kept}\nmore", kept) != []


def test_the_kept_scorecard_is_what_the_kept_data_gives(run_scorecard: RunScorecard) -> None:
    code, text, complaint = run_scorecard()
    assert code == 0, complaint
    assert differences(text, (ROOT / "docs/scorecard.md").read_text()) == [], "run make scorecard"


def test_kept_data_names_no_place_of_the_machine_it_is_from() -> None:
    files = sorted([*RESULTS.rglob("*.json"), *RESULTS.rglob("*.json.zst")])
    assert files
    for file in files:
        text = unpacked(file, read_bytes(file)).decode()
        assert not re.search(r'[" =](/home|/root|/tmp|/work|/mnt|/srv)\b', text), file


def test_kept_data_is_small() -> None:
    """Results of the lab are compressed, and no file takes more than 300 KB."""
    for file in RESULTS.rglob("*"):
        assert not file.is_file() or file.stat().st_size <= 300_000, file
        if file.suffix == ".json":
            assert "schema_version" not in json.loads(file.read_text()), f"{file}: to be .json.zst"
