#!/usr/bin/env python3
"""Builds a copy of the tree in another place and compares what it installs, byte by byte, with what the build that is here does.

Usage: reproducible.py SOURCE_DIR BUILD_DIR WORK_DIR, with CC, CXX and CMAKE in the environment.

The build of the copy differs from the one that is here in all that must not matter: the folder's name and its length, where the
build lies in it, the order in which files were made, their times and permissions, the language, the time zone, the
date, how much is compiled at once, and whether the tests are built with it. What may matter and is the same: compiler, kind of build
and packages; and the date (SOURCE_DATE_EPOCH) where manual pages are made, which name it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

SOURCE, BUILT, WORK = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
sys.path.insert(0, str(SOURCE / "scripts"))
sys.dont_write_bytecode = True
from source_files import source_files  # noqa: E402


@dataclass
class Place:
    """One of the two builds."""

    root: Path
    prefix: Path


PLACES = [Place(SOURCE, WORK / "installed"), Place(WORK / "another place with a longer name", WORK / "installed too")]
CMAKE = os.environ.get("CMAKE", "cmake")
# What compilers put for __DATE__ and __TIME__, and the rest that must not matter.
ELSEWHERE = {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "SOURCE_DATE_EPOCH": "1800000000"}
MASK = 0o002


def run(*command: str, **options: object) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nFAILED: {' '.join(command)}")


def install_what_is_here() -> str:
    """Returns the date of its manual pages, in seconds; "" where there are none."""
    run(CMAKE, "--install", str(BUILT), "--prefix", str(PLACES[0].prefix), umask=0o022)
    page = next(PLACES[0].prefix.rglob("hakmem.1"), None)
    found = re.search(r'^\.TH .*"(\d{4}-\d\d-\d\d)"', page.read_text(encoding="utf-8"), re.MULTILINE) if page else None
    return str(int(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp())) if found else ""


def kind_of_build() -> str:
    return re.findall(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", (BUILT / "CMakeCache.txt").read_text(encoding="utf-8"), re.MULTILINE)[0]


def build(place: Place, date_of_pages: str) -> None:
    tree = place.root / "tree"
    for name in reversed(source_files(SOURCE)):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCE / name, tree / name)
        (tree / name).chmod((SOURCE / name).stat().st_mode & 0o777 & ~MASK)
    environment = os.environ | ELSEWHERE
    pages = environment | {"SOURCE_DATE_EPOCH": date_of_pages}
    directory = str(tree / "out")
    settings = [f"-DCMAKE_BUILD_TYPE={kind_of_build()}", "-DBUILD_TESTING=OFF"]
    # A cache of compilations would compare a file with itself.
    settings += ["-DCMAKE_C_COMPILER_LAUNCHER=", "-DCMAKE_CXX_COMPILER_LAUNCHER="]
    settings += [f"-DCMAKE_{language}_COMPILER={os.environ[name]}" for language, name in (("C", "CC"), ("CXX", "CXX"))]
    for command, variables in (
        ([CMAKE, "-G", "Ninja", "-S", str(tree), "-B", directory, *settings], environment),
        *([([CMAKE, "--build", directory, "--target", "man"], pages)] if date_of_pages else []),
        ([CMAKE, "--build", directory, "-j", "1", "--target", "hakmem_targets"], environment),
        ([CMAKE, "--install", directory, "--prefix", str(place.prefix)], environment),
    ):
        run(*command, env=variables, umask=MASK)


def sections(data: bytes) -> dict[str, bytes]:
    """The parts of an object file, or of the object in an archive, by name; of another file the whole."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        if data.startswith(b"!<arch>"):
            return sections(subprocess.run(["ar", "p", file.name], check=True, stdout=subprocess.PIPE).stdout)
        if not data.startswith(b"\x7fELF"):
            return {"the file": data}
        listed = subprocess.run(["readelf", "-SW", file.name], check=True, capture_output=True, text=True).stdout
    # Number, name, type, address, offset, size.
    found = re.finditer(r"\]\s+(\S+)\s+(\S+)\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)", listed)
    return {m[1]: data[int(m[3], 16) :][: int(m[4], 16)] for m in found if m[2] != "NOBITS"}


def printable(data: bytes, offset: int) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data[max(0, offset - 24) : offset + 40])


def differences(first: bytes, second: bytes) -> list[str]:
    """Where two files differ: each section, and what stands at its first difference."""
    found = [f"{len(first)} and {len(second)} bytes"]
    ours, theirs = sections(first), sections(second)
    found += [f"  {name} in one of them only" for name in sorted(ours.keys() ^ theirs.keys())]
    for name, one in ours.items():
        two = theirs.get(name, one)
        if one != two:
            pairs = enumerate(zip(one, two))
            offset = next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))
            found.append(f"  {name}, {len(one)} and {len(two)} bytes, differs from byte {offset} on:")
            found += [f"    {printable(data, offset)}" for data in (one, two)]
    return found


def compare(one: Path, two: Path) -> list[str]:
    """What differs between two installed files, and where."""
    if one.is_symlink() or two.is_symlink():
        same = one.is_symlink() and two.is_symlink() and os.readlink(one) == os.readlink(two)
        return [] if same else ["leads elsewhere"]
    first, second = one.read_bytes(), two.read_bytes()
    found = []
    if one.stat().st_mode != two.stat().st_mode:
        found.append(f"permissions {one.stat().st_mode:o} and {two.stat().st_mode:o}")
    if first != second:
        found += differences(first, second)
    found += [
        f"names its folder: {place.root}"
        for place, data in zip(PLACES, (first, second))
        if os.fsencode(place.root) in data
    ]
    return found


def installed(place: Place) -> set[Path]:
    return {path.relative_to(place.prefix) for path in place.prefix.rglob("*") if path.is_symlink() or path.is_file()}


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    build(PLACES[1], install_what_is_here())
    first, second = (installed(place) for place in PLACES)
    findings = [f"{name}: installed by one build only" for name in sorted(first ^ second)]
    for name in sorted(first & second):
        findings += [f"{name}: {what}" for what in compare(*(place.prefix / name for place in PLACES))]
    wanted = {"libhakmem.so", "libhakmem-api.so", "libhakmem.a", "hakmem.h"}
    if (SOURCE / "tools" / "CMakeLists.txt").exists():
        wanted.add("hakmem")
    findings += [f"{name} was not installed" for name in sorted(wanted - {path.name for path in first})]
    for finding in findings:
        print(finding)
    print(f"{len(first)} files installed twice, {len(findings)} findings")
    if findings:
        return 1
    shutil.rmtree(WORK)  # 100 MB
    return 0


if __name__ == "__main__":
    sys.exit(main())
