"""What a process on an allocator consists of at one moment: figures of a Run, in KiB.

Of every allocator the kinds of mappings are known. Of hakmem `hakmem stats` knows what each page of
its own is for; what remains of the anonymous memory is the program's own.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hakmem_lab.run import memory_map
from hakmem_lab.run.allocators import Allocator, is_foreign, is_hakmem

# Of hakmem, in the order of tables.
OURS = (
    *("live_kb", "tails_kb", "bins_kb", "transit_kb", "spans_kb", "slices_kb", "warm_kb"),
    *("free_kb", "unused_kb", "tables_kb"),
)
POLLED = "polled_kb"
TOOL_SECONDS = 60.0
STOP_SECONDS = 5.0  # until a process that was stopped counts as one that does not stop

Figures = dict[str, float]


class LookError(Exception):
    """A process that could not be looked at; the text says why."""


def ask_tool(tool: Path, pid: int) -> dict[str, Any]:
    """What `hakmem stats` says of the process."""
    command = [str(tool), "stats", "--format=json", str(pid)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LookError(f"hakmem stats: {error}") from None
    if done.returncode != 0:
        raise LookError(done.stderr.strip() or f"hakmem stats: exit code {done.returncode}")
    try:
        said = json.loads(done.stdout)
    except ValueError:
        raise LookError("hakmem stats: its output is no JSON") from None
    assert isinstance(said, dict)
    return said


def split_ours(said: Mapping[str, Any], library_kib: float) -> Figures:
    """The parts of `hakmem stats`, KiB; the library's own pages, `library_kib`, are left out."""
    equation, parts = said["equation"], said["parts"]
    small = [entry["memory"] for entry in said["classes"]]
    in_slabs = sum(entry["caches"] for entry in small)
    kept = {
        name: sum(thread[name] for thread in said["threads"])
        for name in ("bins", "outgoing", "inbox")
    }
    whole = sum(kept.values())
    # Blocks in bins and in batches are counted, not looked at: they are as resident as each other.
    transit = in_slabs * (kept["outgoing"] + kept["inbox"]) / whole if whole else 0.0
    bytes_of = {
        "live_kb": equation["live"],
        "tails_kb": equation["slack"],
        "transit_kb": transit,
        "spans_kb": parts["spans"],
        "slices_kb": parts["free_slices"],
        "warm_kb": parts["warm_pool"],
        "unused_kb": parts["unused"],
        "free_kb": equation["fragmentation"] - parts["unused"],
        "tables_kb": equation["metadata"] - library_kib * 1024,
    }
    caches = ("transit_kb", "spans_kb", "slices_kb", "warm_kb")
    bytes_of["bins_kb"] = equation["caches"] - sum(bytes_of[name] for name in caches)
    return {name: max(0.0, bytes_of[name] / 1024) for name in OURS}


def look(pids: Sequence[int], allocator: Allocator, tool: Path) -> Figures:
    """The figures of all these processes together. LookError where none of them can be read."""
    found: Figures = {}
    problem = ""
    shared = len(pids) > 1
    for pid in pids:
        try:
            of_one = look_at_one(pid, allocator, tool, shared)
        except LookError as error:
            problem = str(error)
            continue
        for name, value in of_one.items():
            found[name] = found.get(name, 0.0) + value
    if not found:
        raise LookError(problem or "it had ended")
    return found


def is_known(allocator: Allocator) -> bool:
    """Whether `hakmem stats` can tell what it is made of: also a build under another name."""
    return is_hakmem(allocator) or bool(allocator.library and not is_foreign(allocator))


def look_at_one(pid: int, allocator: Allocator, tool: Path, shared: bool) -> Figures:
    said = ask_tool(tool, pid) if is_known(allocator) else None
    areas = memory_map.read_areas(pid)
    if not areas:
        raise LookError("it had ended")
    # libc is the program's on every allocator, also where it is preloaded to be glibc.
    library = "" if Path(allocator.library).name.startswith("libc.so") else allocator.library
    kinds = memory_map.sums(areas, library, shared)
    figures = {f"{name}_kb": kinds[name] for name in ("library", "program", "stack")}
    figures[POLLED] = sum(kinds.values())
    heap = kinds["heap"]
    if said is None:
        return {**figures, "heap_kb": heap}
    alone = memory_map.sums(areas, library, False)
    # Of pages that a fork left to several processes each has its share.
    share = heap / alone["heap"] if alone["heap"] else 1.0
    ours = {name: v * share for name, v in split_ours(said, alone["library"]).items()}
    return {**figures, **ours, "own_kb": max(0.0, heap - sum(ours.values()))}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process stands still meanwhile, so that all figures are of one moment."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        raise LookError("it had ended") from None
    try:
        end = time.monotonic() + STOP_SECONDS
        while not stands_still(pid) and time.monotonic() < end:
            time.sleep(0.0005)
        yield
    finally:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def stands_still(pid: int) -> bool:
    """All threads of it have stopped, or it is gone."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/stat").read_text(errors="replace")
            if text.rpartition(")")[2].split()[0] not in "TtZX":
                return False
    except OSError:
        pass
    return True
