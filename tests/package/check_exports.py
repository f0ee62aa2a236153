#!/usr/bin/env python3
"""Checks what the built libraries offer to and ask of the world, with binutils' nm and readelf.

Usage: check_exports.py SOURCE_DIR BUILD_DIR
"""
import re
import subprocess
import sys
from pathlib import Path

# REQUIREMENTS in one list: written here a second time, so that a line lost from the version script
# shows.
FAMILY = set(
    """malloc calloc realloc reallocarray free free_sized free_aligned_sized aligned_alloc
    posix_memalign memalign valloc pvalloc malloc_usable_size malloc_trim mallinfo mallinfo2
    malloc_info malloc_stats mallopt""".split()
)
# glibc's second names for some of them, in the shared library alone.
SECOND_NAMES = {
    f"__libc_{name}"
    for name in ("malloc", "calloc", "realloc", "free", "memalign", "valloc", "pvalloc")
}
ALIGN = "St11align_val_t"
NOTHROW = "RKSt9nothrow_t"
OPERATORS = {
    f"_Z{name}m{align}{nothrow}"
    for name in ("nw", "na")
    for align in ("", ALIGN)
    for nothrow in ("", NOTHROW)
} | {
    f"_Z{name}Pv{rest}{align}"
    for name in ("dl", "da")
    for rest, align in (("", ""), ("m", ""), ("", ALIGN), ("m", ALIGN))
} | {
    f"_Z{name}Pv{align}{NOTHROW}" for name in ("dl", "da") for align in ("", ALIGN)
}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def defined(library: Path, *options: str) -> set[str]:
    """Names of the global symbols that `library` defines."""
    lines = output("nm", "--defined-only", "--extern-only", *options, str(library)).splitlines()
    return {fields[2] for line in lines if len(fields := line.split()) == 3}


def public_functions(header: Path) -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"^HAK_API[^;(]*?\b(hak_\w+)\(", text, flags=re.MULTILINE))


def main() -> int:
    source, build = Path(sys.argv[1]), Path(sys.argv[2])
    api = public_functions(source / "include" / "hakmem.h")
    findings = []

    def compare(what: str, found: set[str], wanted: set[str]) -> None:
        findings.extend(f"{what}: {name} is missing" for name in sorted(wanted - found))
        findings.extend(f"{what}: {name} should not be there" for name in sorted(found - wanted))

    if len(api) < 10:
        findings.append(f"only {len(api)} functions found in hakmem.h")
    api.add("hakmem_directory")  # no function: what tools read of a running process
    everything = api | FAMILY | OPERATORS
    preloaded = everything | SECOND_NAMES | {"dlopen"}  # src/api/deepbind.c
    compare("libhakmem.so", defined(build / "libhakmem.so", "-D"), preloaded)
    compare("libhakmem-api.so", defined(build / "libhakmem-api.so", "-D"), api)
    compare("libhakmem.a", defined(build / "libhakmem.a"), everything)

    libraries = ["libhakmem.so", "libhakmem-api.so"]
    if (build / "libhakmem-trace.so").exists():  # not without libzstd
        compare("libhakmem-trace.so", defined(build / "libhakmem-trace.so", "-D"), preloaded)
        libraries.append("libhakmem-trace.so")

    for name in libraries:
        dynamic = output("readelf", "-dW", str(build / name))
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        compare(f"{name}, libraries needed", needed - {"ld-linux-x86-64.so.2"}, {"libc.so.6"})
        soname = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
        if soname != [f"{name}.0"]:
            findings.append(f"{name}: SONAME is {soname}")
        for unwanted in ("TEXTREL", "RPATH", "RUNPATH"):
            if f"({unwanted})" in dynamic:
                findings.append(f"{name}: has {unwanted}")
        # Dynamic TLS is allocated with malloc.
        if "__tls_get_addr" in output("nm", "-D", "--undefined-only", str(build / name)):
            findings.append(f"{name}: uses dynamic TLS")

    for finding in findings:
        print(finding)
    print(f"{len(everything)} symbols wanted, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
