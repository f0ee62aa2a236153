"""The outcome of `tune`: settings from least time to least memory, and what to put where."""

import shlex

from rich.console import Console
from rich.text import Text

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import LEAST_ROUNDS, Estimate, Verdict
from hakmem_lab.analysis.tune import (
    BETWEEN,
    LEAST_MEMORY,
    LEAST_TIME,
    Place,
    final_row,
    more_rounds,
    places,
    ratios_of,
    sure,
)
from hakmem_lab.analysis.verdict import plural
from hakmem_lab.base.numbers import NOTHING, show_number
from hakmem_lab.report.tables import (
    new_table,
    print_problems,
    say,
    say_list,
    show_memory,
)
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.tune import DEFAULT

CAPTION = (
    "Percent against {base}, means of the rounds' ratios with their 95% intervals; less is better."
    " noise: no gain of 1% by rule R1, or the 99% interval includes 0"
)


def percent(ratio: Estimate) -> str:
    """-4.1% [-5.0, -3.2]."""

    def change(value: float) -> str:
        return f"{(value - 1) * 100:+.1f}"

    if ratio.low is None or ratio.high is None:
        return f"{change(ratio.value)}%"
    return f"{change(ratio.value)}% [{change(ratio.low)}, {change(ratio.high)}]"


def against(verdict: Verdict, worse: bool, ratio: Estimate) -> str:
    return percent(ratio) if sure(verdict) or worse else f"{percent(ratio)} noise"


def is_worse(ratio: Estimate) -> bool:
    return ratio.low is not None and ratio.low > 1 and ratio.value >= 1.01


def line_of(place: Place) -> str:
    """What goes into the environment."""
    words = [f"{name}={shlex.quote(value)}" for name, value in place.environment.items()]
    return f"export {' '.join(words)}" if words else "nothing (the default)"


def doubt_of(place: Place) -> str:
    """A comment behind the line of a setting whose gain against the default is noise."""
    gained = place.against_default
    if gained is None or place.place not in (LEAST_TIME, LEAST_MEMORY):
        return ""
    which = gained.time if place.place == LEAST_TIME else gained.memory
    what = "faster" if place.place == LEAST_TIME else "smaller"
    return "" if sure(which) else f"  # noise: not certainly {what} than {DEFAULT}"


def words(result: Result) -> list[str]:
    """The outcome in sentences, and the lines to put into the environment."""
    found = places(result)
    line = [place for place in found if place.place]
    if not line:
        return []
    row = final_row(result)
    assert row is not None
    rounds = len(row.good_runs(line[0].setting))
    lines: list[str] = []
    if rounds < LEAST_ROUNDS:
        lines.append(
            f"{plural(rounds, 'round')} of the finals: rule R1 asks for {LEAST_ROUNDS}, so that"
            " nothing is certain"
        )
    elif [place.setting for place in line] == [DEFAULT]:
        lines.append("no other setting is better beyond the noise: there is nothing to set")
    lines += [f"{place.place}: {line_of(place)}{doubt_of(place)}" for place in line]
    more = more_rounds(found)
    if more > rounds:
        lines.append(f"not all is decided: --rounds {more} most likely decides, all runs anew")
    return lines


def print_finals(result: Result, row: RowResult, console: Console) -> None:
    table = new_table(
        f"Settings for {row.command[0]}, from least time to least memory",
        ["setting", f"{row.measure}, s", "time", "peak, MiB", "peak", "it is"],
        CAPTION.format(base=DEFAULT),
    )
    for place in places(result):
        gained = place.against_default
        time = memory = "base" if place.setting == DEFAULT else NOTHING
        if gained is not None:
            time = against(gained.time, is_worse(gained.time_ratio), gained.time_ratio)
            memory = against(gained.memory, is_worse(gained.memory_ratio), gained.memory_ratio)
        style = "bold green" if place.place and place.place != BETWEEN else ""
        table.add_row(
            place.setting,
            show_number(summary.median_cost(row, place.setting), 3),
            time,
            show_memory(summary.peak_memory(row, place.setting)),
            memory,
            Text(place.place or place.why, style),
        )
    console.print(table)


def print_screening(row: RowResult, names: list[str], console: Console) -> None:
    """Medians of few rounds: who was looked at, and why most went no further."""
    lines: list[str] = []
    for name in names:
        time, memory = ratios_of(row, name, DEFAULT)
        if name != DEFAULT and len(time) and len(memory):
            middle = [sorted(part)[len(part) // 2] for part in (time, memory)]
            lines.append(
                f"{name}: time {(middle[0] - 1) * 100:+.1f}%, peak {(middle[1] - 1) * 100:+.1f}%"
            )
    rounds = max((run.round for run in row.runs), default=0)
    say_list(console, f"Screening, {plural(rounds, 'round')} (a hint, no finding)", lines)


def print_tune(result: Result, console: Console) -> None:
    phases = result.settings.get("phases", {})
    for row in result.rows:
        if phases.get(row.name) == "screening":
            ran = [a.name for a in result.allocators if row.good_runs(a.name)]
            print_screening(row, ran, console)
    finals = final_row(result)
    if finals is None or not finals.runs:
        print_problems(result, console)
        say(console, "stopped before the finals: no setting can be recommended")
        return
    print_finals(result, finals, console)
    print_problems(result, console)
    say_list(console, "Put into the environment", words(result))
