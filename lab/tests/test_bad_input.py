"""What is no result, or no longer one, ends in one line and exit code 2, whatever it is."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import PROGRAM, in_this_process
from samples import suite, write_samples

from hakmem_lab.base.paths import Paths
from hakmem_lab.run.results import as_text

pytestmark = pytest.mark.slow
Monkey = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]

DEEP = "[" * 100_000 + "]" * 100_000


def sample() -> Any:
    return json.loads(as_text(suite(3)))


def of(change: Callable[[Any], object], kind: str = "suite") -> str:
    content = sample()
    content["kind"] = kind
    change(content)
    return json.dumps(content)


def first_run(**fields: Any) -> str:
    return of(lambda c: c["rows"][0]["runs"][0].update(fields))


def settings(kind: str, **fields: Any) -> str:
    return of(lambda c: c["settings"].update(fields), kind)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


BAD = {
    "deep": (DEEP, "nested too deeply"),
    "deep setting": (
        as_text(suite(3)).replace('"rounds": 6', f'"rounds": {DEEP}'),
        "nested too deeply",
    ),
    "fairly deep": (settings("suite", x=nested(500)), "settings.x[0]...: nested more than 32 deep"),
    "deep objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    "cut off": (as_text(suite(3))[:-400], "not JSON, or cut off"),
    "empty": ("", "not JSON, or cut off"),
    "version": (of(lambda c: c.update(schema_version=99)), "schema_version 99"),
    "version of a kind": (of(lambda c: c.update(schema_version=[1])), "schema_version [1]"),
    "nan": (first_run(wall_s=float("nan")), "rows[0].runs[0].wall_s: not a finite number"),
    "infinite": (first_run(wall_s=float("inf")), "rows[0].runs[0].wall_s: not a finite number"),
    "overflows": (first_run(wall_s=5).replace(": 5,", ": 1e999,", 1), "not a finite number"),
    "huge": (first_run(wall_s=1e300), "rows[0].runs[0].wall_s: a number that nothing measures"),
    "tiny": (first_run(throughput_per_s=1e-320), "throughput_per_s: a number that nothing"),
    "huge count": (first_run(peak_rss_kb=10**400), "peak_rss_kb: a number that nothing measures"),
    "digits": (first_run(peak_rss_kb=7).replace(": 7,", f": {'9' * 9999},", 1), "4300 digits"),
    "no runs": (of(lambda c: c["rows"][0].pop("runs")), "rows[0]: runs is missing"),
    "base": (settings("compare", base=["x"]), "settings.base: wanted is a string, not ['x']"),
    "peers": (settings("suite", peers=7), "settings.peers: wanted is a list, not 7"),
    "load": (settings("compare", load=[1]), "settings.load[0]: wanted is a string, not 1"),
    "dry": (
        settings("replay", dry={"ns": ["x"]}),
        "dry.ns[0]: wanted is a number, not 'x'",
    ),
    "problems": (settings("replay", problems=3), "settings.problems: wanted is a list, not 3"),
    "peak": (
        settings("replay", peak_live_kb="x"),
        "peak_live_kb: wanted is a number, not",
    ),
    "not text": ("\udcff", "not text"),
}


@pytest.mark.parametrize("command", ["show", "rank", "report", "scorecard", "publish"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_result_is_one_line(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path, command: str, name: str
) -> None:
    text, problem = BAD[name]
    file = tmp_path / "bad.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    assert_one_line(monkeypatch, capsys, tmp_path, command, file, problem)


def assert_one_line(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path, command: str, file: Path, problem: str
) -> None:
    out_file = tmp_path / "out"
    words: dict[str, list[str | Path]] = {
        "show": [file],
        "rank": [file, file],
        "report": [file, "-o", out_file],
        "scorecard": ["--results", file, "-o", out_file],
        "publish": [file, "-o", out_file],
    }
    code, out, err = in_this_process(monkeypatch, capsys, command, *words[command])
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"hakmem-lab: {file}: ") and problem in line and len(line) < 600
    assert not out_file.exists()


@pytest.mark.parametrize("command", ["show", "rank", "publish"])
def test_what_is_no_file(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path, command: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file, problem in (
        (tmp_path, "Is a directory"),
        (tmp_path / "pipe", "an empty pipe that nobody writes to"),
        (Path("/dev/zero"), "a device or a socket, not a file"),
        (tmp_path / "away", "No such file or directory"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        assert_one_line(monkeypatch, capsys, tmp_path, command, file, problem)


def test_pipes_and_devices_elsewhere(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path, repository: Paths
) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    root = ["--root", repository.root]
    pipes: list[list[object]] = [
        ["soak", pipe],
        ["tail", pipe],
        ["report", pipe, "-o", tmp_path / "out"],
        ["trace-info", pipe],
        ["suite", "--suite", pipe, *root],
        ["programs", "--programs", pipe, *root],
    ]
    for words in pipes:
        code, _, err = in_this_process(monkeypatch, capsys, *words)
        assert code == 2, words
        (line,) = err.splitlines()
        assert line.startswith(f"hakmem-lab: {pipe}: ")
    devices: list[list[object]] = [
        ["soak", "/dev/zero"],
        ["trace-info", "/dev/zero"],
        ["soak", tmp_path],
    ]
    for words in devices:
        code, _, err = in_this_process(monkeypatch, capsys, *words)
        assert code == 2 and len(err.splitlines()) == 1


def test_a_pipe_that_somebody_writes_to(tmp_path: Path) -> None:
    result, _ = write_samples(tmp_path)
    lab = [sys.executable, "-c", PROGRAM, "show"]
    script = 'file=$1; shift; "$@" <(sleep 0.2; cat "$file")'
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(result), *lab],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "mixed400" in done.stdout


def test_a_result_of_another_kind_than_it_says(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path
) -> None:
    """Its fields are right, but those of its kind are missing: no traceback."""
    file = tmp_path / "x.json"
    for kind in ("suite", "programs", "ab", "instructions", "compare", "tail", "steady", "replay"):
        for change in (
            lambda c: None,
            lambda c: c.update(settings={}),
            lambda c: c.update(rows=[], settings={}),
            lambda c: c.update(allocators=[], rows=[]),
            lambda c: [row.update(runs=[]) for row in c["rows"]],
            lambda c: [run.update(failure="x") for row in c["rows"] for run in row["runs"]],
        ):
            file.write_text(of(change, kind))
            for words in (["show"], ["report", "-o", tmp_path / "x.html"]):
                command, *options = words
                code, _, err = in_this_process(monkeypatch, capsys, command, file, *options)
                assert code in (0, 2), (kind, err)
                if code == 2:
                    (line,) = err.splitlines()
                    assert line.startswith(f"hakmem-lab: {file}: not as hakmem-lab writes it: ")


def test_suites_and_peers(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path, repository: Paths
) -> None:
    file = tmp_path / "x.toml"
    for content in (f"row = {DEEP}".encode(), b"\xff", b"row = 1", b"[[row]]\nname = 1"):
        file.write_bytes(content)
        for words in (["suite", "--suite", file], ["programs", "--programs", file]):
            code, _, err = in_this_process(monkeypatch, capsys, *words, "--root", repository.root)
            assert code == 2
            (line,) = err.splitlines()
            assert line.startswith(f"hakmem-lab: {file}: ")
    repository.peers.write_text(DEEP)
    code, _, err = in_this_process(monkeypatch, capsys, "suite", "--root", repository.root)
    assert code == 2 and len(err.splitlines()) == 1


def test_an_output_that_is_full_and_a_directory_that_is_gone(tmp_path: Path) -> None:
    result, _ = write_samples(tmp_path)
    start = [sys.executable, "-c", PROGRAM]
    gone = tmp_path / "gone"
    for script, words, problem in (
        ('exec "$@" >/dev/full', ["show", str(result)], "No space left on device"),
        (
            f'mkdir {gone} && cd {gone} && rmdir {gone} && exec "$@"',
            ["suite"],
            "No such file or directory",
        ),
    ):
        done = subprocess.run(
            ["sh", "-c", script, "sh", *start, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = done.stderr.splitlines()
        assert "Traceback" not in done.stderr and done.returncode != 0
        assert any(line.startswith("hakmem-lab: ") and problem in line for line in lines), lines


@pytest.mark.parametrize("cpus", ["0-99999999999", "99999999999999999999", "-5", "0-"])
def test_cpus_that_nobody_has(monkeypatch: Monkey, capsys: Captured, cpus: str) -> None:
    words = ["compare", f"--cpus={cpus}", "--", "true"]
    code, _, err = in_this_process(monkeypatch, capsys, *words)
    assert code == 2 and err.startswith(f"hakmem-lab: --cpus {cpus}: ")
