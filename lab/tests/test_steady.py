"""System calls in steady state and idle memory: what is counted, what is read, what is refused."""

import os
from pathlib import Path

import pytest
from command_line import in_this_process
from conftest import GLIBC

from hakmem_lab.base.paths import Paths
from hakmem_lab.run import steady
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher
from hakmem_lab.run.results import read_result
from hakmem_lab.run.rows import Row
from hakmem_lab.run.steady import (
    WARM_UP,
    parse_idle,
    run_idle,
    run_steady,
    steady_rows,
    steady_runner,
)

ROOT = Path(__file__).resolve().parents[2]
IDLE_OUTPUT = """\
fill: 4 threads, 512 MiB, resident_kb=540000
freed 95%: live_kb=26100
idle 0.0 s: resident_kb=530000
idle 5.0 s: resident_kb=65092
quiet 60 s: cpu_ms=0.25 voluntary_switches=3 involuntary_switches=9
"""
FIGURES = {
    "filled_kb": 540000,
    "live_kb": 26100,
    "resident_kb": 65092,
    "quiet_s": 60,
    "quiet_cpu_ms": 0.25,
    "wake_ups": 3,
}


def test_idle_output_is_read() -> None:
    assert parse_idle(IDLE_OUTPUT, "idle-95") == FIGURES
    assert parse_idle("idle 5.0 s: resident_kb=many\n", "idle-95") == {}
    back = "fill: again_to_first=0.5\nfirst second: again_to_first=0.913\n"
    assert parse_idle(back, "load-back") == {"again_to_first": 0.913}
    assert parse_idle(back, "idle-95") == {}  # a fill by itself is no second
    assert parse_idle(back.replace("0.913", "nan"), "load-back") == {}


def mixed(total: int) -> Row:
    return Row("steady", ("random_mixed", str(total), "400", "1"), "wall", "single")


@pytest.mark.parametrize(
    ("before", "after", "calls"),
    [
        ({"mmap": 10, "madvise": 3}, {"mmap": 12, "munmap": 1, "madvise": 3}, 3),
        ({"mmap": 10}, {"mmap": 9}, 0),  # start-up varies by a call
        ({"mmap": 10}, {"mmap": 10, "brk": 500}, 0),  # none of rule R3's
    ],
)
def test_calls_of_the_longer_run_beyond_the_warm_up(
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    before: dict[str, int],
    after: dict[str, int],
    calls: int,
) -> None:
    asked: list[str] = []

    def count(_launcher: Launcher, row: Row, _allocator: Allocator) -> dict[str, int]:
        asked.append(row.command[1])
        return before if len(asked) == 1 else after

    monkeypatch.setattr(steady, "count_system_calls", count)
    run = run_steady(launcher, mixed(WARM_UP + 1000), GLIBC, (2, 1))
    assert asked == [str(WARM_UP), str(WARM_UP + 1000)]
    assert (run.round, run.position, run.failure) == (2, 1, None)
    assert run.figures == {"os_calls": calls, "operations": 1000}


def test_a_run_that_cannot_be_traced_has_failed(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady, "count_system_calls", lambda *_: None)
    run = run_steady(launcher, mixed(WARM_UP + 1000), GLIBC, (1, 1))
    assert run.failure == "it does not run under strace"


def shell(text: str) -> Row:
    return Row("idle-95", ("/bin/sh", "-c", text), "wall", "single")


def test_idle_run(launcher: Launcher) -> None:
    run = run_idle(launcher, shell(f"cat <<'X'\n{IDLE_OUTPUT}X\n"), GLIBC, (1, 1))
    assert (run.failure, run.figures) == (None, FIGURES)
    assert run.wall_s > 0
    empty = run_idle(launcher, shell("echo hello"), GLIBC, (1, 1))
    assert empty.failure == "its output has no line on idle memory"
    failed = run_idle(launcher, shell("echo oh >&2; exit 3"), GLIBC, (1, 1))
    assert failed.failure is not None and "3" in failed.failure


def test_a_program_without_preloading_is_refused(launcher: Launcher, built: Path) -> None:
    row = Row("idle-95", (str(built / "static"), "1"), "wall", "single")
    library = Allocator("bump", "1", "test", str(built / "libbump.so"))
    run = steady_runner(launcher)(row, library, 1, 1)
    assert run.failure is not None and run.failure.startswith("not preloaded: ")


def test_rows(repository: Paths) -> None:
    for program in ("idle", "at_rest"):
        (repository.bench / program).touch()
    first, half, whole, back, *at_rest = steady_rows(repository, 1000, 64, 7)
    assert first.missing == "build/bench/random_mixed is not built: run make bench-build"
    assert half.missing is None
    assert half.command[1:] == ("4", "64", "16", "4096", "95", "5", "7", "0")
    assert whole.command[5] == "100"
    assert back.command[1:] == ("4", "64", "16", "4096", "95", "5", "0", "1500")
    assert {row.name: " ".join(row.command[1:]) for row in at_rest} == {
        "freed-by-others": "others 1 300 1024 5",
        "cached-spans": "own 40 300 1000000 5",
        "parked-heaps": "ended 40 300 1024 5",
    }
    assert all(row.missing is None for row in at_rest)


def test_memory_at_rest_is_read(launcher: Launcher) -> None:
    """What bench/at_rest itself says, of a few MiB."""
    programs = Path(os.environ.get("HAKMEM_TEST_PROGRAMS", ROOT / "build/bench"))
    if not (programs / "at_rest").is_file():
        pytest.skip(f"{programs / 'at_rest'} is not built")
    row = Row(
        "parked-heaps",
        (str(programs / "at_rest"), "ended", "2", "8", "1024", "1"),
        "wall",
        "single",
    )
    run = run_idle(launcher, row, GLIBC, (1, 1))
    assert run.failure is None
    assert run.figures.keys() == {"filled_kb", "live_kb", "resident_kb"}
    assert run.figures["filled_kb"] >= 8192 and run.figures["live_kb"] == 0


IDLE_PROGRAM = "#!/bin/sh\ncat <<'X'\n" + IDLE_OUTPUT + "X\n"


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str]:
    code, out, err = in_this_process(monkeypatch, capsys, "steady", *words)
    return code, out + err


def test_the_command(
    repository: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = repository.bench / "idle"
    program.write_text(IDLE_PROGRAM)
    program.chmod(0o755)
    root = ["--root", str(repository.root), "--allocators", "glibc"]
    code, said = command(monkeypatch, capsys, *root, "--rows", "idle-95", "--rounds", "2")
    assert code == 0, said
    assert "Resident kb" in said or "resident kb" in said
    result = read_result(repository.bench / "steady.json")
    (row,) = result.rows
    assert [run.figures for run in row.runs] == [FIGURES, FIGURES]
    assert result.kind == "steady"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--rows", "steedy"], "steedy"),
        (["--rows", "steady"], "strace is missing"),
        (["--allocators", "nobody"], "nobody"),
        (["--cpus", "9999"], "--cpus 9999"),
    ],
)
def test_bad_input(
    repository: Paths,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    complaint: str,
) -> None:
    from hakmem_lab.cli import steady as steady_command

    missing = "strace" in complaint
    monkeypatch.setattr(steady_command, "strace", lambda: None if missing else "/usr/bin/strace")
    code, said = command(monkeypatch, capsys, "--root", str(repository.root), *words)
    assert code == 2 and complaint in said
    assert not (repository.bench / "steady.json").exists()
