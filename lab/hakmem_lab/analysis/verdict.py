"""What a comparison came to, in words: faster, slower, equal, or not told apart yet.

Faster and slower are of the work done in the same time: 100% faster is half the time, 50% slower is
twice the time. The words ask for an interval of 99%, as a table compares many; a difference stands
beside its 95% interval, what is called noise beside that of 99%.
"""

import math

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import (
    NOTICEABLE,
    Comparison,
    Difference,
    Estimate,
    compare_costs,
    paired_ratios,
)
from hakmem_lab.base.numbers import Floats
from hakmem_lab.run.results import Result, RowResult

DOUBLE = 2.0  # from here on a factor says more than a percentage
SAME_MEMORY = 1.0  # percent
MOST_MORE_RUNS = 1000  # that anybody would wait for


def plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def show_figure(value: float) -> str:
    """Two digits: 0.4, 3.1, 12."""
    return f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"


def with_interval(text: str, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return text
    return f"{text} [{show_figure(low)}, {show_figure(high)}]"


def describe_time(ratio: Estimate, difference: Difference, base: str) -> str:
    """`ratio` is that of costs, its difference is certain."""
    low, high = ratio.low, ratio.high
    if difference == "faster":
        rate, rates = 1 / ratio.value, (high and 1 / high, low and 1 / low)
        if rate >= DOUBLE:
            return with_interval(f"{show_figure(rate)} times as fast as {base}", *rates)
        percents = tuple(None if r is None else (r - 1) * 100 for r in rates)
        return with_interval(f"{show_figure((rate - 1) * 100)}% faster than {base}", *percents)
    if ratio.value >= DOUBLE:
        text = f"takes {show_figure(ratio.value)} times as long as {base}"
        return with_interval(text, low, high)
    percents = tuple(None if r is None else (1 - 1 / r) * 100 for r in (low, high))
    return with_interval(
        f"{show_figure((1 - 1 / ratio.value) * 100)}% slower than {base}", *percents
    )


def describe_amount(ratio: Estimate, what: str, than: str = "") -> str:
    """More or less of something that is used; the difference is certain."""
    low, high = ratio.low, ratio.high
    if ratio.value >= DOUBLE:
        return with_interval(f"{show_figure(ratio.value)} times the {what}", low, high)
    percent = show_figure(abs(ratio.value - 1) * 100)
    if ratio.value > 1:
        percents = tuple(None if r is None else (r - 1) * 100 for r in (low, high))
        return with_interval(f"{percent}% more {what}{than}", *percents)
    percents = tuple(None if r is None else (1 - r) * 100 for r in (high, low))
    return with_interval(f"{percent}% less {what}{than}", *percents)


def describe_range(ratio: Estimate) -> str:
    """How far the noise leaves the difference open, in percent of more work in the same time."""
    percents = [(1 / r - 1) * 100 for r in (ratio.high, ratio.low) if r]
    return f"[{', '.join(f'{percent:+.1f}' for percent in percents)}]%"


def describe_comparison(compared: Comparison, measure: str, base: str) -> str:
    """The cost of one row against that of the base."""
    if compared.difference == "unknown":
        runs = plural(compared.more_rounds, "more run")
        return f"too few runs to tell: {runs} at the least"
    if compared.difference != "equal":
        if measure == "cpu":
            return describe_amount(compared.ratio, "CPU time", f" than {base}")
        return describe_time(compared.ratio, compared.difference, base)
    within = describe_range(compared.sure)
    if compared.more_rounds > MOST_MORE_RUNS:
        least = f"more than {MOST_MORE_RUNS} more runs"
        return f"no difference beyond the noise {within}: {least} would show one of {NOTICEABLE:g}%"
    if compared.more_rounds:
        runs = plural(compared.more_rounds, "more run")
        return f"no difference beyond the noise {within}: {runs} would show one of {NOTICEABLE:g}%"
    return f"equal: the difference is noise {within}"


def describe_memory(ratios: Floats, what: str = "memory") -> str | None:
    """Peak memory against that of the base; None where the runs do not tell."""
    if len(ratios) == 0:
        return None
    compared = compare_costs(ratios)
    if compared.more_rounds:
        return None
    ratio = compared.ratio
    if compared.difference == "equal" or abs(math.log(ratio.value)) * 100 < SAME_MEMORY:
        return f"the same {what}"
    return describe_amount(Estimate(ratio.value, None, None, ratio.count), what)


def describe_latency(row: RowResult, name: str, base: str, share: str) -> str | None:
    """A percentile of the latencies against the base's; None where the load did not say it."""
    figure = f"latency_{share}_ms"
    sides = [
        {run.round: run.figures[figure] for run in row.good_runs(side) if figure in run.figures}
        for side in (name, base)
    ]
    ratios = paired_ratios(*sides)
    if len(ratios) == 0:
        return None
    compared = compare_costs(ratios)
    if compared.difference in ("faster", "slower"):
        return describe_amount(compared.ratio, f"{share} latency")
    if compared.difference == "equal":
        return f"{share} latency within the noise"
    return None


def describe_failed_requests(row: RowResult, name: str) -> str | None:
    runs = sum("failed_requests" in run.figures for run in row.good_runs(name))
    return f"REQUESTS FAILED in {plural(runs, 'run')}" if runs else None


def memory_by_round(row: RowResult, name: str) -> dict[int, float]:
    return {run.round: float(run.peak_rss_kb) for run in row.good_runs(name)}


def row_verdict(row: RowResult, name: str, base: str, with_memory: bool) -> str | None:
    """One line on one allocator in one row; None where it has nothing to say."""
    failure = row.failure(name)
    if failure is not None:
        good = len(row.good_runs(name))
        when = f" after {plural(good, 'good run')}" if good else ""
        return f"failed{when}: {failure}"
    if row.failure(base) is not None or not row.good_runs(base):
        return None
    ratios = paired_ratios(row.costs(name), row.costs(base))
    if len(ratios) == 0:
        return "too short to be timed" if row.good_runs(name) else None
    parts = [describe_comparison(compare_costs(ratios), row.measure, base)]
    if with_memory:
        memory = paired_ratios(memory_by_round(row, name), memory_by_round(row, base))
        said = describe_memory(memory)
        parts += [said] if said else []
    for found in (describe_latency(row, name, base, "p99"), describe_failed_requests(row, name)):
        parts += [found] if found else []
    if summary.output_verdict(row, name, base) == "differs":
        parts.append(f"ITS OUTPUT DIFFERS from that on {base}")
    joint = "; " if any(":" in part for part in parts) else ", "
    return f"{joint.join(parts)} ({plural(len(ratios), 'run')})"


def verdicts(result: Result) -> list[str]:
    """A line for each allocator but the base, and each row. Memory is the process's, so with a
    server it stands in the server's row only."""
    base = summary.base_of(result)
    lines: list[str] = []
    for allocator in result.allocators:
        name = allocator.name
        if allocator.missing is not None:
            lines.append(f"{name}: not run: {allocator.missing}")
            continue
        if name == base:
            continue
        for index, row in enumerate(result.rows):
            own = row.group != "server" or index == 0
            said = row_verdict(row, name, base, with_memory=own)
            label = name if len(result.rows) == 1 else f"{name}, {row.name}"
            if said is not None:
                lines.append(f"{label}: {said}")
    for row in result.rows:
        failure = row.failure(base)
        if failure is not None:
            lines.append(f"{base}, the base, failed: {failure}; nothing to compare with")
        failed = describe_failed_requests(row, base)
        if failed is not None:
            lines.append(f"{base}, the base, {row.name}: {failed}")
        if len({run.output for run in row.good_runs(base) if run.output is not None}) > 1:
            lines.append(f"the output varies from run to run on {base} itself: not compared")
    return lines
