"""Results as tables on a terminal, or 200 columns wide into a file."""

import statistics as standard
from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import Estimate
from hakmem_lab.base.numbers import NOTHING, show_number
from hakmem_lab.base.printable import printable
from hakmem_lab.run.results import Result, RowResult

FIRST_FEW = 5  # kinds of system calls that are listed by name
# Settings that have a place of their own.
UNSHOWN = (
    *("peers", "load", "dry", "problems", "parameters", "finds", "words", "asked"),
    *("phases", "library_environment"),
)


def make_console() -> Console:
    # What stands in brackets in a name is no markup.
    console = Console(markup=False, emoji=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, width=200)


def new_table(title: str, columns: Sequence[str], caption: str | None = None) -> Table:
    """A table whose first column is text and whose others are figures."""
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for index, column in enumerate(columns):
        # Long names of allocators break at their hyphen, so that all fit beside each other.
        heading = column.replace("-", "-\n") if index else column
        table.add_column(
            Text(heading),
            justify="right" if index else "left",
            no_wrap=index == 0,
            overflow="fold",
        )
    return table


def show(estimate: Estimate | None, digits: int = 2) -> str:
    """0.93 [0.91, 0.95]; the interval is left out where there were too few runs."""
    if estimate is None:
        return NOTHING
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def show_memory(kib: float | None) -> str:
    """MiB."""
    return NOTHING if kib is None else f"{kib / 1024:.1f}"


def two_digits(value: float) -> str:
    return f"{value:.2f}"


def run_count(row: RowResult, name: str) -> str:
    return str(len(row.good_runs(name)))


def say(console: Console, text: str) -> None:
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def say_list(console: Console, title: str, lines: Sequence[str]) -> None:
    if lines:
        say(console, f"{title}:")
        for line in lines:
            say(console, f"  {line}")


# --- parts that every kind of result has ---------------------------------------------------------


