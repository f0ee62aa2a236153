"""docs/scorecard.md from evidence: nothing in it is typed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL, Estimate
from hakmem_lab.base.csv_table import format_rows
from hakmem_lab.base.numbers import NOTHING
from hakmem_lab.report.page_model import says_where_from
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    PROFILES,
    SOAK,
    Evidence,
    stem_of,
)
from hakmem_lab.scorecard.goals import Goal, Line, lines
from hakmem_lab.scorecard.profiles import ASPECTS, Aspect
from hakmem_lab.scorecard.standing import standing_lines
from hakmem_lab.scorecard.verdicts import (
    MET,
    NOT_MEASURED,
    RULES,
    VERDICTS,
    Found,
    Part,
)


@dataclass(frozen=True)
class Origin:
    """A file that the figures come from."""

    name: str
    file: Path

    def fingerprint(self) -> str:
        return hashlib.sha256(self.file.read_bytes()).hexdigest()[:12]


def safe(text: str) -> str:
    """Text as a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def short(source: str) -> str:
    """A file's name without its directory and ending: enough to find it in the list at the end."""
    return stem_of(source)


def show_value(value: float, digits: int, unit: str, scientific: bool) -> str:
    text = f"{value:.1e}" if scientific and value else f"{value:.{0 if scientific else digits}f}"
    return f"{text}{unit}"


def show_interval(estimate: Estimate, digits: int, scientific: bool = False) -> str:
    if estimate.low is None or estimate.high is None:
        return NOTHING
    ends = (show_value(end, digits, "", scientific) for end in (estimate.low, estimate.high))
    return " to ".join(ends)


def show_part(goal: Goal, part: Part) -> tuple[str, str]:
    """The figure and its interval; an interval of a few rounds is only their range."""
    if part.estimate is None:
        return NOTHING, NOTHING
    unit = goal.unit if part.unit is None else part.unit
    return (
        show_value(part.estimate.value, goal.digits, unit, goal.scientific),
        show_interval(part.estimate, goal.digits, goal.scientific)
        if part.estimate.count >= LEAST_FOR_INTERVAL
        else NOTHING,
    )


# --- the lines ------------------------------------------------------------------------------------

HEAD = ["goal", "bar", "figure", "95% interval", "of", "rule", "verdict", "from"]


def verdict_text(line: Line) -> str:
    verdict = line.verdict
    why = verdict.why
    if verdict.word == NOT_MEASURED:
        needed = line.goal.evidence
        why = f"needs `{needed}`" if needed else "no command of the lab does it yet"
    return f"{verdict.word}: {why}" if why else verdict.word


def line_cells(line: Line) -> list[str]:
    goal, found = line.goal, line.found
    figure, interval, of, source = NOTHING, NOTHING, NOTHING, NOTHING
    if found is not None and found.parts:
        of, source = found.basis, short(found.source)
        if len(found.parts) == 1:
            (part,) = found.parts
            figure, interval = show_part(goal, part)
            figure += f" ({part.beside})" if part.beside else ""
        else:
            inside = sum(map(goal.rule.inside, found.parts))
            figure = f"{inside} of {len(found.parts)} inside"
    cells = [goal.name, goal.bar.text, figure, interval, of]
    return list(map(safe, [*cells, goal.rule.name, verdict_text(line), source]))


def section(title: str, of_section: Sequence[Line]) -> list[str]:
    return [f"## {title}", "", *format_rows([HEAD, *map(line_cells, of_section)]), ""]


def sections(all_lines: Sequence[Line]) -> list[str]:
    titles = dict.fromkeys(line.goal.section for line in all_lines)
    return [
        text
        for title in titles
        for text in section(title, [line for line in all_lines if line.goal.section == title])
    ]


# --- the parts of lines ---------------------------------------------------------------------------

PARTS_HEAD = ["part", "figure", "95% interval", "bar", "verdict", "beside it"]


