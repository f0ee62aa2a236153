"""The slow tail, and soaks that the lab runs: known epochs, damaged ones, whole commands."""

import io
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import Refuse, command
from conftest import GLIBC
from rich.console import Console

from hakmem_lab.analysis.soak import Series, read_series
from hakmem_lab.analysis.tail import TailTrial, figures_of, tail_row
from hakmem_lab.base.csv_table import parse_table, read_table
from hakmem_lab.base.paths import Paths
from hakmem_lab.cli.soak_scripts import report_tails
from hakmem_lab.report.tail_tables import print_tail
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher, Run
from hakmem_lab.run.results import Result, RowResult, read_result
from hakmem_lab.run.soak import SoakPlan, check_names

pytestmark = pytest.mark.slow
FIRST_CPU = str(min(os.sched_getaffinity(0)))
HEADER = "epoch,elapsed_s,throughput_ops_s,rss_kb"
EPOCHS = f"{HEADER}\n1,0.010,5,9\n2,0.020,1000000,9\n3,0.030,3000000,9\n4,0.060,2000000,9\n"


def series(throughputs: list[float]) -> Series:
    count = len(throughputs)
    return Series("x", np.arange(1.0, count + 1), np.full(count, 9.0), np.array(throughputs))


# --- figures --------------------------------------------------------------------------------------


def test_throughputs_slow_side_is_the_low_one() -> None:
    figures = figures_of(series([1e6 * value for value in range(1, 1002)]))
    assert figures["epochs"] == 1001
    for share, value in (("50", 501), ("10", 101), ("1", 11), ("0.1", 2)):
        assert figures[f"throughput_p{share}_per_s"] == pytest.approx(value * 1e6)
    latencies = 1e3 / np.arange(1, 1002)
    for high in (50.0, 90.0, 99.0, 99.9):
        assert figures[f"latency_p{high:g}_ns"] == pytest.approx(np.percentile(latencies, high))
    assert figures["latency_worst_ns"] == pytest.approx(1000)


def test_a_latency_is_not_the_reciprocal_of_a_percentile() -> None:
    """Between two epochs of 1 and 3 M/s: the median latency is 667 ns, 1 / median is 500."""
    figures = figures_of(series([1e6, 3e6]))
    assert figures["latency_p50_ns"] == pytest.approx(1000 * 2 / 3)
    assert 1e9 / figures["throughput_p50_per_s"] == pytest.approx(500)


def test_the_row() -> None:
    row = tail_row(Path("/bench/random_mixed"), 12, 10, 400, 7, 2)
    assert row.name == "mixed400-2T" and row.command[2:] == ("400", "7", "2")
    assert row.environment == {"HAKMEM_BENCH_EPOCH_MS": "10", "HAKMEM_BENCH_DURATION_SEC": "12"}
    assert len(row.pinned_to([0, 1, 2, 3])) == 2


# --- a program that prints epochs -----------------------------------------------------------------


def attempt(
    launcher: Launcher, tmp_path: Path, script: str, warm_up: str = "0"
) -> tuple[Run, Path]:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    csv = tmp_path / "epochs.csv"
    trial = TailTrial(launcher, warm_up, csv)
    row = tail_row(program, 1, 10, 400, 1, 1)
    return trial.run(row, GLIBC, 3, 1), csv


def test_a_run(launcher: Launcher, tmp_path: Path) -> None:
    run, csv = attempt(launcher, tmp_path, f"printf '{EPOCHS}'".replace("\n", "\\n"))
    assert run.failure is None
    assert run.figures["epochs"] == 3  # the first one is where everything starts
    # The last epoch took as long as three: it counts thrice.
    assert run.throughput_per_s == pytest.approx((1e6 + 3e6 + 3 * 2e6) / 5)
    (kept,) = read_series([read_table(csv)])
    assert kept.label == "glibc-3" and list(kept.elapsed) == [0.01, 0.02, 0.03, 0.06]


