"""Figures of real programs and servers."""

from dataclasses import replace

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.servers import judgements
from hakmem_lab.analysis.statistics import Estimate
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.scorecard.evidence import (
    DEFAULT_PROFILE,
    GLIBC,
    MIMALLOC,
    PROGRAMS,
    SERVERS,
    Evidence,
    absent_peers,
    peers,
    subject,
)
from hakmem_lab.scorecard.rows import (
    Figures,
    Find,
    Who,
    basis,
    called,
    costs,
    each_row,
    hakmem_in,
    mean,
    peaks,
    ratio_part,
    rows_of,
)
from hakmem_lab.scorecard.verdicts import Bar, Found, Part


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
    return mean(SERVERS, called("light"), balanced, costs, [("", rows_of(SERVERS))])


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


def servers_memory_at_rest(share: bool) -> Find:
    """After the time without load: how many have the lowest, in percent, or each beside it."""

    def find(evidence: Evidence, bar: Bar) -> Found | None:
        source = evidence.of(SERVERS)
        name = subject(source.result) if source else None
        if source is None or name is None:
            return None
        found = [(j, j.idle) for j in judgements(source.result, name) if j.idle is not None]
        if not found:
            return None
        parts = [Part(j.row.name, idle, bar, j.leanest or "", j.failure or "") for j, idle in found]
        if share:
            lowest = sum(idle.value <= 1 for _, idle in found)
            figure = Estimate(100 * lowest / len(found), None, None, len(found))
            parts = [Part("", figure, bar, f"{lowest} of {len(found)}")]
        rounds = basis([idle.count for _, idle in found])
        return Found(parts, source.name, rounds, absent_peers(source.result))

    return find
