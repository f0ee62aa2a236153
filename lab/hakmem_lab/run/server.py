"""One run of a server under an allocator: start it, wait until it is ready, put the load on it,
look at its memory, end it.

The load runs on plain libc, on other CPUs than the server where there are two, and says itself how
fast it was (load_output.py). The server's own figures are the kernel's, from its start to its end.
"""

import os
import select
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import psutil

from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.load_output import (
    KNOWN_TOOLS,
    Expressions,
    Kinds,
    answered_requests,
    failed_requests,
    parse_load,
)
from hakmem_lab.run.measure import (
    REPORTED,
    Launcher,
    Run,
    Running,
    describe_failure,
    environment_of,
    last_lines,
    read_tail,
)
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.ready import PAUSE, Ready
from hakmem_lab.run.results import Result, RowResult
from hakmem_lab.run.rows import Measure, Row
from hakmem_lab.run.syscalls import read_counts, strace, traced

MOST_OUTPUT = 16 << 20  # bytes at the end of the load's output that are read
FREE_PORT_PATIENCE = 10.0  # seconds until a port counts as taken for good
LAST_WORDS = 1.0  # seconds that the load has to end when its server is gone
# Ends that no server has on purpose; after SIGTERM anything else is its own business.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
FAILED = "failed_requests"
LOAD = "load"  # the row of the load's time, when its output says no throughput


@dataclass(frozen=True)
class Load:
    """What came of the load."""

    kinds: Kinds
    failed: int  # requests that failed, as far as it says so
    seconds: float
    answered: int = 0  # requests, as far as it says so


@dataclass(frozen=True)
class Plan:
    """What --server and its companions ask for."""

    server: tuple[str, ...]
    load: tuple[str, ...]
    ready: Ready
    ready_timeout: float = 30.0
    idle: float = 0.0
    grace: float = 10.0
    expressions: Expressions = field(default_factory=Expressions)


class ServerError(Exception):
    """A run that went wrong; the text says how."""


