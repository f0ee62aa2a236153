"""One run of one row under one allocator.

The command is started by build/lab/launch (launch.c says why), which preloads the library into the
command alone, pins it, and reports the kernel's figures of it. The environment is cleaned: PATH,
HOME, LANG=C, TERM, and what the row and the allocator set; a user's own program keeps its own.

Peak memory is the kernel's ru_maxrss: of the process, or of the largest one of its tree. The kernel
counts pages in batches of 32, so that it can be too low by 128 KiB for each CPU that the process
ran on and each kind of page (anonymous, file): the same for every allocator.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any, ClassVar

import psutil

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.shape import Amount, Count, Number, Positive, Record
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.rows import Row

DEFAULT_TIMEOUT = 120.0  # seconds
WARM_MIB = 1024
TAIL = 64 * 1024  # bytes at the end of an output that are looked at
STDERR_LINES = 3  # last ones, kept of a run that failed
# Fields of a Run that are the launcher's, under the same names.
REPORTED = (
    *("wall_s", "user_s", "system_s", "peak_rss_kb", "minor_faults", "major_faults"),
    *("voluntary_switches", "involuntary_switches"),
)
# Variables that choose an allocator or set one up: they would work on some of those compared.
MEMORY_VARIABLES = re.compile(
    r"LD_PRELOAD|LD_AUDIT|HAKMEM_.*|MALLOC_.*|_?(JE_|RJEM_)MALLOC_.*|JEMALLOC_.*|MIMALLOC_.*"
    r"|TCMALLOC_.*|SNMALLOC_.*|RPMALLOC_.*|HEAPPROFILE|HEAPCHECK"
)
LOADER_COMPLAINT = re.compile(r"ERROR: ld\.so: object .* from LD_PRELOAD cannot be preloaded.*")


@dataclass(frozen=True)
class Run(Record):
    """What one run used. Times in seconds, memory in KiB; cost is what the row compares: seconds,
    or nanoseconds an operation. With a failure the figures are of the part that ran."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"figures"})

    allocator: str
    round: Number
    position: Number  # in the round
    wall_s: Amount = 0.0
    user_s: Amount = 0.0
    system_s: Amount = 0.0
    peak_rss_kb: Count = 0
    minor_faults: Count = 0
    major_faults: Count = 0
    voluntary_switches: Count = 0
    involuntary_switches: Count = 0
    throughput_per_s: Positive | None = None
    output: str | None = None  # SHA-256 of the output, for rows that ask for it
    failure: str | None = None
    # What only some kinds of runs have, by a name that ends in its unit: latency_p99_ms.
    figures: dict[str, Amount] = field(default_factory=dict)

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s

    def cost(self, measure: str) -> float | None:
        """Seconds, or nanoseconds an operation; None for a run that failed or was too short to
        be timed."""
        if self.failure is not None:
            return None
        if measure == "throughput":
            return 1e9 / self.throughput_per_s if self.throughput_per_s else None
        return (self.cpu_s if measure == "cpu" else self.wall_s) or None


def clean_environment(*additions: dict[str, str]) -> dict[str, str]:
    kept = ("PATH", "HOME", "TERM")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["LANG"] = "C"
    for addition in additions:
        environment.update(addition)
    return environment


