"""The command, from outside: what it prints, keeps and returns."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Refuse

from hakmem_lab.base.paths import Paths
from hakmem_lab.run.results import Result, read_result


def command(paths: Paths, *words: str) -> list[str]:
    program = "from hakmem_lab.start import main; main()"
    return [sys.executable, "-c", program, words[0], "--root", str(paths.root), *words[1:]]


def lab(paths: Paths, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(paths, *words), capture_output=True, text=True, timeout=120, check=False
    )


def good(paths: Paths, *words: str) -> tuple[str, Result]:
    """Runs it with a result file; what it printed, and the result."""
    file = paths.root / "out.json"
    done = lab(paths, *words, "-o", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, read_result(file)


def test_suite(repository: Paths) -> None:
    text, result = good(repository, "suite", "--rounds", "3", "--no-system-calls")
    small, absent = result.rows
    assert len(small.good_runs("glibc")) == len(small.good_runs("hakmem")) == 3
    assert small.failure("broken") == "SIGABRT: broken: no malloc today"
    assert absent.missing == "build/bench/absent is not built"
    assert result.settings["peers"] == ["glibc", "broken", "away"]
    for expected in (
        "small on broken: SIGABRT: broken: no malloc today",
        "absent: build/bench/absent is not built",
        "missing: no compiler",
        "9.8.7",
        "hakmem against its peers",
        "Geometric means",
    ):
        assert expected in text


def test_show_prints_what_the_run_printed(repository: Paths) -> None:
    text, _ = good(repository, "suite", "--quick")
    file = repository.root / "out.json"
    program = "from hakmem_lab.start import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", program, "show", str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert text.strip() == f"{shown.stdout.strip()}\nresult: {file}"


def test_variants_are_measured_beside_hakmem(repository: Paths) -> None:
    choice = "glibc,hakmem,lean=HAKMEM_PROFILE=lean"
    text, result = good(repository, "suite", "--quick", "--rows", "small", "--allocators", choice)
    assert [a.name for a in result.allocators] == ["glibc", "hakmem", "lean"]
    assert result.allocators[2].environment == {"HAKMEM_PROFILE": "lean"}
    assert "lean against its peers" in text


def test_programs(repository: Paths) -> None:
    text, result = good(repository, "programs", "--rounds", "2")
    rows = {row.name: row for row in result.rows}
    assert rows["absent"].missing == "not installed: no-such-program"
    assert {run.output for run in rows["same"].good_runs("glibc")} == {
        run.output for run in rows["same"].good_runs("hakmem")
    }
    assert "differs: output differs from that on glibc" in text
    assert (repository.bench / "inputs/file").read_text() == "once\n"
    good(repository, "programs", "--rounds", "1", "--rows", "prepared")
    assert (repository.bench / "inputs/file").read_text() == "once\nonce\n"


def test_inputs_that_cannot_be_made(repository: Paths) -> None:
    text = repository.programs.read_text().replace(
        "echo once >> {inputs}/file", "echo no >&2; exit 3"
    )
    repository.programs.write_text(text)
    text, result = good(repository, "programs", "--rounds", "1", "--rows", "prepared")
    assert result.rows[0].missing == "its inputs could not be made: sh: exit code 3: no"


def test_ab(repository: Paths) -> None:
    words = ("ab", "--a", "glibc", "--b", "A=1", "--row", "small", "--quick", "--rounds", "3")
    text, result = good(repository, *words)
    assert [(a.name, a.version) for a in result.allocators][1] == ("b", "9.8.7")
    assert len(result.rows[0].costs("b")) == 3
    assert "not decided" in text


def test_instructions(repository: Paths, built: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    words = ("instructions", "--program", str(built / "ops"), "--iterations", "1000")
    text, result = good(repository, *words)
    counts = {count.allocator: count for count in result.instructions}
    assert counts["broken"].failure is not None
    assert "does not run under valgrind: SIGABRT: broken: no malloc today" in text
    assert counts["away"].failure == "no compiler"
    bump, glibc = counts["hakmem"], counts["glibc"]
    assert bump.failure is None and glibc.failure is None
    # free of `bump` does nothing: few instructions; the loop around it is the same on both.
    assert 0 < bump.free < 10 < glibc.free + glibc.free_slow
    assert 5 < bump.malloc < 40
    assert bump.harness == pytest.approx(glibc.harness, abs=1)
    parts = bump.harness + bump.malloc + bump.malloc_slow + bump.free + bump.free_slow + bump.other
    assert parts == pytest.approx(bump.total)


def test_ctrl_c_keeps_and_reports_the_finished_runs(repository: Paths) -> None:
    suite = repository.suite.read_text().replace('"200000"', '"20000000"')
    repository.suite.write_text(suite)
    file = repository.root / "out.json"
    words = ("--rounds", "1000", "--no-system-calls", "--allocators", "glibc", "-o", str(file))
    process = subprocess.Popen(
        command(repository, "suite", "--rows", "small", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):  # until a round is done: it is written then
        if file.exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "stopped: reporting on the runs that are finished" in err
    assert "stopped before the end" in out and "Geometric means" in out
    result = read_result(file)
    assert result.interrupted
    assert 1 <= len(result.rows[0].runs) < 1000
    assert all(run.failure is None for run in result.rows[0].runs)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["suite", "--rows", "nix"], "--rows: 'nix' is unknown; there are: small, absent"),
        (["suite", "--groups", "nix"], "--groups: 'nix' is unknown"),
        (["suite", "--allocators", "nix"], "there are: glibc, hakmem, broken, away"),
        (["suite", "--cpus", "nix"], "accepted is a list as 0,1"),
        (["suite", "--suite", "/nix"], "No such file"),
        (["suite", "--mimalloc-bench", "/nix"], "not a directory"),
        (["suite", "--allocators", "away"], "no allocator can be run: away: no compiler"),
        (["suite", "--rounds", "0"], "--rounds"),
        (["suite", "--timeout", "soon"], "--timeout"),
        (["ab", "--a", "/nix", "--b", "A=1", "--row", "small"], "neither NAME=VALUE"),
        (["ab", "--a", "A=1", "--row", "small"], "--b"),
        (["instructions"], "random_mixed is not built"),
        (["programs", "--rows", "nix"], "'nix' is unknown"),
        (["dance"], "dance"),
    ],
)
def test_bad_input_exits_with_2(
    repository: Paths, refuse: Refuse, words: list[str], problem: str
) -> None:
    refuse(repository, words[0], words[1:], problem, ())


def test_a_bad_result_exits_with_2(repository: Paths, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps({"schema_version": 1}))
    program = "from hakmem_lab.start import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "show", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"hakmem-lab: {file}: the whole: ")


def test_ctrl_c_while_the_libraries_load_ends_it_without_a_word() -> None:
    program = """
import os, signal, sys

class PressesCtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "hakmem_lab.cli.app":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, PressesCtrlC())
from hakmem_lab.start import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_the_package_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hakmem_lab", "version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("hakmem-lab ")
