"""`compare --server`: servers that answer, die, never listen or will not end, and a real one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from command_line import command, good, inside
from conftest import GLIBC, PEAK_SLACK_KB

from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.load_output import Expressions, compile_expression
from hakmem_lab.run.measure import Launcher, Run
from hakmem_lab.run.ready import Ready, parse_ready
from hakmem_lab.run.results import Result, RowResult, read_result
from hakmem_lab.run.rows import Row
from hakmem_lab.run.server import Plan, ServerTrial, divide_cpus, server_row
from hakmem_lab.run.syscalls import strace

pytestmark = pytest.mark.slow
RATE, LATENCY = r"^rate (?P<value>\S+)", r"^(?P<percentile>p\d+) (?P<value>\S+) (?P<unit>\S+)"
# Asks PORT N times; says how fast that was. With a third argument it fails after that.
ASK = """
import socket, sys, time
port, times = int(sys.argv[1]), int(sys.argv[2])
begin = time.monotonic()
for _ in range(times):
    with socket.create_connection(("127.0.0.1", port), 10) as answer:
        if answer.recv(100) != b"pong\\n":
            sys.exit("no pong")
print("rate", times / (time.monotonic() - begin))
print("p50 100 us\\np99 0.5 ms")
if len(sys.argv) > 3:
    sys.exit(sys.argv[3])
