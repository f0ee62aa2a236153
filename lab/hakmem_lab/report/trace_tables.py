"""The figures of a trace as tables on a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from hakmem_lab.base.numbers import show_number
from hakmem_lab.report.tables import new_table, say, say_list
from hakmem_lab.trace.info import show_command

ANOMALIES = {
    "stamps_backwards": "stamps below the one before in their thread: taken as equal",
    "reordered": "events that another thread's event proves later: put behind it",
    "free_missing": "blocks allocated again without a free that was seen: ended there",
    "free_unknown": "frees of blocks whose allocation was not seen: left out",
    "realloc_unknown": "reallocs of blocks whose allocation was not seen: taken as malloc",
    "realloc_cut": "reallocs that the recording does not see the end of: left out",
}
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def show_bytes(count: float) -> str:
    """With the unit that leaves at most three digits before the point."""
    unit = 0
    while count >= 1000 and unit + 1 < len(UNITS):
        count /= 1024
        unit += 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 else f"{count:.1f} {UNITS[unit]}"


def show_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def counted(number: int, what: str) -> str:
    return f"{show_number(number)} {what}{'' if number == 1 else 's'}"


def show_share(part: float, whole: float) -> str:
    return f"{part / whole * 100:.1f}%" if whole else "-"


def bucket_table(
    title: str, first: str, buckets: Sequence[dict[str, Any]], labels: Sequence[str]
) -> Table:
    """Buckets with their counts and bytes, and shares of both; sizes also at the peak."""
    peak = bool(buckets) and "peak_count" in buckets[0]
    more = ["blocks\nat the peak", "bytes\nat the peak"] if peak else []
    table = new_table(title, [first, "blocks", "of all", "bytes", "of all", *more])
    count = sum(bucket["count"] for bucket in buckets)
    total = sum(bucket["bytes"] for bucket in buckets)
    for label, bucket in zip(labels, buckets, strict=True):
        cells = [
            show_number(bucket["count"]),
            show_share(bucket["count"], count),
            show_bytes(bucket["bytes"]),
            show_share(bucket["bytes"], total),
        ]
        if peak:
            cells += [show_number(bucket["peak_count"]), show_bytes(bucket["peak_bytes"])]
        table.add_row(label, *cells)
    return table


def print_head(figures: dict[str, Any], console: Console) -> None:
    said = figures["information"]
    say(console, f"{figures['file']}: {show_command(said) or '?'}")
    parts = [f"started {said['started']}"] if "started" in said else []
    parts += [f"{figures['seconds']:.3f} s"]
    parts += [f"exit status {figures['end']['status']}"] if "status" in figures["end"] else []
    parts += [str(said["machine"])] if "machine" in said else []
    say(console, ", ".join(parts))
    for warning in figures["warnings"]:
        say(console, f"warning: {warning}")
    events = figures["events"]
    kinds = ", ".join(
        f"{name} {show_number(count)}"
        for name, count in events.items()
        if name != "total" and count
    )
    say(console, f"{counted(events['total'], 'event')}: {kinds}")
    say_list(
        console,
        "Events that cannot be as recorded",
        [f"{show_number(n)} {ANOMALIES[key]}" for key, n in figures["anomalies"].items() if n],
    )


def print_summary(figures: dict[str, Any], console: Console) -> None:
    threads, peak, left = figures["threads"], figures["peak"], figures["left"]
    allocations = figures["allocations"]
    say(
        console,
        f"{counted(threads['count'], 'thread')}, {show_number(threads['ended'])} of them ended,"
        f" at most {show_number(threads['most_at_once'])} at once",
    )
    say(
        console,
        f"{counted(allocations['count'], 'allocation')} of {show_bytes(allocations['bytes'])};"
        f" left at the end: {counted(left['blocks'], 'block')}, {show_bytes(left['bytes'])}",
    )
    table = new_table("Peaks", ["most", "bytes", "blocks", "at event", "after", "of the events"])
    for name, at in peak.items():
        table.add_row(
            f"live {name}",
            show_bytes(at["bytes"]),
            show_number(at["blocks"]),
            show_number(at["event"]),
            show_seconds(at["seconds"]),
            show_share(at["position"], 1),
        )
    console.print(table)


def print_sizes(figures: dict[str, Any], console: Console) -> None:
    sizes = figures["sizes"]
    labels = [
        f"{show_bytes(s['from'])} .. {show_bytes(s['to'] + 1)}" if s["to"] else "0" for s in sizes
    ]
    title = "Sizes (the second one not included)"
    console.print(bucket_table(title, "size", sizes, labels))
    if figures["alignment"]:
        kinds = figures["alignment"]
        labels = [show_bytes(kind["alignment"]) for kind in kinds]
        console.print(bucket_table("Alignments asked for", "alignment", kinds, labels))


def print_lifetimes(figures: dict[str, Any], console: Console) -> None:
    lifetimes = figures["lifetimes"]
    if not lifetimes["count"]:
        return
    quantiles = new_table("Lifetimes of freed blocks", ["", *lifetimes["events"]])
    quantiles.add_row("events", *(show_number(v) for v in lifetimes["events"].values()))
    quantiles.add_row("time", *(show_seconds(v) for v in lifetimes["seconds"].values()))
    console.print(quantiles)
    labels = [
        f"{show_number(bucket['from'])} .. {show_number(bucket['to'])}"
        for bucket in lifetimes["by_events"]
    ]
    console.print(bucket_table("... in events", "events", lifetimes["by_events"], labels))
    labels = [
        f"{show_seconds(bucket['from']) if bucket['from'] else '0'} .. {show_seconds(bucket['to'])}"
        for bucket in lifetimes["by_seconds"]
    ]
    console.print(bucket_table("... in time", "time", lifetimes["by_seconds"], labels))


def print_rest(figures: dict[str, Any], console: Console) -> None:
    handoff, realloc, touched = figures["handoff"], figures["realloc"], figures["touched"]
    share = show_share(handoff["blocks"], handoff["freed"])
    table = new_table("", ["allocated by -> freed by", "blocks", "bytes"])
    for pair in handoff["pairs"]:
        label = f"{pair['allocated_by']} -> {pair['freed_by']}"
        table.add_row(label, show_number(pair["blocks"]), show_bytes(pair["bytes"]))
    if handoff["blocks"]:
        say(
            console,
            f"Handed to another thread and freed there: {counted(handoff['blocks'], 'block')}"
            f" ({share} of the freed ones), {show_bytes(handoff['bytes'])}; the"
            f" {len(handoff['pairs'])} most frequent of {handoff['kinds_of_pairs']} pairs:",
        )
        console.print(table)
    else:
        say(console, "Every block was freed by the thread that allocated it.")
    if realloc["count"] or realloc["failed"]:
        say(
            console,
            f"realloc: {show_number(realloc['count'])}, of which"
            f" {show_number(realloc['in_place'])} in place and {show_number(realloc['moved'])}"
            f" moved ({show_bytes(realloc['copied_bytes'])} to copy);"
            f" {show_number(realloc['grown'])} grew, {show_number(realloc['shrunk'])} shrank,"
            f" {show_number(realloc['failed'])} failed",
        )
    if touched["blocks"]:
        text = f"Blocks of at least 64 KiB: {show_number(touched['blocks'])}; "
        if touched["share"] is None:
            text += "of none was it recorded how many pages were touched"
        else:
            text += (
                f"of {show_number(touched['counted'])} the pages were counted:"
                f" {touched['share'] * 100:.1f}% were touched"
            )
        say(console, text)


def print_trace(figures: dict[str, Any], console: Console) -> None:
    print_head(figures, console)
    if figures["events"]["total"] == 0:
        return
    print_summary(figures, console)
    print_sizes(figures, console)
    print_lifetimes(figures, console)
    print_rest(figures, console)
