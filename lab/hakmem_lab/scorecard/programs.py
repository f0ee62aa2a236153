"""Figures of real programs and servers."""

from dataclasses import replace

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.servers import CPU, IDLE, figures_of, lowest
from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL, Estimate
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    GLIBC,
    MIMALLOC,
    PROGRAMS,
    SERVERS,
    Evidence,
    peers,
)
from hakmem_lab.scorecard.rows import (
    Figures,
    Find,
    Who,
    called,
    costs,
    each_row,
    hakmem_in,
    mean,
    peaks,
    ratio_part,
    rows_of,
)
from hakmem_lab.scorecard.verdicts import Bar, Found, Part, rounds_text


def request_cpu(row: RowResult, name: str) -> dict[int, float]:
    """Of a server: its row's cost is that of throughput."""
    return figures_of(row, name, CPU)


def memory_at_rest(row: RowResult, name: str) -> dict[int, float]:
    return figures_of(row, name, IDLE)


def mean_of_programs(figures: Figures, who: Who, base: Who) -> Find:
    return mean(PROGRAMS, who, base, figures, [("", rows_of(PROGRAMS))])


def programs_time() -> Find:
    return mean_of_programs(costs, hakmem_in(DEFAULT_PROFILE), called(MIMALLOC))


def programs_peak(profile: str = DEFAULT_PROFILE) -> Find:
    return mean_of_programs(peaks, hakmem_in(profile), called(GLIBC))


def lean_programs_time() -> Find:
    return mean_of_programs(costs, hakmem_in("lean"), hakmem_in(DEFAULT_PROFILE))


def light_programs_time() -> Find:
    return mean_of_programs(costs, called("light"), hakmem_in(DEFAULT_PROFILE))


def light_servers_time() -> Find:
    balanced = hakmem_in(DEFAULT_PROFILE)
    return mean(SERVERS, called("light"), balanced, request_cpu, [("", rows_of(SERVERS))])


def each_programs_peak(profile: str = DEFAULT_PROFILE) -> Find:
    def judged(_result: Result, row: RowResult, name: str, bar: Bar) -> Part:
        return ratio_part(row, name, GLIBC, peaks, bar)

    return each_row(PROGRAMS, rows_of(PROGRAMS), judged, needs_peers=False, profile=profile)


def programs_against_glibc() -> Find:
    def judged(_result: Result, row: RowResult, name: str, bar: Bar) -> Part:
        part = ratio_part(row, name, GLIBC, costs, bar)
        differs = summary.output_verdict(row, name) == "differs"
        return replace(part, failed="its output differs from that on glibc" if differs else "")

    return each_row(PROGRAMS, rows_of(PROGRAMS), judged, needs_peers=False)


def servers_against_best() -> Find:
    def judged(result: Result, row: RowResult, name: str, bar: Bar) -> Part:
        return ratio_part(row, name, summary.best_by_cost(row, peers(result)), costs, bar)

    return each_row(SERVERS, rows_of(SERVERS), judged, needs_peers=True)


def servers_memory_at_rest() -> Find:
    """After the time without load, beside the peer that has the lowest."""

    def judged(result: Result, row: RowResult, name: str, bar: Bar) -> Part:
        leanest = lowest(row, peers(result), IDLE)
        return ratio_part(row, name, leanest, memory_at_rest, bar)

    return each_row(SERVERS, rows_of(SERVERS), judged, needs_peers=True)


def servers_with_the_lowest_memory() -> Find:
    """Percent of them. One that failed or did not run has not the lowest."""
    each = servers_memory_at_rest()

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        found = each(evidence, bar)
        if found is None:
            return None
        ratios = [None if part.failed else part.estimate for part in found.parts]
        reached = sum(ratio is not None and ratio.value <= 1 for ratio in ratios)
        share = Estimate(100 * reached / len(ratios), None, None, len(ratios))
        part = Part("", share, bar, f"{reached} of {len(ratios)}")
        rounds = min(part.estimate.count for part in found.parts if part.estimate is not None)
        few = f"{rounds_text(rounds)}, {LEAST_FOR_INTERVAL} are needed"
        incomplete = found.incomplete or (few if rounds < LEAST_FOR_INTERVAL else "")
        return replace(found, parts=[part], incomplete=incomplete)

    return find
