"""docs/scorecard.md from evidence: nothing in it is typed."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.analysis.statistics import Estimate
from hakmem_lab.base.csv_table import format_rows
from hakmem_lab.base.numbers import NOTHING
from hakmem_lab.report.page_model import says_where_from
from hakmem_lab.run.steady import IDLE_95, IDLE_100
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    INSTRUCTIONS,
    PROFILES,
    PROGRAMS,
    SOAK,
    STEADY_KIND,
    SUITE,
    Evidence,
    Finder,
    Found,
    Line,
    answer,
    costs_of,
    idle_memory,
    mean_to_mimalloc,
    memory_of,
    mixed_memory,
    share_of_mimalloc,
    steady_calls,
)
from hakmem_lab.scorecard.lines import (
    idle_lines,
    memory_lines,
    program_lines,
    speed_lines,
    suite_lines,
    system_call_lines,
)
from hakmem_lab.scorecard.soak import (
    found_in,
    growth_slope,
    resident,
    soak_lines,
    throughput_cv,
    throughput_slope,
)

NOT_MEASURED = "not measured"


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


def show_value(value: float, digits: int, unit: str, scientific: bool) -> str:
    text = f"{value:.1e}" if scientific and value else f"{value:.{0 if scientific else digits}f}"
    return f"{text}{unit}"


def show_estimate(
    estimate: Estimate, digits: int, unit: str = "", scientific: bool = False
) -> tuple[str, str]:
    """The figure and its interval."""
    value = show_value(estimate.value, digits, unit, scientific)
    if estimate.low is None or estimate.high is None:
        return value, NOTHING
    low, high = (
        show_value(limit, digits, "", scientific) for limit in (estimate.low, estimate.high)
    )
    return value, f"{low} to {high}"


def short(source: str) -> str:
    """A file's name without its directory and ending: enough to find it in the list at the end."""
    return Path(source).stem


def line_cells(line: Line) -> list[str]:
    if line.found is None:
        cells = [
            line.what,
            NOTHING,
            NOTHING,
            NOTHING,
            line.bar.text,
            f"{NOT_MEASURED}: {line.how}",
            NOTHING,
        ]
        return [safe(cell) for cell in cells]
    found = line.found
    value, interval = show_estimate(found.estimate, line.digits, line.unit, line.scientific)
    verdict = f"{line.verdict}: {line.unanswered}" if line.unanswered else line.verdict
    note = f" ({found.note})" if found.note else ""
    cells = [
        line.what + note,
        value,
        interval,
        found.runs,
        line.bar.text,
        verdict,
        short(found.source),
    ]
    return [safe(cell) for cell in cells]


HEAD = ["goal", "figure", "95% interval", "runs", "bar", "verdict", "from"]


def section(title: str, text: str, lines: Sequence[Line]) -> list[str]:
    paragraph = [text, ""] if text else []
    return [f"## {title}", "", *paragraph, *format_rows([HEAD, *map(line_cells, lines)]), ""]


# --- profiles side by side ------------------------------------------------------------------------


@dataclass(frozen=True)
class Aspect:
    """A figure that every profile has."""

    what: str
    find: Callable[[Evidence, str], Found | None]
    digits: int
    unit: str = ""
    scientific: bool = False


def of_suite(finder: Callable[[str], Finder]) -> Callable[[Evidence, str], Found | None]:
    return lambda evidence, profile: answer(evidence, finder(profile))


def of_steady(finder: Callable[[str], Finder]) -> Callable[[Evidence, str], Found | None]:
    return lambda evidence, profile: answer(evidence, finder(profile), STEADY_KIND)


ASPECTS = [
    Aspect("throughput against mimalloc's", of_suite(share_of_mimalloc), 1, "%"),
    Aspect("random_mixed, peak", of_suite(mixed_memory), 2, " MB"),
    Aspect(
        "time / mimalloc v3, geometric mean",
        of_suite(lambda p: mean_to_mimalloc(p, costs_of)),
        3,
    ),
    Aspect(
        "peak memory / mimalloc v3, geometric mean",
        of_suite(lambda p: mean_to_mimalloc(p, memory_of)),
        3,
    ),
    Aspect("system calls an operation", of_steady(steady_calls), 0, "", True),
    Aspect(
        "idle, 95% freed, resident",
        of_steady(lambda p: idle_memory(p, IDLE_95)),
        1,
        " MB",
    ),
    Aspect(
        "idle, all freed, resident",
        of_steady(lambda p: idle_memory(p, IDLE_100)),
        1,
        " MB",
    ),
    Aspect("soak, resident", lambda e, p: found_in(e, p, resident), 2, " MB"),
    Aspect("soak, resident, slope", lambda e, p: found_in(e, p, growth_slope), 2, "%"),
    Aspect("soak, throughput, slope", lambda e, p: found_in(e, p, throughput_slope), 2, "%"),
    Aspect("soak, CV of throughput", lambda e, p: found_in(e, p, throughput_cv), 2, "%"),
]


