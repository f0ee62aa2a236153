"""What the tests of the distributions' packages have in common: the source as a stranger gets it, and words for what fails."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

SKIP = 77
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from source_files import source_files  # noqa: E402

JOBS = os.environ.get("HAKMEM_TEST_JOBS") or str(os.cpu_count() or 1)  # compilers at once
VERSION = re.findall(r'HAKMEM_VERSION_STRING "(.*)"', (ROOT / "include/hakmem.h").read_text(encoding="utf-8"))[0]


def skip_without(**packages: str) -> None:
    """Ends the test when a program is not there; each is given with the Debian package that brings it."""
    for program, package in packages.items():
        if shutil.which(program.replace("_", "-")) is None:
            print(f"{package} is not installed")
            sys.exit(SKIP)


def run(*command: object, **options: object) -> str:
    """What the command prints; all of it is shown when it fails, which is an error of the test."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise AssertionError(f"{done.stdout}\nexit code {done.returncode}: {' '.join(words)}")
    return done.stdout


def archive(folder: Path) -> Path:
    """The source as `make dist` packs it: what git knows, as it is now."""
    path = folder / f"hakmem-{VERSION}.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name in source_files(ROOT):
            tar.add(ROOT / name, f"hakmem-{VERSION}/{name}")
    return path


def unpacked(folder: Path) -> Path:
    """The same, unpacked."""
    path = archive(folder)
    with tarfile.open(path) as tar:
        tar.extractall(folder)
    path.unlink()
    return folder / f"hakmem-{VERSION}"


def quick_compilers(folder: Path, *names: str) -> str:
    """A PATH on which these compilers, by the names that a recipe calls them by, optimise little and write no debug information: half
    of the time. For tests of what a recipe builds, installs and says. That code of the library is right that is compiled with the
    distribution's options, and protected, test_debian.py shows for one of them, and the variants for ours."""
    quick = folder / "quick"
    quick.mkdir()
    for name in names:
        real = shutil.which(name)
        if real is not None:
            (quick / name).write_text(f'#!/bin/sh\nexec {real} "$@" -O1 -g0\n', encoding="utf-8")
            (quick / name).chmod(0o755)
    return f"{quick}:{os.environ['PATH']}"


def plain_environment(**more: str) -> dict[str, str]:
    """Without what the build of the tests says to its programs."""
    left_out = re.compile(r"CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CMAKE.*|CTEST.*|LD_PRELOAD|HAKMEM_.*|MAKE.*|MFLAGS")
    jobs = {"CMAKE_BUILD_PARALLEL_LEVEL": JOBS, "RPM_BUILD_NCPUS": JOBS}
    return {name: value for name, value in os.environ.items() if not left_out.fullmatch(name)} | jobs | more
