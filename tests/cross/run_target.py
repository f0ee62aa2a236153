#!/usr/bin/env python3
"""Builds the library and its tests for one target into build/cross-<target> and runs them.

Usage: run_target.py aarch64|riscv64|ppc64le|musl [--jobs N]
Exit status: 0 fine, 1 something failed, 77 a tool for the target is not installed.

To look at one test afterwards: ctest --test-dir build/cross-<target> -V -R <name>
"""

import argparse
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIP = 77


@dataclass
class Target:
    """What a target needs, and how the project in core/ is configured for it."""

    tools: dict[str, str]  # program: the Debian package that brings it
    settings: list[str]


def toolchain(name: str) -> str:
    return f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'toolchains' / name}.cmake"


TARGETS = {
    "aarch64": Target(
        {
            "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
            "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
            "qemu-aarch64": "qemu-user",
        },
        # The three that 64-bit ARM has. Every program runs once, with the first; with the others what depends on the size. (All
        # of the set core with the largest: ppc64le.)
        [
            toolchain("aarch64-linux-gnu"),
            "-DCROSS_PAGE_SIZES=4096;16384;65536",
            "-DCROSS_FEW_PAGE_SIZES=16384;65536",
        ],
    ),
    "riscv64": Target(
        {
            "riscv64-linux-gnu-gcc": "gcc-riscv64-linux-gnu",
            "riscv64-linux-gnu-g++": "g++-riscv64-linux-gnu",
            "qemu-riscv64": "qemu-user",
        },
        [toolchain("riscv64-linux-gnu"), "-DCROSS_PAGE_SIZES=4096", "-DCROSS_SET=core"],
    ),
    "ppc64le": Target(
        {
            "powerpc64le-linux-gnu-gcc": "gcc-powerpc64le-linux-gnu",
            "powerpc64le-linux-gnu-g++": "g++-powerpc64le-linux-gnu",
            "qemu-ppc64le": "qemu-user",
        },
        # What distributions build their kernels with.
        [toolchain("powerpc64le-linux-gnu"), "-DCROSS_PAGE_SIZES=65536", "-DCROSS_SET=core"],
    ),
    # g++ is the C++ compiler behind musl-gcc.
    "musl": Target({"musl-gcc": "musl-tools", "g++": "g++"}, [toolchain("x86_64-linux-musl"), "-DCROSS_SET=libc"]),
}


def run(command: list[str], environment: dict[str, str], log: Path) -> None:
    """Runs a step of the build; its output is shown when it fails, which ends the program."""
    with open(log, "w", encoding="utf-8") as stream:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        sys.stdout.write(log.read_text(encoding="utf-8", errors="replace"))
        sys.exit(f"FAILED: {' '.join(command)}")


def print_skipped(junit: Path) -> int:
    """Each skipped test with its reason, for tests/runner/skips.py; returns how many tests were run."""
    count = 0
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        if case.find("skipped") is None:
            count += 1
        else:
            reason = (case.findtext("system-out") or "no reason printed").strip().splitlines()[-1]
            print(f"skipped: {case.get('name', '?')}: {reason.removeprefix('skipped: ')}")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    target = TARGETS[arguments.target]
    missing = [f"{tool} (package {package})" for tool, package in target.tools.items() if not shutil.which(tool)]
    if missing:
        print(f"not installed: {', '.join(missing)}")
        return SKIP

    build = ROOT / "build" / f"cross-{arguments.target}"
    build.mkdir(parents=True, exist_ok=True)
    # What the outer test run sets for its own programs is not for the compiler or the emulator.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HAKMEM_", "HAK_TEST_", "QEMU_")) and name != "LD_PRELOAD"
    }
    run(
        ["cmake", "-S", str(ROOT / "tests" / "cross" / "core"), "-B", str(build), "-G", "Ninja"]
        + ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", f"-DCROSS_TARGET={arguments.target}"]
        + target.settings,
        environment,
        build / "configure.log",
    )
    run(["cmake", "--build", str(build), "-j", str(arguments.jobs)], environment, build / "build.log")

    junit = build / "junit.xml"
    junit.unlink(missing_ok=True)
    ctest = subprocess.Popen(
        ["ctest", "--test-dir", str(build), "-j", str(arguments.jobs), "--output-on-failure"]
        + ["--no-tests=error", "--output-junit", str(junit)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    for line in ctest.stdout:
        if not line.lstrip().startswith("Start "):
            print(line, end="", flush=True)
    failed = ctest.wait() != 0
    count = print_skipped(junit) if junit.exists() else 0
    print(f"{arguments.target}: {count} tests run")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
