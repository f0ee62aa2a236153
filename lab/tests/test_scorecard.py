"""The scorecard: goals on data whose verdicts are known, bad files, and the one that is kept."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest
from command_line import in_this_process
from samples import MACHINE, ROUNDS, allocators, soak_csv, steady, suite, write_samples

from hakmem_lab.base.paths import Paths
from hakmem_lab.cli.scorecard import usual_sources
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.results import Result, write_result

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
Card = dict[str, dict[str, str]]


def tables_of(text: str) -> Card:
    """The lines of a scorecard by their goal, each by the heads of its columns."""
    card: Card = {}
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            head = []
        elif not head:
            head = cells
        elif not set(cells[0]) <= {"-"}:
            card[cells[0]] = dict(zip(head[1:], cells[1:], strict=True))
    return card


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command within this process: its exit code, the file it wrote, what it complained of."""

    def run_command(*words: str | Path) -> tuple[int, str, str]:
        output = tmp_path / "scorecard.md"
        arguments = ("scorecard", "--root", ROOT, "-o", output, *words)
        code, _, complaint = in_this_process(monkeypatch, capsys, *arguments)
        return code, output.read_text() if output.exists() else "", complaint

    return run_command


@pytest.fixture
def card(run: Run, tmp_path: Path) -> Callable[..., Card]:
    """The scorecard of results, or of the text of soaks by their label."""

    def make(*results: Result, **soaks: str) -> Card:
        words: list[str | Path] = []
        for result in results:
            file = tmp_path / f"{result.kind}.json"
            if file in words:
                file = tmp_path / f"another-{result.kind}.json"
            write_result(result, file)
            words += ["--results", file]
        for label, text in soaks.items():
            (tmp_path / f"{label}.csv").write_text(text)
            words += ["--soak", tmp_path / f"{label}.csv"]
        if not results:
            write_result(replace(suite(), rows=[]), tmp_path / "empty.json")
            words += ["--results", tmp_path / "empty.json"]
        if not soaks:
            # Something of nobody's, so that the repository's own soaks are not taken.
            (tmp_path / "nobody.csv").write_text(soak_csv(30, 1))
            words += ["--soak", tmp_path / "nobody.csv"]
        code, text, complaint = run(*words)
        assert code == 0, complaint
        return tables_of(text)

    return make


MakeCard = Callable[..., Card]
M1, M2, M3, M4 = (f"M{n}: throughput against mimalloc's (mimalloc3)" for n in range(1, 5))


def test_milestones(card: MakeCard) -> None:
    found = card(suite())
    assert [found[m]["verdict"] for m in (M1, M2, M3, M4)] == ["met"] * 4
    line = found[M4]
    assert (line["figure"], line["runs"], line["from"]) == ("125.0%", f"{ROUNDS} runs", "suite")
    assert line["95% interval"] == "125.0 to 125.0"
    assert found["throughput against the fastest peer's (mimalloc3)"]["figure"] == "125.0%"


def slowed(factors: list[float]) -> Result:
    """hakmem's throughput in the first row by these factors, a round each."""
    result = suite()
    row = result.rows[0]
    row.runs = [
        replace(run, throughput_per_s=(run.throughput_per_s or 0) * factors[run.round - 1])
        if run.allocator == "hakmem"
        else run
        for run in row.runs
    ]
    return result


def test_a_milestone_that_is_not_met(card: MakeCard) -> None:
    found = card(slowed([0.5] * ROUNDS))  # 62.5%
    assert [found[m]["verdict"] for m in (M1, M2, M3, M4)] == ["met", "met", "met", "not met"]
    assert found["throughput against the fastest peer's (mimalloc3)"]["verdict"] == "not met"


def test_an_interval_over_the_bar_is_not_certain(card: MakeCard) -> None:
    found = card(slowed([0.4, 0.5, 0.6]))  # 50, 62.5 and 75%
    assert found[M3]["verdict"] == "met, not certain"
    assert found[M4]["verdict"] == "not met, not certain"
    assert found[M4]["95% interval"] == "50.0 to 75.0"


def test_what_has_no_data_is_not_measured(card: MakeCard) -> None:
    found = card()
    verdicts = {line["verdict"] for line in found.values() if "verdict" in line}
    assert all(verdict.startswith("not measured: ") for verdict in verdicts)
    profiles = [line for line in found.values() if "speed" in line]
    assert len(profiles) > 5
    assert {line[p] for line in profiles for p in ("speed", "balanced", "lean")} == {"not measured"}