def aspect_cell(aspect: Aspect, found: Found | None) -> str:
    if found is None:
        return NOT_MEASURED
    value, interval = show_estimate(found.estimate, aspect.digits, aspect.unit, aspect.scientific)
    shown = "" if interval == NOTHING else f" [{interval}]"
    return safe(f"{value}{shown}, {found.runs}")


def profile_rows(evidence: Evidence) -> list[list[str]]:
    rows = [["", *PROFILES, "from"]]
    for aspect in ASPECTS:
        found = {profile: aspect.find(evidence, profile) for profile in PROFILES}
        sources = dict.fromkeys(f.source for f in found.values() if f is not None)
        cells = [aspect_cell(aspect, found[profile]) for profile in PROFILES]
        rows.append([aspect.what, *cells, safe(", ".join(map(short, sources))) or NOTHING])
    return rows


# --- where it comes from --------------------------------------------------------------------------


def origin_lines(evidence: Evidence, origins: Sequence[Origin]) -> list[str]:
    fingerprints = {origin.name: origin.fingerprint() for origin in origins}
    lines: list[str] = []
    for source in evidence.results:
        result = source.result
        machine = result.machine
        lines += [
            f"**{source.name}** (sha256 {fingerprints[source.name]}): {result.kind},"
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
    lines += [f"- soak **{name}** (sha256 {fingerprints[name]})" for name in soaks]
    return lines or ["No file was given."]


def how_lines(version: str) -> list[str]:
    """The commands behind the words of what is not measured."""
    profiles = "speed=HAKMEM_PROFILE=speed,lean=HAKMEM_PROFILE=lean"
    lab, kept = "build/lab/venv/bin/hakmem-lab", "docs/results"

    def published(kind: str, file: str) -> str:
        return f"`{lab} publish build/bench/{file} -o {kept}/{kind}-{version}.json`"

    return [
        f"- {SUITE}: `make bench LAB_ARGS='--allocators hakmem,{profiles},glibc,mimalloc3,...'`,"
        f" {published(SUITE, 'results.json')}",
        f"- {INSTRUCTIONS}: `make bench-ir`, {published(INSTRUCTIONS, 'instructions.json')}",
        f"- {STEADY_KIND}: `{lab} steady --allocators hakmem,{profiles},glibc,mimalloc3`,"
        f" {published(STEADY_KIND, 'steady.json')}",
        f"- {PROGRAMS}: `make bench-programs`, {published(PROGRAMS, 'programs.json')}",
        f"- {SOAK}: `make soak-results`",
        "",
        "Then `make scorecard`.",
    ]


INTRODUCTION = """\
Made by `hakmem-lab scorecard` from the files named at the end; not edited by hand. Intervals:
bootstrap over runs, or over a soak's epochs; of rates of system calls, Poisson's. "Not certain":
the interval reaches over the bar. A ratio is taken within each round of a run that measures both
sides in turn. MB are thousands of the kernel's kB."""


def render_scorecard(evidence: Evidence, origins: Sequence[Origin], version: str) -> str:
    sections = [
        (
            "Throughput",
            f"`random_mixed`, 16 to 1024 bytes, WS=400; hakmem's profile is {DEFAULT_PROFILE}, here"
            " and below, unless a line names another.",
            speed_lines(evidence),
        ),
        ("All benchmarks", "", suite_lines(evidence)),
        ("Memory", "", memory_lines(evidence)),
        (
            "Real programs",
            "Compilers, interpreters, databases and others (`bench/programs.toml`).",
            program_lines(evidence),
        ),
        ("System calls in steady state", "Rule R3.", system_call_lines(evidence)),
        (
            "Soaks",
            "Rule R4: an hour of balanced with glibc beside it on the other processor, 20 minutes"
            " of each other profile.",
            soak_lines(evidence),
        ),
        (
            "Idle",
            "Four threads fill 512 MiB, free most of it at random, and then nobody calls the"
            " allocator for five seconds or longer.",
            idle_lines(evidence),
        ),
    ]
    verdicts = [line.verdict for _, _, lines in sections for line in lines]
    met = sum(verdict.startswith("met") for verdict in verdicts)
    unmeasured = verdicts.count(NOT_MEASURED)
    counts = f"{met} met, {len(verdicts) - met - unmeasured} not met, {unmeasured} not measured."
    lines = [f"# Scorecard of {version}", "", INTRODUCTION, "", f"**{counts}**", ""]
    for title, text, of_section in sections:
        lines += section(title, text, of_section)
    lines += ["## Profiles side by side", "", *format_rows(profile_rows(evidence)), ""]
    lines += ["## Where the figures come from", "", *origin_lines(evidence, origins)]
    lines += ["", "## How to measure", "", *how_lines(version)]
    return "\n".join(lines).rstrip() + "\n"
