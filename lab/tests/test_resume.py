"""A suite's run that was stopped goes on, and only as the same run; what may be published."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import good, in_this_process, lab
from rich.console import Console
from samples import MACHINE, ROUNDS, suite, write_samples

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, read_result, write_result
from hakmem_lab.run.resume import differences, take_up
from hakmem_lab.run.rows import Row
from hakmem_lab.run.runner import Reporter, run_rounds

Monkey = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]

NAMES = ("glibc", "hakmem", "mimalloc3")
ROWS = [
    Row(name, (f"build/bench/{name}", "1"), "wall", "single") for name in ("one", "two", "three")
]
Take = tuple[str, str, int, int]  # row, allocator, round, position


def frame() -> Result:
    chosen = [Allocator(name, "1", "test") for name in NAMES]
    settings = {"rounds": 4, "commit": "abc", "builds": {"hakmem": "12"}, "peers": list(NAMES[:1])}
    return Result("suite", ["hakmem-lab", "suite"], settings, dict(MACHINE), chosen)


def measured(result: Result, stop_after: int | None = None, failing: str = "") -> list[Take]:
    """Runs ROWS in four rounds, and stops as Ctrl-C does; what was run."""
    taken: list[Take] = []

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        if len(taken) == stop_after:
            raise KeyboardInterrupt
        taken.append((row.name, allocator.name, round_, position))
        failure = "SIGSEGV" if allocator.name == failing and round_ == 1 else None
        return Run(allocator.name, round_, position, wall_s=1.0, failure=failure)

    run_rounds(result, ROWS, 4, run, None, None, Reporter(Console(file=io.StringIO())))
    return taken


def kept(result: Result) -> list[Take]:
    return [(row.name, r.allocator, r.round, r.position) for row in result.rows for r in row.runs]


def silent(_text: str) -> None:
    pass


@pytest.mark.parametrize("stop_after", [0, 1, 3, 9, 13, 20, 35])
def test_a_stopped_run_ends_as_if_it_had_not_been(tmp_path: Path, stop_after: int) -> None:
    file, whole = tmp_path / "a.json", frame()
    measured(whole)
    stopped = frame()
    before = measured(stopped, stop_after)
    assert stopped.interrupted and len(before) == stop_after
    write_result(stopped, file)
    result = take_up(file, frame(), ROWS, silent)
    after = measured(result)
    assert sorted(kept(result)) == sorted(kept(whole)) and not result.interrupted
    # A row that was under way is taken anew, so that its runs are of one hour.
    again = set(before) & set(after)
    assert len(again) == stop_after % 3
    assert len({(row, round_) for row, _, round_, _ in again}) <= 1
    assert len(before) + len(after) == 36 + len(again)
    assert len(result.settings["taken_up"]) == 1


def test_it_can_be_stopped_twice(tmp_path: Path) -> None:
    file, result = tmp_path / "a.json", frame()
    for stop_after in (7, 10, None):
        measured(result, stop_after)
        write_result(result, file)
        result = take_up(file, frame(), ROWS, silent)
    assert len(kept(result)) == len(set(kept(result))) == 36
    assert len(result.settings["taken_up"]) == 3


def test_who_failed_sits_out_after_a_stop_too(tmp_path: Path) -> None:
    file, result = tmp_path / "a.json", frame()
    measured(result, 14, failing="hakmem")
    write_result(result, file)
    result = take_up(file, frame(), ROWS, silent)
    measured(result, failing="hakmem")
    assert [run.round for row in result.rows for run in row.runs if run.allocator == "hakmem"] == [
        1,
        1,
        1,
    ]
    assert all(len(row.good_runs("glibc")) == 4 for row in result.rows)


def changed(change: Callable[[Result], object]) -> Result:
    result = frame()
    change(result)
    return result


def allocator(name: str, **fields: object) -> Callable[[Result], object]:
    def change(result: Result) -> None:
        result.allocators = [
            replace(a, **fields) if a.name == name else a  # type: ignore[arg-type]
            for a in result.allocators
        ]

    return change


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (lambda r: r.settings.update(commit="abd"), "commit: abc then, abd now"),
        (lambda r: r.settings.update(commit="abc-dirty"), "commit: abc then, abc-dirty now"),
        (lambda r: r.settings.update(rounds=8), "rounds: 4 then, 8 now"),
        (lambda r: r.settings.update(builds={"hakmem": "13"}), "build of hakmem: 12 then, 13 now"),
        (lambda r: r.machine.update(cpu_model="B"), "machine: cpu_model: CPU <of> a test then"),
        (lambda r: r.machine.update(id="x"), "machine: id: - then, x now"),
        (allocator("mimalloc3", version="2"), "mimalloc3's version: 1 then, 2 now"),
        (allocator("mimalloc3", missing="gone"), "mimalloc3's missing: - then, gone now"),
        (lambda r: r.allocators.pop(), "allocator mimalloc3: there then, not there now"),
        (lambda r: r.allocators.reverse(), "order of allocators: glibc, hakmem, mimalloc3 then"),
    ],
)
def test_another_run_is_refused(tmp_path: Path, now: Callable[[Result], object], said: str) -> None:
    file, stopped = tmp_path / "a.json", frame()
    measured(stopped, 5)
    write_result(stopped, file)
    with pytest.raises(LabError) as error:
        take_up(file, changed(now), ROWS, silent)
    assert str(error.value).startswith(f"{file}: cannot be taken up: {said}")
    assert read_result(file).interrupted


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROWS[:2], "row three: there then, not there now"),
        ([*ROWS, replace(ROWS[0], name="four")], "row four: not there then, there now"),
        (
            [replace(ROWS[0], command=("build/bench/one", "2")), *ROWS[1:]],
            "row one: command: build/bench/one 1 then, build/bench/one 2 now",
        ),
        ([*ROWS[:2], replace(ROWS[2], bar=0.9)], "row three: bar: 1.0 then, 0.9 now"),
    ],
)
def test_another_suite_is_refused(tmp_path: Path, rows: list[Row], said: str) -> None:
    stopped = frame()
    measured(stopped, 5)
    write_result(stopped, tmp_path / "a.json")
    with pytest.raises(LabError, match="cannot be taken up") as error:
        take_up(tmp_path / "a.json", frame(), rows, silent)
    assert said in str(error.value)


def test_a_busier_machine_is_the_same_machine() -> None:
    stopped = frame()
    measured(stopped, 5)
    assert not list(differences(stopped, changed(lambda r: r.machine.update(load_average=9)), ROWS))


def test_the_command_goes_on(repository: Paths) -> None:
    words = ("suite", "--resume", "--rounds", "6", "--no-system-calls")
    _, first = good(repository, *words)  # nothing to take up: a new run
    file = repository.root / "out.json"
    stopped = read_result(file)
    stopped.rows[0].runs = stopped.rows[0].runs[:7]
    stopped.interrupted = True
    write_result(stopped, file)
    _, second = good(repository, *words)
    assert len(second.rows[0].runs) == len(first.rows[0].runs)
    assert second.rows[0].runs[:7] == first.rows[0].runs[:7]
    assert second.created == first.created
    for problem, change in (
        ("rounds: 6 then, 7 now", ("--rounds", "7")),
        ("allocator broken: there then, not there now", ("--allocators", "glibc,hakmem,away")),
    ):
        done = lab(repository, *words, *change, "-o", str(file))
        assert done.returncode == 2 and problem in done.stderr, done.stderr
    assert read_result(file).rows[0].runs == second.rows[0].runs


# --- what may be published ------------------------------------------------------------------------


def short_of_a_round(result: Result) -> None:
    result.rows[2].runs = [run for run in result.rows[2].runs if run.round < ROUNDS]


def by_its_path(result: Result) -> None:
    known = result.allocators[2]
    result.allocators[2] = replace(known, source="/x/libmi.so, sha256 0123456789ab")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: None, None),
        (short_of_a_round, "5 rounds of row-3 on hakmem, 6 are needed, and 3 more reasons"),
        (lambda r: r.settings.pop("commit"), "its commit is not known"),
        (
            lambda r: r.settings.update(commit="v1-dirty"),
            "its sources were changed since commit v1",
        ),
        (by_its_path, "mimalloc3 is not of `make peers`"),
    ],
)
def test_what_may_be_published(
    monkeypatch: Monkey,
    capsys: Captured,
    tmp_path: Path,
    change: Callable[[Result], object],
    problem: str | None,
) -> None:
    result, _ = write_samples(tmp_path)
    of = suite()
    change(of)
    write_result(of, result)
    words = ("publish", result, "-o", tmp_path / "out.json")
    code, _, err = in_this_process(monkeypatch, capsys, *words)
    if problem is None:
        assert code == 0, err
        return
    assert code == 2 and f"not to be published: {problem}" in err
    assert in_this_process(monkeypatch, capsys, *words, "--as-it-is")[0] == 0