def test_short_runs_are_no_measurement(card: MakeCard) -> None:
    quick = suite()
    quick.settings["quick"] = True
    assert card(quick)["M1: throughput against mimalloc's"]["verdict"] == "not measured: suite"


def test_rows_and_means(card: MakeCard) -> None:
    found = card(suite())
    assert found["geometric mean of time / mimalloc v3"]["figure"] == "0.800"
    assert found["geometric mean of time / mimalloc v3"]["verdict"] == "not met"
    assert found["geometric mean of peak / mimalloc v3"]["figure"] == "0.400"
    assert found["geometric mean of peak / mimalloc v3"]["verdict"] == "met"
    assert found["lean: geometric mean of peak / mimalloc v3"]["figure"] == "0.380"
    assert found["lean: geometric mean of time / balanced"]["figure"] == "1.125"
    assert found["lean: geometric mean of time / balanced"]["verdict"] == "not met"
    within = "rows within their bar against the best peer of each (14 of 14 rows)"
    assert found[within]["verdict"] == "met"


def test_means_over_the_rows_that_the_goals_were_set_on(card: MakeCard) -> None:
    """In all others everything costs hakmem nine times as much."""
    result = suite()
    field = {"mb-cfrac", "mixed-2T"}
    for row, name in zip(result.rows, [*field, "mixed-8T"], strict=False):
        row.name = name
    for row in result.rows:
        if row.name in field:
            continue
        row.runs = [
            replace(
                run,
                throughput_per_s=(run.throughput_per_s or 0) / 9,
                peak_rss_kb=run.peak_rss_kb * 9,
            )
            if run.allocator in ("hakmem", "lean")
            else run
            for run in row.runs
        ]
    found = card(result)
    others = len(result.rows) - len(field)
    every = 9 ** (others / len(result.rows))
    for what, figure in {
        "geometric mean of time / mimalloc v3": 0.8,
        "geometric mean of peak / mimalloc v3": 0.4,
        "lean: geometric mean of peak / mimalloc v3": 0.38,
    }.items():
        assert found[f"{what}: the field's rows"]["figure"] == f"{figure:.3f}"
        assert found[f"{what}: the field's rows"]["runs"] == f"2 rows of {ROUNDS} runs"
        assert float(found[what]["figure"]) == pytest.approx(figure * every, rel=0.002)
    price = found["lean: geometric mean of time / balanced: the field's rows"]
    assert (price["figure"], price["verdict"]) == ("1.125", "not met")


def test_means_over_rows_take_the_result_with_most_rows_and_then_most_runs(card: MakeCard) -> None:
    wide, deep = suite(), suite()
    for result in (wide, deep):
        for row, name in zip(result.rows, ["mb-cfrac", "mixed-2T"], strict=False):
            row.name = name
    deep.rows = deep.rows[:2]
    for row in deep.rows:
        row.runs += [replace(run, round=run.round + ROUNDS) for run in row.runs]
    for results in ((wide, deep), (deep, wide)):
        found = card(*results)
        names = ["suite", "another-suite"] if results[0] is wide else ["another-suite", "suite"]
        for what in (
            "geometric mean of time / mimalloc v3",
            "lean: geometric mean of time / balanced",
        ):
            every, field = found[what], found[f"{what}: the field's rows"]
            assert (every["from"], every["runs"]) == (names[0], f"14 rows of {ROUNDS} runs")
            assert (field["from"], field["runs"]) == (names[1], f"2 rows of {2 * ROUNDS} runs")


def test_a_contest_of_most_peers_and_then_of_most_runs_counts(card: MakeCard) -> None:
    few_peers, short = slowed([0.5] * ROUNDS), slowed([0.6] * ROUNDS)
    both = ("hakmem", "mimalloc3")
    few_peers.allocators = [a for a in few_peers.allocators if a.name in both]
    for row in few_peers.rows:
        row.runs = [run for run in row.runs if run.allocator in both]
    long = slowed([0.7] * ROUNDS)
    long.rows[0].runs += [replace(run, round=run.round + ROUNDS) for run in long.rows[0].runs]
    for results, name in (((few_peers, short), "another-suite"), ((short, few_peers), "suite")):
        contest = card(*results)["throughput against the fastest peer's (mimalloc3)"]
        assert (contest["from"], contest["figure"]) == (name, "75.0%")
    for results, name in (((long, short), "suite"), ((short, long), "another-suite")):
        found = card(*results)
        for goal in (M1, "throughput against the fastest peer's (mimalloc3)"):
            line = found[goal]
            assert (line["from"], line["runs"]) == (name, f"{2 * ROUNDS} runs")
            assert line["figure"] == "87.5%"
        assert found["random_mixed, peak"]["from"] == name


