"""System calls by kind, from one extra run under strace that is not timed: tracing slows a program
down several times over, so that its times would mean nothing."""

import re
import shutil
import tempfile
from pathlib import Path

from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher, describe_failure, environment_of, read_tail
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.rows import Row

# % time, seconds, usecs/call, calls, errors (left blank when there are none), name
LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+([a-z_]\w*)\s*$")


def parse_strace(text: str) -> dict[str, int]:
    """Calls by name from the table of `strace -c`; empty when there is no table in `text`."""
    calls: dict[str, int] = {}
    for line in text.splitlines():
        found = LINE.match(line)
        if found and found.group(2) != "total":
            calls[found.group(2)] = int(found.group(1))
    return calls


def strace() -> str | None:
    return shutil.which("strace")


def traced(tool: str, table: str, allocator: Allocator) -> list[str]:
    """The words to put before a command: strace writes its table to the file `table`."""
    preload = ["-E", f"LD_PRELOAD={allocator.library}"] if allocator.library else []
    return [tool, "-f", "-c", "-o", table, *preload, "--"]


def read_counts(table: str) -> dict[str, int] | None:
    return parse_strace(Path(table).read_text(encoding="utf-8", errors="replace")) or None


def count_system_calls(launcher: Launcher, row: Row, allocator: Allocator) -> dict[str, int] | None:
    """Calls by kind, of all threads and children; None when the run or the tracing failed."""
    tool = strace()
    search = environment_of(row, allocator).get("PATH")
    if tool is None or preload_problem(row.command[0], allocator.library, search):
        return None
    with (
        tempfile.NamedTemporaryFile(prefix="hakmem-lab-") as table,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        command = traced(tool, table.name, allocator)
        if row.work is not None:
            shutil.rmtree(row.work, ignore_errors=True)
            row.work.mkdir(parents=True)
        report = launcher.start(
            [*command, *row.command],
            environment_of(row, allocator),
            "",
            row.pinned_to(launcher.cpus),
            stdout,
            stderr,
            row.stdin,
            row.work or row.directory,
        )
        if row.work is not None:
            shutil.rmtree(row.work, ignore_errors=True)
        if describe_failure(report, read_tail(stderr), launcher.timeout, row.accepted_status):
            return None
        return read_counts(table.name)
