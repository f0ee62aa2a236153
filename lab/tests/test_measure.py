"""One run: what the launcher reports, how failures are told, what a command sees of the world."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import GLIBC, PAGE, PEAK_SLACK_KB

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher, warm_mib
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.rows import Row
from hakmem_lab.run.syscalls import count_system_calls, strace

MakeRow = Callable[..., Row]
Library = Callable[[str], Allocator]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_ended(pid: int) -> bool:
    """A killed process takes a moment to be gone."""
    for _ in range(100):
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("mib", [8, 100])
@pytest.mark.parametrize("extra", [[], ["free"]])
def test_peak_memory_is_the_commands_own(
    launcher: Launcher, make_row: MakeRow, mib: int, extra: list[str]
) -> None:
    ballast = bytearray(os.urandom(1)) * (150 << 20)  # what the measuring process itself holds
    run = launcher.run(make_row("touch", str(mib), *extra), GLIBC, 1, 1)
    assert len(ballast) == 150 << 20
    assert run.failure is None
    # A dynamically linked program has up to 2 MiB of its own.
    assert mib * 1024 - PEAK_SLACK_KB <= run.peak_rss_kb <= (mib + 3) * 1024 + PEAK_SLACK_KB
    assert run.minor_faults >= (mib << 20) // PAGE


def test_a_small_commands_peak_is_small(launcher: Launcher, make_row: MakeRow) -> None:
    assert launcher.run(make_row("touch", "0"), GLIBC, 1, 1).peak_rss_kb < 3 * 1024 + PEAK_SLACK_KB


def test_throughput_is_that_of_the_last_line(launcher: Launcher, make_row: MakeRow) -> None:
    run = launcher.run(make_row("ops", "1000", measure="throughput"), GLIBC, 3, 2)
    assert (run.round, run.position, run.failure) == (3, 2, None)
    assert run.throughput_per_s is not None and run.throughput_per_s > 1
    assert run.cost("throughput") == 1e9 / run.throughput_per_s


def test_no_throughput_is_a_failure(launcher: Launcher, make_row: MakeRow) -> None:
    run = launcher.run(make_row("touch", "0", measure="throughput"), GLIBC, 1, 1)
    assert run.failure == "its output has no line on throughput"
    assert run.cost("throughput") is None


def test_environment_is_clean_and_preload_is_the_commands_alone(
    launcher: Launcher,
    make_row: MakeRow,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HAKMEM_PROFILE", "lean")
    monkeypatch.setenv("LD_PRELOAD", "")
    allocator = library("bump")
    row = make_row("environment", environment={"ROW": "1"})
    with (tmp_path / "out").open("w+b") as out, (tmp_path / "err").open("w+b") as err:
        seen = {**row.environment, "PATH": "/bin"}
        launcher.start(row.command, seen, allocator.library, launcher.cpus[:1], out, err)
        out.seek(0)
        lines = out.read().decode().split()
    assert sorted(lines) == sorted(
        ["ROW=1", "PATH=/bin", f"LD_PRELOAD={allocator.library}", "cpus=1"]
    )


def test_an_allocators_variables_reach_the_command(launcher: Launcher, make_row: MakeRow) -> None:
    shell = Row("shell", ("/bin/sh", "-c", 'test "$A$B" = 12'), "wall", "single")
    both = Row(**{**shell.__dict__, "environment": {"A": "1"}})
    allocator = Allocator("x", "1", "test", "", {"B": "2"})
    assert launcher.run(both, allocator, 1, 1).failure is None
    assert launcher.run(both, GLIBC, 1, 1).failure == "exit code 1"


def test_a_crash_names_the_signal_and_the_last_words(
    launcher: Launcher, make_row: MakeRow, library: Library
) -> None:
    run = launcher.run(make_row("ops"), library("abort"), 1, 1)
    assert run.failure == "SIGABRT: broken: no malloc today"
    assert run.cost("wall") is None


def test_warm_memory_counts_for_the_launcher_alone(built: Path) -> None:
    reading, writing = os.pipe()
    words = ["--report", str(writing), "--warm", "100", "--", "/bin/true"]
    process = subprocess.Popen([built / "launch", *words], pass_fds=[writing])
    _, status, used = os.wait4(process.pid, 0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        report = json.loads(stream.read())
    assert status == 0 and report["exit_code"] == 0
    assert used.ru_maxrss > 100 * 1024
    assert report["peak_rss_kb"] < 20 * 1024


def test_warm_memory_follows_the_largest_run_of_a_row(built: Path, make_row: MakeRow) -> None:
    launcher = Launcher(built / "launch", [min(os.sched_getaffinity(0))], warm=200)
    row, other = Row("true", ("/bin/true",), "wall", "single"), make_row("ops")
    assert launcher.warm_for(row) == 200
    run = launcher.run(row, GLIBC, 1, 1)
    assert launcher.warm_for(row) == run.peak_rss_kb * 2 // 1024 + 1 < 200
    assert launcher.warm_for(other) == 200
    launcher.peaks["true"] = 1 << 30
    assert launcher.warm_for(row) == 200


def test_warm_memory_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAKMEM_LAB_WARM_MIB", raising=False)
    assert 0 < warm_mib() <= 1024
    for text, warm in (("0", 0), ("3", 3)):
        monkeypatch.setenv("HAKMEM_LAB_WARM_MIB", text)
        assert warm_mib() == warm
    for text in ("", "-1", "1.5", "all"):
        monkeypatch.setenv("HAKMEM_LAB_WARM_MIB", text)
        with pytest.raises(LabError, match="accepted is a whole number of MiB"):
            warm_mib()


def test_what_cannot_be_started_is_a_failure(launcher: Launcher) -> None:
    run = launcher.run(Row("none", ("/no/such/program",), "wall", "single"), GLIBC, 1, 1)
    assert run.failure == "cannot run it: No such file or directory"


def test_a_time_out_ends_the_command_and_its_children(
    built: Path, make_row: MakeRow, tmp_path: Path
) -> None:
    launcher = Launcher(built / "launch", [min(os.sched_getaffinity(0))], timeout=0.5)
    run = launcher.run(make_row("wait", str(tmp_path / "pid"), "long"), GLIBC, 1, 1)
    assert run.failure == "timed out after 0.5 s"
    assert wait_until_ended(int((tmp_path / "pid").read_text()))


def test_what_a_command_leaves_running_is_ended(
    launcher: Launcher, make_row: MakeRow, tmp_path: Path
) -> None:
    run = launcher.run(make_row("wait", str(tmp_path / "pid")), GLIBC, 1, 1)
    assert run.failure is None
    assert wait_until_ended(int((tmp_path / "pid").read_text()))


def test_ctrl_c_while_a_command_is_started_ends_it(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes when the process is there and nobody knows it yet."""
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *words: object, **options: object) -> None:
            super().__init__(*words, **options)  # type: ignore[call-overload]
            started.append(self)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # it would take effect here

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    row = Row("sleep", ("/bin/sleep", "60"), "wall", "single")
    with pytest.raises(KeyboardInterrupt):
        launcher.run(row, GLIBC, 1, 1)
    assert len(started) == 1 and started[0].poll() is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_ends_with_whoever_started_it(built: Path, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = (
        "import os, subprocess, sys, time\n"
        "reading, writing = os.pipe()\n"
        "shell = 'echo $$ >$0.new; mv $0.new $0; sleep 60'\n"
        "words = [sys.argv[1], '--report', str(writing), '--', '/bin/sh', '-c', shell]\n"
        "words.append(sys.argv[2])\n"
        "subprocess.Popen(words, pass_fds=[writing])\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(built / "launch"), str(file)], check=False)
    assert wait_until_ended(int(file.read_text()))


@pytest.mark.parametrize("ends", [True, False])
def test_a_daemon_is_ended_too(built: Path, tmp_path: Path, ends: bool) -> None:
    """It left the process group and its parent ended; the time-out finds it as well."""
    launcher = Launcher(built / "launch", [min(os.sched_getaffinity(0))], timeout=2)
    file = tmp_path / "pid"
    script = f"(setsid sleep 60 & echo $! >{file}); {'exit 3' if ends else 'sleep 60'}"
    run = launcher.run(Row("daemon", ("/bin/sh", "-c", script), "wall", "single"), GLIBC, 1, 1)
    assert run.failure == ("exit code 3" if ends else "timed out after 2 s")
    assert not is_running(int(file.read_text()))


def test_preloading_without_effect_is_noticed(
    launcher: Launcher, make_row: MakeRow, library: Library, tmp_path: Path
) -> None:
    static = launcher.run(make_row("static"), library("bump"), 1, 1)
    assert static.failure is not None and "statically linked" in static.failure
    bystander = launcher.run(make_row("ops"), library("bystander"), 1, 1)
    assert bystander.failure is not None and "no allocation function" in bystander.failure
    # The price of loading a library at all is measured against an empty one.
    empty = tmp_path / "empty.so"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(empty)], check=True)
    assert preload_problem("/bin/true", str(empty)) is None
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"not a library")
    ignored = launcher.run(make_row("ops"), Allocator("d", "1", "t", str(damaged)), 1, 1)
    assert ignored.failure is not None and "ld.so" in ignored.failure
    assert launcher.run(make_row("ops"), library("bump"), 1, 1).failure is None