def test_a_failed_row_is_not_within_its_bar(card: MakeCard) -> None:
    result = suite()
    row = result.rows[3]
    row.runs = [
        replace(r, failure="SIGSEGV", throughput_per_s=None) if r.allocator == "hakmem" else r
        for r in row.runs
    ]
    within = "rows within their bar against the best peer of each (13 of 14 rows)"
    assert card(result)[within]["verdict"] == "not met"


def test_another_mimalloc_does_not_answer_for_version_3(card: MakeCard) -> None:
    result = suite()
    result.allocators = [
        replace(a, name="mimalloc2") if a.name == "mimalloc3" else a for a in result.allocators
    ]
    for row in result.rows:
        row.runs = [
            replace(r, allocator="mimalloc2") if r.allocator == "mimalloc3" else r for r in row.runs
        ]
    found = card(result)
    assert found["geometric mean of time / mimalloc v3"]["verdict"] == "not measured: suite"
    assert found[M1.replace("mimalloc3", "mimalloc2")]["verdict"] == "met"


def programs(slower_than_glibc: int) -> Result:
    """The suite's rows as programs; so many are 4% slower than on glibc, the others 2%."""
    result = suite()
    result.kind = "programs"
    for number, row in enumerate(result.rows):
        row.measure = "cpu"
        share = 1.04 if number < slower_than_glibc else 1.02
        row.runs = [
            replace(
                run,
                throughput_per_s=None,
                user_s=run.user_s * {"hakmem": share, "mimalloc3": 1.1}.get(run.allocator, 1),
                system_s=run.system_s * {"hakmem": share, "mimalloc3": 1.1}.get(run.allocator, 1),
            )
            for run in row.runs
        ]
    return result


def test_real_programs(card: MakeCard) -> None:
    found = card(programs(0))
    time = found["programs: geometric mean of processor time / mimalloc v3"]
    assert (time["figure"], time["verdict"]) == ("0.927", "met")
    assert time["runs"] == f"14 rows of {ROUNDS} runs"
    memory = found["programs: geometric mean of peak / mimalloc v3"]
    assert (memory["figure"], memory["verdict"]) == ("0.400", "met")
    slower = "programs no slower than on glibc, 3% aside"
    assert found[f"{slower} (14 of 14 rows)"]["verdict"] == "met"
    found = card(programs(3))
    assert found[f"{slower} (11 of 14 rows)"]["verdict"] == "not met"
    # Programs do not answer for the suite, nor the suite for programs.
    assert found["geometric mean of time / mimalloc v3"]["verdict"] == "not measured: suite"
    assert card(suite())[slower]["verdict"] == "not measured: programs"


def test_growth_against_glibc(card: MakeCard) -> None:
    result = suite()
    result.rows[1].name = "vector-256M"
    goal = "{}, which grows a block by realloc: time / glibc"
    found = card(result)
    line = found[goal.format("vector-256M")]
    assert (line["figure"], line["runs"], line["verdict"]) == ("0.73", f"{ROUNDS} runs", "met")
    assert found[goal.format("append-4096")]["verdict"] == "not measured: suite"


CALLS = "balanced: mmap, munmap and madvise an operation"


@pytest.mark.parametrize(
    ("calls", "verdict", "figure"),
    [
        (0, "met", "0"),
        (3, "met, not certain", "6.0e-09"),
        (6, "not met, not certain", "1.2e-08"),
        (60, "not met", "1.2e-07"),
    ],
)
def test_system_calls(card: MakeCard, calls: int, verdict: str, figure: str) -> None:
    line = card(steady(calls, 60_000))[CALLS]
    assert (line["verdict"], line["figure"], line["runs"]) == (verdict, figure, f"{ROUNDS} runs")


def test_no_call_in_few_operations_proves_little(card: MakeCard) -> None:
    result = steady(0, 60_000)
    for run in result.rows[0].runs:
        run.figures["operations"] = 1e6
    assert card(result)[CALLS]["verdict"] == "met, not certain"


@pytest.mark.parametrize(("kb", "verdict"), [(64_000, "met"), (66_000, "not met")])
def test_idle(card: MakeCard, kb: int, verdict: str) -> None:
    found = card(steady(0, kb))
    assert found["95% freed, resident 5 s later"]["verdict"] == verdict
    assert found["95% freed, resident 5 s later"]["figure"] == f"{kb / 1000:.1f} MB"
    assert found["wake-ups in the minute after that"]["verdict"] == "met"
    # The sample has no run with all of it freed.
    assert found["all freed, resident 5 s later"]["verdict"] == "not measured: steady"


