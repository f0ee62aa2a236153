"""The report's text: what stands in its tables, what it refuses; the browser tests do the rest."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, TypeAlias

import pytest
from command_line import in_this_process
from samples import (
    MACHINE,
    ROUNDS,
    allocators,
    phases_csv,
    row_of,
    soak_csv,
    steady,
    suite,
    write_samples,
)

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL, Estimate
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.cli.scorecard import kept_version, usual_sources
from hakmem_lab.report.html import Soaks, read_soaks, render
from hakmem_lab.report.page_model import Cell, PageTable, change_texts, figure, shorten_paths
from hakmem_lab.report.page_tables import base_of, subjects_of, tables_of
from hakmem_lab.run.allocators import hakmem
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.results import Result, write_result

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_resamples")]
ROOT = Path(__file__).resolve().parents[2]


def markup(page: str) -> str:
    """The page without its data, its library and its programs."""
    return re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)


def data(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def page_of(result: Result, soaks: Soaks | None = None) -> str:
    return render([(Path("some.json"), result)], soaks or Soaks())


def table(result: Result, title: str) -> PageTable:
    (found,) = [t for t in tables_of(result) if t.title == title]
    return found


def cells(result: Result, title: str, row: str) -> dict[str, Cell]:
    of = table(result, title)
    (found,) = [r for r in of.rows if r.head == row]
    return dict(zip(of.columns[1:], found.cells, strict=True))


# --- figures --------------------------------------------------------------------------------------


def test_a_figure_has_its_interval_and_an_unusual_count() -> None:
    assert figure(Estimate(1.234, 1.1, 1.3, 3), 2, 3).note == "1.10 – 1.30"
    assert figure(Estimate(1.234, 1.1, 1.3, 2), 2, 3).note == "1.10 – 1.30, 2 runs"
    assert figure(Estimate(1.234, None, None, 1), 2, 3).note == "no interval, 1 run"
    assert figure(None).text == "-"


def test_time_table() -> None:
    row = cells(suite(), "Time, as a ratio to mimalloc3", "mixed400")
    assert row["runs"].text == str(ROUNDS)
    assert (row["hakmem"].text, row["hakmem"].note) == ("0.80", "0.80 – 0.80; 8.28 ns")
    assert row["hakmem"].best and not row["glibc"].best
    assert row["mimalloc3 (base)"].text == "1.00"


def test_a_failed_run_is_said_to_have_failed() -> None:
    result = suite()
    row = result.rows[1]
    row.runs = [
        replace(r, failure="SIGSEGV: oh", throughput_per_s=None) if r.allocator == "glibc" else r
        for r in row.runs
    ]
    assert cells(result, "Time, as a ratio to mimalloc3", row.name)["glibc"].text == "failed"
    text = markup(page_of(result))
    assert "row-2 on glibc: SIGSEGV: oh" in text and "Failed: 1" in text


def test_what_was_not_run_is_listed() -> None:
    result = suite()
    result.rows[2].runs, result.rows[2].missing = [], "build/bench/tree is not built"
    assert "row-3: build/bench/tree is not built" in markup(page_of(result))


def test_the_detail_of_a_row() -> None:
    found = table(suite(), "Time, as a ratio to mimalloc3").rows[0].detail
    assert found is not None
    assert ("command", "/home/jane/hakmem/build/bench/random_mixed 20000000 400 1") in found.facts
    assert found.system_calls[0] == ("hakmem", "mmap 4, munmap 1")
    heads = dict(zip(found.table.columns[1:], found.table.rows[0].cells, strict=True))
    assert (heads["ns an operation"].text, heads["runs"].text) == ("8.28", "6")
    assert heads["in words"].text == "faster"


def test_a_figure_stands_beside_its_ratio() -> None:
    time = cells(suite(), "Time, as a ratio to mimalloc3", "mixed400")
    assert time["hakmem"].text == "0.80" and time["hakmem"].note.endswith("; 8.28 ns")
    memory = cells(suite(), "Peak memory, MiB", "mixed400")
    assert memory["hakmem"].note.endswith("; 0.40 of mimalloc3's")


def test_noise_has_no_winner() -> None:
    result = suite()
    for row in result.rows:
        row.runs = [
            replace(run, peak_rss_kb=2000 + 97 * (run.round * 7 % 5) + len(run.allocator))
            for run in row.runs
        ]
    row = cells(result, "Peak memory, MiB", "mixed400")
    assert not any(cell.best for cell in row.values())


def test_against_the_best_peer() -> None:
    row = cells(suite(), "hakmem against the best peer of each row", "mixed400")
    assert row["best peer"].text == "mimalloc3"
    assert row["time"].text == "within its bar"
    assert row["time / best peer"].text == "0.80"


def test_a_library_of_the_users_does_not_stand_out() -> None:
    result = suite()
    result.settings["peers"] = ["glibc"]  # mimalloc3 by its path
    assert subjects_of(result) == ["hakmem", "lean"]
    result.allocators = [a for a in result.allocators if a.name in ("glibc", "mimalloc3")]
    assert subjects_of(result) == ["mimalloc3"]


def test_every_kind_of_result_gives_a_page() -> None:
    ab = Result("ab", ["hakmem-lab", "ab"], {"build_change": False}, MACHINE, allocators()[:2])
    ab.allocators = [replace(a, name=n) for a, n in zip(ab.allocators, "ab", strict=True)]
    row = row_of("mixed400", 1, ["random_mixed"])
    names = {"hakmem": "a", "glibc": "b"}
    row.runs = [replace(r, allocator=names[r.allocator]) for r in row.runs if r.allocator in names]
    row.system_calls = {}
    ab.rows = [row]
    assert base_of(ab) == "a"
    assert "rounds needed" in markup(page_of(ab))

    counted = Result("instructions", ["hakmem-lab"], {}, MACHINE, allocators())
    counted.instructions = [
        InstructionCount("hakmem", 1000, 46.5, 28.5, malloc=10, free=8),
        InstructionCount("glibc", 1000, failure="SIGABRT: no"),
    ]
    text = markup(page_of(counted))
    assert "46.50" in text and "36.00" in text and "SIGABRT: no" in text

    calls = cells(steady(5, 60_000), "steady", "hakmem")
    assert (calls["system calls"].text, calls["operations"].text) == ("5.00", "500 000 000")
    idle = cells(steady(5, 60_000), "idle-95", "hakmem")
    assert (idle["resident when idle, kB"].text, idle["wake-ups"].text) == ("60 000", "0")
    assert (idle["runs"].text, idle["wake-ups"].note) == ("6", "0 – 0")
    text = markup(page_of(steady(5, 60_000)))
    assert "Time, as a ratio" not in text  # of tracing and of waiting

    programs = replace(suite(), kind="programs")
    assert "Real programs" in markup(page_of(programs))


def test_a_comparison_says_in_words_what_came_of_it() -> None:
    row = row_of("app", 1, ["app"])
    compared = Result("compare", ["hakmem-lab"], {"base": "glibc"}, MACHINE, allocators(), [row])
    text = markup(page_of(compared))
    assert base_of(compared) == "glibc"
    assert re.search(r"<li>hakmem: [^<]*faster", text)
    assert "away: not run: no compiler" in text


def test_no_row_and_no_baseline_give_a_page() -> None:
    empty = replace(suite(), rows=[], settings={})
    assert "What was measured on what" in markup(page_of(empty))


# --- the page -------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else() -> None:
    text = page_of(suite())
    outside = re.findall(
        r"<(?:link|img|iframe|script)[^>]*(?:src|href)=", text.split('id="data"')[0]
    )
    assert outside == []
    assert "default-src 'none'" in text
    assert len(text) < 3_500_000


def test_the_data_is_the_files(tmp_path: Path) -> None:
    result, soak = write_samples(tmp_path)
    stored = json.loads(result.read_text())
    text = page_of(suite(), read_soaks([soak]))
    (kept,) = data(text)["results"]
    assert [row["name"] for row in kept["result"]["rows"]] == [r["name"] for r in stored["rows"]]
    assert kept["result"]["rows"][0]["runs"] == stored["rows"][0]["runs"]
    (run,) = data(text)["soaks"]
    assert (run["label"], len(run["rss_kb"])) == ("balanced", 1800)


def test_machine_versions_and_method_stand_in_it() -> None:
    text = markup(page_of(suite()))
    for expected in ("CPU &lt;of&gt; a test", "Linux 6.1 x86_64", "3.4.3", "missing: no compiler"):
        assert expected in text
    assert "Interleaved" in text and "bootstrap" in text


def test_names_are_text_in_it() -> None:
    text = page_of(suite())
    assert "<img src=x" not in text and "<b>bold" not in text
    assert text.count("<script") == text.count("</script>")


def test_the_same_files_give_the_same_page(tmp_path: Path) -> None:
    _, soak = write_samples(tmp_path)
    first = page_of(suite(), read_soaks([soak]))
    assert page_of(suite(), read_soaks([soak])) == first


def test_paths_of_the_machine_are_left_out() -> None:
    short = shorten_paths(suite(), [])
    assert short.allocators[0].library == "build/standard/libhakmem.so"
    assert short.rows[0].command[0] == "build/bench/random_mixed"
    assert "/home/jane" not in page_of(short)
    left = replace(suite(), command=["lab", "-o", "/srv/data/x.json"])
    assert shorten_paths(left, [Path("/srv")]).command[2] == "data/x.json"


def test_change_texts_reaches_all_of_them() -> None:
    changed = change_texts({"a": ["x", ("x", 1)], "b": None}, lambda text: text + "!")
    assert changed == {"a": ["x!", ("x!", 1)], "b": None}


# --- soaks ----------------------------------------------------------------------------------------


def test_soak_verdicts(tmp_path: Path) -> None:
    (tmp_path / "balanced.csv").write_text(soak_csv(1800, 2.0, growth=0.05))
    (tmp_path / "glibc.csv").write_text(soak_csv(1800, 2.0))
    text = markup(page_of(suite(), read_soaks([tmp_path])))
    assert "FAIL balanced: resident memory" in text
    assert "PASS glibc: resident memory" in text


def test_phases(tmp_path: Path) -> None:
    (tmp_path / "fragmentation.csv").write_text(phases_csv(5, 1.25))
    page = render([], read_soaks([tmp_path]))
    text = markup(page)
    assert 'id="cycles"' in text and 'id="soaks"' not in text
    for expected in ("1.25", "2.50", "hakmem", "drop"):
        assert expected in text
    first, second = data(page)["cycles"]
    assert (first["label"], second["label"], first["phases"]) == ("hakmem", "glibc", 2)
    assert first["rss_kb"][:2] == [40960, 5120]


def test_a_soak_alone_is_enough(tmp_path: Path) -> None:
    _, soak = write_samples(tmp_path)
    text = markup(render([], read_soaks([soak])))
    assert "Soaks" in text and "Open all rows" not in text


# --- the command ----------------------------------------------------------------------------------


Monkey = pytest.MonkeyPatch
Captured: TypeAlias = pytest.CaptureFixture[str]


def lab(monkeypatch: Monkey, capsys: Captured, *words: str | Path) -> tuple[int, str]:
    """Exit code, and what was printed."""
    code, out, err = in_this_process(monkeypatch, capsys, *words)
    return code, out + err


def test_report(monkeypatch: Monkey, capsys: Captured, tmp_path: Path) -> None:
    result, soak = write_samples(tmp_path)
    output = tmp_path / "new.html"
    code, said = lab(monkeypatch, capsys, "report", result, soak, "-o", output)
    assert code == 0 and f"written: {output}" in said
    assert "mixed400" in output.read_text() and 'id="soaks"' in output.read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["report"], "report: a result (JSON) or a soak (CSV) is wanted"),
        (["report", "{}/away.json"], "{}/away.json: No such file or directory"),
        (["report", "--soak", "{}/away.csv"], "{}/away.csv: No such file or directory"),
        (["report", "{}/empty"], "{}/empty: no CSV in it"),
        (["report", "{}/old.json"], "{}/old.json: schema_version 0"),
        (["report", "{}/list.json"], "{}/list.json: not a result of hakmem-lab"),
        (["report", "{}/field.json"], "{}/field.json: machine.cpus: wanted is a whole number"),
        (["report", "{}/balanced.csv", "--warm-up", "much"], "--warm-up much"),
        (["report", "{}/suite.json", "-o", "{}/no/such"], "--output {}/no/such: No such file"),
        (["report", "{}/balanced.csv", "{}/copy.csv"], "two runs are called 'balanced'"),
    ],
)
def test_bad_input_is_named(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path, words: list[str], complaint: str
) -> None:
    result, soak = write_samples(tmp_path)
    content = json.loads(result.read_text())
    (tmp_path / "empty").mkdir()
    (tmp_path / "old.json").write_text(json.dumps({**content, "schema_version": 0}))
    (tmp_path / "list.json").write_text("[]")
    content["machine"]["cpus"] = "two"
    (tmp_path / "field.json").write_text(json.dumps(content))
    head, *lines = soak.read_text().splitlines()
    labelled = [f"label,{head}", *(f"balanced,{line}" for line in lines)]
    (tmp_path / "copy.csv").write_text("\n".join(labelled) + "\n")
    words = [word.format(tmp_path) for word in words]
    if "-o" not in words:
        words += ["-o", str(tmp_path / "out.html")]
    code, said = lab(monkeypatch, capsys, *words)
    assert code == 2, said
    assert complaint.format(tmp_path) in said
    assert not (tmp_path / "out.html").exists()


def test_a_page_of_one_row_is_small(monkeypatch: Monkey, capsys: Captured, tmp_path: Path) -> None:
    write_result(replace(suite(), rows=suite().rows[:1]), tmp_path / "one.json")
    output = tmp_path / "one.html"
    code, said = lab(monkeypatch, capsys, "report", tmp_path / "one.json", "-o", output)
    assert code == 0, said
    text = output.read_text()
    assert len(text) < 300_000
    assert "data-plot" not in text and 'id="library"' not in text
    assert "Every run" in text


# What `make report-kept` takes (KEPT_FILES in bench/lab.mk).
REPORTED = ("suite", "instructions", "steady", "programs")


def test_the_kept_data_gives_a_report(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path
) -> None:
    kept = ROOT / "docs/results"
    results, soaks = usual_sources(kept, kept_version(kept, hakmem(Paths(ROOT)).version))
    results = [file for file in results if file.name.split("-")[0] in REPORTED]
    assert len(results) >= len(REPORTED) and soaks
    output = tmp_path / "report.html"
    code, said = lab(monkeypatch, capsys, "report", *results, *soaks, "-o", output)
    assert code == 0, said
    assert output.stat().st_size < 5_500_000  # it goes by mail
    shown = data(output.read_text())
    assert [of["file"] for of in shown["results"]] == [file.name for file in results]
    assert {run["label"] for run in shown["soaks"]} >= {"balanced", "glibc"}
    # Figures against a mean and a median made another way; summing in another order, as processors
    # do, changes their last digits.
    of = shown["results"][0]
    base, name = of["figures"]["base"], "hakmem"
    ratios = []
    for row in of["figures"]["rows"]:
        on = row["on"]
        if name not in on or base not in on:
            continue
        costs = {
            n: dict(zip(*(on[n]["cost"][k] for k in ("rounds", "values")), strict=True))
            for n in (name, base)
        }
        rounds = [costs[name][r] / costs[base][r] for r in costs[name] if r in costs[base]]
        ratios.append(median(rounds))
        assert on[name]["cost"]["ratio"][0] == pytest.approx(ratios[-1], rel=1e-9)
        assert on[name]["cost"]["ratio"][3] == len(rounds)
    mean = of["figures"]["means"][name]["cost"]
    assert mean[3] == len(ratios) > 5
    assert mean[0] == pytest.approx(geometric_mean(ratios), rel=1e-9)
    fewest = min(len(row["on"][name]["cost"]["rounds"]) for row in of["figures"]["rows"])
    if fewest < LEAST_FOR_INTERVAL:
        assert mean[1] is None and mean[2] is None
    else:
        assert mean[1] <= mean[0] <= mean[2]


def dry_make(*words: str) -> str:
    """What make would do in this repository."""
    environment = {n: v for n, v in os.environ.items() if n not in ("MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        ["make", "-n", "-C", str(ROOT), *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout


def test_make_report_takes_what_was_measured_here_or_what_is_kept() -> None:
    (kept,) = re.findall(r"hakmem-lab report (.*)", dry_make("report", "MEASURED_FILES="))
    assert kept.startswith("docs/results/suite-") and "docs/results/soak-" in kept
    assert kept.endswith('-o "build/bench/report.html"')
    (measured,) = re.findall(r"hakmem-lab report (.*)", dry_make("report", "MEASURED_FILES=a.json"))
    assert measured == 'a.json -o "build/bench/report.html"'


# --- publish --------------------------------------------------------------------------------------


def test_publish(monkeypatch: Monkey, capsys: Captured, tmp_path: Path) -> None:
    result, _ = write_samples(tmp_path)
    content = json.loads(result.read_text())
    content["allocators"][2]["version"] = "unknown"
    content["command"] += ["-o", "/srv/data/out.json", "/usr/bin/x"]
    result.write_text(json.dumps(content))
    output = tmp_path / "kept.json"
    words: list[str | Path] = ["publish", result, "-o", output, "--version", "mimalloc3=3.4.3"]
    code, said = lab(monkeypatch, capsys, *words)
    assert code == 0
    assert "paths of this machine are left, --strip takes them out: /srv/data/out.json\n" in said
    code, said = lab(monkeypatch, capsys, *words, "--strip", "/srv")
    assert code == 0 and said == f"written: {output}\n"
    kept = json.loads(output.read_text())
    assert kept["allocators"][2]["version"] == "3.4.3"
    assert kept["rows"][0]["command"][0] == "build/bench/random_mixed"
    assert kept["rows"][0]["runs"] == content["rows"][0]["runs"]


def test_publish_does_not_change_what_is_known(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path
) -> None:
    result, _ = write_samples(tmp_path)
    for version in ("mimalloc3=9", "nobody=1", "mimalloc3"):
        code, said = lab(
            monkeypatch, capsys, "publish", result, "-o", tmp_path / "k", "--version", version
        )
        assert code == 2 and f"--version {version.partition('=')[0]}" in said
        assert not (tmp_path / "k").exists()


def test_read_soaks_refuses_a_repeated_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for file in (tmp_path / "x.csv", tmp_path / "a/x.csv"):
        file.write_text(soak_csv(30, 1))
    with pytest.raises(LabError, match="two runs are called 'x'"):
        read_soaks([tmp_path / "x.csv", tmp_path / "a"])