"""


@pytest.fixture
def port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def ask(tmp_path: Path) -> Path:
    file = tmp_path / "ask.py"
    file.write_text(ASK)
    return file


Try = Callable[..., tuple[ServerTrial, list[str]]]


@pytest.fixture
def attempt(launcher: Launcher, built: Path, ask: Path, port: int) -> Try:
    """A trial with the server `serve` in some mode, and what it says."""

    def make(
        mode: str = "", load: tuple[str, ...] | None = None, **changes: object
    ) -> tuple[ServerTrial, list[str]]:
        words = (sys.executable, str(ask), str(port), "20")
        fields: dict[str, object] = {
            "server": (str(built / "serve"), str(port), *([mode] if mode else [])),
            "load": words if load is None else load,
            "ready": parse_ready(f"127.0.0.1:{port}"),
            "ready_timeout": 20.0,
            "grace": 0.3,
            "expressions": Expressions(
                compile_expression("--throughput", RATE), compile_expression("--latency", LATENCY)
            ),
        }
        plan = Plan(**{**fields, **changes})  # type: ignore[arg-type]
        result = Result("compare", [], {}, {}, [GLIBC], [RowResult.of(row_of(plan))])
        said: list[str] = []
        return ServerTrial(result, plan, launcher, said.append), said

    return make


def row_of(plan: Plan) -> Row:
    return server_row(plan, None, {})


def run(trial: ServerTrial, allocator: Allocator = GLIBC) -> Run:
    return trial.run(row_of(trial.plan), allocator, 1, 1)


def rows_of(trial: ServerTrial) -> dict[str, RowResult]:
    return {row.name: row for row in trial.result.rows}


def test_a_server_that_answers(attempt: Try, port: int) -> None:
    trial, said = attempt(idle=0.1)
    done = run(trial)
    assert done.failure is None and said == []
    assert done.wall_s > 0 and done.peak_rss_kb > 500
    assert 500 < done.figures["rss_after_load_kb"] <= done.peak_rss_kb + PEAK_SLACK_KB
    assert "rss_after_idle_kb" in done.figures
    assert trial.launcher.peaks == {"server": done.peak_rss_kb}  # so much is warmed for the next
    (requests,) = rows_of(trial)["requests"].runs
    assert requests.throughput_per_s is not None and requests.throughput_per_s > 1
    assert requests.figures["latency_p50_ms"] == pytest.approx(0.1)
    assert requests.figures["latency_p99_ms"] == pytest.approx(0.5)
    # The server is gone: its port can be bound again.
    with closing(socket.create_server(("127.0.0.1", port))):
        pass


def test_it_runs_on_the_allocator_and_the_load_does_not(
    attempt: Try,
    library: Callable[[str], Allocator],
    tmp_path: Path,
    built: Path,
    ask: Path,
    port: int,
) -> None:
    trial, _ = attempt()
    broken = run(trial, library("abort"))
    assert broken.failure is not None
    assert broken.failure.startswith("the server failed before it was ready: SIGABRT")
    assert "no malloc today" in broken.failure
    assert run(trial, library("bump")).failure is None
    bystander = run(trial, library("bystander"))
    assert bystander.failure is not None and "no allocation function" in bystander.failure
    script = f'test -z "$LD_PRELOAD" && exec {sys.executable} {ask} {port} 3'
    plain, _ = attempt(load=("/bin/sh", "-c", script))
    assert run(plain, library("bump")).failure is None


@pytest.mark.parametrize(
    ("mode", "failure"),
    [
        ("die", "the server failed under the load: SIGABRT: serve: up"),
        ("leave", "the server ended by itself under the load (it has to stay in the foreground)"),
        ("deaf", "the server is not ready after 0.5 s (127.0.0.1:"),
    ],
)
def test_servers_that_fail(attempt: Try, mode: str, failure: str) -> None:
    trial, _ = attempt(mode, **({"ready_timeout": 0.5} if mode == "deaf" else {}))
    done = run(trial)
    assert done.failure is not None and done.failure.startswith(failure)
    if mode == "deaf":
        assert done.failure.endswith(" refuses): serve: up")
    assert "requests" not in rows_of(trial)


def test_a_server_that_goes_on_is_killed(attempt: Try, port: int) -> None:
    trial, said = attempt("stubborn")
    assert run(trial).failure is None
    assert said == ["the server goes on 0.3 s after SIGTERM: killed"]
    with closing(socket.create_server(("127.0.0.1", port))):
        pass


def test_a_server_that_cannot_bind(attempt: Try, port: int) -> None:
    """Somebody else answers on the port: the figures would be theirs."""
    with closing(socket.create_server(("127.0.0.1", port))):
        trial, said = attempt()
        done = run(trial)
        assert done.failure == (
            f"127.0.0.1:{port} is in use before the server is started: something else, or what a"
            " server left behind, listens there"
        )
        # Where a command says that it is ready, the server's own end tells.
        trial, _ = attempt(ready=Ready(command=("/bin/true",)))
        done = run(trial)
        assert (
            done.failure is not None and "exit code 4: serve: up | serve: no port" in done.failure
        )
    assert said == []


def test_a_ready_command(attempt: Try, ask: Path, port: int) -> None:
    ready = Ready(command=(sys.executable, str(ask), str(port), "1"))
    trial, _ = attempt(ready=ready)
    assert run(trial).failure is None


@pytest.mark.parametrize(
    ("load", "failure"),
    [
        (("/bin/sh", "-c", "echo rate 5; echo why >&2; exit 7"), "exit code 7: why"),
        (("/bin/sh", "-c", "echo said on stdout; exit 7"), "exit code 7: said on stdout"),
        (("/bin/sh", "-c", "kill -9 $$"), "SIGKILL"),
        (("/no/such/load",), "cannot run it: No such file or directory"),
    ],
)
def test_loads_that_fail(attempt: Try, load: tuple[str, ...], failure: str) -> None:
    trial, _ = attempt(load=load)
    assert run(trial).failure == f"the load failed: {failure}"


def test_a_load_that_takes_too_long(attempt: Try) -> None:
    trial, _ = attempt(load=("/bin/sleep", "60"))
    trial.launcher.timeout = 0.5
    assert run(trial).failure == "the load failed: timed out after 0.5 s"


def test_an_expression_that_matches_nothing(attempt: Try) -> None:
    trial, _ = attempt(load=("/bin/echo", "slow today"))
    assert run(trial).failure == (
        "--throughput matches nothing above 0 in the load's output: slow today"
    )


def test_a_load_that_is_not_understood_is_compared_by_its_time(attempt: Try) -> None:
    trial, said = attempt(load=("/bin/echo", "done"), expressions=Expressions())
    assert run(trial).failure is None and run(trial).failure is None
    assert len(said) == 1
    assert said[0].startswith("the load's output says no throughput that is understood; its time")
    row = rows_of(trial)["load"]
    assert row.measure == "wall" and len(row.runs) == 2 and row.runs[0].wall_s > 0


def test_all_runs_are_understood_or_none(attempt: Try, tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/again && echo oops || echo 'GET: 5.00 requests per second'; "
    load = ("/bin/sh", "-c", f"{script} touch {tmp_path}/again")
    trial, _ = attempt(load=load, expressions=Expressions())
    assert run(trial).failure is None
    assert run(trial).failure == "the load's output has no throughput: oops"
    assert len(rows_of(trial)["GET"].runs) == 1


def test_failed_requests_are_kept(attempt: Try) -> None:
    text = "Running 1s test @ x\nRequests/sec: 5.0\n  Non-2xx or 3xx responses: 3"
    trial, _ = attempt(load=("/bin/echo", text), expressions=Expressions())
    assert run(trial).failure is None
    assert rows_of(trial)["requests"].runs[0].figures["failed_requests"] == 3


def test_the_server_has_cpus_of_its_own() -> None:
    assert divide_cpus([0, 1, 2, 3]) == ([2, 3], [0, 1])
    assert divide_cpus([0, 1, 2]) == ([1, 2], [0])
    assert divide_cpus([3]) == ([3], [3])


def test_system_calls_of_the_server(attempt: Try, library: Callable[[str], Allocator]) -> None:
    if strace() is None:
        pytest.skip("strace is not installed")
    trial, _ = attempt()
    row = row_of(trial.plan)
    calls = trial.count(row, library("bump"))
    # 20 of the load, and one that looked whether it is ready; the last one waits.
    assert calls is not None and calls["accept"] in (21, 22)
    assert "requests" not in rows_of(trial)  # not a timed run
    assert trial.count(row, library("bystander")) is None


# --- the whole command ----------------------------------------------------------------------------


def test_bad_input(
    repository: Paths,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    load = ["--load", "true"]
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        used = str(taken.getsockname()[1])
        for words, problem in (
            (["--server", "sleep 9"], "--server needs --load COMMAND and --ready PORT"),
            (["--server", "sleep 9", *load, "--ready", "0"], "a port is a number from 1 to 65535"),
            (["--server", "'", *load, "--ready", "1"], '--server "\'": No closing quotation'),
            (["--server", "nix", *load, "--ready", str(port)], "--server: nix: no such program"),
            (
                ["--server", "sleep 9", "--load", "nix", "--ready", str(port)],
                "--load: nix: no such program",
            ),
            (["--server", "sleep 9", *load, "--ready", "nix x"], "--ready: nix: no such program"),
            (
                ["--server", "sleep 9", *load, "--ready", used],
                f"port {used} is in use: something listens there already; stop it, or give",
            ),
            (
                ["--server", "sleep 9", *load, "--ready", str(port), "--throughput", "x"],
                "--throughput x: wanted is one group",
            ),
            (["--server", "sleep 9", *load, "--ready", "1", "--", "true"], "wanted is either"),
        ):
            code, out, err = inside(repository, "compare", words, monkeypatch, capsys)
            assert (code, out) == (2, ""), (words, err)
            assert problem in err


def serve_words(built: Path, ask: Path, port: int, *more: str) -> list[str]:
    server = f"{built / 'serve'} {port}"
    load = f"{sys.executable} {ask} {port} 20"
    words = ["--server", server, "--load", load, "--ready", str(port), *more]
    return [*words, "--throughput", RATE, "--latency", LATENCY, "--no-system-calls"]


def test_a_server_on_every_allocator(repository: Paths, built: Path, ask: Path, port: int) -> None:
    words = serve_words(built, ask, port, "--runs", "3", "--idle", "0.05")
    text, result = good(repository, "compare", *words)
    server, requests = result.rows
    assert (server.name, server.measure, requests.name) == ("server", "cpu", "requests")
    assert len(server.good_runs("hakmem")) <= 3
    for name in ("glibc", "hakmem"):
        assert len(requests.good_runs(name)) == 3
    assert (server.failure("broken") or "").startswith(
        "the server failed before it was ready: SIGA"
    )
    for expected in (
        *("The server's CPU time", "The server's memory", "after load MiB", "after idle MiB"),
        *("requests / s", "p50 ms", "p99 ms", "broken, server: failed: ", "away: not run: no comp"),
        "hakmem, requests: ",
    ):
        assert expected in text, expected


def test_ctrl_c_ends_the_server_too(repository: Paths, built: Path, ask: Path, port: int) -> None:
    words = serve_words(built, ask, port, "--runs", "500", "--allocators", "glibc")
    file = repository.root / "out.json"
    process = subprocess.Popen(
        command(repository, "compare", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if file.exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "stopped before the end" in out
    result = read_result(file)
    assert result.interrupted and result.rows[1].good_runs("glibc")
    with closing(socket.create_server(("127.0.0.1", port))):
        pass


@pytest.fixture
def redis(tmp_path: Path) -> str:
    """A real server; the reason is printed where there is none."""
    if shutil.which("redis-benchmark") is None:
        pytest.skip("redis-benchmark is not installed (Debian: redis-tools)")
    # The package redis-tools has the server too: it does what its name says.
    server = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if server is None:
        pytest.skip("redis-server is not installed (Debian: redis-server or redis-tools)")
    link = tmp_path / "redis-server"
    link.symlink_to(server)
    return str(link)


@pytest.mark.parametrize("style", [[], ["-q"], ["--csv"]])
def test_redis(repository: Paths, redis: str, port: int, tmp_path: Path, style: list[str]) -> None:
    """Kinds of requests from the tool itself, in each of its formats, on two allocators."""
    library = Path(os.environ.get("HAKMEM_TEST_LIBRARY", ""))
    choice = f"glibc,hakmem={library}" if library.is_file() else "glibc"
    load = f"redis-benchmark -p {port} -n 2000 -t set,get {' '.join(style)}"
    words = ["--server", f'{redis} --port {port} --save "" --dir {tmp_path}', "--load", load]
    words += ["--ready", str(port), "--runs", "2", "--allocators", choice]
    text, result = good(repository, "compare", *words, "--no-system-calls")
    rows = {row.name: row for row in result.rows}
    assert set(rows) == {"server", "SET", "GET"}
    for name in result.allocator_names():
        assert len(rows["SET"].good_runs(name)) == 2
        assert len(rows["server"].good_runs(name)) == 2
    (first, _) = rows["GET"].good_runs("glibc")
    assert first.throughput_per_s is not None and first.throughput_per_s > 100
    assert first.figures["latency_p50_ms"] > 0
    assert ("latency_p99_ms" in first.figures) == (style != ["-q"])
    assert first.figures["rss_after_load_kb"] > 1024
    assert "SET" in text and "p50 ms" in text