@pytest.mark.parametrize(("share", "verdict"), [(0.95, "met"), (0.85, "not met")])
def test_a_load_that_comes_back(card: MakeCard, share: float, verdict: str) -> None:
    result = steady(0, 60_000)
    goal = "95% freed, then the load comes back: its first second / the first load's"
    assert card(result)[goal]["verdict"] == "not measured: steady"
    row = result.rows[1]
    row.name, row.command[7:] = "load-back", ["0", "1500"]
    for run in row.runs:
        run.figures["again_to_first"] = share
    line = card(result)[goal]
    assert (line["figure"], line["verdict"]) == (f"{share:.2f}", verdict)


def test_idle_with_less_memory_is_another_question(card: MakeCard) -> None:
    found = card(steady(0, 1000, mib=64))
    assert found["95% freed, resident 5 s later"]["verdict"] == "not measured: steady"


def test_instructions(card: MakeCard) -> None:
    result = Result("instructions", ["hakmem-lab"], {}, MACHINE, allocators())
    result.instructions = [InstructionCount("hakmem", 1000, 46.0, 28.5, malloc=10, free=7.5)]
    found = card(result)
    total = found["instructions an operation, the benchmark's own among them"]
    assert (total["figure"], total["verdict"]) == ("46.0", "met")
    pair = found["instructions of a malloc and its free"]
    assert (pair["figure"], pair["verdict"]) == ("35.0", "met")
    result.instructions = [InstructionCount("hakmem", 1000, failure="SIGABRT")]
    assert card(result)["instructions of a malloc and its free"]["figure"] == "-"


def test_soak_of_an_hour(card: MakeCard) -> None:
    found = card(balanced=soak_csv(1800, 2.0))
    assert found["balanced: resident memory, last tenth / first"]["verdict"] == "met"
    assert found["balanced: CV of throughput"]["verdict"] == "met"
    assert found["balanced: resident memory, median"]["figure"] == "2.00 MB"
    grown = card(balanced=soak_csv(1800, 2.0, growth=0.03))
    assert grown["balanced: resident memory, slope"]["verdict"] == "not met"


def test_a_short_soak_does_not_answer(card: MakeCard) -> None:
    line = card(balanced=soak_csv(300, 2.0))["balanced: resident memory, slope"]
    assert line["verdict"] == "not measured: 10.0 min of 60.0 min"
    # The other profiles run for 20 minutes.
    found = card(balanced=soak_csv(1800, 2.0), lean=soak_csv(600, 2.0))
    assert found["lean: resident memory, slope"]["verdict"] == "met"


def test_variation_may_be_that_of_glibc_beside(card: MakeCard) -> None:
    def rough(seconds: float, step: int = 10) -> str:
        lines = ["epoch,elapsed_s,throughput_ops_s,rss_kb"]
        lines += [f"{n},{n * seconds:.3f},{100 + n % 3 * step}000000,2000" for n in range(1, 1801)]
        return "\n".join(lines) + "\n"

    goal = "balanced: CV of throughput"
    assert card(balanced=rough(2))[goal]["verdict"] == "not met"
    beside = f"{goal} (glibc beside it: 7.42%)"
    # Of two that are equal one may as well be the worse.
    assert card(balanced=rough(2), glibc=rough(2))[beside]["verdict"] == "met, not certain"
    worse = {"speed": rough(2), "lean": rough(2), "glibc-speed": rough(2, 20), "glibc": rough(1)}
    found = card(**worse)
    assert found["speed: CV of throughput (glibc beside it: 13.61%)"]["verdict"] == "met"
    assert found["lean: CV of throughput"]["verdict"] == "not met"
    # One that ran for half the time did not run beside it.
    assert card(balanced=rough(2), glibc=rough(1))[goal]["verdict"] == "not met"


def test_throughput_may_hold_as_a_share_of_glibcs_beside(card: MakeCard) -> None:
    def slowing(level: int, noise: float = 0.0) -> str:
        lines = ["epoch,elapsed_s,throughput_ops_s,rss_kb"]
        for n in range(1, 1801):
            factor = 1 + noise * (n * 7919 % 997 / 498 - 1)
            lines.append(f"{n},{2 * n}.000,{level * (5000 - n) * factor:.0f},2000")
        return "\n".join(lines) + "\n"

    goals = [f"balanced: throughput, {how}" for how in ("last tenth / first", "slope")]
    alone = card(balanced=slowing(2000))
    beside = card(balanced=slowing(2000), glibc=slowing(1000))
    for goal in goals:
        assert alone[goal]["verdict"] == "not met"
        line = beside[f"{goal} (of glibc's beside it: +0.00%)"]
        assert line["verdict"] == "met" and line["figure"] == alone[goal]["figure"]
    noisy = card(balanced=slowing(2000, 0.2), glibc=slowing(1000))
    for goal in goals:
        (line,) = (line for what, line in noisy.items() if what.startswith(f"{goal} (of glibc's"))
        assert line["verdict"].endswith(", not certain")


