#!/usr/bin/env python3
"""Compares the binary interface with that of the last release, by libabigail: exported symbols, what functions take
and return, and the layout of the structs in include/hakmem.h. Additions are fine; what is gone or changed is not,
because a program that was linked with the last release would break.

Usage: abi.py check SOURCE_DIR BUILD_DIR    exit status 1: something would break
       abi.py baseline SOURCE_DIR [REF]     writes tests/package/abi/ anew, of a tag or commit (default HEAD)
"""
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SKIP = 77
LIBRARIES = ("libhakmem", "libhakmem-api")
# Only what the header shows, and nothing that another place or processor of 64 bits would write otherwise.
DESCRIBE = """--drop-private-types --exported-interfaces-only --no-architecture --no-comp-dir-path --no-corpus-path
    --no-elf-needed --no-parameter-names --no-show-locs --type-id-style hash""".split()
# The caller says how large its struct is, so a field at the end is not written for a program that does not know it.
GROWING = ("hak_stats", "hak_memory_stats", "hak_class_stats")
# Not for programs: the tool reads it, and looks at its version first (src/observe/directory.h).
INTERNAL = "[suppress_variable]\n  name = hakmem_directory\n"


def describe(headers: Path, library: Path, out: Path) -> None:
    command = ["abidw", "--headers-dir", str(headers), *DESCRIBE, "--out-file", str(out), str(library)]
    subprocess.run(command, check=True)


def layouts(description: Path) -> dict[str, list[tuple[str | None, ...]]]:
    """Of each growing struct its fields: place, name, and type as a hash of what it is called."""
    return {
        str(struct.get("name")): [
            (member.get("layout-offset-in-bits"), variable.get("name"), variable.get("type-id"))
            for member in struct.iter("data-member")
            for variable in member.iter("var-decl")
        ]
        for struct in ElementTree.parse(description).iter("class-decl")
        if struct.get("name") in GROWING
    }


def allowed(old: Path, new: Path) -> str:
    """Suppressions for structs that only grew. libabigail's own condition, has_data_member_inserted_at = end, is also
    true of a struct in which fields changed places."""
    before, after = layouts(old), layouts(new)
    grown = [
        name
        for name, fields in before.items()
        if name in after and len(after[name]) > len(fields) and after[name][: len(fields)] == fields
    ]
    return INTERNAL + "".join(f"[suppress_type]\n  type_kind = struct\n  name = {name}\n" for name in grown)


def compare(old: Path, new: Path) -> str:
    """What would break a program that knows `old`, in abidiff's words; empty: nothing."""
    with tempfile.TemporaryDirectory() as directory:
        suppressions = Path(directory, "allowed.ini")
        suppressions.write_text(allowed(old, new), encoding="utf-8")
        command = ["abidiff", "--no-architecture", "--no-added-syms", "--suppressions", str(suppressions)]
        done = subprocess.run(
            [*command, str(old), str(new)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    # The status is a set of bits; each of them is something that is not allowed.
    return "" if done.returncode == 0 else done.stdout or f"abidiff: status {done.returncode}"


def check(source: Path, build: Path) -> int:
    failed = 0
    for name in LIBRARIES:
        baselines = [
            path
            for path in (source / "tests" / "package" / "abi").glob(f"{name}-*.abi")
            if re.fullmatch(rf"{name}-[0-9][0-9.]*\.abi", path.name)
        ]
        if len(baselines) != 1:
            sys.exit(f"{len(baselines)} baselines of {name} in tests/package/abi: make abi-baseline REF=TAG")
        described = build / f"{name}.abi"
        describe(source / "include", build / f"{name}.so", described)
        broken = compare(baselines[0], described)
        print(broken or f"{name}: nothing that {baselines[0].stem} offers is gone or changed")
        failed |= bool(broken)
    return failed


def baseline(source: Path, ref: str) -> int:
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        archive = subprocess.run(["git", "archive", ref], cwd=source, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x"], cwd=work, check=True, input=archive.stdout)
        build = work / "build"
        options = ["-DBUILD_TESTING=OFF", "-DHAK_VARIANT=standard", "-DHAK_WERROR=OFF"]
        # For versions whose own build does not say so: no name of this folder in the description.
        options.append(f"-DCMAKE_C_FLAGS=-ffile-prefix-map={work}=.")
        for command in (
            ["cmake", "-G", "Ninja", "-S", str(work), "-B", str(build), *options],
            ["cmake", "--build", str(build), "--target", "hakmem_targets"],
        ):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        header = (work / "include" / "hakmem.h").read_text(encoding="utf-8")
        version = re.search(r'HAKMEM_VERSION_STRING "([0-9.]+)"', header)
        if version is None:
            sys.exit(f"include/hakmem.h of {ref} states no version")
        folder = source / "tests" / "package" / "abi"
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.abi"):
            old.unlink()
        for name in LIBRARIES:
            out = folder / f"{name}-{version[1]}.abi"
            describe(work / "include", build / f"{name}.so", out)
            print(f"written: {out.relative_to(source)}, of {ref}")
    return 0


def main() -> int:
    arguments = sys.argv[1:]
    if not (len(arguments) == 3 and arguments[0] == "check" or len(arguments) in (2, 3) and arguments[0] == "baseline"):
        sys.exit(__doc__)
    missing = [tool for tool in ("abidw", "abidiff") if shutil.which(tool) is None]
    if missing:
        print(f"{' and '.join(missing)} not installed (package abigail-tools)")
        return SKIP
    source = Path(arguments[1]).resolve()
    if arguments[0] == "check":
        return check(source, Path(arguments[2]))
    return baseline(source, arguments[2] if len(arguments) == 3 else "HEAD")


if __name__ == "__main__":
    sys.exit(main())
