"""What the runs of servers say of the goal: no server slower than on its best peer with certainty,
and memory after the idle time the lowest in 7 of 10. Every exception is named."""

import statistics as standard
from dataclasses import dataclass

from hakmem_lab.analysis import summary
from hakmem_lab.analysis.statistics import Estimate, median_estimate, paired_ratios
from hakmem_lab.base.numbers import show_number
from hakmem_lab.run.results import Result, RowResult

IDLE = "rss_after_idle_kb"
CPU = "cpu_us_per_request"
FEW_ROUNDS = "; too few rounds for an interval"
FASTER = 1 / summary.NOISE  # throughput against the best peer's that is not told from equal


@dataclass(frozen=True)
class Judgement:
    """A server on a subject beside its best peers; None where no peer ran."""

    row: RowResult
    fastest: str | None  # of the peers
    throughput: Estimate | None  # subject's / the fastest peer's, above 1 is faster
    leanest: str | None
    idle: Estimate | None  # memory after the idle time: subject's / the leanest peer's
    failure: str | None


def figures_of(row: RowResult, name: str, figure: str) -> dict[int, float]:
    """By round."""
    return {r.round: r.figures[figure] for r in row.good_runs(name) if figure in r.figures}


def median_figure(row: RowResult, name: str, figure: str) -> float | None:
    values = figures_of(row, name, figure).values()
    return standard.median(values) if values else None


def lowest(row: RowResult, names: list[str], figure: str) -> str | None:
    found = {n: value for n in names if (value := median_figure(row, n, figure)) is not None}
    return min(found, key=lambda name: found[name]) if found else None


def judge_row(result: Result, row: RowResult, subject: str) -> Judgement:
    peers = summary.peers_of(result)
    fastest = summary.best_by_cost(row, peers)
    throughput = None
    if fastest is not None:
        ratios = paired_ratios(row.costs(fastest), row.costs(subject))
        throughput = median_estimate(ratios) if len(ratios) else None
    leanest = lowest(row, peers, IDLE)
    idle = None
    if leanest is not None:
        ratios = paired_ratios(figures_of(row, subject, IDLE), figures_of(row, leanest, IDLE))
        idle = median_estimate(ratios) if len(ratios) else None
    return Judgement(row, fastest, throughput, leanest, idle, row.failure(subject))


def judgements(result: Result, subject: str) -> list[Judgement]:
    return [judge_row(result, row, subject) for row in result.rows if row.runs]


def show(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def is_slower(estimate: Estimate) -> bool:
    """With certainty: the whole interval lies below 1."""
    return estimate.high is not None and estimate.high < 1


def of_speed(found: list[Judgement], subject: str) -> list[str]:
    compared = [j for j in found if j.throughput is not None]
    slower = [j for j in compared if j.throughput is not None and is_slower(j.throughput)]
    few = [j for j in compared if j.throughput is not None and j.throughput.high is None]
    verdict = "not met" if slower else "not certain" if few or not compared else "met"
    why = f"in {len(slower)} of {len(compared)}"
    why += FEW_ROUNDS if few else ""
    lines = [f"no server slower than on its best peer with certainty: {verdict} ({subject}: {why})"]
    doubted = [
        j
        for j in compared
        if j.throughput is not None and j.throughput.value < FASTER and j not in slower
    ]
    for judged, certain in (*((j, True) for j in slower), *((j, False) for j in doubted)):
        assert judged.throughput is not None
        doubt = "" if certain else ", not certain"
        lines.append(
            f"  {judged.row.name}: throughput {show(judged.throughput)} of that on"
            f" {judged.fastest}{doubt}"
        )
    return lines


def of_memory(result: Result, found: list[Judgement], subject: str) -> list[str]:
    compared = [j for j in found if j.idle is not None]
    above = [j for j in compared if j.idle is not None and j.idle.value > 1]
    best = len(compared) - len(above)
    few = any(j.idle is not None and j.idle.high is None for j in compared)
    enough = "met" if 10 * best >= 7 * len(compared) else "not met"
    verdict = "not certain" if few or not compared else enough
    idle = result.settings.get("idle_s", 10)
    why = f"in {best} of {len(compared)}{FEW_ROUNDS if few else ''}"
    goal = f"memory after {idle:g} s without load the lowest in 7 of 10"
    lines = [f"{goal}: {verdict} ({subject}: {why})"]
    for judged in sorted(above, key=lambda j: -(j.idle.value if j.idle else 0)):
        assert judged.idle is not None and judged.leanest is not None
        own = median_figure(judged.row, subject, IDLE) or 0.0
        other = median_figure(judged.row, judged.leanest, IDLE) or 0.0
        lines.append(
            f"  {judged.row.name}: {show(judged.idle)} x {judged.leanest}"
            f" ({show_number(own / 1024, 1)} MiB, {show_number(other / 1024, 1)})"
        )
    return lines


def server_verdicts(result: Result) -> list[str]:
    """The goal's two parts for each subject, failures first; a line each, exceptions indented."""
    lines: list[str] = []
    for subject in summary.subjects_of(result):
        found = judgements(result, subject)
        lines += [f"{j.row.name} fails on {subject}: {j.failure}" for j in found if j.failure]
        lines += [*of_speed(found, subject), *of_memory(result, found, subject)]
    return lines
