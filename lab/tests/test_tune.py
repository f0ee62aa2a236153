"""`tune`: what is tried, who is a finalist, which settings are on the line, and the command."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Refuse, command, good, lab

from hakmem_lab.analysis.tune import (
    SCHEDULES,
    Schedule,
    choose_finalists,
    choose_schedule,
    places,
)
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.report.tune_table import line_of, words
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult, read_result
from hakmem_lab.run.tune import NODES_OPTION, OPTIONS, PROFILES, first_settings, label, setting

LIBRARY = Allocator("hakmem", "1", "test", "/lib/libhakmem.so")
MACHINE = {
    "kernel": "Linux",
    "cpu_model": "a CPU",
    "cpus": 2,
    "memory_mib": 1000,
    "transparent_huge_pages": "madvise",
    "load_average": 0.5,
}
OFF = {"HAKMEM_SS_HUGEPAGE": "off"}
FEW_KB, MANY_KB = ({"HAKMEM_BINS_KB": value} for value in ("256", "65536"))


def row_of(rounds: int, costs: dict[str, tuple[float, float]]) -> RowResult:
    """Time and MiB by setting. Rounds differ by 5%, on all alike, and runs by 0.2%."""
    row = RowResult("program", "program", "", "cpu", 1.0, ["program"], {})
    for round_ in range(1, rounds + 1):
        for index, (name, (seconds, mib)) in enumerate(costs.items()):
            noise = 1 + 0.002 * ((round_ * 7 + index * 3) % 5 - 2)
            time_s = seconds * (1 + 0.05 * (round_ % 3)) * noise
            peak = round(mib * 1024 * noise)
            row.runs.append(Run(name, round_, 1, user_s=time_s, peak_rss_kb=peak))
    return row


def finals_of(rounds: int, costs: dict[str, tuple[float, float]], *more: dict[str, str]) -> Result:
    settings = [s for s in first_settings(LIBRARY) if s.name in costs]
    settings += [setting(LIBRARY, environment) for environment in more]
    result = Result("tune", ["tune"], {"phases": {"program": "finals"}}, MACHINE, settings)
    result.rows = [row_of(rounds, costs)]
    return result


def placed(result: Result) -> dict[str, str]:
    return {place.setting: place.place or place.why for place in places(result)}


# --- what is tried --------------------------------------------------------------------------------


def test_settings_are_options_of_the_library() -> None:
    source = Path(__file__).parents[2] / "src/policy/options.def"
    known = set(re.findall(r'^HAK_OPTION\(\w+, "(\w+)"', source.read_text(), re.MULTILINE))
    assert {name for name, _ in (*OPTIONS, NODES_OPTION)} < known
    names = [s.name for s in first_settings(LIBRARY)]
    assert tuple(names[:3]) == PROFILES and len(set(names)) == len(names)


def test_the_library_takes_every_setting() -> None:
    library = os.environ.get("HAKMEM_TEST_LIBRARY")
    if not library:
        pytest.skip("needs the library: HAKMEM_TEST_LIBRARY")
    for one in first_settings(LIBRARY):
        done = subprocess.run(
            ["/bin/true"],
            env={"LD_PRELOAD": library, **one.environment},
            capture_output=True,
            check=True,
        )
        assert done.stderr == b"", one.name


def test_labels() -> None:
    assert label({}) == "balanced" and label({"HAKMEM_PROFILE": "lean"}) == "lean"
    assert label(OFF) == "SS_HUGEPAGE=off"
    assert label({"HAKMEM_PROFILE": "lean", **OFF}) == "lean SS_HUGEPAGE=off"


def test_finalists() -> None:
    costs = {s.name: (1.0, 50.0) for s in first_settings(LIBRARY)}
    environments = [s.environment for s in first_settings(LIBRARY)]
    profiles: list[dict[str, str]] = [{}, {"HAKMEM_PROFILE": "speed"}, {"HAKMEM_PROFILE": "lean"}]
    assert choose_finalists(row_of(3, costs), environments, 7) == profiles
    costs |= {
        "speed": (0.9, 60.0),
        "lean": (1.2, 40.0),
        "SS_HUGEPAGE=off": (1.1, 45.0),
        "BINS_KB=256": (1.0, 48.0),
        "BINS_KB=65536": (0.95, 47.0),
    }
    chosen = choose_finalists(row_of(3, costs), environments, 7)
    assert chosen == [
        *profiles,
        {"HAKMEM_PROFILE": "speed", **MANY_KB},
        {"HAKMEM_PROFILE": "lean", **OFF, **MANY_KB},  # of two values the better one
        MANY_KB,
        OFF,
    ]
    assert choose_finalists(row_of(3, costs), environments, 4) == chosen[:4]


def test_schedules() -> None:
    most = SCHEDULES[0].runs(10, 10)
    assert choose_schedule(10, 10, 1.0, None) == SCHEDULES[0] == Schedule(3, 7)
    assert choose_schedule(10, 10, 1.0, most) == SCHEDULES[0]
    for budget in range(30, most):
        assert choose_schedule(10, 10, 1.0, budget).runs(10, 10) <= budget
    runs = [schedule.runs(10, 10) for schedule in SCHEDULES]
    assert runs == sorted(runs, reverse=True)
    with pytest.raises(LabError, match=r"--budget 29: a run takes 1.00 s.* need 30 s"):
        choose_schedule(10, 10, 1.0, 29)


# --- the line -------------------------------------------------------------------------------------


def test_a_line_of_three() -> None:
    costs = {"balanced": (1.0, 50.0), "speed": (0.9, 60.0), "lean": (1.2, 30.0)}
    result = finals_of(10, costs)
    assert placed(result) == {
        "speed": "least time",
        "balanced": "between",
        "lean": "least memory",
    }
    assert words(result) == [
        "least time: export HAKMEM_PROFILE=speed",
        "between: nothing (the default)",
        "least memory: export HAKMEM_PROFILE=lean",
    ]
    (speed, _, lean) = places(result)
    assert speed.against_default is not None and lean.against_default is not None
    assert speed.against_default.time_ratio.value == pytest.approx(0.9, abs=0.01)
    assert lean.against_default.memory_ratio.value == pytest.approx(0.6, abs=0.01)


def test_one_that_is_best_in_both() -> None:
    costs = {"balanced": (1.0, 50.0), "speed": (1.0, 60.0), "SS_HUGEPAGE=off": (0.95, 45.0)}
    result = finals_of(10, costs)
    assert placed(result) == {
        "SS_HUGEPAGE=off": "least time and memory",
        "balanced": "not as good as SS_HUGEPAGE=off",
        "speed": "not as good as balanced",
    }
    assert words(result) == ["least time and memory: export HAKMEM_SS_HUGEPAGE=off"]


def test_noise_is_the_simplest_setting() -> None:
    costs = {
        "balanced": (1.0, 50.0),
        "lean": (1.001, 40.0),
        "lean SS_HUGEPAGE=off": (0.999, 39.9),
        "speed": (1.001, 50.1),
    }
    result = finals_of(10, costs, {"HAKMEM_PROFILE": "lean", **OFF})
    assert placed(result) == {
        "lean": "least time and memory",
        "balanced": "not as good as lean",
        "speed": "not as good as lean",
        "lean SS_HUGEPAGE=off": "noise: as lean",
    }


def test_a_gain_that_is_noise_is_said_where_it_is_recommended() -> None:
    result = finals_of(10, {"balanced": (1.0, 50.0), "lean": (1.0, 40.0), "speed": (0.9, 55.0)})
    (row,) = result.rows
    row.runs = [
        replace(run, user_s=run.user_s * (1.3 if run.round % 3 == 0 else 0.95))
        if run.allocator == "speed"
        else run
        for run in row.runs
    ]
    assert placed(result)["speed"] == "least time"
    assert words(result)[:2] == [
        "least time: export HAKMEM_PROFILE=speed  # noise: not certainly faster than balanced",
        "least memory: export HAKMEM_PROFILE=lean",
    ]


def test_nothing_to_set() -> None:
    result = finals_of(10, {name: (1.0, 50.0) for name in PROFILES})
    assert placed(result)["balanced"] == "least time and memory"
    assert words(result)[0].startswith("no other setting is better beyond the noise")


def test_too_few_rounds_for_a_finding() -> None:
    result = finals_of(9, {"balanced": (1.0, 50.0), "lean": (0.5, 20.0)})
    assert placed(result) == {"balanced": "least time and memory", "lean": "noise: as balanced"}
    assert words(result)[0].startswith("9 rounds of the finals: rule R1 asks for 10")


def test_more_than_three() -> None:
    costs = {
        "balanced": (1.0, 50.0),
        "speed": (0.8, 70.0),
        "BINS_KB=256": (1.1, 45.0),
        "lean": (1.3, 30.0),
    }
    assert placed(finals_of(10, costs)) == {
        "speed": "least time",
        "balanced": "between",
        "lean": "least memory",
        "BINS_KB=256": "between, as balanced is",
    }


# --- the command ----------------------------------------------------------------------------------


def test_a_setting_that_certainly_takes_less_memory(repository: Paths) -> None:
    """Blocks of 64 KiB to 1 MiB come and go: without a warm pool, and in the profile lean,
    the peak is a quarter. Nothing is asserted of time, which other programs on the machine change.
    """
    library, programs = (
        os.environ.get(name) for name in ("HAKMEM_TEST_LIBRARY", "HAKMEM_TEST_PROGRAMS")
    )
    if not library or not programs:
        pytest.skip("needs the library and random_mixed: HAKMEM_TEST_LIBRARY, _PROGRAMS")
    sizes = ("--env", "HAKMEM_BENCH_MIN_SIZE=65536", "--env", "HAKMEM_BENCH_MAX_SIZE=1048576")
    work = (f"{programs}/random_mixed", "60000", "100", "1")
    text, result = good(
        repository, "tune", "--measure", "cpu", "--library", library, *sizes, "--", *work
    )
    line = [one for one in places(result) if one.place]
    assert len(line) == 1 or line[-1].place == "least memory", text
    gained = line[-1].against_default
    assert gained is not None and gained.memory_ratio.high is not None, text
    assert gained.memory_ratio.high < 0.5
    (export,) = [sentence for sentence in words(result) if "memory: " in sentence]
    assert export.endswith(line_of(line[-1])) and export in text
    assert re.search(r"^Settings for .*random_mixed, from least time to least memory", text, re.M)
    shown = subprocess.run(
        [sys.executable, "-m", "hakmem_lab", "show", str(repository.root / "out.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert export in shown.stdout


def test_budget(repository: Paths) -> None:
    """A short one leaves the screening out; one that is used up ends the rounds.

    On a busy machine a run takes longer: up to 3 s, and 0.5 s of the last command, change nothing.
    """
    done = lab(repository, "tune", "--budget", "15", "--rounds", "1", "--", "/bin/sleep", "1")
    assert done.returncode == 0, done.stderr
    assert re.search(r"a run takes \d.* s: 3 settings in 1 round:", done.stderr), done.stderr
    result = read_result(repository.root / "out.json")
    assert list(result.settings["phases"].values()) == ["finals"]
    assert result.allocator_names() == list(PROFILES)
    done = lab(repository, "tune", "--budget", "2", "--", "/bin/sleep", "0.3")
    assert done.returncode == 2
    assert "--budget 2: a run takes " in done.stderr and "in 10 rounds need" in done.stderr
    growing = 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; [ "$n" -lt 4 ] || sleep 1'
    words = ("--directory", str(repository.root), "--", "/bin/sh", "-c", growing)
    done = lab(repository, "tune", "--budget", "9", "--rounds", "5", *words)
    assert done.returncode == 0, done.stderr
    used_up = r"--budget is used up: the (screening|finals) ends before its last round"
    assert re.search(used_up, done.stderr), done.stderr


def test_ctrl_c_keeps_what_was_measured(repository: Paths) -> None:
    words = ("--rounds", "500", "--", "/bin/sleep", "0.02")
    process = subprocess.Popen(
        command(repository, "tune", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out = repository.root / "out.json"
    for _ in range(900):
        if out.exists() and '"finals"' in out.read_text() and '"round": 12' in out.read_text():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    result = read_result(out)
    assert result.interrupted and [len(row.good_runs("lean")) > 2 for row in result.rows] == [
        True,
        True,
    ]
    assert "stopped before the end" in text and "Put into the environment:" in text


def test_a_command_that_fails(repository: Paths) -> None:
    done = lab(repository, "tune", "--", "/bin/sh", "-c", "echo no luck >&2; exit 3")
    assert done.returncode == 2
    assert "the command fails on hakmem's defaults: exit code 3: no luck" in done.stderr
    assert "--expect-status N" in done.stderr
    good(
        repository, "tune", "--rounds", "1", "--expect-status", "3", "--", "/bin/sh", "-c", "exit 3"
    )


@pytest.mark.parametrize(("after", "code"), [(1, 2), (15, 1)])
def test_a_command_that_does_not_end_alike(repository: Paths, after: int, code: int) -> None:
    """In its first runs, and in the rounds, where what was measured is kept."""
    script = f'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; [ "$n" -ne {after} ]'
    words = ("--directory", str(repository.root), "--", "/bin/sh", "-c", script)
    done = lab(repository, "tune", *words)
    assert done.returncode == code, done.stderr
    assert "the program does not end alike each time: " in done.stderr
    if code == 1:
        assert "does not end alike" in read_result(repository.root / "out.json").settings["problem"]


def test_a_setting_under_which_the_command_fails(repository: Paths) -> None:
    """It sits out, and the others are compared."""
    script = '[ "$HAKMEM_PROFILE" != lean ]'
    text, result = good(repository, "tune", "--rounds", "1", "--", "/bin/sh", "-c", script)
    assert placed(result)["lean"] == "failed: exit code 1"
    assert "failed: exit code 1" in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "wanted is -- COMMAND"),
        (["--", "/no/such"], "/no/such: no such program"),
        (["--library", "/no/such.so", "--", "true"], "'/no/such.so' is neither"),
        (["--library", "glibc", "--", "true"], "--library glibc: not a library of hakmem"),
        (["--budget", "0", "--", "true"], "--budget"),
        (["--measure", "x", "--", "true"], "--measure x: accepted: wall, cpu"),
    ],
)
def test_bad_input(repository: Paths, refuse: Refuse, words: list[str], problem: str) -> None:
    refuse(repository, "tune", words, problem)
