"""The command `hakmem`, and `python -m hakmem`."""

import importlib.metadata
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from conftest import HAKMEM, resting, run

import hakmem._launch

MODULE = [sys.executable, "-m", "hakmem"]
BOTH = pytest.mark.parametrize("command", [HAKMEM, MODULE], ids=["command", "module"])
HOLD = "held = [bytearray(9000) for _ in range(3000)]"


@BOTH
def test_version(command: list[str]) -> None:
    done = run([*command, "version"])
    assert done.returncode == 0, done.stderr
    tool, library = done.stdout.splitlines()
    assert tool == f"hakmem {importlib.metadata.version('hakmem')}"
    assert library.endswith(hakmem.library_path())


@BOTH
def test_run_hands_over(command: list[str]) -> None:
    code = "import sys; print(sys.argv[1:]); sys.exit(7)"
    arguments = ["a b", "", "--profile", "'"]
    done = run([*command, "run", sys.executable, "-c", code, *arguments])
    assert done.returncode == 7
    assert done.stdout == f"{arguments}\n"
    assert done.stderr == ""


def test_a_signal_is_the_programs_own() -> None:
    done = run([*HAKMEM, "run", sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"])
    assert done.returncode == -signal.SIGTERM


def test_options_reach_the_program() -> None:
    code = "import os; print(os.environ['HAKMEM_PROFILE'])"
    done = run([*HAKMEM, "run", "--profile", "lean", sys.executable, "-c", code])
    assert done.stdout == "lean\n"
    assert run([*HAKMEM, "run", "--profile", "quick", "true"]).returncode != 0


@BOTH
def test_stats_of_another_process(command: list[str], may_look: None) -> None:
    with resting(HOLD) as pid:
        done = run([*command, "stats", "--format=json", str(pid)])
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
    assert found["pid"] == pid
    parts = found["equation"]
    assert parts["live"] > 3000 * 9000
    assert parts["resident"] == parts["difference"] + sum(
        parts[name] for name in ("live", "slack", "caches", "fragmentation", "metadata", "not_ours")
    )


def test_who_allocated(may_look: None) -> None:
    with resting(HOLD, HAKMEM_PROF_RATE="65536") as pid:
        done = run([*MODULE, "prof", str(pid)])
        assert done.returncode == 0, done.stderr
        assert "PyByteArray" in done.stdout or "python" in done.stdout


def test_stats_of_a_process_on_libc() -> None:
    done = run([*HAKMEM, "stats", str(os.getpid())])
    assert done.returncode != 0
    assert "hakmem stats: " in done.stderr


def test_doctor_says_that_python_would_run_on_it() -> None:
    done = run([*HAKMEM, "doctor", sys.executable])
    assert done.returncode == 0, done.stdout + done.stderr


def test_unknown_command() -> None:
    done = run([*HAKMEM, "fly"])
    assert done.returncode != 0
    assert "fly" in done.stderr


def test_a_tool_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hakmem._launch, "tool_path", lambda: str(tmp_path / "hakmem"))
    with pytest.raises(SystemExit, match="No such file or directory; install the package again"):
        hakmem._launch.main()