def is_shown(line: Line, part: Part) -> bool:
    """Those that keep their bar are left out where they are many."""
    if line.goal.all_parts or not line.goal.rule.inside(part) or part.failed:
        return True
    enough = part.estimate is not None and part.estimate.count >= LEAST_FOR_INTERVAL
    return enough and line.goal.rule.judge(part).word != MET


def part_cells(line: Line, part: Part) -> list[str]:
    verdict = line.goal.rule.judge(part)
    text = f"{verdict.word}: {verdict.why}" if verdict.why else verdict.word
    return list(
        map(safe, [part.name, *show_part(line.goal, part), part.bar.text, text, part.beside])
    )


def parts_of(line: Line) -> list[str]:
    """The parts behind a line that has several."""
    parts = line.found.parts if line.found is not None else []
    shown = [part for part in parts if is_shown(line, part)]
    if len(parts) < 2 or not shown:
        return []
    left_out = len(parts) - len(shown)
    kept = f" ({left_out} more keep it)" if left_out else ""
    rows = [PARTS_HEAD, *(part_cells(line, part) for part in shown)]
    return [f"**{safe(line.goal.name)}**{kept}", "", *format_rows(rows), ""]


# --- profiles side by side ------------------------------------------------------------------------


def aspect_cell(aspect: Aspect, found: Found | None) -> str:
    estimate = found.parts[0].estimate if found is not None and found.parts else None
    if found is None or estimate is None:
        return NOT_MEASURED
    value = show_value(estimate.value, aspect.digits, aspect.unit, aspect.scientific)
    interval = show_interval(estimate, aspect.digits, aspect.scientific)
    known = interval != NOTHING and estimate.count >= LEAST_FOR_INTERVAL
    shown = f" [{interval}]" if known else ""
    return safe(f"{value}{shown}, {found.basis}")


def profile_rows(evidence: Evidence) -> list[list[str]]:
    rows = [["", *PROFILES, "from"]]
    for aspect in ASPECTS:
        found = aspect.found(evidence)
        sources = dict.fromkeys(short(f.source) for f in found.values() if f is not None)
        cells = [aspect_cell(aspect, found[profile]) for profile in PROFILES]
        rows.append([aspect.what, *cells, safe(", ".join(sources)) or NOTHING])
    return rows


# --- where it comes from --------------------------------------------------------------------------


def origin_lines(evidence: Evidence, origins: Sequence[Origin]) -> list[str]:
    fingerprints = {origin.name: origin.fingerprint() for origin in origins}
    text: list[str] = []
    for purpose, source in evidence.results.items():
        result = source.result
        machine = result.machine
        text += [
            f"**{source.name}** (sha256 {fingerprints[source.name]}): `{purpose}`,"
            f" {result.created}, hakmem-lab {result.lab_version}; {machine['cpu_model']},"
            f" {machine['cpus']} CPUs, {machine['memory_mib']} MiB, {machine['kernel']}."
            + (" Stopped before its last round." if result.interrupted else ""),
            "",
            f"`{' '.join(result.command)}`",
            "",
            *(f"- {a.name} {a.version}: {safe(says_where_from(a))}" for a in result.allocators),
            "",
        ]
    soaks = list(dict.fromkeys(run.source for run in evidence.soaks))
    text += [f"- `{SOAK}` **{name}** (sha256 {fingerprints[name]})" for name in soaks]
    return text or ["No file was given."]


def how_lines(version: str) -> list[str]:
    """The command behind the words of what is not measured."""
    return [
        "`make results MIMALLOC_BENCH=DIR` measures all of it on the commit that is checked out"
        " (`bench/results.toml`), and writes this page. `make results RESULTS=PART` measures one"
        f" part. The results are `docs/results/PART-{version}.json.zst`.",
    ]


