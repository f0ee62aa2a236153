"""The search of `hunt` on figures that are made up: what it finds, makes smaller, and how it ends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from samples import MACHINE, allocators

from hakmem_lab.analysis.hunt import CONFIRM, SEARCH, Hunt, Metric, Plan, explains
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.hunt import Parameters, number, parse_words
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult

SUBJECT = "hakmem"
Answer = Callable[[str, Parameters], Run]


def ended(name: str, work_s: float = 0.1, peak_kb: int = 20_000, failure: str | None = None) -> Run:
    figures = {"work_s": work_s, "rest_kb": 10_000.0}
    return Run(name, 1, 1, peak_rss_kb=peak_kb, failure=failure, figures=figures)


def searched(
    answer: Answer, metric: Metric = "time", candidates: int = 60, seconds: float = 1e6, runs: int = 0
) -> tuple[Hunt, list[str]]:
    """A hunt whose clock goes on by a second for each run; after `runs` of them Ctrl-C is pressed."""
    result = Result("hunt", ["hakmem-lab", "hunt"], {"seed": 1}, MACHINE, allocators())
    now, said = [0.0], list[str]()

    def run_round(
        row: RowResult,
        turn: Sequence[Allocator],
        round_: int,
        memory: float,
        together: bool,
        keep: Callable[[Run], None],
    ) -> None:
        for allocator in turn:
            now[0] += 1
            if runs and now[0] > runs:
                raise KeyboardInterrupt
            keep(replace(answer(allocator.name, parse_words(row.command[1:])), round=round_))

    plan = Plan(SUBJECT, (metric,), 1, seconds, candidates, 7, "best", {metric: 1.5}, 256 << 20, 2)
    hunt = Hunt(result, plan, run_round, "hunt", said.append, lambda: None, lambda: now[0])
    hunt.hunt()
    return hunt, said


def values_of(hunt: Hunt, find: int = 0) -> Parameters:
    (row,) = [row for row in hunt.result.rows if row.name == hunt.finds[find]["row"]]
    assert row.group == CONFIRM and {run.round for run in row.runs} == set(range(1, 8))
    return parse_words(row.command[1:])


def slow_with_realloc(name: str, values: Parameters) -> Run:
    bad = name == SUBJECT and number(values, "realloc") > 0 and number(values, "size-max") > 1000
    return ended(name, 0.3 if bad else 0.1)


def test_a_weakness_is_found_and_nothing_else_is_left_of_it() -> None:
    hunt, said = searched(slow_with_realloc)
    assert {find["metric"] for find in hunt.finds} == {"time"}, said
    found = [values_of(hunt, find) for find in range(len(hunt.finds))]
    for values in found:
        assert number(values, "realloc") == 1 and number(values, "size-max") > 1000
        assert number(values, "threads") == 1 and values["burst"] == "no"
    # Each is one only for sizes that no other has.
    assert not any(explains(a, b) for a in found for b in found if a is not b)


def test_one_bad_run_is_no_find() -> None:
    seen: set[tuple[str, ...]] = set()

    def once(name: str, values: Parameters) -> Run:
        key = tuple(map(str, values.values()))
        first = name == SUBJECT and key not in seen
        if name == SUBJECT:
            seen.add(key)
        return ended(name, 0.3 if first else 0.1)

    hunt, said = searched(once)
    assert not hunt.finds and any("not confirmed" in line for line in said)


def test_small_figures_are_no_finds() -> None:
    assert not searched(lambda name, _: ended(name, 0.019 if name == SUBJECT else 0.001))[0].finds
    small = {SUBJECT: 9_000}
    assert not searched(lambda name, _: ended(name, peak_kb=small.get(name, 1_000)), "peak")[0].finds
    large = {SUBJECT: 10_000}
    assert searched(lambda name, _: ended(name, peak_kb=large.get(name, 1_000)), "peak")[0].finds


def test_what_fails_is_a_find() -> None:
    def fails(name: str, values: Parameters) -> Run:
        bad = name == SUBJECT and number(values, "threads") > 1
        return ended(name, failure="ended by signal 11" if bad else None)

    hunt, _ = searched(fails)
    assert {find["metric"] for find in hunt.finds} == {"fail"}
    hunt, _ = searched(lambda name, _: ended(name, failure="no memory"))
    assert not hunt.finds  # all fail alike


def test_the_same_seed_gives_the_same_candidates() -> None:
    commands = [
        [row.command for row in searched(slow_with_realloc)[0].result.rows] for _ in range(2)
    ]
    assert commands[0] == commands[1]


def test_it_ends_in_order() -> None:
    hunt, _ = searched(slow_with_realloc, candidates=10_000, seconds=300)
    assert hunt.finds and hunt.clock() < 320 and not hunt.result.interrupted
    hunt, _ = searched(slow_with_realloc, candidates=10_000, runs=20)
    assert hunt.result.interrupted and any(row.group == SEARCH for row in hunt.result.rows)
