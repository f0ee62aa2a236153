"""What is resident in a running process, by kinds of mappings, as /proc/PID/smaps has it."""

import os
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

HEAD = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)$")
FIELD = re.compile(r"^(Rss|Pss): +(\d+) kB$")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
PT_LOAD, PF_W = 1, 2
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
# Kinds. `heap`: every anonymous mapping that is neither a stack nor data of a file.
KINDS = ("heap", "library", "program", "stack")


@dataclass
class Area:
    """A mapping; memory in KiB. `pss` counts a page that n processes share as 1/n."""

    start: int
    end: int
    rights: str
    path: str
    rss: int = 0
    pss: int = 0


def parse_areas(text: str) -> list[Area]:
    areas: list[Area] = []
    for line in text.splitlines():
        if head := HEAD.match(line):
            start, end = (int(word, 16) for word in head.group(1, 2))
            areas.append(Area(start, end, head[3], head[4].strip()))
        elif areas and (field := FIELD.match(line)):
            setattr(areas[-1], field[1].lower(), int(field[2]))
    return areas


def read_areas(pid: int) -> list[Area]:
    """Empty for a process that has ended."""
    try:
        return parse_areas(Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


@cache
def unwritten_kib(path: str) -> int:
    """Data of an ELF file that begin as zeros (.bss), as far as they have pages of their own: the
    dynamic linker maps them behind its last writable mapping."""
    try:
        with Path(path).open("rb") as stream:
            header = stream.read(64)
            if len(header) < 64 or header[:5] != b"\x7fELF\x02":
                return 0
            (offset,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            stream.seek(offset)
            table = stream.read(size * count)
    except OSError:
        return 0
    most = 0
    for at in range(0, len(table) - PROGRAM_HEADER.size + 1, size or 1):
        kind, flags, _, address, _, in_file, in_memory, _ = PROGRAM_HEADER.unpack_from(table, at)
        if kind == PT_LOAD and flags & PF_W:
            most = max(most, pages(address + in_memory) - pages(address + in_file))
    return most * PAGE_KIB


def pages(address: int) -> int:
    """Pages up to the address."""
    return -(-address // (PAGE_KIB * 1024))


def kind_of(area: Area, library: str) -> str:
    if area.path.startswith("/"):
        return "library" if area.path == library else "program"
    if area.path.startswith("[stack"):
        return "stack"
    return "program" if area.path.startswith("[v") else "heap"  # vdso, vvar, vsyscall


def sums(areas: Sequence[Area], library: str, shared: bool) -> dict[str, float]:
    """KiB of each kind; `library` is the allocator's file, empty for libc's; `shared`: each page
    is divided among those that have it."""
    own = os.path.realpath(library) if library else ""
    found = dict.fromkeys(KINDS, 0.0)
    before: Area | None = None
    for area in areas:
        kind, kib = kind_of(area, own), area.pss if shared else area.rss
        behind = before is not None and before.end == area.start and before.path.startswith("/")
        if before is not None and behind and not area.path and before.rights.startswith("rw"):
            # The allocator's memory may lie right behind it, in one mapping.
            data = min(kib, unwritten_kib(before.path))
            found[kind_of(before, own)] += data
            kib -= data
        found[kind] += kib
        before = area
    return found


def resident_kib(pid: int) -> int:
    """0 for a process that has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_KIB
    except (OSError, IndexError, ValueError):
        return 0


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, without itself."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children: list[int] = []
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                file = Path(f"/proc/{parent}/task/{task}/children")
                children += map(int, file.read_text(encoding="ascii").split())
        except FileNotFoundError:
            if parent == pid and Path(f"/proc/{pid}").exists():  # a kernel without such files
                return below_by_psutil(pid)
            continue
        except OSError:
            continue
        found += children
        waiting += children
    return found


def below_by_psutil(pid: int) -> list[int]:
    try:
        return [process.pid for process in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []
