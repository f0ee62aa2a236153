"""Real servers, from bench/servers.toml: each with its own load, on every allocator.

A run makes a directory and takes a free port of the loopback interface, has the server's data
prepared on plain libc, starts the server on the allocator, waits until it answers, fills it, puts
the load on it, and looks at its memory under load, after it, and once more when nothing was asked
of it for some seconds. Then the server is ended and the directory removed, whatever happened.
"""

import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

import psutil

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.base.shape import Entry, Flag, Name, Positive
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.contenders import with_glibc_itself
from hakmem_lab.run.load_output import Expressions, Kinds
from hakmem_lab.run.measure import (
    REPORTED,
    Launcher,
    Run,
    Running,
    describe_failure,
    environment_of,
    read_tail,
)
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.programs import SEARCH, Words
from hakmem_lab.run.ready import Ready
from hakmem_lab.run.results import Result
from hakmem_lab.run.rows import Row, place_of, read_toml, refuse_repeated
from hakmem_lab.run.server import (
    FAILED,
    Load,
    Plan,
    ServerError,
    ServerTrial,
    Session,
    resident_kib,
    tree_of,
    wait_for_any,
)

LOOPBACK = "127.0.0.1"
# Servers lie in /usr/sbin, and those of PostgreSQL in a directory of their version.
PLACES = (SEARCH, "/usr/sbin:/sbin", *sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True))
UNPRIVILEGED = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--")
PREPARE_SECONDS = 120.0  # for what is done before the load
READY_SECONDS = 60.0
LOOK_SECONDS = 0.25  # between two looks at the memory of a server under load
REAPING_SECONDS = 0.1  # until a server knows of the end of its children
# When a load ends that has not made its requests yet: a machine may be slow or busy.
LIMIT, LEAST_LIMIT = 10, 60.0  # times --seconds, and seconds
MOST_FAILED = 0.01  # of all requests; with more a run has failed
PER_RUN = ("port", "work")  # what is known when a run begins
BRACES = re.compile(r"\{(\w*)\}")


class ServerEntry(Entry):
    """A table [[server]] of a file of servers (bench/servers.toml says what each field is)."""

    name: Name
    idea: Name
    server: Words
    load: Words
    rate: Positive
    needs: list[str] = []
    optional: Flag = False
    ready: Words | None = None
    prepare: list[Words] = []
    fill: list[Words] = []
    environment: dict[str, str] = {}
    unprivileged: Flag = False
    all_cpus: Flag = False


@dataclass(frozen=True)
class Server:
    """A row, and what belongs to it; commands have {port} and {work} in them."""

    row: Row
    load: tuple[str, ...]
    ready: tuple[str, ...] | None
    prepare: tuple[tuple[str, ...], ...]
    fill: tuple[tuple[str, ...], ...]
    unprivileged: bool
    all_cpus: bool
    optional: bool