def divide_cpus(cpus: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those of the server and those of the load: the last ones and the first ones, as interrupts
    prefer the first. A single one is shared."""
    half = len(cpus) // 2
    return (list(cpus[half:]), list(cpus[:half])) if half else (list(cpus), list(cpus))


def wait_for_any(processes: Sequence[Running], seconds: float) -> None:
    """Until one of them has ended or the time is up; sleeps, so that nothing is disturbed."""
    poll = select.poll()
    descriptors: list[int] = []
    try:
        for running in processes:
            if running.process.poll() is not None:
                return
            descriptors.append(os.pidfd_open(running.process.pid))
            poll.register(descriptors[-1], select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    for running in processes:
        running.process.poll()


def tree_of(running: Running) -> list[psutil.Process]:
    """The command behind a launcher first, then its children and theirs."""
    try:
        return list(psutil.Process(running.process.pid).children(recursive=True))
    except psutil.Error:
        return []


def resident_kib(running: Running) -> int | None:
    """Resident memory of all processes of the command: pages that several share count once."""
    processes = tree_of(running)
    total = 0
    for process in processes:
        try:
            maps = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        fields = dict(line.split()[:2] for line in maps.splitlines()[1:])  # none when it just ended
        total += int(fields.get("Pss:" if len(processes) > 1 else "Rss:", 0))
    return total or None


class Session:
    """A server under way with its output, which is what explains a failure."""

    def __init__(self, plan: Plan, running: Running, log: IO[bytes]) -> None:
        self.plan = plan
        self.running = running
        self.log = log

    def said(self) -> str:
        text = last_lines(read_tail(self.log))
        return f": {text}" if text else ""

    def ended(self) -> bool:
        return self.running.process.poll() is not None

    def fail_if_ended(self, when: str) -> None:
        if not self.ended():
            return
        report = self.running.report()
        if report["exit_code"] == 0 and not report["signal"] and not report["not_started"]:
            hint = "it has to stay in the foreground"
            raise ServerError(f"the server ended by itself {when} ({hint}){self.said()}")
        problem = describe_failure(report, read_tail(self.log), self.plan.ready_timeout)
        raise ServerError(f"the server failed {when}: {problem}")

    def wait_until_ready(self, environment: dict[str, str]) -> None:
        plan = self.plan
        end = time.monotonic() + plan.ready_timeout
        while True:
            self.fail_if_ended("before it was ready")
            left = end - time.monotonic()
            if plan.ready.holds(environment, left):
                # The port may have been somebody else's, and the server just ended for that.
                wait_for_any([self.running], PAUSE)
                self.fail_if_ended("before it was ready")
                return
            if left <= 0:
                what = f"not ready after {plan.ready_timeout:g} s ({plan.ready}"
                what += " refuses)" if plan.ready.port is not None else " fails)"
                raise ServerError(f"the server is {what}{self.said()}")
            wait_for_any([self.running], PAUSE)

    def idle(self) -> None:
        wait_for_any([self.running], self.plan.idle)
        self.fail_if_ended("while it was idle")

    def end(self, say: Callable[[str], None]) -> dict[str, Any]:
        """SIGTERM, after the grace SIGKILL; the launcher's report."""
        group = [process.pid for process in tree_of(self.running)][:1]
        for number, patience in ((signal.SIGTERM, self.plan.grace), (signal.SIGKILL, 5.0)):
            for leader in group:
                try:
                    os.killpg(leader, number)
                except ProcessLookupError:
                    pass
            wait_for_any([self.running], patience)
            if self.ended():
                break
            if number == signal.SIGTERM:
                say(f"the server goes on {self.plan.grace:g} s after SIGTERM: killed")
        report = self.running.report()
        if report["signal"] in CRASHES:
            problem = describe_failure(report, read_tail(self.log), 0)
            raise ServerError(f"the server failed when it was ended: {problem}")
        return report


class ServerTrial:
    """The runs of one comparison. The server's own row is the runner's; those of the kinds of
    requests are added to the result as the load's output names them."""

    def __init__(
        self, result: Result, plan: Plan, launcher: Launcher, say: Callable[[str], None]
    ) -> None:
        self.result = result
        self.plan = plan
        self.launcher = launcher
        self.server_cpus, self.load_cpus = divide_cpus(launcher.cpus)
        self.say = say
        self.understood: bool | None = None  # whether the load's output says its throughput

    def start(
        self, row: Row, allocator: Allocator, prefix: Sequence[str], preload: str, log: IO[bytes]
    ) -> Running:
        plan = self.plan
        # A limit for the case that nobody is left to end it.
        limit = plan.ready_timeout + self.launcher.timeout + plan.idle + plan.grace + 60
        return self.launcher.spawn(
            [*prefix, *plan.server],
            environment_of(row, allocator),
            preload,
            self.server_cpus,
            log,
            log,
            None,
            row.directory,
            limit,
            0 if prefix else self.launcher.warm_for(row),
        )

    def put_load(self, row: Row, session: Session) -> Load:
        """Runs the load to its end."""
        plain = Allocator("load", "", "")
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            load = self.launcher.spawn(
                self.plan.load,
                environment_of(row, plain),
                "",
                self.load_cpus,
                stdout,
                stderr,
                None,
                row.directory,
            )
            try:
                self.wait_for_load(load, session)
                if session.ended():
                    wait_for_any([load], LAST_WORDS)
                    session.fail_if_ended("under the load")
                report = load.report()
            finally:
                load.kill()
            said = read_tail(stderr)
            problem = describe_failure(
                report, said if said.strip() else read_tail(stdout), self.launcher.timeout
            )
            if problem is not None:
                wait_for_any([session.running], LAST_WORDS)  # the load may notice its end first
                session.fail_if_ended("under the load")
                raise ServerError(f"the load failed: {problem}")
            text = read_tail(stdout, MOST_OUTPUT)
        seconds = float(report["wall_s"])
        return Load(self.understand(text), failed_requests(text), seconds, answered_requests(text))

    def wait_for_load(self, load: Running, session: Session) -> None:
        wait_for_any([load, session.running], self.launcher.timeout + 60)

    def before_load(self, row: Row, session: Session) -> None:
        """What is done with a server that is ready."""

    def after_load(self, session: Session, load: Load) -> dict[str, float]:
        """More figures, taken when the load has just ended."""
        return {}

    def after_idle(self, session: Session) -> dict[str, float]:
        """And those after the idle time."""
        return {}

    def understand(self, text: str) -> Kinds:
        """All runs have to be understood, or none: a load that says no throughput is compared by
        its time."""
        expressions = self.plan.expressions
        kinds = parse_load(text, expressions)
        if kinds:
            self.understood = True
        elif expressions.throughput is not None:
            raise ServerError(
                f"--throughput matches nothing above 0 in the load's output: {last_lines(text)}"
            )
        elif self.understood:
            raise ServerError(f"the load's output has no throughput: {last_lines(text)}")
        elif self.understood is None:
            self.understood = False
            self.say(
                "the load's output says no throughput that is understood; its time is compared"
                f" (known: {KNOWN_TOOLS}; for others --throughput REGEX)"
            )
        return kinds

    def serve(
        self, row: Row, allocator: Allocator, prefix: Sequence[str], preload: str, log: IO[bytes]
    ) -> tuple[Load, dict[str, float], dict[str, Any]]:
        """One server from start to end; ServerError says what went wrong."""
        if self.plan.ready.taken():
            raise ServerError(
                f"{self.plan.ready} is in use before the server is started: something else, or"
                " what a server left behind, listens there"
            )
        running = None
        try:
            running = self.start(row, allocator, prefix, preload, log)
            session = Session(self.plan, running, log)
            session.wait_until_ready(environment_of(row, Allocator("ready", "", "")))
            self.before_load(row, session)
            load = self.put_load(row, session)
            more = self.after_load(session, load)
            memory = {"rss_after_load_kb": resident_kib(running)}
            session.fail_if_ended("under the load")
            if self.plan.idle > 0:
                session.idle()
                memory["rss_after_idle_kb"] = resident_kib(running)
                more |= self.after_idle(session)
            report = session.end(self.say)
        finally:
            if running is not None:
                running.kill()
            if not self.plan.ready.wait_until_free(FREE_PORT_PATIENCE):
                self.say(f"{self.plan.ready} still answers although the server was ended")
        figures = {name: float(kib) for name, kib in memory.items() if kib is not None}
        return load, {**more, **figures}, report

    def row_of(self, name: str, measure: Measure) -> RowResult:
        for row in self.result.rows:
            if row.name == name:
                return row
        own = self.result.rows[0]
        row = RowResult(name, own.group, "", measure, 1.0, list(self.plan.load), {})
        self.result.rows.append(row)
        return row

    def keep(self, run: Run, load: Load) -> None:
        """A run in the row of each kind, with the server's figures: it is the same process."""
        if load.failed:
            run = replace(run, figures={**run.figures, FAILED: float(load.failed)})
        if not load.kinds:
            self.row_of(LOAD, "wall").runs.append(replace(run, wall_s=load.seconds))
        for name, requests in load.kinds.items():
            latencies = {f"latency_{k}_ms": v for k, v in requests.latency_ms.items()}
            label = f"{name} (load)" if name in (self.result.rows[0].name, LOAD) else name
            self.row_of(label, "throughput").runs.append(
                replace(
                    run,
                    throughput_per_s=requests.throughput_per_s,
                    figures={**run.figures, **latencies},
                )
            )

    def run(self, row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        environment = environment_of(row, allocator)
        problem = preload_problem(self.plan.server[0], allocator.library, environment.get("PATH"))
        if problem is not None:
            return Run(allocator.name, round_, position, failure=f"not preloaded: {problem}")
        with tempfile.TemporaryFile() as log:
            try:
                served = self.serve(row, allocator, (), allocator.library, log)
            except ServerError as failure:
                return Run(allocator.name, round_, position, failure=str(failure))
        load, figures, report = served
        self.launcher.keep_peak(row, report)
        run = Run(
            allocator.name,
            round_,
            position,
            **{name: report[name] for name in REPORTED},
            figures=figures,
        )
        self.keep(run, load)
        return run

    def count(self, row: Row, allocator: Allocator) -> dict[str, int] | None:
        """System calls of the server by kind, in a session of its own that is not timed."""
        tool = strace()
        path = environment_of(row, allocator).get("PATH")
        if tool is None or preload_problem(self.plan.server[0], allocator.library, path):
            return None
        quiet = replace(self.plan, idle=0.0)
        trial = ServerTrial(self.result, quiet, self.launcher, lambda text: None)
        with (
            tempfile.NamedTemporaryFile(prefix="hakmem-lab-") as table,
            tempfile.TemporaryFile() as log,
        ):
            try:
                trial.serve(row, allocator, traced(tool, table.name, allocator), "", log)
            except ServerError as failure:
                self.say(f"{allocator.name} under strace: {failure}")
                return None
            return read_counts(table.name)


def server_row(plan: Plan, directory: Path | None, variables: dict[str, str]) -> Row:
    return Row(
        name="server",
        command=plan.server,
        measure="cpu",
        group="server",
        idea=f"under: {' '.join(plan.load)}",
        environment=variables,
        keeps_environment=True,
        directory=directory,
    )
