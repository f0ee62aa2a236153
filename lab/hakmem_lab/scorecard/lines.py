"""The scorecard's lines on results: what is to be reached, and what was."""

from collections.abc import Callable

from hakmem_lab.analysis.summary import MEMORY_BAR, SCALING_BAR
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.steady import IDLE_95, IDLE_100
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    INSTRUCTIONS,
    PROFILES,
    PROGRAMS,
    STEADY_KIND,
    SUITE,
    Bar,
    Chosen,
    Evidence,
    Finder,
    Line,
    answer,
    any_row,
    cost_to_glibc,
    costs_of,
    idle_cpu,
    idle_memory,
    idle_wake_ups,
    instructions,
    is_field_row,
    load_back,
    mean_to_default,
    mean_to_mimalloc,
    memory_of,
    mixed_memory,
    scales,
    share_of_fastest,
    share_of_mimalloc,
    share_of_rows,
    steady_calls,
    within_glibc,
    within_memory,
    within_time,
)


def at_least(limit: float, text: str) -> Bar:
    return Bar(limit, False, f"≥ {text}")


def at_most(limit: float, text: str) -> Bar:
    return Bar(limit, True, f"≤ {text}")


LEAN_MEMORY, LEAN_TIME = at_most(0.45, "0.45"), at_most(1.1, "1.10")
GROWTH_ROWS = ("vector-256M", "append-4096")
NO_MORE_THAN_GLIBC = at_most(1.0, "1.00")


def total(count: InstructionCount) -> float:
    return count.total


def pair(count: InstructionCount) -> float:
    return count.pair


def speed_lines(evidence: Evidence) -> list[Line]:
    share = answer(evidence, share_of_mimalloc(DEFAULT_PROFILE))
    milestones = {"M1": 50, "M2": 55, "M3": 60, "M4": 70}
    lines = [
        Line(
            f"{name}: throughput against mimalloc's",
            share,
            at_least(limit, f"{limit}%" if name != "M4" else "70% (the goal was 65 to 70)"),
            SUITE,
            digits=1,
            unit="%",
        )
        for name, limit in milestones.items()
    ]
    fastest = answer(evidence, share_of_fastest(DEFAULT_PROFILE))
    bar = at_least(100, "100%")
    lines.append(Line("throughput against the fastest peer's", fastest, bar, SUITE, 1, "%"))

    def counted(what: str, figure: Callable[[InstructionCount], float], limit: float) -> Line:
        found = answer(evidence, instructions(DEFAULT_PROFILE, figure), INSTRUCTIONS)
        return Line(what, found, at_most(limit, f"{limit:g}"), INSTRUCTIONS, 1)

    return [
        *lines,
        counted("instructions an operation, the benchmark's own among them", total, 46.5),
        counted("instructions of a malloc and its free", pair, 36),
    ]


def rows_line(
    evidence: Evidence,
    what: str,
    holds: Callable[[Result, RowResult, str], bool | None],
    kind: str = SUITE,
) -> Line:
    """All rows have to."""
    found = answer(evidence, share_of_rows(DEFAULT_PROFILE, holds), kind)
    return Line(what, found, Bar(100, False, "all"), kind, 0, "%")


def mean_lines(
    evidence: Evidence, what: str, find: Callable[[Chosen], Finder], bar: Bar
) -> list[Line]:
    """A mean over all rows, and over those that its bar was set on."""
    return [
        Line(what, answer(evidence, find(any_row)), bar, SUITE, 3),
        Line(f"{what}: the field's rows", answer(evidence, find(is_field_row)), bar, SUITE, 3),
    ]


def suite_lines(evidence: Evidence) -> list[Line]:
    def time(chosen: Chosen) -> Finder:
        return mean_to_mimalloc(DEFAULT_PROFILE, costs_of, chosen)

    return [
        *mean_lines(evidence, "geometric mean of time / mimalloc v3", time, at_most(0.76, "0.76")),
        rows_line(evidence, "rows within their bar against the best peer of each", within_time),
        rows_line(
            evidence,
            f"rows with many threads at {SCALING_BAR:g} or more of their throughput with few",
            scales,
        ),
        *(
            Line(
                f"{row}, which grows a block by realloc: time / glibc",
                answer(evidence, cost_to_glibc(DEFAULT_PROFILE, row)),
                NO_MORE_THAN_GLIBC,
                SUITE,
            )
            for row in GROWTH_ROWS
        ),
    ]


def program_lines(evidence: Evidence) -> list[Line]:
    def mean(
        what: str, figures: Callable[[RowResult, str], dict[int, float]], limit: float
    ) -> Line:
        found = answer(evidence, mean_to_mimalloc(DEFAULT_PROFILE, figures), PROGRAMS)
        what = f"programs: geometric mean of {what} / mimalloc v3"
        return Line(what, found, at_most(limit, f"{limit:.2f}"), PROGRAMS, 3)

    return [
        mean("processor time", costs_of, 0.95),
        mean("peak", memory_of, 0.92),
        rows_line(evidence, "programs no slower than on glibc, 3% aside", within_glibc, PROGRAMS),
    ]


def memory_lines(evidence: Evidence) -> list[Line]:
    peak = answer(evidence, mixed_memory(DEFAULT_PROFILE))

    def memory(profile: str) -> Callable[[Chosen], Finder]:
        return lambda chosen: mean_to_mimalloc(profile, memory_of, chosen)

    def price(chosen: Chosen) -> Finder:
        return mean_to_default("lean", chosen)

    mean = "geometric mean of peak / mimalloc v3"
    return [
        Line("random_mixed, peak", peak, at_most(2.5, "2.5 MB"), SUITE, 2, " MB"),
        *mean_lines(evidence, mean, memory(DEFAULT_PROFILE), at_most(0.5, "0.50")),
        rows_line(
            evidence, f"rows at {MEMORY_BAR:g} or less of the lowest peer's peak", within_memory
        ),
        *mean_lines(evidence, f"lean: {mean}", memory("lean"), LEAN_MEMORY),
        *mean_lines(evidence, "lean: geometric mean of time / balanced", price, LEAN_TIME),
    ]


def system_call_lines(evidence: Evidence) -> list[Line]:
    return [
        Line(
            f"{profile}: mmap, munmap and madvise an operation",
            answer(evidence, steady_calls(profile), STEADY_KIND),
            at_most(1e-8, "1e-8"),
            STEADY_KIND,
            scientific=True,
        )
        for profile in PROFILES
    ]


def idle_lines(evidence: Evidence) -> list[Line]:
    def line(what: str, find: Finder, bar: Bar, digits: int, unit: str) -> Line:
        return Line(what, answer(evidence, find, STEADY_KIND), bar, STEADY_KIND, digits, unit)

    half = idle_memory(DEFAULT_PROFILE, IDLE_95)
    whole = idle_memory(DEFAULT_PROFILE, IDLE_100)
    return [
        line("95% freed, resident 5 s later", half, at_most(65, "65 MB"), 1, " MB"),
        line("all freed, resident 5 s later", whole, at_most(8, "8 MB"), 1, " MB"),
        line(
            "processor time in the minute after that",
            idle_cpu(DEFAULT_PROFILE),
            at_most(0, "0 ms"),
            3,
            " ms",
        ),
        line(
            "wake-ups in the minute after that",
            idle_wake_ups(DEFAULT_PROFILE),
            at_most(0, "0"),
            0,
            "",
        ),
        line(
            "95% freed, then the load comes back: its first second / the first load's",
            load_back(DEFAULT_PROFILE),
            at_least(0.9, "0.90"),
            2,
            "",
        ),
    ]