def test_the_warm_up_is_left_out(launcher: Launcher, tmp_path: Path) -> None:
    script = f"printf '{EPOCHS}'".replace("\n", "\\n")
    assert attempt(launcher, tmp_path, script, "0.02")[0].figures["epochs"] == 2
    run, csv = attempt(launcher, tmp_path, script, "0.03")
    assert run.failure == (
        "its epochs cannot be read: glibc-3: 4 epochs, 1 of them after the warm-up: at least two"
        " are needed"
    )
    assert not csv.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "glibc-3: empty"),
        ("Throughput = 5 ops/s\n", "glibc-3: nothing but a header"),
        (EPOCHS[:-1], "glibc-3:5: cut off: no newline at the end"),
        (EPOCHS.replace("3,0.030", "2,0.030"), "glibc-3:4: column 1 (epoch): 2 where 3 is wanted"),
        (EPOCHS.replace("0.030", "0.020"), "column 2 (elapsed_s): 0.020 after 0.020: has to rise"),
        (EPOCHS.replace("3000000", "fast"), "column 3 (throughput_ops_s): not a number: 'fast'"),
        (EPOCHS.replace("3000000", "0"), "column 3 (throughput_ops_s): 0 is below 1"),
        (EPOCHS.replace(",9\n3", "\n3"), "glibc-3:3: 3 columns instead of 4"),
    ],
)
def test_damaged_epochs(launcher: Launcher, tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "text"
    file.write_text(text)
    run, csv = attempt(launcher, tmp_path, f"cat {file}")
    assert run.failure is not None and run.failure.startswith("its epochs cannot be read: ")
    assert problem in run.failure
    assert run.figures == {} and not csv.exists()


def test_a_run_that_fails(launcher: Launcher, tmp_path: Path) -> None:
    run, _ = attempt(launcher, tmp_path, "echo why >&2; exit 5")
    assert run.failure == "exit code 5: why"


def test_preloads_without_effect(
    launcher: Launcher, built: Path, library: Callable[[str], Allocator], tmp_path: Path
) -> None:
    trial = TailTrial(launcher, "0", tmp_path / "epochs.csv")
    run = trial.run(tail_row(built / "static", 1, 10, 400, 1, 1), library("bump"), 1, 1)
    assert run.failure is not None and "statically linked" in run.failure


# --- tables and words -----------------------------------------------------------------------------


def test_tables_and_verdicts() -> None:
    row = RowResult("mixed400", "tail", "", "throughput", 1.0, ["p"], {})
    for name, mean, slow in (("glibc", 1.0, 1.0), ("hakmem", 1.25, 2.0), ("same", 1.0, 1.0)):
        for number in range(1, 7):
            level = 50e6 * mean * (1 + 0.0001 * number)
            figures = figures_of(series([level] * 980 + [level / slow] * 20))
            row.runs.append(Run(name, number, 1, throughput_per_s=level, figures=figures))
    chosen = [Allocator(name, "1", "t") for name in ("glibc", "hakmem", "same")]
    result = Result("tail", [], {"base": "glibc"}, {}, chosen, [row])
    text = io.StringIO()
    print_tail(result, Console(file=text, width=200))
    shown = text.getvalue()
    assert "mixed400: throughput of epochs, its slow side is the low one" in shown
    for column in ("p50 M/s", "p1 M/s", "p0.1 M/s", "p50 ns", "p99 ns", "p99.9 ns", "worst ns"):
        assert column in shown
    assert "hakmem, mixed400: mean: 25% faster than glibc [25, 25]; 60% more p99 latency" in shown
    assert "same, mixed400: mean: equal: the difference is noise [+0.0, +0.0]%" in shown
    assert "p99 latency: equal" in shown
    assert "lie next to the worst epoch" not in shown
    row.runs[0].figures["epochs"] = 999
    print_tail(result, Console(file=text, width=200))
    assert "fewer than 1000 epochs a run" in text.getvalue()


# --- the commands ---------------------------------------------------------------------------------


@pytest.fixture
def mixed(repository: Paths) -> Path:
    """random_mixed in the repository's place for it."""
    root = Path(__file__).resolve().parents[2]
    program = Path(os.environ.get("HAKMEM_TEST_PROGRAMS", root / "build/bench")) / "random_mixed"
    if not program.is_file():
        pytest.skip(f"{program} is not built")
    link = repository.bench / "random_mixed"
    link.symlink_to(program)
    return link


def do(paths: Paths, *words: str) -> subprocess.CompletedProcess[str]:
    start = command(paths, words[0])
    return subprocess.run(
        [*start[: start.index("--json")], *words[1:]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_tail_command(repository: Paths, mixed: Path) -> None:
    file = repository.root / "tail.json"
    words = ("--rounds", "2", "--seconds", "1", "--epoch-ms", "20", "--allocators", "glibc,broken")
    done = do(repository, "tail", *words, "-o", str(file))
    assert done.returncode == 0, done.stderr
    result = read_result(file)
    (row,) = result.rows
    runs = row.good_runs("glibc")
    assert len(runs) == 2 and all(2 <= run.figures["epochs"] <= 50 for run in runs)
    for run in runs:
        figures = run.figures
        assert figures["throughput_p0.1_per_s"] <= figures["throughput_p50_per_s"]
        assert figures["latency_p50_ns"] <= figures["latency_p99_ns"] <= figures["latency_worst_ns"]
    assert row.failure("broken") == "SIGABRT: broken: no malloc today"
    # What was kept, epoch by epoch, gives the same figures.
    kept = read_series([read_table(file.with_suffix(".csv"))])
    assert [one.label for one in kept] == ["glibc-1", "glibc-2"]
    for expected in ("p0.1 M/s", "p99.9 ns", "broken, mixed400: failed: SIGABRT", "Note:"):
        assert expected in done.stdout


def test_files_are_analysed_instead(repository: Paths, tmp_path: Path) -> None:
    file = tmp_path / "soak.csv"
    file.write_text(EPOCHS)
    done = do(repository, "tail", "--warm-up", "0", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == report_tails([str(file)], "0")
    done = do(repository, "soak", "--warm-up", "0", str(file))
    assert done.returncode == 0, done.stderr
    assert "SHORT soak: resident memory +0.00%" in done.stdout


def test_soak_command(repository: Paths, mixed: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "soak", tmp_path / "soak.png"
    words = (
        "--seconds",
        "4",
        "--warm-up",
        "0",
        "--allocators",
        "glibc,hakmem",
        "--cpus",
        FIRST_CPU,
    )
    done = do(repository, "soak", *words, "--plot", str(picture), "-o", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("glibc", "hakmem"):
        lines = (out / f"{name}.csv").read_text().splitlines()
        assert lines[0] == HEADER and len(lines) == 5
        assert "Throughput = " in (out / f"{name}.txt").read_text()
    assert "SHORT hakmem: resident memory" in done.stdout and "SHORT glibc" not in done.stdout
    assert f"epochs: {out}/glibc.csv, {out}/hakmem.csv" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "left" in done.stderr


def test_a_soak_that_fails(repository: Paths, mixed: Path, tmp_path: Path) -> None:
    words = (
        "--seconds",
        "4",
        "--warm-up",
        "0",
        "--allocators",
        "broken,glibc",
        "--cpus",
        FIRST_CPU,
    )
    done = do(repository, "soak", *words, "-o", str(tmp_path))
    assert done.returncode == 1
    assert "failed: broken: SIGABRT: broken: no malloc today" in done.stdout
    assert "SHORT glibc: " in done.stdout  # the other one is reported on


def test_ctrl_c_reports_the_epochs_until_then(
    repository: Paths, mixed: Path, tmp_path: Path
) -> None:
    start = command(repository, "soak")
    words = ["--seconds", "600", "--warm-up", "0", "--allocators", "glibc", "-o", str(tmp_path)]
    process = subprocess.Popen(
        [*start[: start.index("--json")], *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    file = tmp_path / "glibc.csv"
    for _ in range(600):
        if file.exists() and file.read_text().count("\n") >= 5:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "stopped: reporting on what is written" in err
    assert "SHORT glibc: throughput" in out and f"epochs: {file}" in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["tail"], "build/bench/random_mixed is not built: run make bench-build"),
        (["tail", "--seconds", "1", "--epoch-ms", "300"], "fewer than four epochs in 1 s"),
        (["tail", "--epoch-ms", "4"], "--epoch-ms"),
        (["tail", "--warm-up", "long"], "--warm-up long: wanted are seconds, or a share"),
        (["tail", "/nowhere.csv"], "/nowhere.csv: No such file or directory"),
        (["soak"], "build/bench/random_mixed is not built: run make bench-build"),
        (["soak", "--seconds", "3"], "--epoch 1: fewer than four epochs in 3 s"),
        (["soak", "--allocators", "nix"], "--allocators: 'nix' is unknown"),
        (["soak", "--plot", "/nowhere/x.png"], "--plot /nowhere/x.png: no such directory"),
        (["soak", "/nowhere.csv"], "/nowhere.csv: No such file or directory"),
    ],
)
def test_bad_input(repository: Paths, refuse: Refuse, words: list[str], problem: str) -> None:
    refuse(repository, words[0], words[1:], problem, ())


def test_names_of_soaks_become_files() -> None:
    check_names([Allocator("lean-2.1", "1", "t")])
    with pytest.raises(Exception, match="'a/b': here a name is of letters"):
        check_names([Allocator("a/b", "1", "t")])


def test_what_a_soak_runs(tmp_path: Path) -> None:
    plan = SoakPlan(Path("/bench/random_mixed"), 60, 2, 400, 7, 3, tmp_path)
    assert plan.command()[2:] == ["400", "7", "3"]
    environment = plan.environment(Allocator("lean", "1", "t", "", {"HAKMEM_PROFILE": "lean"}))
    assert environment["HAKMEM_BENCH_EPOCH_SEC"] == "2"
    assert environment["HAKMEM_BENCH_DURATION_SEC"] == "60"
    assert environment["HAKMEM_PROFILE"] == "lean"
    assert plan.csv("lean") == tmp_path / "lean.csv"


def test_epochs_of_milliseconds(mixed: Path) -> None:
    """The program's part: HAKMEM_BENCH_EPOCH_MS wins over _SEC, bad values are refused."""

    def start(**variables: str) -> subprocess.CompletedProcess[str]:
        words = [str(mixed), "1000000000", "400", "1"]
        variables = {"HAKMEM_BENCH_DURATION_SEC": "1", "HAKMEM_BENCH_EPOCH_SEC": "1", **variables}
        return subprocess.run(words, env=variables, capture_output=True, text=True, check=False)

    done = start(HAKMEM_BENCH_EPOCH_MS="50")
    table = parse_table("out", done.stdout)
    elapsed = table.rising("elapsed_s")
    assert 2 <= len(elapsed) <= 20  # on a busy machine an epoch may last longer; of a second: 1
    assert done.stderr.splitlines()[-1].startswith("Throughput = ")
    for value in ("4", "no"):
        done = start(HAKMEM_BENCH_EPOCH_MS=value)
        assert done.returncode == 2 and "HAKMEM_BENCH_EPOCH_MS" in done.stderr
