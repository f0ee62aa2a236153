"""Where the bytes of a peak are: the parts of resident memory on each allocator.

On hakmem its own list of what each page is for gives the parts. How much of its live blocks was
asked for is the trace's: bytes touched, against the same blocks as the allocator rounds them. On
another allocator what was asked for and its rounding stand for themselves, the program's own memory
is as on hakmem, and what is left is free, kept or the allocator's tables.
"""

from dataclasses import dataclass, field
from typing import Any

from hakmem_lab.analysis import summary
from hakmem_lab.run.composition import OURS, POLLED
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.where_servers import IDLE

# In the order of tables; names as in machine output.
LABELS = {
    "asked_kb": "asked for by the program",
    "rounding_kb": "rounding and headers",
    "live_kb": "live blocks",
    "tails_kb": "ends of slabs and of huge blocks",
    "bins_kb": "bins",
    "transit_kb": "inboxes and batches on their way",
    "spans_kb": "span caches",
    "slices_kb": "free slices",
    "warm_kb": "warm pool",
    "free_kb": "free blocks in slabs",
    "unused_kb": "slabs' memory that was no block yet",
    "tables_kb": "the allocator's tables",
    "kept_kb": "free, kept, tables: not told apart",
    "heap_kb": "blocks, free or not, and tables",
    "library_kb": "the allocator's file",
    "own_kb": "the program's own mappings",
    "program_kb": "the program's and its libraries' files",
    "stack_kb": "stacks",
}
NEAR = 0.95  # of the kernel's peak: a look below it was not at the peak
FILES = ("library_kb", "program_kb", "stack_kb")


@dataclass(frozen=True)
class Composition:
    """Of one row on one allocator, at its peak or idle; KiB. The parts add up to `resident`."""

    allocator: str
    resident: float
    parts: dict[str, float] = field(default_factory=dict)


