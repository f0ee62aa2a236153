"""The table of `ab`: rule R1 on each row."""

from rich.console import Console
from rich.text import Text

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import judge, paired_ratios
from hakmem_lab.base.numbers import show_number
from hakmem_lab.report.tables import new_table, print_problems, say, show
from hakmem_lab.run.results import Result


def print_ab(result: Result, console: Console) -> None:
    build_change = bool(result.settings.get("build_change"))
    table = new_table(
        "b against a, rule R1",
        [
            *("row", "rounds", "a", "b", "improvement, %", "b is", "verdict"),
            *("peak memory\nb / a", "page\nfaults a", "page\nfaults b"),
        ],
        "a, b: median cost (ns an operation, or seconds); improvement: more work in the same time,"
        " mean with its 95% interval; b is: equal unless the 99% interval excludes 0",
    )
    again: list[int] = []  # rounds that would decide
    for row in result.rows:
        ratios = paired_ratios(row.costs("b"), row.costs("a"))
        if len(ratios) == 0:
            continue
        verdict = judge(ratios, build_change)
        decision = verdict.decision
        if verdict.more_rounds:
            again.append(len(ratios) + verdict.more_rounds)
            decision_text = f"not decided, {verdict.more_rounds} more runs needed"
        else:
            decision_text = f"{decision} (threshold {verdict.threshold:g}%)"
        style = {"GO": "bold green", "NO-GO": "bold red"}.get(decision, "yellow")
        table.add_row(
            row.name,
            str(len(ratios)),
            show_number(summary.median_cost(row, "a"), 3),
            show_number(summary.median_cost(row, "b"), 3),
            show(verdict.improvement),
            verdict.difference,
            Text(decision_text, style),
            show(summary.memory_ratio(row, "b", "a")),
            show_number(summary.page_faults(row, "a")),
            show_number(summary.page_faults(row, "b")),
        )
    if table.row_count:
        console.print(table)
    print_problems(result, console)
    if again:
        rounds = max(again)
        say(console, f"not decided yet: --rounds {rounds} most likely decides, all runs taken anew")
