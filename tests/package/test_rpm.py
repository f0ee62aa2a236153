#!/usr/bin/env python3
"""The RPM packages: built from an archive of the source, installed into an empty root, used from there and removed.

Usage: test_rpm.py

rpm's own database knows nothing of what Debian has installed, so what the packages depend on is read and not resolved.
"""
import os
import tempfile
import unittest
from pathlib import Path

from distribution import ROOT, VERSION, archive, plain_environment, quick_compilers, run, skip_without

PACKAGES = {"hakmem", "hakmem-devel", "hakmem-libs", "hakmem-libs-hardened", "hakmem-static"}


def files(root: Path) -> set[str]:
    """All that is there but rpm's own database, and the folders that belong to a system's other packages."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or "hakmem" in path.name}
    return {name for name in found if not f"/{name}/".startswith("/rpmdb/")}


class Rpm(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.work = Path(cls.directory.name)
        tarball = archive(cls.work)
        # As it is written down: from the archive alone. Debian's rpm makes no packages of debug information.
        run(
            "rpmbuild", "-tb", "--nodeps", "--define", f"_topdir {cls.work}/build", "--define", "debug_package %{nil}",
            tarball, env=plain_environment(PATH=quick_compilers(cls.work, "cc", "c++", "gcc", "g++")),
        )  # fmt: skip
        cls.packages = {path.name.split(f"-{VERSION}")[0]: path for path in cls.work.glob("build/RPMS/*/*.rpm")}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.directory.cleanup()

    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(dir=self.work))

    def rpm(self, *words: object) -> str:
        return run("rpm", *words, "--root", self.root, "--dbpath", "/rpmdb")

    def about(self, package: str, what: str) -> set[str]:
        return set(run("rpm", "-qp", what, self.packages[package]).split("\n"))

    def test_names_and_what_they_ask_for(self) -> None:
        self.assertEqual(set(self.packages), PACKAGES)
        self.assertTrue(
            any(line.startswith("libhakmem.so.0") for line in self.about("hakmem-libs", "--provides")), "no library"
        )
        exact = {line for line in self.about("hakmem", "--requires") if line.startswith("hakmem-libs")}
        self.assertTrue(exact and all(line.endswith(f"= {VERSION}-1") for line in exact), exact)
        for package in ("hakmem-libs", "hakmem-libs-hardened"):
            others = {line.split("(")[0] for line in self.about(package, "--requires") if ".so" in line}
            self.assertLessEqual(others, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})
        # Else a program that is linked could be given the hardened one, which it would not find.
        self.assertFalse([line for line in self.about("hakmem-libs-hardened", "--provides") if ".so" in line])

    def test_installed_used_removed(self) -> None:
        self.rpm("--initdb")
        before = files(self.root)
        self.rpm("-i", "--nodeps", *self.packages.values())
        self.assertGreater(len(files(self.root)), len(before) + 20)
        self.rpm("-V", "--nodeps", *self.packages)
        tool = self.root / "usr/bin/hakmem"
        said = run(tool, "run", "--stats", "--", "perl", "-e", 'print length("x" x 100000)', env=plain_environment())
        self.assertIn("100000", said)
        for variant in ("standard", "hardened"):
            said = run(tool, "doctor", "--variant", variant, "perl", env=plain_environment())
            self.assertIn(f"{variant} variant", said)
            self.assertNotIn("FAIL", said)
        self.rpm("-e", "--nodeps", *self.packages)
        self.assertEqual(files(self.root), before)

    def test_a_consumer(self) -> None:
        """Built with what hakmem-devel and hakmem-static have, by pkg-config."""
        self.rpm("-i", "--nodeps", *self.packages.values())
        described = next(self.root.rglob("hakmem.pc"))
        environment = plain_environment(PKG_CONFIG_PATH=str(described.parent))
        # The file finds its own tree, so that nothing has to be said of the root.
        flags = run("pkg-config", "--cflags", "--libs", "hakmem", env=environment).split()
        program = self.work / "program"
        run(os.environ.get("CC", "cc"), "-o", program, ROOT / "tests/package/consumer/replace.c", *flags)
        libraries = described.parents[1]
        run(program, env=environment | {"LD_LIBRARY_PATH": str(libraries)})
        said = run(program, env=environment | {"LD_LIBRARY_PATH": str(libraries / "hakmem/hardened")})
        self.assertIn("hardened", said)


if __name__ == "__main__":
    skip_without(rpmbuild="rpm", pkg_config="pkg-config", scdoc="scdoc")
    unittest.main(argv=[""], verbosity=2)
