"""Records what a program allocates, by `hakmem trace record`, with the processes that it starts."""

import tempfile
from pathlib import Path

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import (
    Launcher,
    describe_failure,
    environment_of,
    read_tail,
    working_directory,
)
from hakmem_lab.run.rows import Row

MOST_TRACES = 4  # of one command that are read: those of the processes with most calls


def record(launcher: Launcher, tool: Path, row: Row, directory: Path) -> list[Path]:
    """Traces in `directory`, the largest file first. LabError where there are none."""
    file = directory / "app.htrace"
    words = [str(tool), "trace", "record", "--follow", "--force", "-o", str(file), "--"]
    with (
        working_directory(row) as here,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        report = launcher.start(
            [*words, *row.command],
            environment_of(row, Allocator("trace", "", "")),
            "",
            row.pinned_to(launcher.cpus),
            stdout,
            stderr,
            row.stdin,
            here,
        )
        said = read_tail(stderr)
        failure = describe_failure(report, said, launcher.timeout, row.accepted_status)
    files = sorted(directory.glob("app*.htrace"), key=lambda found: -found.stat().st_size)
    if failure is not None or not files:
        raise LabError(f"{row.name} could not be recorded: {failure or 'there is no trace'}")
    return files[:MOST_TRACES]