def test_names_do_not_break_the_table(card: MakeCard, run: Run, tmp_path: Path) -> None:
    result = suite()
    result.allocators = [replace(a, source="a|b <script>") for a in result.allocators]
    write_result(result, tmp_path / "s.json")
    _, text, _ = run("--results", tmp_path / "s.json")
    assert "a\\|b &lt;script>" in text
    assert "<script" not in text


def test_where_it_comes_from(run: Run, tmp_path: Path) -> None:
    result, soak = write_samples(tmp_path)
    code, text, _ = run(result, "--soak", soak)
    assert code == 0
    assert "**suite.json** (sha256 " in text and "**balanced.csv** (sha256 " in text
    assert "`hakmem-lab suite`" in text and "- mimalloc3 3.4.3: a crate" in text
    assert run(result, "--soak", soak)[1] == text


# --- bad files ------------------------------------------------------------------------------------


def test_a_missing_file_is_named(run: Run, tmp_path: Path) -> None:
    for option in ("--results", "--soak"):
        code, text, complaint = run(option, tmp_path / "away.json")
        assert (code, text) == (2, "")
        assert complaint == f"hakmem-lab: {tmp_path}/away.json: No such file or directory\n"


def test_the_field_that_is_wrong_is_named(run: Run, tmp_path: Path) -> None:
    file, _ = write_samples(tmp_path)
    content = json.loads(file.read_text())
    content["rows"][2]["runs"][1]["wall_s"] = "long"
    file.write_text(json.dumps(content))
    code, text, complaint = run("--results", file)
    assert (code, text) == (2, "")
    assert f"{file}: rows[2].runs[1].wall_s: 'long' is not of type 'number'" in complaint


def test_a_file_that_is_cut_off(run: Run, tmp_path: Path) -> None:
    file, soak = write_samples(tmp_path)
    file.write_text(file.read_text()[:-100])
    code, _, complaint = run("--results", file)
    assert code == 2 and f"{file}: not JSON, or cut off" in complaint
    soak.write_text(soak.read_text()[:-3])
    code, _, complaint = run("--soak", soak)
    assert code == 2 and f"{soak}:1801: cut off: no newline at the end" in complaint
    soak.write_text("epoch,elapsed_s,throughput_ops_s,rss_kb\n1,2,fast,2000\n")
    code, _, complaint = run("--soak", soak)
    assert code == 2 and f"{soak}:2: column 3 (throughput_ops_s): not a number: 'fast'" in complaint


def test_the_scorecard_that_was_there_stays(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scorecard.md").write_text("old")
    code, text, _ = run("--results", tmp_path / "away.json")
    assert (code, text) == (2, "old")


def test_two_files_of_one_name(run: Run, tmp_path: Path) -> None:
    result, _ = write_samples(tmp_path)
    (tmp_path / "sub").mkdir()
    other, _ = write_samples(tmp_path / "sub")
    code, _, complaint = run("--results", result, "--results", other)
    assert code == 2 and "a second file called suite" in complaint


def test_what_is_taken_when_nothing_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "docs/results"
    (kept / "soak-9.8.7").mkdir(parents=True)
    for name in ("steady-profiles-9.8.7", "steady-9.8.7", "suite-9.8.7", "suite-1.0.0", "other"):
        (kept / f"{name}.json").touch()
    results, soaks = usual_sources(Paths(tmp_path), "9.8.7")
    names = ["suite-9.8.7", "steady-9.8.7", "steady-profiles-9.8.7"]
    assert [file.stem for file in results] == names
    assert soaks == [kept / "soak-9.8.7"]
    assert usual_sources(Paths(tmp_path), "2.0.0") == ([], [])


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


def test_the_kept_scorecard_is_what_the_kept_data_gives(run: Run) -> None:
    code, text, complaint = run()
    assert code == 0, complaint
    assert differences(text, (ROOT / "docs/scorecard.md").read_text()) == [], "run make scorecard"


def test_kept_data_names_no_place_of_the_machine_it_is_from() -> None:
    files = sorted((ROOT / "docs/results").glob("*.json"))
    assert files
    for file in files:
        assert not re.search(r'[" =](/home|/root|/tmp|/work|/mnt|/srv)\b', file.read_text()), file