def users_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What a user's own program gets of `environment`, and the names of what was left out or cut:
    the variables that concern memory allocators."""
    kept: dict[str, str] = {}
    left_out: list[str] = []
    for name, value in environment.items():
        if name.startswith("HAKMEM_LAB_"):  # for the lab itself
            continue
        if MEMORY_VARIABLES.fullmatch(name):
            left_out.append(name)
            continue
        kept[name] = value
        if name == "GLIBC_TUNABLES":
            parts = [part for part in value.split(":") if not part.startswith("glibc.malloc.")]
            kept[name] = ":".join(parts)
            if kept[name] != value:
                left_out.append(name)
    return kept, sorted(left_out)


def environment_of(row: Row, allocator: Allocator) -> dict[str, str]:
    """The variables of a run, without the preload."""
    if not row.keeps_environment:
        return clean_environment(row.environment, allocator.environment)
    kept, _ = users_environment(os.environ)
    return {**kept, **row.environment, **allocator.environment}


def read_tail(stream: IO[bytes], most: int = TAIL) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - most))
    return stream.read().decode(errors="replace")


def parse_throughput(text: str, pattern: str, scale: float = 1.0) -> float | None:
    """Operations a second from the last match of `pattern`; None when there is none above 0."""
    found = re.findall(pattern, text, re.MULTILINE)
    try:
        value = float(found[-1]) * scale if found else 0.0
    except ValueError:
        return None
    return value if value > 0 else None


def checksum(stdout: IO[bytes], work: Path | None) -> str:
    """SHA-256 over the output and the files left in `work` (names and contents)."""
    digest = hashlib.sha256()
    stdout.seek(0)
    while block := stdout.read(1 << 20):
        digest.update(block)
    if work is not None:
        for path in sorted(p for p in work.rglob("*") if p.is_file() and not p.is_symlink()):
            digest.update(b"\0" + str(path.relative_to(work)).encode() + b"\0")
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def last_lines(text: str) -> str:
    """The last lines of what a command said, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-STDERR_LINES:])


def describe_failure(
    report: dict[str, Any], stderr: str, timeout: float, accepted: Sequence[int] = (0,)
) -> str | None:
    """What went wrong, with the last lines of stderr, in one line; None when nothing did."""
    if report["not_started"]:
        return str(report["not_started"])
    if report["timed_out"]:
        problem = f"timed out after {timeout:g} s"
    elif report["signal"]:
        try:
            problem = signal.Signals(report["signal"]).name
        except ValueError:
            problem = f"signal {report['signal']}"
    elif report["exit_code"] not in accepted:
        problem = f"exit code {report['exit_code']}"
        if tuple(accepted) != (0,):
            problem += f", not {' or '.join(map(str, accepted))}"
    else:
        complaint = LOADER_COMPLAINT.search(stderr)
        return complaint.group() if complaint else None
    said = last_lines(stderr)
    return f"{problem}: {said}" if said else problem