def median_run(row: RowResult, name: str, prefix: str) -> Run | None:
    """The run whose look is the (lower) median: of one run, so that parts add up."""
    runs = [run for run in row.runs if prefix + POLLED in run.figures and run.failure is None]
    runs = [run for run in runs if run.allocator == name]
    runs.sort(key=lambda run: run.figures[prefix + POLLED])
    return runs[(len(runs) - 1) // 2] if runs else None


def asked_of(result: Result, row: RowResult) -> dict[str, Any] | None:
    """What the trace says of the row: settings.asked."""
    found = result.settings.get("asked", {}).get(row.name)
    return found if isinstance(found, dict) else None


def own_memory(result: Result, row: RowResult, prefix: str) -> float | None:
    """The program's own anonymous memory, which only hakmem tells from blocks."""
    for name in result.allocator_names():
        run = median_run(row, name, prefix)
        if run is not None and f"{prefix}own_kb" in run.figures:
            return run.figures[f"{prefix}own_kb"]
    return None


def split_live(live: float, asked: dict[str, Any], name: str) -> dict[str, float]:
    """At most what was asked for at the trace's peak: what lives beyond it is in larger blocks than
    malloc gives, as those that realloc has made larger."""
    rounded = asked["rounded"].get(name, asked["touched"])
    share = min(1.0, asked["touched"] / rounded) if rounded else 1.0
    wanted = min(live * share, asked["touched"] / 1024)
    return {"asked_kb": wanted, "rounding_kb": live - wanted}


def split_heap(heap: float, asked: dict[str, Any], name: str) -> dict[str, float]:
    wanted = min(heap, asked["touched"] / 1024)
    rounded = asked["rounded"].get(name, asked["touched"]) / 1024
    rounding = min(heap - wanted, max(0.0, rounded - wanted))
    return {"asked_kb": wanted, "rounding_kb": rounding, "kept_kb": heap - wanted - rounding}


def compose(result: Result, row: RowResult, name: str, prefix: str = "") -> Composition | None:
    """None where it was not looked at."""
    run = median_run(row, name, prefix)
    if run is None:
        return None
    figures = {k.removeprefix(prefix): v for k, v in run.figures.items() if k.startswith(prefix)}
    asked = asked_of(result, row) if not prefix else None
    found = {part: figures[part] for part in FILES}
    if "own_kb" in figures:
        found |= {part: figures[part] for part in (*OURS, "own_kb")}
        if asked is not None:
            found |= split_live(found.pop("live_kb"), asked, name)
    else:
        own = min(figures["heap_kb"], own_memory(result, row, prefix) or 0.0)
        heap = figures["heap_kb"] - own
        found |= {"own_kb": own} if own else {}
        found |= {"heap_kb": heap} if asked is None else split_heap(heap, asked, name)
    parts = {part: found[part] for part in LABELS if part in found}
    return Composition(name, figures[POLLED], parts)


def compositions(result: Result, row: RowResult, prefix: str = "") -> list[Composition]:
    found = [compose(result, row, name, prefix) for name in result.allocator_names()]
    return [one for one in found if one is not None]


def moments(row: RowResult) -> list[tuple[str, str]]:
    """When the row was looked at: words, and how the names of the figures begin."""
    idle = any(IDLE + POLLED in run.figures for run in row.runs)
    return [("at the peak", ""), *([("idle", IDLE)] if idle else [])]


def where_words(result: Result) -> list[str]:
    """A sentence for each row and moment: on the subject, the largest parts that are not the
    program's, and how it compares with the base."""
    lines: list[str] = []
    base = summary.base_of(result)
    for row in result.rows:
        for moment, prefix in moments(row):
            found = {one.allocator: one for one in compositions(result, row, prefix)}
            for subject in summary.subjects_of(result):
                if subject in found:
                    lines.append(
                        f"{row.name} {moment}: {sentence(found[subject], found.get(base))}"
                    )
    return lines


def missed(result: Result) -> list[str]:
    """Looks that were not at the peak: it lasted for less than a look, or was another one."""
    lines: list[str] = []
    for row in result.rows:
        for one in compositions(result, row):
            peak = summary.peak_memory(row, one.allocator) or 0.0
            if one.resident < NEAR * peak and len(moments(row)) == 1:
                lines.append(
                    f"{row.name} on {one.allocator}: looked at {one.resident / 1024:.1f} of the"
                    f" {peak / 1024:.1f} MiB of the kernel's peak; the rest is in no part"
                )
    return lines


def overall(result: Result) -> str | None:
    """One sentence on all rows together, on the first subject."""
    subjects = summary.subjects_of(result)
    if not subjects:
        return None
    ones = [one for row in result.rows if (one := compose(result, row, subjects[0]))]
    resident = sum(one.resident for one in ones)
    if not resident:
        return None
    shares = {part: sum(one.parts.get(part, 0.0) for one in ones) / resident for part in LABELS}
    largest = sorted((p for p in LABELS if shares[p] >= 0.01), key=lambda p: -shares[p])[:5]
    shown = ", ".join(f"{LABELS[part]} {100 * shares[part]:.0f}%" for part in largest)
    peaks = f"{len(ones)} peaks" if len(ones) > 1 else f"the peak of {result.rows[0].name}"
    return f"Where the bytes of {peaks} are on {subjects[0]} ({resident / 1024:.0f} MiB): {shown}."


def sentence(own: Composition, other: Composition | None) -> str:
    blocks = own.parts.get("live_kb")
    wanted = own.parts.get("asked_kb", 0.0) if blocks is None else blocks
    program = sum(own.parts.get(part, 0.0) for part in ("own_kb", "program_kb", "stack_kb"))
    rest = own.resident - wanted - program
    told = "asked for" if blocks is None else "live"
    text = (
        f"{own.allocator} {own.resident / 1024:.1f} MiB, of which {wanted / 1024:.1f} {told},"
        f" {program / 1024:.1f} the program's, {rest / 1024:.1f} the allocator's"
    )
    skipped = ("asked_kb", "live_kb", "own_kb", "program_kb", "stack_kb")
    large = sorted((k for k in own.parts if k not in skipped), key=lambda k: -own.parts[k])[:3]
    shown = [f"{LABELS[k]} {own.parts[k] / 1024:.1f}" for k in large if own.parts[k] >= 51.2]
    text += f" ({', '.join(shown)})" if shown else ""
    if other is not None and other is not own and other.resident:
        text += f"; {own.resident / other.resident:.2f} of {other.allocator}'s"
    return text