def test_a_script_is_judged_by_its_interpreter(library: Library, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    assert preload_problem(str(script), library("bump").library) is None
    assert preload_problem(str(script), library("bystander").library) is not None


def test_checksum_covers_output_and_files(
    launcher: Launcher, make_row: MakeRow, tmp_path: Path
) -> None:
    def output(word: str) -> str | None:
        row = make_row("says", word, work=tmp_path / "work", checksum=True)
        return launcher.run(row, GLIBC, 1, 1).output

    assert output("one") == output("one") != output("two")
    assert not (tmp_path / "work").exists()


def test_system_calls_are_counted_by_kind(
    launcher: Launcher, make_row: MakeRow, library: Library
) -> None:
    if strace() is None:
        pytest.skip("strace is not installed")
    few = count_system_calls(launcher, make_row("ops", "10"), library("bump"))
    many = count_system_calls(launcher, make_row("ops", "100000"), library("bump"))
    assert few is not None and many is not None
    # `bump` asks for 1 MiB at a time and 112 bytes make a block of 128: 12 mappings more.
    assert 10 <= many["mmap"] - few["mmap"] <= 14
    assert few["execve"] == 1
    assert count_system_calls(launcher, make_row("ops"), library("abort")) is None


def test_a_missing_launcher_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"run scripts/setup_lab\.sh"):
        Launcher(tmp_path / "launch", [0])
