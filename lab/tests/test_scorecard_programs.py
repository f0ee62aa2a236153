"""The scorecard's goals of real programs and real servers."""

from dataclasses import replace

from scorecard_samples import (
    COSTS,
    LEAN_SERVERS,
    ROWS,
    SLOWER_SERVERS,
    TIME_ALL,
    MakeCard,
    suite,
)

from hakmem_lab.run.results import Result


def programs(slower: int = 0, **factors: float) -> Result:
    """The suite's rows as programs; so many are 4% slower than on glibc, the others as fast."""
    result = suite()
    result.kind = "programs"
    factors = {"mimalloc3": 1.1, **factors}
    for number, row in enumerate(result.rows):
        row.measure = "cpu"
        share = 1.04 if number < slower else 1.0
        row.runs = [
            replace(
                run,
                throughput_per_s=None,
                user_s=(share if run.allocator == "hakmem" else 1) * factors.get(run.allocator, 1),
            )
            for run in row.runs
        ]
    return result


def test_real_programs(card: MakeCard) -> None:
    time = "programs: geometric mean of CPU time / mimalloc 3"
    memory = "programs: geometric mean of peak / mimalloc 3"
    slower = "programs that are slower than on glibc with certainty"
    found = card(programs())
    assert (found[time]["figure"], found[time]["verdict"]) == ("0.909", "met")
    assert (found[memory]["figure"], found[memory]["verdict"]) == ("0.400", "met")
    assert found[slower]["verdict"] == "met"
    # Programs do not answer for the suite, nor the suite for programs.
    assert found[TIME_ALL]["verdict"] == "not measured: needs `suite`"
    found = card(programs(slower=3))
    assert (found[slower]["verdict"], found["tree"]["verdict"]) == ("not met", "not met")
    assert found[slower]["figure"] == f"{len(ROWS) - 3} of {len(ROWS)} inside"
    assert card(programs(mimalloc3=0.99))[time]["verdict"] == "not met"
    assert card(suite())[slower]["verdict"] == "not measured: needs `programs`"


def test_a_program_with_another_output(card: MakeCard) -> None:
    result = programs()
    result.rows[2].runs = [
        replace(run, output="b" if run.allocator == "hakmem" else "a")
        for run in result.rows[2].runs
    ]
    found = card(result)
    assert found["programs that are slower than on glibc with certainty"]["verdict"] == "not met"
    assert "output differs" in found[result.rows[2].name]["verdict"]


# --- servers --------------------------------------------------------------------------------------


def servers(slower: int, above: int, peers: int = len(COSTS) - 3) -> Result:
    """Ten of the suite's rows as servers: on hakmem so many make 5% less than on their best peer,
    and so many hold more than on their leanest."""
    names = ["hakmem", *[n for n in COSTS if n not in ("hakmem", "speed", "lean")][:peers]]
    result = suite(lambda row, name, _round: COSTS["mimalloc3"] / COSTS[name], names=names)
    result.kind = "servers"
    del result.rows[10:]
    for number, row in enumerate(result.rows):
        row.runs = [
            replace(
                run,
                throughput_per_s=(run.throughput_per_s or 0)
                * (0.95 if run.allocator == "hakmem" and number < slower else 1),
                figures={"rss_after_idle_kb": 101.0 if run.allocator == "hakmem" and number < above else 100.0},
            )
            for run in row.runs
        ]
    return result


def test_servers(card: MakeCard) -> None:
    found = card(servers(slower=0, above=4))
    assert found[SLOWER_SERVERS]["verdict"] == found[LEAN_SERVERS]["verdict"] == "met"
    assert found[LEAN_SERVERS]["figure"] == "60% (6 of 10)"
    # Half of them are not most.
    found = card(servers(slower=1, above=5))
    assert found[SLOWER_SERVERS]["verdict"] == found[LEAN_SERVERS]["verdict"] == "not met"
    assert found[SLOWER_SERVERS]["figure"] == "9 of 10 inside"
    found = card(servers(slower=0, above=0, peers=2))
    assert found[SLOWER_SERVERS]["verdict"].startswith("not certain: without mimalloc2, ")
    assert found[LEAN_SERVERS]["verdict"].startswith("not certain: without mimalloc2, ")
