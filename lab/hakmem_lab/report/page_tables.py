"""The tables of a report, from a result of any kind: what it has rows for gets the same tables."""

import shlex
import statistics as standard
from collections.abc import Callable

import numpy as np

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import (
    Estimate,
    describe_difference,
    judge,
    median_estimate,
    paired_ratios,
)
from hakmem_lab.base.numbers import NOTHING, show_number
from hakmem_lab.report.page_model import (
    Cell,
    Detail,
    PageRow,
    PageTable,
    digits_for,
    figure,
    number,
    stands_out,
    with_note,
    word,
)
from hakmem_lab.report.tables import figure_names
from hakmem_lab.report.where_page import where_tables
from hakmem_lab.run.allocators import is_hakmem
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult

UNITS = {"throughput": "ns an operation", "cpu": "CPU seconds", "wall": "seconds"}
SHORT_UNITS = {"throughput": "ns", "cpu": "s", "wall": "s"}
IN_WORDS = {
    "equal": "equal within noise",
    "faster": "faster",
    "slower": "slower",
    "unknown": "too few rounds to tell",
}
STEADY_FIGURES = {
    "operations": "operations",
    "os_calls": "system calls",
    "filled_kb": "filled, kB",
    "live_kb": "live, kB",
    "resident_kb": "resident when idle, kB",
    "quiet_s": "watched, s",
    "quiet_cpu_ms": "processor time, ms",
    "wake_ups": "wake-ups",
    "again_to_first": "first second again / first load's",
}
ASKED_FOR = ("operations", "quiet_s")  # the same in each run


def subjects_of(result: Result) -> list[str]:
    """Those that stand out: hakmem and its variants; a library under a name of the user's does not,
    unless nothing else was measured."""
    subjects = summary.subjects_of(result)
    ours = [a.name for a in result.allocators if a.name in subjects and is_hakmem(a)]
    return ours or subjects


def unit_of(row: RowResult) -> str:
    return UNITS.get(row.measure, row.measure)


def base_of(result: Result) -> str | None:
    """What ratios are to: the summary's baseline; of ab its a; else the first one that ran."""
    names = result.allocator_names()
    if result.kind == "ab" and "a" in names:
        return "a"
    chosen = result.settings.get("base")  # of a comparison that a user set up
    if chosen in names:
        return str(chosen)
    return summary.baseline_of(result) or (names[0] if names else None)


def estimate_of(values: list[float]) -> Estimate | None:
    return median_estimate(np.array(values, dtype=np.float64)) if values else None


def cost_estimate(row: RowResult, name: str) -> Estimate | None:
    return estimate_of(list(row.costs(name).values()))


def run_estimate(row: RowResult, name: str, value: Callable[[Run], float]) -> Estimate | None:
    return estimate_of([value(run) for run in row.good_runs(name)])


def peak_mib(run: Run) -> float:
    return run.peak_rss_kb / 1024


def faults(run: Run) -> float:
    return run.minor_faults + run.major_faults


def usual_count(row: RowResult, names: list[str]) -> int:
    """How many good runs most allocators have on a row."""
    counts = [count for name in names if (count := len(row.good_runs(name)))]
    return standard.mode(counts) if counts else 0


def failed_or_nothing(row: RowResult, name: str) -> Cell:
    return Cell("failed" if row.failure(name) else NOTHING)


# --- the drill-down -------------------------------------------------------------------------------


def detail_row(result: Result, row: RowResult, name: str, base: str | None) -> PageRow:
    good = len(row.good_runs(name))
    cost, memory = cost_estimate(row, name), run_estimate(row, name, peak_mib)
    ratios = paired_ratios(row.costs(name), row.costs(base)) if base else np.array([])
    words = IN_WORDS[describe_difference(ratios)] if len(ratios) and name != base else None
    failure, calls = row.failure(name), summary.system_calls(row, name)
    ran = sum(run.allocator == name for run in row.runs)
    cells = [
        figure(cost, digits_for(cost.value) if cost else 2),
        figure(summary.cost_ratio(row, name, base)),
        word(words),
        figure(memory, digits_for(memory.value) if memory else 1),
        figure(run_estimate(row, name, faults), 0),
        figure(run_estimate(row, name, lambda run: run.user_s), 2),
        figure(run_estimate(row, name, lambda run: run.system_s), 2),
        figure(run_estimate(row, name, lambda r: r.voluntary_switches + r.involuntary_switches), 0),
        number(calls, note="1 run" if calls is not None else ""),
        Cell(f"{good} of {ran}" if good != ran else str(good), failure or "", good),
    ]
    if any(run.output for run in row.runs):
        cells.append(word(summary.output_verdict(row, name)))
    return PageRow(name, cells)


