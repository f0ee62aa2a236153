"""Verdicts in words: what is said of known figures, and how often it is true."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from hakmem_lab.analysis.statistics import Difference, Estimate, compare_costs, judge
from hakmem_lab.analysis.verdict import (
    describe_amount,
    describe_comparison,
    describe_latency,
    describe_memory,
    describe_time,
    row_verdict,
    verdicts,
)
from hakmem_lab.base.numbers import Floats
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult

SPREAD = np.array([0.999, 1.001, 1.0, 0.998, 1.002, 1.0, 0.999, 1.001, 1.0, 1.0])


def row_of(costs: Mapping[str, Sequence[float]], measure: str = "wall") -> RowResult:
    """A row in which an allocator took these seconds, run by run."""
    row = RowResult("job", "program", "", measure, 1.0, ["job"], {})
    for name, seconds in costs.items():
        row.runs += [
            Run(name, number, 1, wall_s=s, user_s=s, throughput_per_s=1 / s, peak_rss_kb=100_000)
            for number, s in enumerate(seconds, start=1)
        ]
    return row


def result_of(*rows: RowResult, missing: str | None = None) -> Result:
    names = dict.fromkeys(run.allocator for row in rows for run in row.runs)
    chosen = [Allocator(name, "1", "test") for name in names]
    if missing is not None:
        chosen.append(Allocator("away", "1", "test", missing=missing))
    return Result("compare", [], {"base": "glibc"}, {}, chosen, list(rows))


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Estimate(0.8, 0.75, 0.9, 10), "25% faster than glibc [11, 33]"),
        (Estimate(0.97, 0.96, 0.98, 10), "3.1% faster than glibc [2.0, 4.2]"),
        (Estimate(0.5, 0.4, 0.625, 10), "2.0 times as fast as glibc [1.6, 2.5]"),
        (Estimate(1.25, 1.2, 1.3, 10), "20% slower than glibc [17, 23]"),
        (Estimate(3.0, 2.0, 4.0, 10), "takes 3.0 times as long as glibc [2.0, 4.0]"),
        (Estimate(0.8, None, None, 2), "25% faster than glibc"),
    ],
)
def test_faster_and_slower(ratio: Estimate, words: str) -> None:
    difference: Difference = "faster" if ratio.value < 1 else "slower"
    assert describe_time(ratio, difference, "glibc") == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Estimate(0.8, 0.75, 0.9, 10), "20% less memory [10, 25]"),
        (Estimate(1.05, 1.04, 1.06, 10), "5.0% more memory [4.0, 6.0]"),
        (Estimate(2.5, 2.4, 2.6, 10), "2.5 times the memory [2.4, 2.6]"),
    ],
)
def test_more_and_less(ratio: Estimate, words: str) -> None:
    assert describe_amount(ratio, "memory") == words


def words_of(ratios: Floats, measure: str = "wall") -> str:
    return describe_comparison(compare_costs(ratios), measure, "glibc")


def test_a_difference_that_is_noise_is_called_noise() -> None:
    assert words_of(SPREAD) == "equal: the difference is noise [-0.1, +0.1]%"


def test_a_difference_that_may_hide_in_noise() -> None:
    said = words_of(np.array([0.9, 1.1, 0.95, 1.06, 1.0, 0.93, 1.08, 1.02, 0.97, 1.01]))
    assert said.startswith("no difference beyond the noise [-6.5, +7.0]%: ")
    more = int(said.split(": ")[1].split()[0])
    # Noise of 6% in a ratio: about ((2.58 + 0.84) * 6 / 3)^2 = 47 rounds for 99%.
    assert 25 <= more <= 60


def test_strong_noise() -> None:
    said = words_of(np.array([0.2, 5.0, 0.5, 2.0, 1.0, 0.3, 3.0]))
    assert said == (
        "no difference beyond the noise [-81.4, +453.9]%:"
        " more than 1000 more runs would show one of 3%"
    )


@pytest.mark.parametrize("count", [1, 2, 4])
def test_too_few_runs(count: int) -> None:
    more = f"{6 - count} more runs"
    assert words_of(SPREAD[:count]) == f"too few runs to tell: {more} at the least"


def test_five_steady_runs_are_not_called_equal_nor_different() -> None:
    for ratios in (SPREAD[:5], 0.5 * SPREAD[:5]):
        assert words_of(ratios) == "too few runs to tell: 1 more run at the least"
    assert words_of(SPREAD[:6]).startswith("equal: ")


def test_cpu_time() -> None:
    assert words_of(1.3 * SPREAD, "cpu") == "30% more CPU time than glibc [30, 30]"
    assert words_of(0.7 * SPREAD, "cpu").startswith("30% less CPU time than glibc")


def test_memory() -> None:
    assert describe_memory(SPREAD) == "the same memory"
    assert describe_memory(1.2 * SPREAD) == "20% more memory"
    assert describe_memory(np.full(6, 1.005)) == "the same memory"  # certain, and under 1%
    assert describe_memory(SPREAD[:2]) is None
    assert describe_memory(np.array([])) is None


# --- rows and results -----------------------------------------------------------------------------


def test_a_row() -> None:
    row = row_of({"glibc": [1.0] * 10, "hakmem": list(0.8 * SPREAD)})
    said = row_verdict(row, "hakmem", "glibc", with_memory=True)
    assert said == "25% faster than glibc [25, 25], the same memory (10 runs)"
    assert row_verdict(row, "hakmem", "glibc", with_memory=False) == (
        "25% faster than glibc [25, 25] (10 runs)"
    )


def test_ratios_are_of_the_same_round() -> None:
    """Both drift by a factor of three; within each round nothing differs."""
    drift = np.linspace(1, 3, 10)
    row = row_of({"glibc": list(drift), "hakmem": list(drift * SPREAD)})
    said = row_verdict(row, "hakmem", "glibc", with_memory=False)
    assert said == "equal: the difference is noise [-0.1, +0.1]% (10 runs)"


def test_failures() -> None:
    row = row_of({"glibc": [1.0] * 5, "hakmem": [1.0, 1.0], "early": []})
    row.runs.append(Run("hakmem", 3, 1, failure="SIGSEGV"))
    row.runs.append(Run("early", 1, 1, failure="exit code 1: no"))
    assert row_verdict(row, "hakmem", "glibc", True) == "failed after 2 good runs: SIGSEGV"
    assert row_verdict(row, "early", "glibc", True) == "failed: exit code 1: no"
    assert row_verdict(row, "never", "glibc", True) is None


def test_a_base_that_failed_compares_with_nothing() -> None:
    row = row_of({"glibc": [], "hakmem": [1.0] * 5})
    row.runs.append(Run("glibc", 1, 1, failure="SIGABRT"))
    assert verdicts(result_of(row)) == ["glibc, the base, failed: SIGABRT; nothing to compare with"]


def test_what_is_too_short_is_not_compared() -> None:
    row = row_of({"glibc": [0.5] * 5}, "cpu")
    row.runs += [Run("hakmem", number, 1, wall_s=0.001) for number in range(1, 6)]
    assert row_verdict(row, "hakmem", "glibc", True) is None
    assert row.costs("hakmem") == {}


def test_every_allocator_has_its_line() -> None:
    costs = {"glibc": [1.0] * 10, "hakmem": list(0.5 * SPREAD), "slow": list(1.5 * SPREAD)}
    lines = verdicts(result_of(row_of(costs), missing="not installed: make peers"))
    assert lines == [
        "hakmem: 2.0 times as fast as glibc [2.0, 2.0], the same memory (10 runs)",
        "slow: 33% slower than glibc [33, 33], the same memory (10 runs)",
        "away: not run: not installed: make peers",
    ]


def test_outputs_that_differ_are_shouted() -> None:
    row = row_of({"glibc": [1.0] * 10, "hakmem": list(SPREAD)})
    row.runs = [Run(**{**run.__dict__, "output": run.allocator}) for run in row.runs]
    assert "ITS OUTPUT DIFFERS from that on glibc" in verdicts(result_of(row))[0]
    row.runs = [Run(**{**run.__dict__, "output": str(run.round)}) for run in row.runs]
    lines = verdicts(result_of(row))
    assert "DIFFERS" not in lines[0]
    assert lines[1] == "the output varies from run to run on glibc itself: not compared"


def served(name: str, ratios: Floats, **figures: float) -> list[Run]:
    return [
        Run(name, number, 1, throughput_per_s=1000.0 / ratio, figures=dict(figures))
        for number, ratio in enumerate(ratios, start=1)
    ]


def test_servers_name_latencies_and_failed_requests() -> None:
    row = RowResult("GET", "server", "", "throughput", 1.0, ["load"], {})
    row.runs = served("glibc", SPREAD, latency_p99_ms=2.0) + served(
        "hakmem", 0.8 * SPREAD, latency_p99_ms=1.5, failed_requests=3.0
    )
    said = row_verdict(row, "hakmem", "glibc", with_memory=False)
    assert said == (
        "25% faster than glibc [25, 25], 25% less p99 latency [25, 25],"
        " REQUESTS FAILED in 10 runs (10 runs)"
    )
    assert describe_latency(row, "hakmem", "glibc", "p50") is None
    row.runs = served("glibc", SPREAD, failed_requests=1.0) + served("hakmem", SPREAD)
    assert "glibc, the base, GET: REQUESTS FAILED in 10 runs" in verdicts(result_of(row))


def test_latencies_within_the_noise() -> None:
    row = RowResult("GET", "server", "", "throughput", 1.0, ["load"], {})
    for name in ("glibc", "hakmem"):
        row.runs += served(name, SPREAD, latency_p99_ms=2.0)
    assert describe_latency(row, "hakmem", "glibc", "p99") == "p99 latency within the noise"


# --- how often the words are true -----------------------------------------------------------------


def real_noise(generator: np.random.Generator, runs: int, noise: float) -> Floats:
    """Times as machines make them: skewed, now and then a run that was disturbed by 10%, and a
    level that drifts from run to run."""
    times = np.exp(generator.normal(0, noise, runs)) + generator.exponential(noise / 4, runs)
    times[generator.random(runs) < 0.02] *= 1.1
    return times


def tries(faster: float, noise: float, runs: int, seed: int) -> list[Floats]:
    """A hundred comparisons of a program that is `faster` with itself; the machine drifts alike
    under both."""
    generator = np.random.default_rng(seed)
    found: list[Floats] = []
    for _ in range(100):
        drift = np.exp(np.cumsum(generator.normal(0, 0.02, runs)))
        a = drift * real_noise(generator, runs, noise)
        b = drift * real_noise(generator, runs, noise) / (1 + faster)
        found.append(b / a)
    return found


@pytest.mark.parametrize(("noise", "runs"), [(0.005, 10), (0.01, 20), (0.03, 10), (0.03, 30)])
def test_identical_programs_are_called_equal_in_95_of_100(noise: float, runs: int) -> None:
    compared = [compare_costs(ratios) for ratios in tries(0.0, noise, runs, 41)]
    assert sum(c.difference == "equal" for c in compared) >= 95
    said = [describe_comparison(c, "wall", "glibc") for c in compared]
    assert sum(text.startswith(("equal: ", "no difference")) for text in said) >= 95


def test_with_little_noise_the_word_is_equal() -> None:
    said = [words_of(ratios) for ratios in tries(0.0, 0.003, 20, 43)]
    assert sum(text.startswith("equal: the difference is noise") for text in said) >= 95


@pytest.mark.parametrize(("noise", "runs"), [(0.005, 5), (0.01, 5), (0.01, 10), (0.03, 20)])
@pytest.mark.parametrize("true", [0.03, -0.03])
def test_what_differs_by_3_percent_is_not_called_equal(
    noise: float, runs: int, true: float
) -> None:
    said = [words_of(ratios) for seed in (67, 68, 69) for ratios in tries(true, noise, runs, seed)]
    assert sum(text.startswith("equal") for text in said) <= 15  # of 300


@pytest.mark.parametrize(("noise", "runs"), [(0.005, 20), (0.01, 30)])
def test_a_true_3_percent_is_found(noise: float, runs: int) -> None:
    for true, word in ((0.03, "faster"), (-0.03, "slower")):
        said = [words_of(ratios) for ratios in tries(true, noise, runs, 47)]
        assert sum(word in text for text in said) >= 95, said
        assert sum(text.startswith("equal") for text in said) <= 5


def test_the_interval_in_the_words_holds_the_true_difference() -> None:
    held = 0
    for ratios in tries(0.05, 0.01, 20, 53):
        ratio = compare_costs(ratios).ratio
        assert ratio.low is not None and ratio.high is not None
        held += ratio.low <= 1 / 1.05 <= ratio.high
    assert held >= 90


def test_more_runs_that_were_asked_for_decide() -> None:
    """Rule R1, undecided after ten rounds: with the rounds it asks for, most are decided."""
    generator = np.random.default_rng(59)
    decided = undecided = 0
    for first in tries(0.02, 0.02, 10, 61):
        verdict = judge(first)
        if verdict.decision != "not decided":
            continue
        undecided += 1
        total = len(first) + verdict.more_rounds
        again = real_noise(generator, total, 0.02) / 1.02 / real_noise(generator, total, 0.02)
        decided += judge(again).decision == "GO"
    assert undecided >= 30
    assert decided / undecided >= 0.75
