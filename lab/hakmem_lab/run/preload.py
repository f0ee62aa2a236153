"""Does a preload take effect? Asked of the dynamic linker, without running the program.

A preload can be ignored in silence: by a static program, by a setuid one, by another libc. Then
two columns of a table would be the same allocator.
"""

import os
import re
import shutil
import stat
import struct
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PT_INTERP = 3


def is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def interpreter(path: Path) -> str | None:
    """The dynamic linker that a 64-bit ELF file asks for; None for a static one."""
    with path.open("rb") as stream:
        header = stream.read(64)
        if len(header) < 64 or header[4] != 2:
            return None
        offset, size, count = (
            struct.unpack_from("<Q", header, 32)[0],
            *struct.unpack_from("<HH", header, 54),
        )
        for index in range(count):
            stream.seek(offset + index * size)
            entry = stream.read(56)
            if len(entry) == 56 and struct.unpack_from("<I", entry)[0] == PT_INTERP:
                stream.seek(struct.unpack_from("<Q", entry, 8)[0])
                text = stream.read(struct.unpack_from("<Q", entry, 32)[0])
                return text.rstrip(b"\0").decode(errors="replace")
    return None


def program_behind(path: Path, depth: int = 4) -> Path:
    """The ELF file that runs when `path` is executed: itself, or a script's interpreter."""
    with path.open("rb") as stream:
        start = stream.read(256)
    if start[:2] != b"#!" or depth == 0:
        return path
    words = start[2:].split(b"\n")[0].split()
    return program_behind(Path(words[0].decode(errors="replace")), depth - 1) if words else path


def script_behind(program: str, search: str | None = None) -> Path | None:
    """The script that `program` names; None for a program proper, and for what cannot be read."""
    found = shutil.which(program, path=search)
    try:
        return Path(found) if found and program_behind(Path(found)) != Path(found) else None
    except OSError:
        return None


def ask_linker(linker: str, path: Path, library: str) -> str:
    """What the dynamic linker would load and bind. Run as a program, it lists that; the path is an
    argument of it, so that the program itself is never started. It has to be absolute: a bare name
    is a library's to the linker."""
    preload = {"LD_PRELOAD": library} if library else {}
    done = subprocess.run(
        [linker, str(path)],
        env={
            "LD_TRACE_LOADED_OBJECTS": "1",
            "LD_WARN": "1",
            "LD_BIND_NOW": "1",
            "LD_DEBUG": "bindings",
            "PATH": os.environ.get("PATH", ""),
            **preload,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stdout


def is_empty(library: str) -> bool:
    """Has it no symbol for others to bind to?"""
    if shutil.which("nm") is None:
        return False
    done = subprocess.run(
        ["nm", "-D", "--defined-only", library],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0 and done.stdout.strip() == ""


@cache
def preload_problem(program: str, library: str, search: str | None = None) -> str | None:
    """Why preloading `library` into `program` (a path, or a name looked up in `search` or PATH) has
    no effect; None when the library's malloc is bound."""
    if not library:
        return None
    found = shutil.which(program, path=search)
    if found is None:
        return None  # starting it will say so
    try:
        path = program_behind(Path(found)).absolute()
        if not is_elf(path):
            return None
        if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            return f"{path} is setuid: preloading is ignored"
        linker = interpreter(path)
    except OSError:
        return None
    if linker is None:
        return f"{path} is statically linked: nothing can be preloaded"
    if "ld-linux" not in linker:
        return f"{path} is linked by {linker}: a library for glibc cannot be preloaded"
    said = ask_linker(linker, path, library)
    bound = rf"to {re.escape(library)} \[\d+\]: normal symbol `(malloc|calloc|realloc|free)'"
    if re.search(bound, said):
        return None
    loaded = re.search(rf"^\s*{re.escape(library)} \(0x", said, re.MULTILINE)
    if loaded and is_empty(library):
        return None  # loaded, as it shall be: what loading any library costs is measured so
    complaint = re.search(r"ERROR: ld\.so: .*", said)
    return complaint.group() if complaint else f"no allocation function is bound to {library}"


@dataclass(frozen=True)
class OwnMalloc:
    """A library with a malloc that a program is linked with, and the libc it loads too."""

    library: str
    libc: str


@cache
def own_malloc(program: str, search: str | None = None) -> OwnMalloc | None:
    """The malloc that `program` brings along; None when it uses libc's, or cannot be asked."""
    found = shutil.which(program, path=search)
    try:
        path = program_behind(Path(found)).absolute() if found else None
        linker = interpreter(path) if path is not None and is_elf(path) else None
    except OSError:
        return None
    if path is None or linker is None or "ld-linux" not in linker:
        return None
    said = ask_linker(linker, path, "")
    # Its own calls; ld.so and what it loads for itself come first.
    bound = re.findall(r"to (\S+) \[\d+\]: normal symbol `malloc'", said)
    libc = re.search(r"libc\.so\.6 => (\S+)", said)
    if not bound or libc is None or bound[-1] in (libc.group(1), str(path), linker):
        return None
    return OwnMalloc(bound[-1], libc.group(1))