def detail_of(result: Result, row: RowResult, base: str | None) -> Detail:
    names = [a for a in result.allocator_names() if any(run.allocator == a for run in row.runs)]
    columns = ["allocator", unit_of(row), f"ratio to {base}", "in words", "peak MiB", "page faults"]
    columns += ["user s", "system s", "switches", "system calls", "runs"]
    columns += ["output"] if any(run.output for run in row.runs) else []
    words = frozenset({0, 3, 11})
    facts = [("group", row.group), ("command", shlex.join(row.command))]
    if row.environment:
        variables = " ".join(f"{name}={value}" for name, value in row.environment.items())
        facts.append(("environment", variables))
    if result.kind == "suite" and row.missing is None:
        text = f"at most {summary.limit_of(row):.2f} times the time of the row's best peer"
        facts.append(("bar", text))
    if row.missing:
        facts.append(("not run", row.missing))
    calls = [
        (name, ", ".join(f"{kind} {show_number(n)}" for kind, n in by_count(kinds)) or "none")
        for name, kinds in row.system_calls.items()
    ]
    table = PageTable(
        "On each allocator",
        columns,
        [detail_row(result, row, name, base) for name in names],
        words=words,
    )
    return Detail(row.idea, facts, table, calls, ["cost", "memory"] if names else [])


def by_count(kinds: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(kinds.items(), key=lambda item: -item[1])


# --- rows by allocators ---------------------------------------------------------------------------


def matrix(
    result: Result,
    title: str,
    caption: str,
    estimate: Callable[[RowResult, str], Estimate | None],
    digits: Callable[[float], int],
    base: str | None = None,
    details: bool = False,
    mark_lowest: bool = True,
    beside: Callable[[RowResult, str], str] = lambda _row, _name: "",
) -> PageTable | None:
    """A row each, a column an allocator; rows without a figure only where they can be opened."""
    names = result.allocator_names()
    rows: list[PageRow] = []
    for index, row in enumerate(result.rows):
        found = {name: estimate(row, name) for name in names}
        known = [e for e in found.values() if e is not None]
        if not known and not details:
            continue
        usual = usual_count(row, names)
        cells = [Cell(str(usual), sort=usual)]
        for name, e in found.items():
            if e is None:
                cells.append(failed_or_nothing(row, name))
            else:
                lowest = mark_lowest and stands_out(e, known)
                cell = figure(e, digits(e.value), usual, lowest)
                cells.append(with_note(cell, beside(row, name)))
        detail = detail_of(result, row, base) if details else None
        rows.append(PageRow(row.name, cells, detail, index))
    heads = [f"{name} (base)" if name == base else name for name in names]
    return PageTable(title, ["row", "runs", *heads], rows, caption) if rows else None


MEDIAN = "Median over rounds with its 95% bootstrap interval."
INTERVAL = f"{MEDIAN} Bold: the lowest of the row, where its interval ends below all others'."


def time_beside(row: RowResult, name: str) -> str:
    """The median itself, with its unit."""
    cost = cost_estimate(row, name)
    unit = SHORT_UNITS.get(row.measure, "")
    return "" if cost is None else f"{show_number(cost.value, digits_for(cost.value))} {unit}"


def memory_beside(base: str | None) -> Callable[[RowResult, str], str]:
    def ratio(row: RowResult, name: str) -> str:
        found = summary.memory_ratio(row, name, base)
        return "" if found is None or name == base else f"{found.value:.2f} of {base}'s"

    return ratio


def time_table(result: Result, base: str | None) -> PageTable | None:
    units = sorted({unit_of(row) for row in result.rows})
    unit = units[0] if len(units) == 1 else "the row's own unit"
    return matrix(
        result,
        f"Time, as a ratio to {base}",
        f"Cost ({unit}) against {base} in the same round; below 1 is faster. {INTERVAL}"
        " Open a row for its runs.",
        lambda row, name: summary.cost_ratio(row, name, base),
        lambda value: 2,
        base,
        details=True,
        beside=time_beside,
    )


def memory_table(result: Result, base: str | None) -> PageTable | None:
    return matrix(
        result,
        "Peak memory, MiB",
        f"Resident, of the largest process. {INTERVAL}",
        lambda row, name: run_estimate(row, name, peak_mib),
        digits_for,
        beside=memory_beside(base),
    )


def fault_table(result: Result) -> PageTable | None:
    def estimate(row: RowResult, name: str) -> Estimate | None:
        return run_estimate(row, name, faults)

    return matrix(result, "Page faults", INTERVAL, estimate, lambda value: 0)


def system_call_table(result: Result) -> PageTable | None:
    names = result.allocator_names()
    rows: list[PageRow] = []
    for row in result.rows:
        calls = {name: summary.system_calls(row, name) for name in names}
        known = [count for count in calls.values() if count is not None]
        if known:
            cells = [
                Cell(show_number(count), "", count, count == min(known)) for count in calls.values()
            ]
            rows.append(PageRow(row.name, cells))
    caption = "Of one run under strace that is not timed, so without an interval."
    return PageTable("System calls", ["row", *names], rows, caption) if rows else None


# --- summaries ------------------------------------------------------------------------------------


def means_table(result: Result) -> PageTable | None:
    base = summary.baseline_of(result)
    if base is None or len(result.rows) < 2:
        return None
    rows = [
        PageRow(
            means.allocator,
            [
                figure(means.time, 3),
                figure(means.memory, 3),
                number(means.time_to_best, 3),
                number(means.time.count if means.time else 0),
            ],
        )
        for means in summary.geometric_means(result)
    ]
    columns = ["allocator", f"time / {base}", f"peak memory / {base}", "time / lowest of row"]
    return PageTable(
        "Geometric means over rows",
        [*columns, "rows"],
        rows,
        "Of each row's median ratio; the interval redraws each row's rounds.",
    )


def subject_table(result: Result, subject: str) -> PageTable | None:
    """A suite's subject against the best peer of each row."""
    peers = [a.name for a in result.allocators if a.missing is None and not is_hakmem(a)]
    rows: list[PageRow] = []
    for row in result.rows:
        best = summary.best_by_cost(row, peers)
        ratio = summary.cost_ratio(row, subject, best)
        if ratio is None:
            continue
        lowest = summary.lowest_memory(row, summary.memory_peers(result))
        memory = summary.memory_ratio(row, subject, lowest)
        limit = summary.limit_of(row)
        doubt = summary.doubt(ratio).removeprefix("; ") if ratio.value > 1 else ""
        verdict = (
            "within its bar" if ratio.value <= limit else f"above its bar; {doubt}".strip("; ")
        )
        within = None if memory is None else memory.value <= summary.MEMORY_BAR
        cells = [
            word(best),
            figure(ratio),
            number(limit, 2),
            word(verdict),
            word(lowest),
            figure(memory),
            word(None if within is None else "within its bar" if within else "above its bar"),
            number(ratio.count),
        ]
        rows.append(PageRow(row.name, cells))
    if not rows:
        return None
    columns = ["row", "best peer", "time / best peer", "bar", "time", "lowest memory"]
    columns += ["peak / lowest", "memory", "runs"]
    caption = f"Medians over rounds, 95% intervals. Memory's bar: {summary.MEMORY_BAR:g}."
    title = f"{subject} against the best peer of each row"
    return PageTable(title, columns, rows, caption, frozenset({0, 1, 4, 5, 7}))


def ab_table(result: Result) -> PageTable | None:
    rows: list[PageRow] = []
    for row in result.rows:
        ratios = paired_ratios(row.costs("b"), row.costs("a"))
        if len(ratios) == 0:
            continue
        verdict = judge(ratios, bool(result.settings.get("build_change")))
        more = f", {verdict.more_rounds} more rounds needed" if verdict.more_rounds else ""
        cells = [
            figure(verdict.improvement),
            word(verdict.decision + more),
            number(verdict.threshold, 1),
            word(IN_WORDS[verdict.difference]),
            number(len(ratios)),
        ]
        rows.append(PageRow(row.name, cells))
    columns = ["row", "improvement, %", "verdict", "threshold, %", "b is", "rounds"]
    caption = "Rule R1: more work in the same time, mean with its 95% interval."
    title = "b against a"
    return PageTable(title, columns, rows, caption, frozenset({0, 2, 4})) if rows else None


def instructions_table(result: Result) -> PageTable | None:
    rows: list[PageRow] = []
    for count in result.instructions:
        if count.failure is not None:
            rows.append(PageRow(count.allocator, [*[Cell(NOTHING)] * 8, word(count.failure)]))
            continue
        parts = [count.total, count.harness, count.malloc, count.malloc_slow]
        parts += [count.free, count.free_slow, count.other, count.pair]
        rows.append(PageRow(count.allocator, [*(number(part, 2) for part in parts), word(None)]))
    columns = ["allocator", "all", "harness", "malloc", "what it calls", "free", "what it calls"]
    columns += ["other", "malloc and free", "failure"]
    caption = "Counted under callgrind, one pair of runs each: the same on every repetition."
    title = "Instructions an operation"
    return PageTable(title, columns, rows, caption, frozenset({0, 9})) if rows else None


def figure_tables(result: Result) -> list[PageTable]:
    """A table for each figure that only this kind of run has."""

    def estimate(figure_name: str) -> Callable[[RowResult, str], Estimate | None]:
        def value(row: RowResult, name: str) -> Estimate | None:
            runs = [run for run in row.good_runs(name) if figure_name in run.figures]
            return estimate_of([run.figures[figure_name] for run in runs])

        return value

    found = [
        matrix(
            result,
            name.replace("_", " ").capitalize(),
            MEDIAN,
            estimate(name),
            digits_for,
            mark_lowest=False,  # of some, more is better
        )
        for name in figure_names(result)
    ]
    return [table for table in found if table is not None]


def steady_tables(result: Result) -> list[PageTable]:
    """A table for each row, an allocator a line: few allocators, and figures of each row's own."""
    found: list[PageTable] = []
    for row in result.rows:
        names = [name for name in STEADY_FIGURES if any(name in r.figures for r in row.runs)]
        failed = any(run.failure for run in row.runs)
        lines: list[PageRow] = []
        for allocator in result.allocator_names():
            good = row.good_runs(allocator)
            cells = [number(len(good))]
            for name in names:
                values = [r.figures[name] for r in good if name in r.figures]
                if name in ASKED_FOR:
                    cells.append(number(values[0] if values else None))
                    continue
                estimate = estimate_of(values)
                cells.append(figure(estimate, digits_for(estimate.value) if estimate else 0))
            cells += [word(row.failure(allocator))] if failed else []
            lines.append(PageRow(allocator, cells))
        if names:
            columns = ["allocator", "runs", *(STEADY_FIGURES[name] for name in names)]
            columns += ["failure"] if failed else []
            words = frozenset({0, len(columns) - 1} if failed else {0})
            title = f"{row.name}: {row.idea}" if row.idea else row.name
            found.append(PageTable(title, columns, lines, MEDIAN, words))
    return found


def tables_of(result: Result) -> list[PageTable]:
    """All tables of a result, in the order of the page."""
    base = base_of(result)
    if result.kind == "steady":  # its times are of tracing and of waiting
        return steady_tables(result)
    if result.kind == "where":  # its runs are too few for times
        return where_tables(result)
    tables = [means_table(result)]
    tables += [ab_table(result)] if result.kind == "ab" else []
    tables.append(time_table(result, base))
    if result.kind == "suite":
        tables += [subject_table(result, name) for name in subjects_of(result)]
    tables += [memory_table(result, base), fault_table(result), system_call_table(result)]
    tables += [*figure_tables(result), instructions_table(result)]
    return [table for table in tables if table is not None]