def print_head(result: Result, console: Console) -> None:
    machine = result.machine
    say(console, f"{result.kind}, {result.created}, hakmem-lab {result.lab_version}")
    say(
        console,
        f"{machine['cpu_model']}, {machine['cpus']} CPUs, {machine['memory_mib']} MiB,"
        f" {machine['kernel']}, huge pages: {machine['transparent_huge_pages']},"
        f" load at the start: {machine['load_average']}",
    )
    shown = {k: v for k, v in result.settings.items() if k not in UNSHOWN}
    settings = ", ".join(f"{k}: {v}" for k, v in shown.items())
    say(console, f"settings: {settings}")
    table = Table(title="Allocators", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("name", "version", "from"):
        table.add_column(column, overflow="fold")
    for allocator in result.allocators:
        note = f"missing: {allocator.missing}" if allocator.missing else allocator.source
        table.add_row(allocator.name, Text(allocator.version), Text(note))
    console.print(table)
    if result.interrupted:
        say(console, "stopped before the end: the figures are of the finished runs")


def print_problems(result: Result, console: Console) -> None:
    say_list(
        console,
        "Rows not run",
        [f"{row.name}: {row.missing}" for row in result.rows if row.missing],
    )
    failures = [
        f"{row.name} on {name}: {failure}"
        for row in result.rows
        for name in result.allocator_names()
        if (failure := row.failure(name))
    ]
    say_list(console, "Failed runs", failures)


def print_matrix(
    result: Result,
    console: Console,
    title: str,
    value: Callable[[RowResult, str], float | None],
    show_value: Callable[[float], str],
    highest: bool = False,
) -> None:
    """A table of rows by allocators; the best figure of each row stands out, the lowest unless
    `highest`. Rows without any figure are left out."""
    names = result.allocator_names()
    table = new_table(title, ["row", *names])
    for row in result.rows:
        values = {name: value(row, name) for name in names}
        known = [v for v in values.values() if v is not None]
        if not known:
            continue
        best = max(known) if highest else min(known)
        cells: list[Text] = []
        for name in names:
            figure = values[name]
            if figure is None:
                cells.append(Text("failed" if row.failure(name) else NOTHING, style="red"))
            else:
                cells.append(Text(show_value(figure), "bold green" if figure == best else ""))
        table.add_row(row.name, *cells)
    if table.row_count:
        console.print(table)


def print_means(result: Result, console: Console, to_best: bool) -> None:
    base = summary.baseline_of(result)
    if base is None:
        return
    columns = ["allocator", f"time / {base}", f"peak memory / {base}"]
    columns += ["time / lowest of the row"] if to_best else []
    table = new_table(
        "Geometric means over rows",
        [*columns, "rows"],
        "of each row's median ratio, with its 95% bootstrap interval over rounds",
    )
    for means in summary.geometric_means(result):
        cells = [means.allocator, show(means.time, 3), show(means.memory, 3)]
        cells += [show_number(means.time_to_best, 3)] if to_best else []
        table.add_row(*cells, str(means.time.count if means.time else 0))
    console.print(table)


# --- suite ---------------------------------------------------------------------------------------


def time_to_lowest(result: Result) -> Callable[[RowResult, str], float | None]:
    def ratio(row: RowResult, name: str) -> float | None:
        best = summary.best_by_cost(row, result.allocator_names())
        lowest = summary.median_cost(row, best) if best else None
        cost = summary.median_cost(row, name)
        return None if cost is None or lowest is None else cost / lowest

    return ratio


def ratio_to(
    base: str | None, ratio: Callable[[RowResult, str, str | None], Estimate | None]
) -> Callable[[RowResult, str], float | None]:
    def value(row: RowResult, name: str) -> float | None:
        estimate = ratio(row, name, base)
        return None if estimate is None else estimate.value

    return value


def print_subject(result: Result, console: Console, subject: str) -> None:
    peers = summary.peers_of(result)
    base = summary.baseline_of(result)
    table = new_table(
        f"{subject} against its peers",
        [
            *("row", "best peer", "time /\nbest peer", "bar", f"time /\n{base}"),
            *("peak\nMiB", "peak /\nlowest", "lowest\npeer", "page\nfaults", "system\ncalls"),
            "runs",
        ],
        "time ratios: medians over rounds with their 95% bootstrap interval; below 1 is faster",
    )
    for row in result.rows:
        if not row.good_runs(subject):
            continue
        best = summary.best_by_cost(row, peers)
        ratio = summary.cost_ratio(row, subject, best)
        lowest = summary.lowest_memory(row, summary.memory_peers(result))
        memory = summary.memory_ratio(row, subject, lowest)
        limit = summary.limit_of(row)
        table.add_row(
            row.name,
            best or NOTHING,
            Text(show(ratio), "red" if ratio and ratio.value > limit else "green"),
            f"{limit:.2f}",
            show_number(ratio_to(base, summary.cost_ratio)(row, subject), 2),
            show_memory(summary.peak_memory(row, subject)),
            Text(
                NOTHING if memory is None else f"{memory.value:.2f}",
                "red" if memory and memory.value > summary.MEMORY_BAR else "green",
            ),
            lowest or NOTHING,
            show_number(summary.page_faults(row, subject)),
            show_number(summary.system_calls(row, subject)),
            run_count(row, subject),
        )
    console.print(table)


def kinds_of_calls(result: Result, name: str) -> str:
    """The most frequent system calls over all rows."""
    totals: dict[str, int] = {}
    for row in result.rows:
        for kind, calls in row.system_calls.get(name, {}).items():
            totals[kind] = totals.get(kind, 0) + calls
    kinds = sorted(totals, key=lambda kind: -totals[kind])[:FIRST_FEW]
    return ", ".join(f"{kind} {show_number(totals[kind])}" for kind in kinds)


def print_suite(result: Result, console: Console) -> None:
    print_matrix(
        result,
        console,
        "Time, as a ratio to the row's lowest",
        time_to_lowest(result),
        two_digits,
    )
    print_matrix(result, console, "Peak memory, MiB", summary.peak_memory, show_memory)
    print_matrix(result, console, "Page faults", summary.page_faults, show_number)
    print_matrix(
        result, console, "System calls, one untimed run", summary.system_calls, show_number
    )
    print_matrix(
        result,
        console,
        "Many threads: throughput, as a ratio to the same row with few",
        lambda row, name: summary.scaling(result, row, name),
        two_digits,
        highest=True,
    )
    by_kind = [f"{name}: {kinds_of_calls(result, name)}" for name in result.allocator_names()]
    if any(row.system_calls for row in result.rows):
        say_list(console, "Most frequent system calls, all rows", by_kind)
    subjects = summary.subjects_of(result)
    for subject in subjects:
        print_subject(result, console, subject)
    print_means(result, console, to_best=True)
    print_problems(result, console)
    for subject in subjects:
        short = summary.suite_shortfalls(result, subject)
        say_list(console, f"{subject} falls short in {len(short)}", short)
        if not short and any(row.good_runs(subject) for row in result.rows):
            say(console, f"{subject} falls short in no row")


# --- programs ------------------------------------------------------------------------------------


def print_programs(result: Result, console: Console) -> None:
    base = summary.baseline_of(result)
    title = f"CPU time, as a ratio to {base}"
    print_matrix(result, console, title, ratio_to(base, summary.cost_ratio), two_digits)
    title = f"Peak memory, as a ratio to {base}"
    print_matrix(result, console, title, ratio_to(base, summary.memory_ratio), two_digits)
    print_matrix(result, console, "Page faults", summary.page_faults, show_number)
    print_matrix(
        result, console, "System calls, one untimed run", summary.system_calls, show_number
    )
    for subject in summary.subjects_of(result):
        table = new_table(
            f"Real programs on {subject}",
            [
                *("program", "kind", "CPU s", "CPU /\nglibc", f"CPU /\n{base}", "peak\nMiB"),
                *("peak /\nglibc", f"peak /\n{base}", "page\nfaults", "output", "runs"),
            ],
            "peak memory is that of the largest process; output: compared with that on glibc",
        )
        for row in result.rows:
            if not row.good_runs(subject):
                continue
            table.add_row(
                row.name,
                row.group,
                show_number(summary.median_cost(row, subject), 2),
                show(summary.cost_ratio(row, subject, "glibc")),
                show(summary.cost_ratio(row, subject, base)),
                show_memory(summary.peak_memory(row, subject)),
                show_number(ratio_to("glibc", summary.memory_ratio)(row, subject), 2),
                show_number(ratio_to(base, summary.memory_ratio)(row, subject), 2),
                show_number(summary.page_faults(row, subject)),
                summary.output_verdict(row, subject),
                run_count(row, subject),
            )
        console.print(table)
    print_means(result, console, to_best=False)
    print_problems(result, console)
    differing = [
        f"{row.name} on {name}"
        for row in result.rows
        for name in result.allocator_names()
        if summary.output_verdict(row, name) == "differs"
    ]
    say_list(console, "Output differs from that on glibc", differing)
    for subject in summary.subjects_of(result):
        short = summary.program_shortfalls(result, subject)
        say_list(console, f"{subject} falls short in {len(short)}", short)


# --- instructions --------------------------------------------------------------------------------


def print_instructions(result: Result, console: Console) -> None:
    table = new_table(
        "Instructions an operation (random_mixed under callgrind)",
        [
            *("allocator", "all", "harness", "malloc", "what it calls", "free", "what it calls"),
            *("other", "malloc + free pair"),
        ],
        "an operation is a malloc or a free; the pair is two of them without the harness",
    )
    counted = [count for count in result.instructions if count.failure is None]
    for count in sorted(counted, key=lambda count: count.total):
        parts = [count.total, count.harness, count.malloc, count.malloc_slow]
        parts += [count.free, count.free_slow, count.other, count.pair]
        cells = (show_number(part, 2).replace("-0.00", "0.00") for part in parts)
        table.add_row(count.allocator, *cells)
    console.print(table)
    for subject in summary.subjects_of(result):
        for count in counted:
            if count.allocator == subject:
                lines = [f"{value:8.2f}  {name}" for name, value in count.functions.items()]
                say_list(console, f"Largest functions of {subject}", lines)
    failed = [count for count in result.instructions if count.failure]
    say_list(console, "Not counted", [f"{count.allocator}: {count.failure}" for count in failed])


# --- steady --------------------------------------------------------------------------------------


def median_figure(name: str) -> Callable[[RowResult, str], float | None]:
    def value(row: RowResult, allocator: str) -> float | None:
        known = [run.figures[name] for run in row.good_runs(allocator) if name in run.figures]
        return standard.median(known) if known else None

    return value


def figure_names(result: Result) -> list[str]:
    """Figures that only some kinds of runs have, in the order in which they come."""
    runs = [run for row in result.rows for run in row.runs]
    return list(dict.fromkeys(name for run in runs for name in run.figures))


def show_exact(value: float) -> str:
    return show_number(value, 0 if value == int(value) else 3)


def print_steady(result: Result, console: Console) -> None:
    for name in figure_names(result):
        title = f"{name.replace('_', ' ')}, median over rounds"
        print_matrix(result, console, title, median_figure(name), show_exact)
    print_problems(result, console)
