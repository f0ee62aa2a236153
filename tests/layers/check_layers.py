#!/usr/bin/env python3
"""Checks that the rooms of src/ depend downwards only, that os alone makes system calls, that no file is too long to be read,
and that the page on the architecture names each.

Usage: check_layers.py ROOT. Prints one line a finding, in the form of a compiler's; exit 1 if any.
"""
import re
import sys
from pathlib import Path

# What a room may include besides itself and the public headers. observe lies below policy, since a
# bad option is reported through it; what walks heaps to report on them belongs to api.
MAY_INCLUDE = {
    "os": set(),
    "observe": {"os"},
    "policy": {"os", "observe"},
    "superslab": {"os", "policy", "observe"},
    "slab": {"superslab", "os", "policy", "observe"},
    "large": {"superslab", "os", "policy", "observe"},
    "heap": {"slab", "large", "superslab", "os", "policy", "observe"},
    "release": {"heap", "slab", "large", "superslab", "os", "policy", "observe"},
    "stack": {"os"},
    "sample": {"stack", "heap", "slab", "superslab", "os", "policy", "observe"},
    "front": {"sample", "release", "heap", "slab", "large", "superslab", "os", "policy", "observe"},
    "copies": {"observe", "os"},  # a library of its own, which asks the allocator by hakmem.h alone
    "api": {"front", "sample", "release", "heap", "slab", "large", "superslab", "os", "policy", "observe"},
}

LINES_MOST = 400

# libc's wrappers of the calls an allocator makes. fork, signals and time belong here too: whoever
# needs them asks os.
SYSTEM_CALLS = """
    mmap munmap mremap mprotect madvise posix_madvise process_madvise mincore mlock munlock brk sbrk
    syscall write writev read open openat close fstat stat lseek ioctl prctl futex poll ppoll
    close_range
    nanosleep usleep sleep sched_yield clock_gettime clone fork pthread_create getrusage
    sysconf getauxval
""".split()

CALL = re.compile(r"(?<![\w.>])(" + "|".join(SYSTEM_CALLS) + r")\s*\(")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blank(match: "re.Match[str]") -> str:
    """Takes a comment or a string out but keeps the line count."""
    return " " + "\n" * match.group().count("\n")


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def check_file(path: Path, root: Path) -> list[str]:
    source = root / "src"
    where = path.relative_to(root)
    parts = path.relative_to(source).parts
    if len(parts) < 2 or parts[0] not in MAY_INCLUDE:
        return [f"{where}:1: lies in no room of src/ ({' '.join(MAY_INCLUDE)})"]
    room = parts[0]
    text = path.read_text(encoding="utf-8")
    # Comments first: a commented-out include is none. Strings stay, for the includes' names.
    without_comments = COMMENT_OR_STRING.sub(
        lambda m: blank(m) if m.group().startswith("/") else m.group(), text
    )
    findings = []
    lines = text.count("\n")
    if lines > LINES_MOST:
        findings.append(f"{where}:{LINES_MOST + 1}: has {lines} lines, {LINES_MOST} are the most")

    for match in INCLUDE.finditer(without_comments):
        name = match.group(1)
        line = line_of(without_comments, match.start(1))
        candidates = [path.parent / name, source / name, root / "include" / name]
        target = next((c.resolve() for c in candidates if c.is_file()), None)
        if target is None:
            findings.append(f'{where}:{line}: "{name}" is not in src/ or include/')
        elif target.is_relative_to((root / "include").resolve()):
            continue
        elif not target.is_relative_to(source.resolve()):
            findings.append(f'{where}:{line}: "{name}" lies outside src/ and include/')
        else:
            other = target.relative_to(source.resolve()).parts[0]
            if other != room and other not in MAY_INCLUDE[room]:
                findings.append(f'{where}:{line}: {room} must not include {other} ("{name}")')

    if room != "os":
        code = COMMENT_OR_STRING.sub(blank, text)
        for match in CALL.finditer(code):
            line = line_of(code, match.start())
            findings.append(f"{where}:{line}: {match.group(1)}() belongs in src/os")
    return findings


def check_tree(root: Path) -> tuple[int, list[str]]:
    root = root.resolve()
    files = sorted(p for p in (root / "src").rglob("*") if p.suffix in {".c", ".h", ".def"})
    findings = [finding for path in files for finding in check_file(path, root)]
    return len(files), findings + check_page(files, root)


def check_page(files: list[Path], root: Path) -> list[str]:
    """The table of rooms names each source."""
    page = root / "docs" / "architecture.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else None
    return [
        f"docs/architecture.md: {path.relative_to(root)} is not in the table of rooms"
        for path in files
        if text is not None and path.suffix == ".c" and f"`{path.name}`" not in text
    ]


def report(count: int, findings: list[str], nothing: str) -> int:
    """Prints what was found in `count` files; the exit code."""
    for finding in findings:
        print(finding)
    if count == 0:
        print(nothing)
        return 1
    print(f"{count} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(report(*check_tree(Path(sys.argv[1])), "no sources found"))