INTRODUCTION = f"""\
`hakmem-lab scorecard` writes this page from the files named at its end; nobody edits it.

A **goal** is a figure that hakmem has to reach, a ratio to another allocator in most cases. Many goals
ask for more than any peer reaches. One that is not met does not by itself mean that hakmem is worse
than others. The next section says how hakmem compares. The section after it says which goals are
met. Where no profile is named it is {DEFAULT_PROFILE}."""

STANDING = """\
Each figure is a geometric mean of ratios: what hakmem needs, divided by what the best peer needs.
Below 1, hakmem needs less. In brackets stands the 95% interval; a count of
instructions has none. hakmem is ahead when the interval is below 1 against every peer of the run. It
is behind when the interval is above 1 against one of them. Else the run shows no certain
difference."""

HOW_JUDGED = """\
Each goal has one bar, one rule and one file that answers, all fixed before the run
(`lab/hakmem_lab/scorecard/goals.py`). A ratio is taken within each round of a run that measures both
sides in turn. Intervals come from a bootstrap over rounds; those of rates of system calls are
Poisson's. A goal of several parts is met when each of them is, and not met when one is not. "Inside"
counts figures, whatever their intervals. MB are thousands of the kernel's kB."""


def commits_of(evidence: Evidence) -> dict[str, list[str]]:
    """Which results are of which commit."""
    found: dict[str, list[str]] = {}
    for purpose, source in evidence.results.items():
        ours = [a for a in source.result.allocators if a.name == "hakmem"]
        told = [a.source.split(",")[0] for a in ours]
        commit = source.result.settings.get("commit") or (told[0] if told else "unknown")
        found.setdefault(commit, []).append(purpose)
    return found


def whose_figures(evidence: Evidence, version: str, measured: str) -> list[str]:
    """Of which version and commits the figures are, and how far that is one measurement."""
    commits = commits_of(evidence)
    if not commits:
        return []
    machines = {s.result.machine.get("cpu_model") for s in evidence.results.values()}
    text = f"**The figures are those of version {measured}**"
    text += "." if measured == version else f"; {version} has not been measured yet."
    if len(commits) == 1:
        return [f"{text} All results but soaks are of commit {next(iter(commits))}.", ""]
    kinds = "one kind of machine" if len(machines) == 1 else f"{len(machines)} kinds of machines"
    listed = "; ".join(f"{commit}: {', '.join(purposes)}" for commit, purposes in commits.items())
    return [
        f"{text} They were measured on {len(commits)} commits ({listed}) and on {kinds}."
        " Later changes are not in them. `make results` measures all of them anew, on one commit.",
        "",
    ]


def judged(evidence: Evidence) -> list[str]:
    """The goals: how many are met, each line, and the parts behind the lines."""
    all_lines = lines(evidence)
    words = [line.verdict.word for line in all_lines]
    counts = ", ".join(f"{words.count(word)} {word}" for word in VERDICTS)
    parts = [text for line in all_lines for text in parts_of(line)]
    text = ["## Goals", "", f"**{len(all_lines)} goals: {counts}.**", "", HOW_JUDGED, ""]
    text += ["| rule | verdict |", "|---|---|"]
    text += [f"| {rule.name} | {safe(rule.text)} |" for rule in RULES]
    text += ["", *sections(all_lines)]
    return [*text, "## Parts", "", *parts] if parts else text


def render_scorecard(
    evidence: Evidence, origins: Sequence[Origin], version: str, measured: str | None = None
) -> str:
    """`measured` is the version that the files are of, where it is another one."""
    text = [f"# Scorecard of {version}", "", INTRODUCTION, ""]
    text += whose_figures(evidence, version, measured or version)
    text += ["## Where hakmem stands", "", STANDING, "", *standing_lines(evidence)]
    text += judged(evidence)
    text += ["## Profiles side by side", "", *format_rows(profile_rows(evidence)), ""]
    text += ["## Where the figures come from", "", *origin_lines(evidence, origins)]
    text += ["", "## How to measure", "", *how_lines(version)]
    return "\n".join(text).rstrip() + "\n"
