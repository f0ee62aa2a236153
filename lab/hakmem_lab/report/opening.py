"""What a report says first, in five lines at most, and the names of its sections."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.soak import Judgement
from hakmem_lab.analysis.where import overall
from hakmem_lab.report.chart import Against, Overview, overview_of
from hakmem_lab.run.results import Result

KINDS = {
    "suite": "Benchmarks",
    "programs": "Real programs",
    "ab": "A and B",
    "instructions": "Instructions",
    "compare": "A program compared",
    "replay": "A replayed trace",
    "tail": "The slow tail",
    "steady": "Steady and idle",
    "servers": "Servers under load",
    "where": "Where the bytes are",
    "tune": "Settings for a program",
}
LINES_MOST = 5
Sources = Sequence[tuple[Path, Result]]


# --- names of sections ----------------------------------------------------------------------------


def name_of(result: Result) -> str:
    """The kind, and what it is about: one row by its name, several by their number."""
    name = KINDS.get(result.kind, result.kind.capitalize())
    ran = [row for row in result.rows if row.runs]
    if not ran:
        return name
    rounds = max(run.round for row in ran for run in row.runs)
    about = ran[0].name if len(ran) == 1 else f"{len(ran)} rows"
    return f"{name}: {about}, {rounds} round{'' if rounds == 1 else 's'}"


def section_names(results: Sources) -> list[str]:
    """Each different from the others: where two would be alike, the files' names stand behind, and
    a number where those are alike too."""
    names = [name_of(result) for _, result in results]
    files = [f" ({file.stem})" for file, _ in results]
    for told in (files, [f" {n + 1}" for n in range(len(names))]):
        count = Counter(names)
        names = [
            name + (more if count[name] > 1 else "") for name, more in zip(names, told, strict=True)
        ]
    return names


# --- the lines ------------------------------------------------------------------------------------


def largest(results: Sources) -> tuple[int, Overview] | None:
    """The comparison with most rows, by its place among the results."""
    found = [(n, of) for n, (_, result) in enumerate(results) if (of := overview_of(result))]
    return max(found, key=lambda each: each[1].rows, default=None)


def spread(overview: Overview, of: Sequence[tuple[str, Against]]) -> str:
    """The peers' means, from the one that needs least to the one that needs most."""
    ordered = sorted(of, key=lambda each: each[1].mean.value)
    (first, least), (last, most) = ordered[0], ordered[-1]
    text = f"in the geometric mean {first} needs {least.mean.value:.2f} times {overview.subject}'s"
    if len(ordered) > 1:
        text += f", {last} {most.mean.value:.2f} times"
    return text if len(ordered) <= 2 else f"{text}; the others lie between"


def losses(result: Result, overview: Overview) -> str:
    """Rows in which the subject is slower than the fastest peer, by more than the noise."""
    subject = summary.subjects_of(result)[0]
    lost: list[tuple[float, str, str]] = []
    for row in result.rows:
        best = summary.best_by_cost(row, summary.peers_of(result))
        ratio = summary.cost_ratio(row, subject, best)
        if best is not None and ratio is not None and ratio.value > summary.NOISE:
            lost.append((ratio.value, row.name, best))
    if not lost:
        return f"No peer is more than 3% faster than {overview.subject} on any row."
    worst, row_name, peer = max(lost)
    return (
        f"Where a peer is better: on {len(lost)} of {overview.rows} rows the fastest one of that"
        f" row is more than 3% faster; most of all {peer} on {row_name}, where {subject} needs"
        f" {worst:.2f} times its time."
    )


def of_programs(result: Result) -> str | None:
    """Processor time and peak memory of real programs, against the baseline."""
    base, subjects = summary.baseline_of(result), summary.subjects_of(result)
    means = {of.allocator: of for of in summary.geometric_means(result)}
    own = means.get(subjects[0]) if subjects else None
    if base is None or own is None or own.time is None or own.memory is None:
        return None
    return (
        f"{own.time.count} real programs: {own.time.value:.2f} of {base}'s processor time,"
        f" {own.memory.value:.2f} of its peak memory."
    )


def of_soaks(judgements: Sequence[Judgement]) -> str | None:
    if not judgements:
        return None
    held = sum(line.passed is True for line in judgements)
    return f"Soaks, rule R4: {held} of {len(judgements)} limits held."


def opening_lines(results: Sources, judgements: Sequence[Judgement]) -> list[str]:
    lines: list[str] = []
    main = largest(results)
    if main is not None:
        number, overview = main
        result = results[number][1]
        machine = result.machine
        lines += [
            f"{overview.subject} beside {len(overview.peers)} other allocators on {overview.rows}"
            f" benchmarks, {overview.rounds} rounds of each, on {machine['cpus']} processors"
            f" ({machine['cpu_model']}).",
            f"Time: {spread(overview, [(peer.name, peer.time) for peer in overview.peers])}.",
            f"Peak memory: {spread(overview, [(p.name, p.memory) for p in overview.peers])}.",
            losses(result, overview),
        ]
    programs = [of_programs(result) for _, result in results if result.kind == "programs"]
    where = [overall(result) for _, result in results if result.kind == "where"]
    rest = [*programs, *where, of_soaks(judgements)]
    lines.append(" ".join(line for line in rest if line))
    return [line for line in lines if line][:LINES_MOST]
