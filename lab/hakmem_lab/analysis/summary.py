"""What a result says, as figures: ratios, bests, geometric means, what falls short."""

import math
import re
import statistics as standard
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.analysis.statistics import Estimate, geometric_mean, median_estimate, paired_ratios
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult

BASELINE = "mimalloc3"
# Whose lowest peak memory is the mark. glibc is not among them: it keeps no caches for threads.
MEMORY_PEERS = ("mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "jemalloc", "debian-tcmalloc")
NOISE = 1.03  # a cost up to 3% above is not told from equal
MEMORY_BAR = 1.15
MANY_THREADS = "many-threads"  # the group of rows that are held against the same with few
CROWDS = "crowds"  # 256 and 1,024 threads, and hand-over between dozens
THREADS_IN_NAME = re.compile(r"(-\d+)?-\d+T?$")


def peers_of(result: Result) -> list[str]:
    """Those that are compared with, among the allocators that could be run."""
    peers = result.settings.get("peers", [])
    return [name for name in result.allocator_names() if name in peers]


def subjects_of(result: Result) -> list[str]:
    """Those the comparison is about: hakmem, and variants of it."""
    peers = peers_of(result)
    return [name for name in result.allocator_names() if name not in peers]


def baseline_of(result: Result) -> str | None:
    """mimalloc3, or the first peer where it could not be run."""
    peers = peers_of(result)
    return BASELINE if BASELINE in peers else (peers[0] if peers else None)


def base_of(result: Result) -> str:
    """What the others are compared with in a comparison that a user set up."""
    return str(result.settings.get("base", "glibc"))


def median_cost(row: RowResult, allocator: str) -> float | None:
    """Seconds, or nanoseconds an operation."""
    costs = row.costs(allocator)
    return standard.median(costs.values()) if costs else None


def median_of(row: RowResult, allocator: str, figure: str) -> float | None:
    """Median of a field of the runs that ended well."""
    values = [getattr(run, figure) for run in row.good_runs(allocator)]
    return standard.median(values) if values else None


def page_faults(row: RowResult, allocator: str) -> float | None:
    runs: list[Run] = row.good_runs(allocator)
    return standard.median(r.minor_faults + r.major_faults for r in runs) if runs else None


def peak_memory(row: RowResult, allocator: str) -> float | None:
    """KiB."""
    return median_of(row, allocator, "peak_rss_kb")


def system_calls(row: RowResult, allocator: str) -> int | None:
    calls = row.system_calls.get(allocator)
    return None if calls is None else sum(calls.values())


def cost_ratio(row: RowResult, allocator: str, base: str | None) -> Estimate | None:
    """Median over the rounds of the ratio within each; None when no round has both."""
    if base is None:
        return None
    ratios = paired_ratios(row.costs(allocator), row.costs(base))
    return median_estimate(ratios) if len(ratios) else None


def memory_ratio(
    row: RowResult, allocator: str, base: str | None, less: float = 0.0
) -> Estimate | None:
    """`less`: KiB in every peak that are not the allocator's. None where nothing else is left."""
    if base is None:
        return None
    memory = {
        name: {run.round: run.peak_rss_kb - less for run in row.good_runs(name)}
        for name in (allocator, base)
    }
    if any(kib <= 0 for runs in memory.values() for kib in runs.values()):
        return None
    ratios = paired_ratios(memory[allocator], memory[base])
    return median_estimate(ratios) if len(ratios) else None


def best_by_cost(row: RowResult, names: Sequence[str]) -> str | None:
    """The one with the lowest median cost."""
    costs = {name: cost for name in names if (cost := median_cost(row, name)) is not None}
    return min(costs, key=lambda name: costs[name]) if costs else None


def lowest_memory(row: RowResult, names: Sequence[str]) -> str | None:
    memory = {name: kib for name in names if (kib := peak_memory(row, name)) is not None}
    return min(memory, key=lambda name: memory[name]) if memory else None


def memory_peers(result: Result) -> list[str]:
    """Peers whose lowest memory is the mark; all of them when none of the usual ones ran."""
    peers = peers_of(result)
    return [name for name in peers if name in MEMORY_PEERS] or peers


@dataclass(frozen=True)
class Means:
    """Geometric means of one allocator over the rows where it and the baseline both ran."""

    allocator: str
    time: Estimate | None
    memory: Estimate | None
    time_to_best: float | None  # against the row's lowest of all


def geometric_means(result: Result) -> list[Means]:
    base = baseline_of(result)
    names = result.allocator_names()
    all_means: list[Means] = []
    for name in names:
        time, memory, to_best = [], [], []
        for row in result.rows:
            if base is not None:
                ratios = paired_ratios(row.costs(name), row.costs(base))
                kib = {
                    n: {r.round: float(r.peak_rss_kb) for r in row.good_runs(n)}
                    for n in (name, base)
                }
                if len(ratios):
                    time.append(ratios)
                memory_ratios = paired_ratios(kib[name], kib[base])
                if len(memory_ratios):
                    memory.append(memory_ratios)
            best = best_by_cost(row, names)
            cost = median_cost(row, name)
            lowest = median_cost(row, best) if best else None
            if cost is not None and lowest is not None:
                to_best.append(cost / lowest)
        all_means.append(
            Means(
                name,
                geometric_mean(time) if time else None,
                geometric_mean(memory) if memory else None,
                math.exp(standard.fmean(map(math.log, to_best))) if to_best else None,
            )
        )
    return all_means


def is_certain(estimate: Estimate) -> bool:
    """Whether the interval lies wholly above 1."""
    return estimate.low is not None and estimate.low > 1


def doubt(estimate: Estimate) -> str:
    """What to say behind a ratio above 1 that may be one by chance."""
    if estimate.low is None:
        return "; too few rounds for an interval"
    return "" if is_certain(estimate) else "; its interval includes 1"


def limit_of(row: RowResult) -> float:
    """Highest ratio to the best peer that is good enough: the row's bar and its allowance."""
    return row.bar * NOISE


def few_threads_row(result: Result, row: RowResult) -> RowResult | None:
    """The row that a row with many threads is held against: the first of the group `threads` whose
    name is the same but for its numbers (mixed-2T, or larson without any)."""
    if row.group != MANY_THREADS:
        return None
    stem = THREADS_IN_NAME.sub("", row.name)
    for other in result.rows:
        if other.group == "threads" and THREADS_IN_NAME.sub("", other.name) == stem:
            return other
    return None


def kept_of_few(result: Result, row: RowResult, allocator: str) -> dict[int, float]:
    """Throughput with many threads as a share of that with few, in each round; empty for other
    rows."""
    few = few_threads_row(result, row)
    if few is None or row.measure != "throughput" or few.measure != "throughput":
        return {}
    before, after = few.costs(allocator), row.costs(allocator)
    return {r: before[r] / after[r] for r in sorted(before.keys() & after.keys()) if after[r] > 0}


def scaling(result: Result, row: RowResult, allocator: str) -> float | None:
    """Its median."""
    kept = kept_of_few(result, row, allocator)
    return standard.median(kept.values()) if kept else None


def median_kept(result: Result, row: RowResult, names: Sequence[str]) -> dict[int, float]:
    """That share of the median of `names`, in each round."""
    all_kept = [kept_of_few(result, row, name) for name in names]
    rounds = sorted(set().union(*all_kept)) if all_kept else []
    return {r: standard.median(kept[r] for kept in all_kept if r in kept) for r in rounds}


def scaling_ratio(
    result: Result, row: RowResult, allocator: str, names: Sequence[str]
) -> Estimate | None:
    """What the median of `names` keeps against what `allocator` keeps: above 1 the latter scales
    worse."""
    ours = kept_of_few(result, row, allocator)
    ratios = paired_ratios(median_kept(result, row, names), ours)
    return median_estimate(ratios) if len(ratios) else None


def suite_shortfalls(result: Result, subject: str) -> list[str]:
    """A line for each row and figure in which `subject` misses its mark."""
    lines: list[str] = []
    for row in result.rows:
        if row.missing is not None:
            continue
        failure = row.failure(subject)
        if failure is not None:
            lines.append(f"{row.name}: failed: {failure}")
            continue
        best = best_by_cost(row, peers_of(result))
        ratio = cost_ratio(row, subject, best)
        if ratio is not None and ratio.value > limit_of(row):
            maybe = doubt(ratio) if ratio.value > 1 else ""
            lines.append(
                f"{row.name}: time {ratio.value:.2f} x {best}, at most {limit_of(row):.2f}{maybe}"
            )
        worse = scaling_ratio(result, row, subject, peers_of(result))
        if worse is not None and worse.value > NOISE:
            few = few_threads_row(result, row)
            kept = standard.median(kept_of_few(result, row, subject).values())
            median = standard.median(median_kept(result, row, peers_of(result)).values())
            lines.append(
                f"{row.name}: throughput {kept:.2f} x that of {few.name if few else ''}; the"
                f" median peer's {median:.2f} x"
            )
        lowest = lowest_memory(row, memory_peers(result))
        memory = memory_ratio(row, subject, lowest)
        if memory is not None and memory.value > MEMORY_BAR:
            lines.append(
                f"{row.name}: peak memory {memory.value:.2f} x {lowest}, at most {MEMORY_BAR:.2f}"
            )
    return lines


def output_verdict(row: RowResult, allocator: str, reference: str = "glibc") -> str:
    """Whether the output is that of the reference: same, differs, varies (the reference's own does
    from run to run), or unknown."""
    sums = {
        name: {run.output for run in row.good_runs(name) if run.output is not None}
        for name in (reference, allocator)
    }
    if not sums[reference] or not sums[allocator]:
        return "unknown"
    if len(sums[reference]) > 1:
        return "varies"
    return "same" if sums[allocator] == sums[reference] else "differs"


def program_shortfalls(result: Result, subject: str) -> list[str]:
    """Programs that are slower than on glibc, whose output differs, or that failed."""
    lines: list[str] = []
    for row in result.rows:
        failure = row.failure(subject)
        if failure is not None:
            lines.append(f"{row.name}: failed: {failure}")
        if output_verdict(row, subject) == "differs":
            lines.append(f"{row.name}: output differs from that on glibc")
        ratio = cost_ratio(row, subject, "glibc")
        if ratio is not None and ratio.value > NOISE:
            lines.append(f"{row.name}: CPU time {ratio.value:.2f} x glibc{doubt(ratio)}")
    return lines