def fill_in(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Puts values in; braces around other names stay."""
    return tuple(BRACES.sub(lambda m: values.get(m[1], m[0]), word) for word in words)


def known_braces(where: str, commands: Sequence[Sequence[str]], known: Sequence[str]) -> None:
    for command in commands:
        for word in command:
            for name in BRACES.findall(word):
                if name not in known:
                    accepted = ", ".join(f"{{{one}}}" for one in known)
                    raise LabError(f"{where}: {{{name}}} in {word!r}; accepted: {accepted}")


def make_server(paths: Paths, file: Path, entry: ServerEntry, seconds: float) -> Server:
    where = place_of(file, "server", entry.name)
    values = {
        "seconds": f"{seconds:g}",
        "requests": str(max(1, round(entry.rate * seconds))),
        "limit": f"{max(LEAST_LIMIT, LIMIT * seconds):.0f}",
        "built": str(paths.bench / "servers"),
        "source": str(paths.root / "bench/servers"),
    }
    commands = [entry.server, entry.load, *entry.prepare, *entry.fill, entry.ready or []]
    known_braces(where, commands, [*PER_RUN, *values])

    def filled(words: Sequence[str]) -> tuple[str, ...]:
        return fill_in(words, values)

    environment = {"PATH": ":".join(PLACES), **entry.environment}
    server, load = filled(entry.server), filled(entry.load)
    programs = [server[0], load[0], *filled(entry.needs)]
    row = Row(
        name=entry.name,
        command=server,
        measure="throughput",
        group="server",
        idea=entry.idea,
        environment=environment,
        missing=what_is_missing(paths, programs, environment["PATH"]),
    )
    return Server(
        row,
        load,
        None if entry.ready is None else filled(entry.ready),
        tuple(map(filled, entry.prepare)),
        tuple(map(filled, entry.fill)),
        entry.unprivileged,
        entry.all_cpus,
        entry.optional,
    )


def what_is_missing(paths: Paths, programs: Sequence[str], search: str) -> str | None:
    def is_there(program: str) -> bool:
        if "/" in program:
            return Path(program).is_file()
        return shutil.which(program, path=search) is not None

    absent = list(dict.fromkeys(program for program in programs if not is_there(program)))
    ours = [p for p in absent if Path(p).is_relative_to(paths.root)]
    if ours:
        return f"{paths.shown(Path(ours[0]))} is not built: run make bench-servers-build"
    return f"not installed: {', '.join(absent)} (scripts/setup.sh servers)" if absent else None


def read_servers(paths: Paths, file: Path, seconds: float) -> list[Server]:
    """The servers of the file; an optional one that is not installed is left out."""
    entries = read_toml(file, "server", ServerEntry)
    servers = [make_server(paths, file, entry, seconds) for entry in entries]
    refuse_repeated([server.row for server in servers], str(file))
    return [server for server in servers if not (server.optional and server.row.missing)]


# --- a run ----------------------------------------------------------------------------------------


def free_port() -> int:
    with closing(socket.create_server((LOOPBACK, 0))) as listener:
        return int(listener.getsockname()[1])


def status_kib(pid: int, field: str) -> int:
    """A line of /proc/PID/status; 0 for a process that has just ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def peak_kib(running: Running) -> int:
    """Of one process what the kernel keeps as its peak; of several what all hold now."""
    processes = tree_of(running)
    if len(processes) == 1:
        return status_kib(processes[0].pid, "VmHWM")
    return resident_kib(running) or 0


def used_cpu(running: Running) -> float:
    """Seconds of all processes of the command, and of those that ended and were waited for."""
    total = 0.0
    for process in tree_of(running):
        try:
            used = process.cpu_times()
        except psutil.Error:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total


def unmapped(running: Running, library: str) -> bool:
    """Whether a process of the command, the first one, runs without the library."""
    processes = tree_of(running)
    try:
        maps = Path(f"/proc/{processes[0].pid}/maps").read_text(encoding="utf-8", errors="replace")
    except (IndexError, OSError):
        return False  # it has ended: that is told elsewhere
    return os.path.realpath(library) not in {line.split()[-1] for line in maps.splitlines()}


def combine(kinds: Kinds) -> tuple[float, dict[str, float]]:
    """Requests a second as if the kinds had been asked in turn, as many of each; of each percentile
    that of the slowest kind."""
    rates = [of.throughput_per_s for of in kinds.values() if of.throughput_per_s is not None]
    latencies: dict[str, float] = {}
    for of in kinds.values():
        for name, value in of.latency_ms.items():
            latencies[name] = max(latencies.get(name, 0.0), value)
    return len(rates) / sum(1 / rate for rate in rates), latencies


class TableTrial(ServerTrial):
    """One run of a server of the table."""

    def __init__(
        self, result: Result, server: Server, plan: Plan, launcher: Launcher, allocator: Allocator,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        super().__init__(result, plan, launcher, say)
        if server.all_cpus:
            self.server_cpus = self.load_cpus = list(launcher.cpus)
        self.server = server
        self.allocator = allocator
        self.peak = 0
        self.cpu = 0.0

    def before_load(self, row: Row, session: Session) -> None:
        library = self.allocator.library
        if library and unmapped(session.running, library):
            raise ServerError(f"not preloaded: {library} is not mapped by the server")
        for command in self.server.fill:
            self.carry_out(row, command, "filling it")
            session.fail_if_ended("while it was filled")
        self.cpu = used_cpu(session.running)

    def carry_out(self, row: Row, command: Sequence[str], what: str, directory: str = "/") -> None:
        with tempfile.TemporaryFile() as output:
            report = self.launcher.spawn(
                command,
                environment_of(row, Allocator("", "", "")),
                "",
                self.launcher.cpus,
                output,
                output,
                directory=Path(directory),
                timeout=PREPARE_SECONDS,
            ).report()
            problem = describe_failure(report, read_tail(output), PREPARE_SECONDS)
        if problem is not None:
            raise ServerError(f"{what} failed: {command[0]}: {problem}")

    def wait_for_load(self, load: Running, session: Session) -> None:
        end = time.monotonic() + self.launcher.timeout + 60
        while load.process.poll() is None and not session.ended() and time.monotonic() < end:
            wait_for_any([load, session.running], LOOK_SECONDS)
            self.peak = max(self.peak, peak_kib(session.running))

    def after_load(self, session: Session, load: Load) -> dict[str, float]:
        wait_for_any([session.running], REAPING_SECONDS)
        session.fail_if_ended("under the load")
        if not load.kinds or load.answered <= 0:
            raise ServerError("the load says neither its throughput nor how many were answered")
        if load.failed > MOST_FAILED * (load.answered + load.failed):
            raise ServerError(f"{load.failed} of {load.answered + load.failed} requests failed")
        used = max(0.0, used_cpu(session.running) - self.cpu)
        return {
            "requests": float(load.answered),
            FAILED: float(load.failed),
            "cpu_us_per_request": used / load.answered * 1e6,
            "peak_load_kb": float(max(self.peak, peak_kib(session.running))),
        }

    def kept(self, load: Load, figures: dict[str, float], at: tuple[str, int, int]) -> Run:
        throughput, latencies = combine(load.kinds)
        return Run(
            *at,
            wall_s=load.seconds,
            throughput_per_s=throughput,
            figures={**figures, **{f"latency_{k}_ms": v for k, v in latencies.items()}},
        )


class ServersTrial:
    """The runs of `hakmem-lab servers`; `kind` makes one of a server."""

    def __init__(
        self, result: Result, servers: Sequence[Server], launcher: Launcher, idle: float,
        say: Callable[[str], None], kind: Callable[..., TableTrial] = TableTrial,
    ) -> None:  # fmt: skip
        self.result = result
        self.servers = {server.row.name: server for server in servers}
        self.launcher = launcher
        self.idle = idle
        self.say = say
        self.kind = kind

    def run(self, row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        at = (allocator.name, round_, position)
        allocator = with_glibc_itself([allocator], row)[0]
        environment = environment_of(row, allocator)
        problem = preload_problem(row.command[0], allocator.library, environment.get("PATH"))
        if problem is not None:
            return Run(*at, failure=f"not preloaded: {problem}")
        server = self.servers[row.name]
        with (
            tempfile.TemporaryDirectory(
                prefix="hakmem-lab-", ignore_cleanup_errors=True
            ) as directory,
            tempfile.TemporaryFile() as log,
        ):
            values = {"port": str(free_port()), "work": directory}
            prefix: tuple[str, ...] = ()
            if server.unprivileged and os.geteuid() == 0:
                prefix = UNPRIVILEGED
                shutil.chown(directory, "nobody", "nogroup")
            plan = Plan(
                server=(*prefix, *fill_in(row.command, values)),
                load=fill_in(server.load, values),
                ready=Ready((LOOPBACK,), int(values["port"]))
                if server.ready is None
                else Ready(command=fill_in(server.ready, values)),
                ready_timeout=READY_SECONDS,
                idle=self.idle,
                expressions=Expressions(),
            )
            here = replace(row, directory=Path(directory))
            filling = replace(server, fill=tuple(fill_in(c, values) for c in server.fill))
            trial = self.kind(self.result, filling, plan, self.launcher, allocator, self.say)
            try:
                for command in server.prepare:
                    words = (*prefix, *fill_in(command, values))
                    trial.carry_out(row, words, "preparing it", directory)
                load, figures, report = trial.serve(here, allocator, (), allocator.library, log)
            except ServerError as failure:
                return Run(*at, failure=str(failure))
        self.launcher.keep_peak(row, report)
        run = trial.kept(load, figures, at)
        whole = {name: report[name] for name in REPORTED if name != "wall_s"}
        return replace(run, **whole)
