"""`servers`: its table, a run from preparation to removal, what the goal says, and real ones."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from command_line import command, in_this_process, inside
from samples import MACHINE, ROUNDS, allocators

from hakmem_lab.analysis.servers import IDLE, server_verdicts
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.report.html import Soaks, render
from hakmem_lab.report.servers_table import as_markdown
from hakmem_lab.run.load_output import Requests
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult, read_result, write_result
from hakmem_lab.run.servers import combine, read_servers

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
# Asks PORT N times; says what it was told to say in the end.
ASK = """
import os, socket, sys
port, times, failed = (int(word) for word in sys.argv[1:4])
for _ in range(times):
    with socket.create_connection(("127.0.0.1", port), 10) as answer:
        if answer.recv(100) != b"pong\\n":
            sys.exit("no pong")
if os.environ.get("LD_PRELOAD"):
    sys.exit("the load is preloaded")
print(f"requests: {times}\\nfailed: {failed}\\nthroughput: 50.5 requests/s")
print("latency p50 0.5 ms\\nlatency p99 2.5 ms\\nlatency p99.9 3 ms")
"""
TABLE = """
[[server]]
name = "pong"
idea = "a word"
server = {server}
load = ["{python}", "{ask}", "{{port}}", "{{requests}}", "{failed}"]
rate = 20
"""


@pytest.fixture
def table(repository: Paths, built: Path) -> Callable[..., Path]:
    """Writes bench/servers.toml of the repository with one server, `more` lines behind it."""

    def write(*more: str, server: str = '["SERVE", "{port}"]', failed: int = 0) -> Path:
        (repository.bench / "serve").unlink(missing_ok=True)
        (repository.bench / "serve").symlink_to(built / "serve")
        (repository.bench / "servers").mkdir(exist_ok=True)
        ask = repository.root / "ask.py"
        ask.write_text(ASK)
        text = TABLE.format(
            server=server.replace("SERVE", str(repository.bench / "serve")),
            python=sys.executable,
            ask=ask,
            failed=failed,
        )
        repository.servers.write_text("\n".join([text, *more]) + "\n")
        return repository.servers

    return write


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs make their directories."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)  # found anew
    return place


Runs = Callable[..., tuple[str, Result]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runs:
    """The command in this process: what it prints, on both outputs, and its result."""

    def run(paths: Paths, *words: str) -> tuple[str, Result]:
        code, out, err = inside(paths, "servers", list(words), monkeypatch, capsys)
        assert code == 0, out + err
        return out + err, read_result(paths.root / "out.json")

    return run


SHORT = ("--rounds", "1", "--seconds", "1", "--idle", "0.05")


def run_of(result: Result, name: str = "glibc") -> Run:
    (run,) = [run for run in result.rows[0].runs if run.allocator == name]
    return run


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_on_every_allocator(
    repository: Paths, table: Callable[..., Path], temporary: Path, runs: Runs
) -> None:
    table(
        'prepare = [["sh", "-c", "test -z \\"$LD_PRELOAD\\" && echo made >{work}/made"]]',
        'fill = [["sh", "-c", "test -e {work}/made && echo {work} >>' + f'{temporary}/../works"]]',
    )
    page = repository.root / "page.md"
    text, result = runs(repository, *SHORT, "--export-markdown", str(page))
    (row,) = result.rows
    works = (temporary.parent / "works").read_text().splitlines()
    assert len(set(works)) == 2 and {Path(work).parent for work in works} == {temporary}
    for name in ("glibc", "hakmem"):
        (run,) = row.good_runs(name)
        assert run.throughput_per_s == 50.5
        assert run.figures["requests"] == 20 and run.figures["failed_requests"] == 0
        assert run.figures["latency_p99.9_ms"] == 3
        assert 0 <= run.figures["cpu_us_per_request"] < 1e6
        assert 500 < run.figures["rss_after_load_kb"] and 500 < run.figures[IDLE]
        assert run.figures["peak_load_kb"] > 500
    assert (row.failure("broken") or "").startswith("the server failed before it was ready: SIGA")
    assert list(temporary.iterdir()) == []
    first = text[text.index("no server slower") :].splitlines()[0]
    assert first == (
        "no server slower than on its best peer with certainty: not certain"
        " (hakmem: in 0 of 1; too few rounds for an interval)"
    )
    for heading in ("p50 ms", "p99 ms", "p99.9 ms", "CPU µs / request", "peak MiB", "idle MiB"):
        assert heading in text and heading in page.read_text()


@pytest.mark.parametrize(
    ("changes", "more", "failure"),
    [
        (
            {},
            'prepare = [["sh", "-c", "echo why; exit 3"]]',
            "preparing it failed: sh: exit code 3: why",
        ),
        ({}, 'fill = [["false"]]', "filling it failed: false: exit code 1"),
        ({"failed": 2}, "", "2 of 22 requests failed"),
        (
            {"server": '["env", "-u", "LD_PRELOAD", "SERVE", "{port}"]'},
            "",
            "not preloaded: ",
        ),
        (
            {"server": '["SERVE", "{port}", "die"]'},
            "",
            "the server failed under the load: SIGABRT",
        ),
    ],
)
def test_what_goes_wrong(
    repository: Paths,
    table: Callable[..., Path],
    temporary: Path,
    runs: Runs,
    changes: dict[str, str],
    more: str,
    failure: str,
) -> None:
    table(more, **changes)
    _, result = runs(repository, *SHORT, "--allocators", "hakmem")
    run = run_of(result, "hakmem")
    assert run.failure is not None and run.failure.startswith(failure)
    assert list(temporary.iterdir()) == []


def test_a_load_that_says_nothing(
    repository: Paths, table: Callable[..., Path], runs: Runs
) -> None:
    file = table()
    file.write_text(re.sub(r"load = .*", 'load = ["true"]', file.read_text()))
    _, result = runs(repository, *SHORT, "--allocators", "glibc")
    failure = run_of(result).failure
    assert failure == "the load says neither its throughput nor how many were answered"


def serving(lab_pid: int) -> set[int]:
    """The servers that it has started and that live."""
    found: set[int] = set()
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(lab_pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found |= {child.pid} if child.name() == "serve" else set()
    return found


def test_ctrl_c_ends_the_server_and_removes_its_directory(
    repository: Paths, table: Callable[..., Path], temporary: Path
) -> None:
    table()
    words = ["--rounds", "500", "--seconds", "1", "--idle", "0.3", "--allocators", "glibc"]
    process = subprocess.Popen(
        command(repository, "servers", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    servers: set[int] = set()
    for _ in range(600):
        servers = serving(process.pid)
        if servers and (repository.root / "out.json").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert servers and not any(psutil.pid_exists(pid) for pid in servers)
    assert "Traceback" not in err and list(temporary.iterdir()) == []
    assert read_result(repository.root / "out.json").interrupted


def test_a_stopped_run_goes_on(
    repository: Paths,
    table: Callable[..., Path],
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table()
    words = ["--rounds", "2", "--seconds", "1", "--idle", "0", "--allocators", "glibc"]
    _, whole = runs(repository, *words)
    file = repository.root / "out.json"
    kept = whole.rows[0].runs[0]
    whole.rows[0].runs = [kept]
    write_result(whole, file)
    said, result = runs(repository, *words, "--resume")
    (first, second) = result.rows[0].runs
    assert "1 runs are kept" in said
    assert first == kept and (second.round, second.failure) == (2, None)
    other = [*words[:-1], "hakmem", "--resume"]
    code, _, err = inside(repository, "servers", other, monkeypatch, capsys)
    assert code == 2 and "cannot be taken up: " in err


# --- the table ------------------------------------------------------------------------------------


def test_bad_input(
    repository: Paths,
    table: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(words: list[str], problem: str) -> None:
        code, out, err = inside(repository, "servers", words, monkeypatch, capsys)
        assert (code, out) == (2, ""), (words, out)
        assert problem in err, err

    refused([], "bench/servers.toml")  # there is none
    file = table()
    refused(["--only", "nix"], "--only: 'nix' is unknown; there are: pong")
    refused(["--only", ","], "no server is left to run")
    refused(["--allocators", "nix"], "--allocators: 'nix' is unknown")
    refused(["--seconds", "0"], "--seconds")
    refused(["--servers", "/no/such/file"], "/no/such/file")
    text = file.read_text()
    for before, after, problem in (
        ("rate = 20", "", "server 'pong': the whole: rate is missing"),
        ("rate = 20", "rate = 0", "wanted is a number above 0"),
        ("rate = 20", "rate = 20\nwhat = 1", "unknown: what"),
        ('idea = "a word"', 'idea = "a word"\nfill = [[]]', "a list that is not empty"),
        ("{port}", "{prot}", "{prot} in '{prot}'; accepted: {port}, {work}, {seconds}"),
        ("[[server]]", "[[service]]", "no [[server]] in it"),
        (str(repository.bench / "serve"), "nix", "no server can be run: pong: not installed: nix"),
    ):
        file.write_text(text.replace(before, after))
        refused([], problem)
    file.write_text(text + text)
    refused([], "two rows are called 'pong'")


def test_what_is_not_there_is_said_and_what_is_optional_is_not(
    repository: Paths, table: Callable[..., Path]
) -> None:
    table('needs = ["{built}/there", "nix"]')
    (server,) = read_servers(repository, repository.servers, 1)
    assert server.row.missing == (
        "build/bench/servers/there is not built: run make bench-servers-build"
    )
    table('needs = ["nix"]')
    (server,) = read_servers(repository, repository.servers, 1)
    assert server.row.missing == "not installed: nix (scripts/setup.sh servers)"
    table('needs = ["nix"]', "optional = true")
    assert read_servers(repository, repository.servers, 1) == []


def test_the_servers_of_this_repository() -> None:
    paths = Paths(ROOT)
    servers = read_servers(paths, paths.servers, 2)
    assert len(servers) >= 8
    for server in servers:
        assert any("{port}" in word or "{work}" in word for word in server.load), server.row.name
        if server.load[0].endswith("/load"):
            assert "--requests" in server.load and "--seconds" in server.load
    with pytest.raises(LabError, match=r"is unknown|no \[\[server\]\]"):
        read_servers(paths, paths.suite, 2)


def test_several_kinds_of_requests() -> None:
    kinds = {
        "SET": Requests(100.0, {"p50": 1.0, "p99": 4.0}),
        "GET": Requests(300.0, {"p50": 2.0, "p99": 3.0}),
    }
    throughput, latencies = combine(kinds)
    assert throughput == pytest.approx(150)  # 300 of each take 3 s and 1 s
    assert latencies == {"p50": 2.0, "p99": 4.0}


# --- what the goal says ---------------------------------------------------------------------------


def result_of(
    speeds: dict[str, dict[str, float]], idle: dict[str, dict[str, float]], rounds: int = ROUNDS
) -> Result:
    """Servers by allocators: requests a second, and MiB after the idle time."""
    settings = {"rounds": rounds, "peers": ["glibc", "mimalloc3"], "idle_s": 10.0}
    known = [a for a in allocators() if a.name in ("hakmem", "glibc", "mimalloc3")]
    result = Result("servers", ["hakmem-lab", "servers"], settings, MACHINE, known)
    for server, of in speeds.items():
        row = RowResult(server, "server", "what it is", "throughput", 1.0, [server], {})
        for round_ in range(1, rounds + 1):
            factor = 1 + round_ / 100
            row.runs += [
                Run(
                    name,
                    round_,
                    1,
                    throughput_per_s=speed * factor,
                    figures={
                        "requests": 100.0,
                        "cpu_us_per_request": 10.0,
                        "peak_load_kb": 2048.0,
                        "rss_after_load_kb": 2048.0,
                        "latency_p99_ms": 1.0,
                        IDLE: idle[server][name] * 1024,
                    },
                )
                for name, speed in of.items()
            ]
        result.rows.append(row)
    return result


EVEN = {"hakmem": 100.0, "glibc": 90.0, "mimalloc3": 80.0}
SLOW = {"hakmem": 90.0, "glibc": 80.0, "mimalloc3": 100.0}
LEAN = {"hakmem": 10.0, "glibc": 12.0, "mimalloc3": 20.0}
FAT = {"hakmem": 30.0, "glibc": 12.0, "mimalloc3": 20.0}


def test_both_goals_are_met() -> None:
    lines = server_verdicts(result_of({"a": EVEN, "b": EVEN}, {"a": LEAN, "b": LEAN}))
    assert lines == [
        "no server slower than on its best peer with certainty: met (hakmem: in 0 of 2)",
        "memory after 10 s without load the lowest in 7 of 10: met (hakmem: in 2 of 2)",
    ]


def test_every_exception_is_named() -> None:
    speeds = {"a": EVEN, "b": SLOW, "c": EVEN}
    lines = server_verdicts(result_of(speeds, {"a": LEAN, "b": LEAN, "c": FAT}))
    assert lines == [
        "no server slower than on its best peer with certainty: not met (hakmem: in 1 of 3)",
        "  b: throughput 0.90 [0.90, 0.90] of that on mimalloc3",
        "memory after 10 s without load the lowest in 7 of 10: not met (hakmem: in 2 of 3)",
        "  c: 2.50 [2.50, 2.50] x glibc (30.0 MiB, 12.0)",
    ]
    # Three of four are enough.
    memory = {"a": LEAN, "b": LEAN, "c": LEAN, "d": FAT}
    lines = server_verdicts(result_of(dict.fromkeys(memory, EVEN), memory))
    assert "the lowest in 7 of 10: met (hakmem: in 3 of 4)" in lines[1]


def test_few_rounds_are_certain_of_nothing() -> None:
    lines = server_verdicts(result_of({"b": SLOW}, {"b": FAT}, rounds=2))
    assert "not certain (hakmem: in 0 of 1; too few rounds" in lines[0]
    assert lines[1] == "  b: throughput 0.90 of that on mimalloc3, not certain"
    assert "not certain (hakmem: in 0 of 1; too few rounds" in lines[2]


def test_a_failure_is_named_first() -> None:
    result = result_of({"a": EVEN}, {"a": LEAN})
    row = result.rows[0]
    row.runs = [
        replace(run, failure="SIGSEGV: oh", throughput_per_s=None)
        if run.allocator == "hakmem"
        else run
        for run in row.runs
    ]
    lines = server_verdicts(result)
    assert lines[0] == "a fails on hakmem: SIGSEGV: oh"
    assert "not certain (hakmem: in 0 of 0)" in lines[1]


def test_what_is_printed_and_reported() -> None:
    result = result_of({"a|b": SLOW}, {"a|b": FAT})
    page = as_markdown(result)
    assert page.startswith("- no server slower than on its best peer with certainty: not met")
    assert "**a\\|b**: what it is" in page and "| hakmem | 93 [" in page
    html = render([(Path("some.json"), result)], Soaks())
    assert "Servers under load" in html and "throughput 0.90 [0.90, 0.90]" in html


def test_what_may_be_published(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As a suite: six rounds of one commit."""
    file, out = tmp_path / "servers.json", tmp_path / "out.json"
    words = ("publish", file, "-o", out)
    for rounds, problem in ((2, "2 rounds of a on hakmem, 6 are needed"), (ROUNDS, "")):
        result = result_of({"a": EVEN}, {"a": LEAN}, rounds)
        result.settings["commit"] = "abc"
        write_result(result, file)
        code, _, err = in_this_process(monkeypatch, capsys, *words)
        assert (code, problem in err) == (2 if problem else 0, True), err
    assert read_result(out).kind == "servers"


