"""`compare` and the command of `ab`, from outside, on small programs."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import PROGRAM, Refuse, command, good, lab

from hakmem_lab.base.paths import Paths
from hakmem_lab.run.contenders import choose_base, with_glibc_itself
from hakmem_lab.run.preload import OwnMalloc, own_malloc
from hakmem_lab.run.results import read_result
from hakmem_lab.run.rows import Row
from hakmem_lab.run.syscalls import strace

pytestmark = pytest.mark.slow


def test_a_program_on_every_allocator(repository: Paths, built: Path) -> None:
    text, result = good(repository, "compare", "--runs", "3", "--", str(built / "ops"), "20000")
    (row,) = result.rows
    assert (result.kind, row.group, row.command) == (
        *("compare", "program"),
        [str(built / "ops"), "20000"],
    )
    for name in ("glibc", "hakmem"):
        runs = row.good_runs(name)
        assert [run.round for run in runs] == [1, 2, 3]
        assert all(run.wall_s > 0 and run.peak_rss_kb > 0 and run.minor_faults for run in runs)
    assert [run.failure for run in row.runs if run.allocator == "broken"] == [
        "SIGABRT: broken: no malloc today"
    ]
    assert result.settings["base"] == "glibc"
    for expected in (
        *("Time", "wall s", "CPU s", "Memory", "peak MiB", "minor faults", "voluntary switches"),
        "9.8.7",  # hakmem's version
        "missing: no compiler",
        "broken: failed: SIGABRT: broken: no malloc today",
        "away: not run: no compiler",
        "ops on broken: SIGABRT",
    ):
        assert expected in text
    verdict = next(line for line in text.splitlines() if line.startswith("  hakmem: "))
    assert verdict.endswith("(3 runs)")
    assert "ImportError" not in text


@pytest.mark.parametrize("directory", [(), ("--directory", "elsewhere")])
def test_a_program_that_lies_here(
    repository: Paths, built: Path, tmp_path: Path, directory: tuple[str, ...]
) -> None:
    """`./program` is found where it is, by the dynamic linker too."""
    place = tmp_path / "elsewhere" if directory else tmp_path
    place.mkdir(exist_ok=True)
    shutil.copy(built / "ops", place / "program")
    words = ("--runs", "1", "--no-system-calls", *directory, "--", "./program", "20000")
    _, result = good(repository, "compare", *words, cwd=tmp_path)
    for name in ("glibc", "hakmem"):
        assert len(result.rows[0].good_runs(name)) == 1


def test_system_calls_by_kind(repository: Paths, built: Path) -> None:
    if strace() is None:
        pytest.skip("strace is not installed")
    words = ("--runs", "1", "--allocators", "glibc,hakmem", "--", str(built / "ops"), "100000")
    text, result = good(repository, "compare", *words)
    calls = result.rows[0].system_calls
    assert calls["hakmem"]["mmap"] - calls["glibc"]["mmap"] >= 10  # `bump` takes 1 MiB at a time
    assert "System calls by kind" in text and "\n mmap " in text
    text, result = good(repository, "compare", "--no-system-calls", *words)
    assert result.rows[0].system_calls == {}
    assert "System calls" not in text


def test_show_prints_it_again(repository: Paths, built: Path) -> None:
    words = ("--runs", "2", "--allocators", "glibc,hakmem", "--", str(built / "ops"))
    text, _ = good(repository, "compare", *words)
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM, "show", str(repository.root / "out.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert text.strip() == f"{shown.stdout.strip()}\nresult: {repository.root / 'out.json'}"


def test_the_users_environment_but_for_allocators(
    repository: Paths, monkeypatch: pytest.MonkeyPatch, library: object
) -> None:
    for name in ("HAKMEM_TEST_LIBRARY", "HAKMEM_TEST_PROGRAMS"):  # the tests' own
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MINE", "kept")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("MIMALLOC_VERBOSE", "1")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.rtld.nns=4")
    script = (
        '[ "$MINE$ADDED" = keptyes ] && [ -z "$MALLOC_ARENA_MAX$MIMALLOC_VERBOSE" ] &&'
        ' [ -z "$HAKMEM_LAB_WARM_MIB" ] &&'
        ' [ "$GLIBC_TUNABLES" = glibc.rtld.nns=4 ]'
    )
    words = ("--runs", "1", "--allocators", "glibc", "--env", "ADDED=yes", "--no-system-calls")
    done = lab(repository, "compare", *words, "--", "/bin/sh", "-c", script)
    assert done.returncode == 0, done.stdout
    left_out = "GLIBC_TUNABLES, MALLOC_ARENA_MAX, MIMALLOC_VERBOSE"
    assert f"not passed on, as they set allocators up: {left_out}" in done.stderr


@pytest.mark.parametrize("piped", [False, True])
def test_every_run_reads_the_same_input(repository: Paths, tmp_path: Path, piped: bool) -> None:
    text = "line\n" * 1000
    file = tmp_path / "input"
    file.write_text(text)
    words = ("--runs", "2", "--allocators", "glibc,hakmem", "--same-output", "--stdin")
    count = ("--", "/bin/sh", "-c", '[ "$(wc -l)" -eq 1000 ] && echo whole')
    if piped:
        shown, result = good(repository, "compare", *words, "-", *count, input=text)
    else:
        shown, result = good(repository, "compare", *words, str(file), *count)
    assert len(result.rows[0].runs) == 4
    assert len({run.output for run in result.rows[0].runs}) == 1
    assert "same" in shown


def test_outputs_that_differ(repository: Paths) -> None:
    words = ("--runs", "1", "--allocators", "glibc,hakmem", "--same-output", "--no-system-calls")
    text, _ = good(repository, "compare", *words, "--", "/bin/sh", "-c", 'echo "$LD_PRELOAD"')
    assert "differs" in text and "ITS OUTPUT DIFFERS from that on glibc" in text


def test_other_ends_that_are_good(repository: Paths, tmp_path: Path) -> None:
    """Exit codes, the directory, and a program named from there."""
    script = tmp_path / "job"
    script.write_text("#!/bin/sh\ntest -f here && exit 3\n")
    script.chmod(0o755)
    (tmp_path / "here").touch()
    words = ("--runs", "1", "--allocators", "glibc", "--no-system-calls")
    place = ("--directory", str(tmp_path), "--", "./job")
    good(repository, "compare", *words, "--expect-status", "0,3", *place)
    done = lab(repository, "compare", *words, *place)
    assert done.returncode == 1
    assert "glibc, the base, failed: exit code 3; nothing to compare with" in done.stdout
    assert f"{script} is a script: its interpreter and all it starts are measured" in done.stderr


def test_another_base_and_variants(repository: Paths, built: Path) -> None:
    choice = "hakmem,quiet=hakmem HAKMEM_PROFILE=lean,system"
    words = ("--runs", "1", "--base", "hakmem", "--allocators", choice, "--no-system-calls")
    text, result = good(repository, "compare", *words, "--", str(built / "ops"))
    assert [a.name for a in result.allocators] == ["hakmem", "quiet", "glibc"]
    assert result.allocators[1].environment == {"HAKMEM_PROFILE": "lean"}
    assert "/ hakmem" in text and "\n  quiet: too few runs to tell" in text


def test_without_peers_the_table_says_how_to_get_them(repository: Paths, built: Path) -> None:
    repository.peers.unlink()
    words = ("--runs", "1", "--no-system-calls", "--", str(built / "ops"))
    text, result = good(repository, "compare", *words)
    assert result.allocator_names() == ["glibc", "hakmem"]
    assert "missing: not built: make peers builds mimalloc, jemalloc, tcmalloc" in text
    done = lab(repository, "compare", "--allocators", "mimalloc3", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'mimalloc3' is unknown" in done.stderr and "make peers builds" in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "wanted is either -- COMMAND... or --server COMMAND"),
        (["--", "no-such-program"], "the command: no-such-program: no such program"),
        (["--", "/etc/passwd"], "/etc/passwd: no such program, or it cannot be executed"),
        (["--directory", "/nowhere", "--", "true"], "--directory /nowhere: no such directory"),
        (["--stdin", "/nowhere", "--", "true"], "--stdin /nowhere: no such file"),
        (["--measure", "fun", "--", "true"], "--measure fun: accepted: wall, cpu"),
        (["--expect-status", "x", "--", "true"], "--expect-status x: wanted are numbers"),
        (["--expect-status", "256", "--", "true"], "--expect-status 256: wanted are numbers"),
        (["--env", "A", "--", "true"], "--env A: wanted is NAME=VALUE"),
        (["--base", "nix", "--", "true"], "--base nix: not among those that are run"),
        (["--load", "true", "--", "true"], "--load goes with --server"),
        (["--throughput", "(.)", "--", "true"], "--throughput goes with --server"),
        (["--idle", "1", "--", "true"], "--idle goes with --server"),
        (["--server", "sleep 9", "--stdin", "-"], "--stdin goes with a command"),
        (["--server", "sleep 9", "--same-output"], "--same-output goes with a command"),
        (["--allocators", "own", "--", "true"], "own: true is not linked with another malloc"),
        (["--allocators", "glibc,glibc", "--", "true"], "wanted is a list of different names"),
        (["--runs", "0", "--", "true"], "--runs"),
        (["--allocators", "away", "--", "true"], "no allocator can be run: away: no compiler"),
    ],
)
def test_bad_input(repository: Paths, refuse: Refuse, words: list[str], problem: str) -> None:
    refuse(repository, "compare", words, problem)


@pytest.mark.parametrize("kind", ["compare", "ab"])
def test_a_static_program_is_refused(repository: Paths, built: Path, kind: str) -> None:
    sides = ["--a", "glibc", "--b", "hakmem"] if kind == "ab" else []
    done = lab(repository, kind, *sides, "--", str(built / "static"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no allocator can be put under it: " in done.stderr
    assert "static is statically linked: nothing can be preloaded" in done.stderr


def test_ctrl_c_keeps_the_finished_runs(repository: Paths) -> None:
    words = ("--runs", "500", "--allocators", "glibc,hakmem", "--no-system-calls")
    file = repository.root / "out.json"
    process = subprocess.Popen(
        command(repository, "compare", *words, "--", "/bin/sleep", "0.05"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):  # a round is written when it is done
        if file.exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err and "stopped: reporting on the runs" in err
    assert "stopped before the end" in out and "hakmem: " in out
    result = read_result(file)
    assert result.interrupted and 2 <= len(result.rows[0].runs) < 1000
    assert all(run.failure is None for run in result.rows[0].runs)


def test_ab_on_a_command(repository: Paths, built: Path) -> None:
    sides = ("--a", "glibc", "--b", "hakmem A=1")
    words = ("--runs", "3", "--", str(built / "ops"), "20000")
    text, result = good(repository, "ab", *sides, *words)
    assert [a.name for a in result.allocators] == ["a", "b"]
    assert result.allocators[1].environment == {"A": "1"}
    assert len(result.rows[0].costs("b")) == 3
    assert "not decided, " in text and "more runs needed" in text
    again = text.split("--rounds ")[-1].split()[0]
    assert int(again) >= 10


def test_ab_wants_rows_or_a_command(repository: Paths) -> None:
    for words in ([], ["--row", "small", "--", "true"]):
        done = lab(repository, "ab", "--a", "glibc", "--b", "A=1", *words)
        assert done.returncode == 2
        assert "wanted is either --row A,B or -- COMMAND..." in done.stderr


# --- a program with a malloc of its own -----------------------------------------------------------


def test_a_malloc_that_a_program_is_linked_with(
    repository: Paths, built: Path, tmp_path: Path
) -> None:
    """The program runs on it unless another is preloaded: it is a column of its own, and glibc's
    has to be preloaded."""
    linked = tmp_path / "linked"
    source = "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }\n"
    flags = ["-fno-builtin", f"{built}/libbump.so", f"-Wl,-rpath,{built}"]
    compiler = [os.environ.get("CC", "cc"), "-x", "c", "-", "-x", "none", "-o", str(linked)]
    subprocess.run([*compiler, *flags], input=source, text=True, check=True)
    own = own_malloc(str(linked))
    assert own is not None and own.library == str(built / "libbump.so")
    assert Path(own.libc).name == "libc.so.6"
    assert own_malloc(str(built / "ops")) is None
    assert own_malloc(str(built / "static")) is None
    assert own_malloc("no-such-program") is None

    words = ("--runs", "2", "--no-system-calls", "--", str(linked))
    text, result = good(repository, "compare", *words)
    names = {a.name: a for a in result.allocators}
    assert names["own"].version == "libbump.so" and names["own"].library == ""
    assert names["glibc"].library == own.libc
    assert all(run.failure is None for run in result.rows[0].runs if run.allocator != "broken")
    assert "libbump.so, which the program is linked with" in text
    _, result = good(repository, "compare", "--allocators", "own,glibc", *words)
    assert [a.name for a in result.allocators] == ["own", "glibc"]


def test_glibc_is_preloaded_only_where_it_has_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    from conftest import GLIBC

    from hakmem_lab.run import contenders

    row = Row("x", ("x",), "wall", "program")
    monkeypatch.setattr(contenders, "own_malloc", lambda *_: None)
    assert with_glibc_itself([GLIBC], row) == [GLIBC]
    monkeypatch.setattr(contenders, "own_malloc", lambda *_: OwnMalloc("/j.so", "/libc.so.6"))
    (changed,) = with_glibc_itself([GLIBC], row)
    assert changed.library == "/libc.so.6"
    assert choose_base([changed], None) == "glibc"


def test_python_as_in_the_manual(repository: Paths) -> None:
    """A program found in PATH, with an argument that a shell would take apart."""
    python = shutil.which("python3")
    if python is None:
        pytest.skip("python3 is not installed")
    words = ("--runs", "1", "--allocators", "glibc,hakmem", "--no-system-calls", "--same-output")
    script = "print(sum(len(str(i)) for i in range(2000)), '$HOME *')"
    text, result = good(repository, "compare", *words, "--", "python3", "-c", script)
    assert result.rows[0].name == "python3"
    assert all(run.failure is None for run in result.rows[0].runs), result.rows[0].runs
    assert "same" in text


def test_fail(repository: Paths, built: Path) -> None:
    """With it, a contender that crashed, failed or gave another output is told by the exit code."""
    options = ["--rounds", "1", "--no-system-calls"]
    crash = ["--allocators", "glibc,hakmem,broken", "--", str(built / "ops")]
    assert lab(repository, "compare", *options, *crash).returncode == 0
    done = lab(repository, "compare", "--fail", *options, *crash)
    assert done.returncode == 1
    assert done.stderr.endswith("--fail: broken failed\n")
    assert read_result(repository.root / "out.json").rows[0].good_runs("glibc")

    script = ["--allocators", "glibc,hakmem", "--", "sh", "-c", 'printf %s "$LD_PRELOAD"']
    done = lab(repository, "compare", "--fail", *options, *script)
    assert done.returncode == 0, done.stderr  # the output was not asked for
    done = lab(repository, "compare", "--fail", "--same-output", *options, *script)
    assert done.returncode == 1
    assert done.stderr.endswith("--fail: hakmem gave another output\n")
    same = ["--allocators", "glibc,hakmem,away", "--", str(built / "ops"), "100"]
    assert lab(repository, "compare", "--fail", *options, *same).returncode == 0  # away: not there
