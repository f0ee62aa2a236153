#!/usr/bin/env python3
"""The Conan recipe: `conan create` builds the package of the tree and a consumer of it, which runs.

Usage: test_conan.py WORK_DIR        where an environment with Conan is kept

Conan comes from PyPI, in the version of requirements-conan.txt.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from distribution import JOBS, ROOT, SKIP, VERSION, plain_environment, quick_compilers, run, unpacked

NEEDED = Path(__file__).with_name("requirements-conan.txt")


def environment_of(work: Path) -> Path:
    """The folder of the environment's programs; ends the test when Conan cannot be had."""
    environment = work / "conan-environment"
    mark = environment / "installed.txt"
    if not mark.exists() or mark.read_text(encoding="utf-8") != NEEDED.read_text(encoding="utf-8"):
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", environment], capture_output=True, text=True)
        if made.returncode != 0:
            print("python3-venv is not installed")
            sys.exit(SKIP)
        fetch = [environment / "bin/python", "-m", "pip", "install", "--quiet", "-r", NEEDED]
        fetched = subprocess.run(fetch, capture_output=True, text=True)
        if fetched.returncode != 0:
            print(fetched.stderr)
            print("conan cannot be fetched")
            sys.exit(SKIP)
        mark.write_text(NEEDED.read_text(encoding="utf-8"), encoding="utf-8")
    return environment / "bin"


def main() -> int:
    conan = environment_of(Path(sys.argv[1])) / "conan"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tree = unpacked(work)
        path = quick_compilers(work, "cc", "c++", "gcc", "g++")
        variables = plain_environment(CONAN_HOME=str(work / "home"), PATH=path, CCACHE_DISABLE="1")
        run(conan, "profile", "detect", env=variables)
        for variant in ("standard", "hardened"):
            said = run(
                conan, "create", tree / "contrib/conan", "-o", f"hakmem/*:variant={variant}", "--no-remote",
                "-c", f"tools.build:jobs={JOBS}",
                env=variables, cwd=work,
            )  # fmt: skip
            # A program that is linked, and one that is linked statically.
            lines = said.splitlines().count(f"on hakmem {VERSION}, {variant}")
            assert lines == 2, f"{said}\n{lines} programs ran on the {variant} library, not 2"
        listed = run(conan, "list", f"hakmem/{VERSION}:*", env=variables)
        assert listed.count("variant:") == 2, listed
    print(f"conan create: hakmem/{VERSION}, two variants, each with two programs that ran on it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
