"""README.md: short enough to be read, and its figures are those of the results that it names."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hakmem_lab.analysis.statistics import geometric_mean as paired_mean
from hakmem_lab.analysis.statistics import paired_ratios
from hakmem_lab.report.chart import overview_of, peaks
from hakmem_lab.run.results import Result, RowResult, read_result

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "docs/results"
MOST_LINES, MOST_WORDS = 80, 800
COLUMNS = ["hakmem", "glibc", "jemalloc", "mimalloc3", "tcmalloc-google"]


def table() -> list[tuple[str, list[str]]]:
    """What each row measures, and its figures without what stands behind them."""
    lines = README.split("## Figures", 1)[1].split("|---|", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(row[0], [re.sub(r" \(.*\)", "", cell).strip("*") for cell in row[1:]]) for row in rows]


def result(name: str) -> Result:
    return read_result(next(RESULTS.glob(f"{name}-*.json.zst")))


@cache
def of_suite() -> tuple[dict[str, float], dict[str, float]]:
    found = overview_of(result("suite"))
    assert found is not None and found.rows == 60
    return {p.name: p.time.mean.value for p in found.peers}, {p.name: p.memory.mean.value for p in found.peers}


def of_programs(figures: Callable[..., dict[int, float]]) -> dict[str, float]:
    programs = result("programs")
    assert len(programs.rows) == 37
    return {
        peer: paired_mean([paired_ratios(figures(row, peer), figures(row, "hakmem")) for row in programs.rows]).value
        for peer in ("glibc", "mimalloc3")
    }


def of_servers(figure: str) -> dict[str, float]:
    """Ratios within rounds, as the scorecard takes them."""
    servers = result("servers")
    assert len(servers.rows) == 10

    def figures(row: RowResult, name: str) -> dict[int, float]:
        return {run.round: run.figures[figure] for run in row.good_runs(name)}

    return {
        name: paired_mean([paired_ratios(figures(row, name), figures(row, "hakmem")) for row in servers.rows]).value
        for name in COLUMNS[1:]
    }


def of_idle() -> dict[str, float]:
    page = next(RESULTS.glob("idle-*.md")).read_text(encoding="utf-8")
    kb = {
        name.split()[0].strip("*,"): float(value.replace(",", ""))
        for name, value in re.findall(r"^\| (.+?) \| \**([\d,]+)\** \|", page, re.MULTILINE)
    }
    return {column: kb[name] / kb["hakmem"] for column, name in
            zip(COLUMNS[1:], ("glibc", "jemalloc", "mimalloc", "tcmalloc"), strict=True)}  # fmt: skip


def test_figures_are_those_of_the_results() -> None:
    time, memory = of_suite()
    measured = [
        time,
        memory,
        of_programs(lambda row, name: dict(row.costs(name))),
        of_programs(peaks),
        of_servers("cpu_us_per_request"),
        of_servers("rss_after_idle_kb"),
        of_idle(),
    ]
    rows = table()
    assert len(rows) == len(measured)
    for (what, cells), figures in zip(rows, measured, strict=True):
        assert cells[0] == "1.00", what
        for name, cell in zip(COLUMNS[1:], cells[1:], strict=True):
            digits = len(cell.partition(".")[2])
            assert cell == (f"{figures[name]:.{digits}f}" if name in figures else ""), (what, name)


def test_where_another_is_better_is_said_in_bold() -> None:
    """A figure below 1 stands out; none above it does."""
    figures = re.findall(r"\| (\**)(\d+\.\d+)(\**)(?= )", README.split("## Figures", 1)[1].split("\n\n", 3)[2])
    assert len(figures) > 25
    for before, figure, after in figures:
        assert (before, after) == (("**", "**") if float(figure) < 1 else ("", "")), figure


def test_the_mean_is_ahead_of_all() -> None:
    time, _ = of_suite()
    assert len(time) == 8 and min(time.values()) > 1


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    assert len(re.sub(r"<!--.*?-->|\(\S+\)", "", README).split()) <= MOST_WORDS


def test_files_that_contributors_are_sent_to_are_there() -> None:
    """Of the table "I want to change...": a name without a folder lies in that of the name before it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.split("| What | Files | Tests |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    assert len(rows) > 20
    missing = []
    for row in rows:
        folder = ROOT
        for name in re.findall(r"`([\w./-]+)`", row.split(" | ")[1]):
            place = ROOT / name if "/" in name or not (folder / name).exists() else folder / name
            folder = place.parent if place.is_file() else place
            if not place.exists():
                missing.append(name)
    assert missing == []
