#!/usr/bin/env python3
"""Alpine's recipe: its functions are run as abuild runs them, with musl by Debian's musl-tools, and what they install is
used in a root that has musl and nothing else.

Usage: test_alpine.py

abuild itself and Alpine's packages are not there: that the names in makedepends are right is not shown.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from distribution import ROOT, VERSION, plain_environment, quick_compilers, run, skip_without, unpacked

RECIPE = ROOT / "contrib/alpine/APKBUILD"
# What abuild does before it calls a function, and the helper of it that the recipe uses.
ABUILD = r"""
set -eu
export pkgdir subpkgdir CC CXX CMAKE_TOOLCHAIN_FILE
. "$recipe"
amove() {
	for name; do
		mkdir -p "$subpkgdir/${name%/*}"
		mv "$pkgdir/$name" "$subpkgdir/$name"
	done
}
cd "$builddir"
"$@"
"""


def in_root(root: Path, *command: str) -> list[str]:
    """The command with `root` as its root, with the rights that there are."""
    enter = [] if os.geteuid() == 0 else ["unshare", "-r"]
    return [*enter, "chroot", str(root), *command]


class Alpine(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.work = Path(cls.directory.name)
        cls.tree = unpacked(cls.work)
        cls.package, cls.hardened = cls.work / "package", cls.work / "hardened"
        cls.path = quick_compilers(cls.work, "musl-gcc")
        for function in ("build", "check", "package", "hardened"):
            cls.call(function)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.directory.cleanup()

    @classmethod
    def call(cls, *function: str) -> str:
        toolchain = ROOT / "cmake/toolchains/x86_64-linux-musl.cmake"
        return run(
            "sh", "-c", ABUILD, "sh", *function,
            env=plain_environment(
                PATH=cls.path, CC="musl-gcc", CXX="musl-gcc", CMAKE_TOOLCHAIN_FILE=str(toolchain), recipe=str(RECIPE),
                builddir=str(cls.tree), pkgdir=str(cls.package), subpkgdir=str(cls.hardened),
            ),
        )  # fmt: skip

    def test_what_abuild_asks_of_a_recipe(self) -> None:
        text = RECIPE.read_text(encoding="utf-8")
        for name in ("pkgname", "pkgver", "pkgrel", "pkgdesc", "url", "arch", "license", "source"):
            self.assertRegex(text, rf'(?m)^{name}=\S')
        self.assertRegex(text, r"(?m)^# Maintainer: .+ <\S+@\S+>$")

    def test_what_is_installed(self) -> None:
        names = {str(path.relative_to(self.package)) for path in self.package.rglob("*") if not path.is_dir()}
        for name in ("lib/libhakmem.so.0", "lib/libhakmem.a", "lib/pkgconfig/hakmem.pc", "include/hakmem.h"):
            self.assertIn(f"usr/{name}", names)
        self.assertFalse([name for name in names if "hardened" in name])
        moved = {path.name for path in (self.hardened / "usr/lib/hakmem/hardened").iterdir()}
        self.assertEqual(
            moved, {f"libhakmem{kind}.so.{number}" for kind in ("", "-api", "-copies") for number in ("0", VERSION)}
        )
        needed = run("readelf", "-d", self.package / "usr/lib/libhakmem.so.0")
        self.assertNotIn("libc.so.6", needed)

    def test_in_a_root_of_musl_alone(self) -> None:
        root = self.work / "root"
        shutil.copytree(self.package, root, symlinks=True)
        shutil.copytree(self.hardened, root, symlinks=True, dirs_exist_ok=True)
        linker = re.findall(r"interpreter: (\S+)\]", run("readelf", "-l", self.tree / "build/standard/indirect"))[0]
        for path in (root / linker[1:], root / "bin/program", root / "bin/linked"):
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(linker), root / linker[1:])
        shutil.copy(self.tree / "build/standard/indirect", root / "bin/program")
        shutil.copy(self.tree / "build/standard/uses", root / "bin/linked")
        if subprocess.run(in_root(root, "/bin/linked"), capture_output=True).returncode != 0:
            enter = subprocess.run(in_root(Path("/"), "/bin/true"), capture_output=True, text=True)
            if enter.returncode != 0:
                self.skipTest("no root can be entered here")
        self.assertIn("standard", run(*in_root(root, "/bin/linked")))
        without = subprocess.run(in_root(root, "/bin/program"), capture_output=True)
        self.assertNotEqual(without.returncode, 0, "it says that it runs on hakmem, and it does not")
        for library in ("libhakmem.so.0", "/usr/lib/libhakmem.so.0", "/usr/lib/hakmem/hardened/libhakmem.so.0"):
            run(*in_root(root, linker, "--preload", library, "/bin/program"))
        said = run(*in_root(root, linker, "--library-path", "/usr/lib/hakmem/hardened", "/bin/linked"))
        self.assertIn("hardened", said)


if __name__ == "__main__":
    skip_without(musl_gcc="musl-tools", cmake="cmake", ninja="ninja-build")
    if os.uname().machine != "x86_64":
        print("cmake/toolchains has musl for x86-64 only")
        sys.exit(77)
    unittest.main(argv=[""], verbosity=2)
