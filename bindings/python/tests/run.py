#!/usr/bin/env python3
"""Installs the package into a fresh environment, as a user does, and tries it there.

Usage: run.py FOLDER install       `pip install ./bindings/python`, and a program on it
       run.py FOLDER 3.12          the wheel on that CPython: all tests of this folder
FOLDER keeps the wheel between calls, and the environments. Exit code 77: cannot be tried here; the
last line says why.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn, Optional

PACKAGE = Path(__file__).resolve().parents[1]
NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Network is unreachable|timed out|ProxyError"
    r"|ConnectTimeoutError|Temporary failure in name resolution"
)
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"
SOURCES = ["CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "source", "src"]


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}", flush=True)
    sys.exit(77)


def run(command: list[str], **options: object) -> "subprocess.CompletedProcess[str]":
    print("$", *command, flush=True)
    return subprocess.run(command, text=True, **options)  # type: ignore[call-overload, no-any-return]


def pip(python: Path, *arguments: str, **environment: str) -> None:
    """Runs pip; skips where the packages cannot be fetched."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment})
    if done.returncode == 0:
        return
    print(done.stdout[-6000:])
    if NO_NETWORK.search(done.stdout):
        skip("the packages could not be fetched: no network?")
    sys.exit("pip failed")


def version_of(python: Path) -> Optional[str]:
    """3.12 where it is a CPython that can make environments."""
    code = (
        "import ensurepip, platform, sys, venv;"
        "print('%d.%d' % sys.version_info[:2], platform.python_implementation())"
    )
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=30)
    except OSError:
        return None
    found = done.stdout.split()
    return found[0] if done.returncode == 0 and found[1:] == ["CPython"] else None


def find_python(version: str) -> Path:
    """The system's, or one that a version manager keeps in the home directory."""
    candidates = [Path(folder) / f"python{version}" for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    uv = Path.home() / ".local/share/uv/python"
    for kept in sorted(pyenv.glob(f"{version}.*")) + sorted(uv.glob(f"cpython-{version}.*")):
        candidates.append(kept / "bin" / f"python{version}")
    for candidate in candidates:
        if candidate.is_file() and version_of(candidate) == version:
            return candidate
    skip(f"no CPython {version} here that makes environments")


def fresh_environment(folder: Path, python: Path, *options: str) -> Path:
    """A new environment in `folder`; returns its interpreter."""
    shutil.rmtree(folder, ignore_errors=True)
    run([str(python), "-m", "venv", *options, str(folder)], check=True)
    return folder / "bin" / "python"


def sources_stamp() -> str:
    total = hashlib.sha256(sys.version.encode())
    for name in SOURCES:
        start = PACKAGE / name
        files = [start] if start.is_file() else []
        for folder, _, names in os.walk(start, followlinks=True):
            files += [Path(folder) / name for name in names if not name.endswith(".pyc")]
        for file in sorted(files):
            total.update(str(file.relative_to(PACKAGE)).encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def built_files(folder: Path) -> Path:
    """The folder with an sdist of the sources as they are, and a wheel built from the sdist."""
    dist = folder / "dist"
    stamp = folder / "stamp"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests may ask at once
        wanted = sources_stamp()
        if not stamp.exists() or stamp.read_text() != wanted or not (folder / "builder" / "bin" / "python").exists():
            shutil.rmtree(dist, ignore_errors=True)
            builder = fresh_environment(folder / "builder", find_python(THIS))
            pip(builder, "install", "--quiet", "build")
            done = run(
                [str(builder), "-m", "build", "--outdir", str(dist), str(PACKAGE)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            if done.returncode != 0:
                print(done.stdout[-6000:])
                if NO_NETWORK.search(done.stdout):
                    skip("the packages could not be fetched: no network?")
                sys.exit("the wheel does not build")
            stamp.write_text(wanted)
    return dist


def check_install(folder: Path) -> None:
    python = fresh_environment(folder / "install", find_python(THIS))
    # Here it is about what is built and where it goes. What the compiler is told to do, the wheel of the other tests has.
    quick = folder / "quick-cc"
    quick.write_text(f'#!/bin/sh\nexec {shutil.which(os.environ.get("CC", "cc"))} "$@" -O1 -g0\n')
    quick.chmod(0o755)
    pip(python, "install", str(PACKAGE), CC=str(quick))
    command = str(python.with_name("hakmem"))
    code = "import hakmem; held = bytearray(5 << 20); print(hakmem.heap_stats().huge_live > 0)"
    done = run([command, "run", str(python), "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout == "True\n", done.stdout
    pip(python, "uninstall", "--yes", "hakmem")
    left = [path for path in (folder / "install").rglob("*hakmem*") if not path.is_dir()]
    assert left == [], left


def check_version(folder: Path, version: str) -> int:
    interpreter = find_python(version)
    dist = built_files(folder)
    # By the pip that built the wheel: to put one into each environment would take half of the time.
    builder = folder / "builder" / "bin" / "python"
    python = fresh_environment(folder / version, interpreter, "--without-pip")
    (wheel,) = dist.glob("*.whl")
    pip(builder, "--python", str(python), "install", "--quiet", f"{wheel}[test]")
    command = [str(python), "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    return run(command, cwd=PACKAGE, env={**os.environ, "HAKMEM_TEST_DIST": str(dist)}).returncode


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[2] == "install":
        check_install(folder)
    else:
        sys.exit(check_version(folder, sys.argv[2]))


if __name__ == "__main__":
    main()
