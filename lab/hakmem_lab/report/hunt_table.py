"""What a hunt found: a table, and for each find the command that shows it again."""

import shlex

from rich.console import Console

from hakmem_lab.analysis.hunt import (
    CONFIRM,
    FAILED,
    METRICS,
    SEARCH,
    Judgement,
    fitness,
    judge,
)
from hakmem_lab.base.numbers import show_number
from hakmem_lab.report.tables import new_table, say, say_list, show
from hakmem_lab.run.results import Result, RowResult

CLOSEST = 3  # candidates of a metric that are shown where nothing was found


def show_value(value: float, metric: str) -> str:
    if metric == "time":
        return f"{show_number(value * 1000, 1)} ms"
    return f"{show_number(value / 1024, 1)} MiB"


def arguments(result: Result, row: RowResult) -> str:
    return shlex.join([result.settings["program"], *row.command[1:]])


def command_again(result: Result, row: RowResult, metric: str, peer: str | None) -> str:
    """Memory at rest is nothing that compare shows: hunt itself does that."""
    settings = result.settings
    subject, rounds = settings["subject"], settings["rounds"]
    names = [name for name in (peer, subject) if name is not None]
    chosen = shlex.quote(",".join(settings["words"].get(name, name) for name in names))
    if metric != "rest":
        return (
            f"hakmem-lab compare --runs {rounds} --allocators {chosen} -- {arguments(result, row)}"
        )
    of = "" if subject == "hakmem" else f" --subject {shlex.quote(subject)}"
    options = shlex.join(row.command[1:])
    return f"hakmem-lab hunt --metric rest --allocators {chosen}{of} -- {options}"


def table_row(name: str, metric: str, judged: Judgement) -> list[str]:
    return [
        name,
        metric,
        show(judged.to_best),
        judged.best,
        show(judged.to_median),
        show_value(judged.value, metric),
        show_value(judged.best_value, metric),
        str(judged.to_best.count),
    ]


def print_judgements(
    result: Result, console: Console, title: str, entries: list[tuple[str, str, Judgement]]
) -> None:
    subject = result.settings["subject"]
    columns = ("", "in", f"{subject} / best", "best", f"{subject} / median", subject, "best's")
    table = new_table(title, [*columns, "rounds"])
    for entry in entries:
        table.add_row(*table_row(*entry))
    if table.row_count:
        console.print(table)


def closest(result: Result) -> list[tuple[str, str, Judgement]]:
    """The worst candidates of each metric, of one run each."""
    subject, against = result.settings["subject"], result.settings["against"]
    found: list[tuple[str, str, Judgement]] = []
    for metric in METRICS:
        judged = [
            (row.name, metric, judgement)
            for row in result.rows
            if row.group == SEARCH
            and not (metric == "time" and "--rest-ms" not in row.command)  # ran side by side
            and (judgement := judge(row, subject, metric)) is not None
        ]
        judged.sort(key=lambda entry: -fitness(entry[2], against))
        found += judged[:CLOSEST] if metric in result.settings["metrics"] else []
    return found


def failures_of(result: Result) -> list[str]:
    """A line for each allocator that failed: how often, and first where and how."""
    lines: list[str] = []
    for name in result.allocator_names():
        failed = [(row, row.failure(name)) for row in result.rows if row.failure(name)]
        if failed:
            row, reason = failed[0]
            lines.append(f"{name}: in {len(failed)} of {len(result.rows)}; {reason}")
            lines.append(f"  {arguments(result, row)}")
    return lines


def print_finds(result: Result, console: Console) -> None:
    subject = result.settings["subject"]
    rows = {row.name: row for row in result.rows}
    finds = [(find["metric"], rows[find["row"]]) for find in result.settings["finds"]]
    entries: list[tuple[str, str, Judgement]] = []
    commands: list[str] = []
    for index, (metric, row) in enumerate(finds, start=1):
        judged = None if metric == FAILED else judge(row, subject, metric)
        if judged is not None:
            entries.append((f"find {index}", metric, judged))
        peer = judged.best if judged is not None else None
        what = f": {subject} fails: {row.failure(subject)}" if metric == FAILED else ""
        commands.append(f"find {index}{what}")
        commands.append(f"  {command_again(result, row, metric, peer)}")
    print_judgements(result, console, "Finds", entries)
    say_list(console, "To see them again", commands)


def print_hunt(result: Result, console: Console) -> None:
    subject, settings = result.settings["subject"], result.settings
    groups = [row.group for row in result.rows]
    print_finds(result, console)
    if not settings["finds"]:
        above = ", ".join(f"{m} {settings['above'][m]:g}" for m in settings["metrics"])
        say(console, f"nothing was found above {above} times the {settings['against']}")
    if settings.get("examined"):
        confirmed = [row for row in result.rows if row.group == CONFIRM]
        judged = [(r.name, m, judge(r, subject, m)) for r in confirmed for m in settings["metrics"]]
        print_judgements(
            result, console, "Rounds", [(n, m, j) for n, m, j in judged if j is not None]
        )
    elif not settings["finds"]:
        print_judgements(result, console, "Closest, of one run each", closest(result))
    say_list(console, "Failed runs", failures_of(result))
    say(
        console,
        f"{groups.count(SEARCH)} candidates, {groups.count(CONFIRM)} confirmations,"
        f" {sum(len(row.runs) for row in result.rows)} runs",
    )
