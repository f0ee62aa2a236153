"""A machine of its own for a program: Linux under qemu, with as many memory nodes as wanted.

The initial file system is all it has: an init (guest.c), the programs and the libraries that they need. Nothing of it is kept.
"""
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Emulated (TCG) unless HAKMEM_TEST_ACCEL=kvm asks for more speed: inside a virtual machine /dev/kvm may be there and hang.
ACCELERATOR = os.environ.get("HAKMEM_TEST_ACCEL", "tcg")
# Without cmpxchg16b, of which qemu 7.2 gets the flags wrong: Linux 6.12 panics.
PROCESSOR = os.environ.get("HAKMEM_TEST_PROCESSOR", "qemu64,-cx16")
SECONDS = 560


class Unavailable(Exception):
    """Why no machine can be started here."""


def readable(folder: Path) -> Path | None:
    images = [path for path in folder.glob("vmlinuz*") if os.access(path, os.R_OK)]
    return max(images, default=None)


def find_kernel(build: Path) -> Path:
    """HAKMEM_TEST_KERNEL, or one that is installed, or one that is fetched into the build folder."""
    if named := os.environ.get("HAKMEM_TEST_KERNEL"):
        return Path(named)
    folder = build / "kernel"
    found = readable(Path("/boot")) or readable(folder)
    if found is None:
        done = subprocess.run([HERE / "fetch_kernel.sh", folder], capture_output=True, text=True, check=False)
        found = readable(folder)
        if found is None:
            raise Unavailable(f"no Linux image to start, and none was fetched: {done.stdout} {done.stderr}")
    return found


def find_emulator() -> str:
    if platform.machine() != "x86_64":
        raise Unavailable("the machine that is emulated is an x86-64")
    found = shutil.which("qemu-system-x86_64")
    if found is None:
        raise Unavailable("not installed: qemu-system-x86_64 (package qemu-system-x86)")
    return found


# --- the initial file system ------------------------------------------------------------------------------------


def entry(name: str, mode: int, content: bytes = b"") -> bytes:
    """One file in the format that cpio calls newc."""
    encoded = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    head += b"\0" * (-len(head) % 4)
    return head + content + b"\0" * (-len(content) % 4)


def libraries_of(program: Path) -> dict[str, Path]:
    """What the loader would load for it, and the loader, by the path under which they are looked for."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        match = re.search(r"(?:=> )?(/\S+) \(0x", line)
        if match:
            found[match.group(1)] = Path(match.group(1)).resolve()
    return found


def archive(init: Path, files: Iterable[Path], commands: Iterable[str]) -> bytes:
    """`files` come to the root folder, under their own names."""
    content = {"init": init.read_bytes(), "commands": "".join(f"{c}\n" for c in commands).encode()}
    for path in files:
        content[path.name] = path.read_bytes()
        for name, library in libraries_of(path).items():
            content.setdefault(name.lstrip("/"), library.read_bytes())
    folders = {"proc", "sys", "dev", "tmp"}
    for name in content:
        folders |= {str(p) for p in Path(name).parents if str(p) != "."}
    data = b"".join(entry(name, 0o040755) for name in sorted(folders))
    data += entry("dev/console", 0o020600)  # of no device: the kernel says so once, and goes on
    data += b"".join(entry(name, 0o100755, content[name]) for name in sorted(content))
    return gzip.compress(data + entry("TRAILER!!!", 0), 1)


# --- the machine -------------------------------------------------------------------------------------------------


def options(nodes: int, processors: int, mebibytes: int) -> list[str]:
    """For `processors` and `mebibytes` on each node."""
    made = ["-smp", str(nodes * processors), "-m", f"{nodes * mebibytes}M"]
    for node in range(nodes):
        first = node * processors
        made += ["-object", f"memory-backend-ram,id=memory{node},size={mebibytes}M"]
        made += ["-numa", f"node,nodeid={node},memdev=memory{node},cpus={first}-{first + processors - 1}"]
    for a in range(nodes):
        made += [x for b in range(nodes) if a < b for x in ("-numa", f"dist,src={a},dst={b},val=20")]
    return made


def start(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        sys.stdout.write((late.stdout or b"").decode(errors="replace"))
        raise
    return (done.stdout + done.stderr).decode(errors="replace").replace("\r", "")


def run(build: Path, init: Path, files: Iterable[Path], commands: Iterable[str], nodes: int = 2,
        processors: int = 2, mebibytes: int = 512) -> str:  # fmt: skip
    """What the machine printed. Raises Unavailable where none can be started."""
    emulator, kernel = find_emulator(), find_kernel(build)
    image = build / "initial.cpio.gz"
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(archive(init, files, commands))
    command = [emulator, "-machine", "pc", "-accel", ACCELERATOR, "-cpu", PROCESSOR, *options(nodes, processors, mebibytes),
               "-kernel", str(kernel), "-initrd", str(image), "-nographic", "-no-reboot", "-nodefaults",
               "-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1 numa_balancing=disable"]  # fmt: skip
    said = start(command)
    if "[guest] end" not in said:
        raise RuntimeError(f"the machine ended too early:\n{said}")
    return said