@contextmanager
def working_directory(row: Row) -> Iterator[Path | None]:
    """Where the row runs: its own directory is made anew, and removed behind the run."""
    if row.work is None:
        yield row.directory
        return
    shutil.rmtree(row.work, ignore_errors=True)
    row.work.mkdir(parents=True)
    try:
        yield row.work
    finally:
        shutil.rmtree(row.work, ignore_errors=True)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Ctrl-C takes effect behind the block: who started a process has to know it, to end it."""
    came: list[tuple[int, FrameType | None]] = []
    before = {}
    if threading.current_thread() is threading.main_thread():  # Python's rule for handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for restored, handler in before.items():
            signal.signal(restored, handler)
    for which, frame in came:
        before[signal.Signals(which)](which, frame)


class Running:
    """A command under way, behind its launcher."""

    def __init__(
        self, launcher: Path, process: "subprocess.Popen[bytes]", reading: int, stderr: IO[bytes]
    ) -> None:
        self.launcher = launcher
        self.process = process
        self.reading = reading
        self.stderr = stderr
        self.reported: dict[str, Any] | None = None

    def report(self) -> dict[str, Any]:
        """Waits for the end; the launcher's report (fields: launch.c)."""
        if self.reported is not None:
            return self.reported
        try:
            with open(self.reading, encoding="utf-8", errors="replace") as stream:
                self.reading = -1
                text = stream.read()
            self.process.wait()
        except BaseException:  # Ctrl-C too
            self.kill()
            raise
        try:
            report = json.loads(text)
        except ValueError:
            self.stderr.seek(0)
            said = self.stderr.read(300).decode(errors="replace").strip()
            problem = f"no report (exit {self.process.returncode}): {said}"
            raise LabError(f"{self.launcher}: {problem}") from None
        assert isinstance(report, dict)
        self.reported = report
        return report

    def kill(self) -> None:
        """Ends it at once if it still runs: the launcher takes the command along."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1


def warm_mib() -> int:
    """How much memory may be touched before a run so that it is there: WARM_MIB, or what the
    environment says, and not more than this machine has to spare."""
    text = os.environ.get("HAKMEM_LAB_WARM_MIB", str(WARM_MIB))
    if not (text.isascii() and text.isdigit()):
        raise LabError(f"HAKMEM_LAB_WARM_MIB={text}: accepted is a whole number of MiB, 0 for none")
    available: int = psutil.virtual_memory().available
    return min(int(text), available // 4 >> 20)


class Launcher:
    """Starts commands. `cpus` are those that rows may be pinned to; before a timed run memory is
    touched (launch.c): twice what the row used so far, at most `warm` MiB."""

    def __init__(
        self,
        program: Path,
        cpus: Sequence[int],
        timeout: float = DEFAULT_TIMEOUT,
        warm: int = 0,
    ) -> None:
        if not program.is_file():
            raise LabError(f"{program} is missing: run scripts/setup_lab.sh")
        self.program = program
        self.cpus = list(cpus)
        self.timeout = timeout
        self.warm = warm
        self.peaks: dict[str, int] = {}  # KiB, the largest of each row

    def start(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        preload: str,
        cpus: Sequence[int],
        stdout: IO[bytes],
        stderr: IO[bytes],
        stdin: Path | None = None,
        directory: Path | None = None,
        warm: int = 0,
    ) -> dict[str, Any]:
        """Runs `command` to its end and returns the launcher's report (fields: launch.c)."""
        return self.spawn(
            command, environment, preload, cpus, stdout, stderr, stdin, directory, warm=warm
        ).report()

    def spawn(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        preload: str,
        cpus: Sequence[int],
        stdout: IO[bytes],
        stderr: IO[bytes],
        stdin: Path | None = None,
        directory: Path | None = None,
        timeout: float | None = None,
        warm: int = 0,
    ) -> Running:
        """Starts `command`; `timeout`: instead of the launcher's own; `warm`: MiB."""
        running = None
        reading, writing = os.pipe()
        limit = self.timeout if timeout is None else timeout
        words = [str(self.program), "--report", str(writing), "--timeout", f"{limit:.9g}"]
        words += ["--cpus", ",".join(map(str, cpus))]
        words += ["--preload", preload] if preload else []
        words += ["--warm", str(warm)] if warm else []
        try:
            with interrupts_later(), open(stdin or os.devnull, "rb") as source:
                process = subprocess.Popen(
                    [*words, "--", *command],
                    env=environment,
                    stdin=source,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=directory,
                    pass_fds=[writing],
                )
                running = Running(self.program, process, reading, stderr)
        except BaseException:
            if running is not None:
                running.kill()
            else:
                os.close(reading)
            raise
        finally:
            os.close(writing)
        return running

    def warm_for(self, row: Row) -> int:
        """MiB to be touched before the next run of the row."""
        peak = self.peaks.get(row.name)
        return self.warm if peak is None else min(self.warm, peak * 2 // 1024 + 1)

    def keep_peak(self, row: Row, report: dict[str, Any]) -> None:
        self.peaks[row.name] = max(self.peaks.get(row.name, 0), report["peak_rss_kb"])

    def run(self, row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        """One timed run."""
        environment = environment_of(row, allocator)
        problem = preload_problem(row.command[0], allocator.library, environment.get("PATH"))
        if problem is not None:
            return Run(allocator.name, round_, position, failure=f"not preloaded: {problem}")
        with (
            working_directory(row) as directory,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            report = self.start(
                row.command,
                environment,
                allocator.library,
                row.pinned_to(self.cpus),
                stdout,
                stderr,
                row.stdin,
                directory,
                self.warm_for(row),
            )
            self.keep_peak(row, report)
            failure = describe_failure(report, read_tail(stderr), self.timeout, row.accepted_status)
            throughput = None
            if failure is None and row.measure == "throughput":
                throughput = parse_throughput(read_tail(stdout), row.pattern, row.scale)
                if throughput is None:
                    failure = "its output has no line on throughput"
            output = checksum(stdout, row.work) if row.checksum and failure is None else None
        return Run(
            allocator.name,
            round_,
            position,
            **{name: report[name] for name in REPORTED},
            throughput_per_s=throughput,
            output=output,
            failure=failure,
        )