# --- real ones ------------------------------------------------------------------------------------


@pytest.fixture
def real(repository: Paths, tmp_path: Path) -> Paths:
    """The repository with this one's table; redis' server as the package redis-tools has it."""
    programs = os.environ.get("HAKMEM_TEST_PROGRAMS")
    built = Path(programs) / "servers" if programs else ROOT / "build/bench/servers"
    if not (built / "rpc_server").is_file():
        pytest.skip(f"{built}/rpc_server is not built: make bench-servers-build")
    (repository.bench / "servers").symlink_to(built)
    text = (ROOT / "bench/servers.toml").read_text()
    if shutil.which("redis-server") is None and shutil.which("redis-check-rdb") is not None:
        link = tmp_path / "redis-server"
        link.symlink_to(shutil.which("redis-check-rdb") or "")
        text = text.replace('"redis-server"', f'"{link}"')
    repository.servers.write_text(text)
    return repository


@pytest.mark.parametrize("name", ["redis", "rpc"])
def test_a_real_server(real: Paths, runs: Runs, name: str) -> None:
    if name == "redis" and shutil.which("redis-benchmark") is None:
        pytest.skip("redis-benchmark is not installed (Debian: redis-tools)")
    library = Path(os.environ.get("HAKMEM_TEST_LIBRARY", ROOT / "build/standard/libhakmem.so"))
    choice = f"glibc,real={library}" if library.is_file() else "glibc"
    words = ["--only", name, "--rounds", "1", "--seconds", "0.1", "--idle", "0.1"]
    text, result = runs(real, *words, "--allocators", choice)
    (row,) = result.rows
    for allocator in result.allocator_names():
        assert row.failure(allocator) is None
        (run,) = row.good_runs(allocator)
        assert run.figures["requests"] == {"redis": 7 * 500, "rpc": 1500}[name]
        assert run.figures["failed_requests"] == 0 and run.throughput_per_s is not None
        assert 0 < run.figures["latency_p50_ms"] <= run.figures["latency_p99_ms"]
        assert run.figures["latency_p99_ms"] <= run.figures["latency_p99.9_ms"]
        assert 0 <= run.figures["cpu_us_per_request"] < 1e6
        assert 1024 < run.figures[IDLE] <= run.figures["peak_load_kb"] * 1.1
    assert "requests / s" in text


def test_the_load_and_our_server_refuse_nonsense(real: Paths) -> None:
    place = real.bench / "servers"
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        for words, problem in (
            ([place / "load"], "usage: load"),
            ([place / "load", "smtp", "1"], "usage: load"),
            ([place / "load", "rpc", "0"], "PORT 0: accepted is a number from 1 to 65535"),
            ([place / "load", "rpc", port, "--requests", "-1"], "--requests -1: accepted is"),
            ([place / "rpc_server", port], "usage: rpc_server PORT THREADS"),
            ([place / "rpc_server", port, "1x"], "THREADS 1x: accepted is"),
            ([place / "rpc_server", port, "1"], "Address already in use"),
        ):
            done = subprocess.run(
                list(map(str, words)), capture_output=True, text=True, timeout=20, check=False
            )
            assert (done.returncode, done.stdout) == (2, ""), words
            assert problem in done.stderr
    done = subprocess.run(
        [place / "load", "rpc", port], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 2 and "Connection refused" in done.stderr
