#!/usr/bin/env python3
"""The Debian packages: built from an archive of the source, lintian-clean, installed into a clean system, used there and
removed without a trace.

Usage: test_debian.py
"""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from distribution import JOBS, ROOT, SKIP, VERSION, plain_environment, run, skip_without, unpacked

HERE = Path(__file__).resolve().parent
PACKAGES = {"hakmem-tools", "libhakmem-dev", "libhakmem0", "libhakmem0-hardened"}


class Debian(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.work = Path(cls.directory.name)
        tree = unpacked(cls.work)
        # Packages of debug information are made by debhelper alone, and compressed for seconds.
        env = plain_environment(LC_ALL="C.UTF-8", DEB_BUILD_OPTIONS="noautodbgsym")
        run("dpkg-buildpackage", f"-j{JOBS}", "-us", "-uc", cwd=tree, env=env)
        cls.left = [
            str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file() and not (ROOT / path.relative_to(tree)).exists()
        ]
        shutil.rmtree(tree)
        cls.packages = {path.name.split("_")[0]: path for path in cls.work.glob("*.deb")}
        cls.root = cls.work / "unpacked"
        for path in cls.packages.values():
            run("dpkg-deb", "-x", path, cls.root)
        cls.libraries = next(cls.root.glob("usr/lib/*/libhakmem.a")).parent

    @classmethod
    def tearDownClass(cls) -> None:
        cls.directory.cleanup()

    def field(self, package: str, name: str) -> str:
        return run("dpkg-deb", "-f", self.packages[package], name).strip()

    def test_names_and_versions(self) -> None:
        self.assertEqual(set(self.packages), PACKAGES)
        for package in PACKAGES:
            self.assertEqual(self.field(package, "Version"), VERSION)

    def test_lintian(self) -> None:
        """Overrides would be told: there are none."""
        changes = next(self.work.glob("*.changes"))
        said = run("lintian", "--fail-on", "error,warning", "--profile", "debian", "--allow-root", changes)
        self.assertNotIn("overrid", said)

    def test_no_file_is_in_two_packages(self) -> None:
        owner: dict[str, str] = {}
        for package, path in self.packages.items():
            for line in run("dpkg-deb", "-c", path).splitlines():
                name = line.split()[5]
                if not name.endswith("/"):
                    self.assertNotIn(name, owner, package)
                    owner[name] = package

    def test_what_depends_on_what(self) -> None:
        # A tool that reads the library's memory and a header need exactly the library that they were made with.
        for package in ("hakmem-tools", "libhakmem-dev"):
            self.assertIn(f"libhakmem0 (= {VERSION})", self.field(package, "Depends"))
        # The libraries are for every program: libc alone, whatever the tool asks for.
        for package in ("libhakmem0", "libhakmem0-hardened"):
            self.assertRegex(self.field(package, "Depends"), r"^libc6 \(>= [\d.]+\)$")
        for package in ("libhakmem0", "libhakmem0-hardened", "libhakmem-dev"):
            self.assertEqual(self.field(package, "Multi-Arch"), "same")

    def test_a_program_that_is_linked_depends_on_the_library(self) -> None:
        control = self.work / "control"
        run("dpkg-deb", "-e", self.packages["libhakmem0"], control)
        symbols = (control / "symbols").read_text(encoding="utf-8")
        for library in ("libhakmem.so.0", "libhakmem-api.so.0"):
            self.assertRegex(symbols, rf"(?m)^{re.escape(library)} libhakmem0 #MINVER#$")
        listed = run("nm", "-D", "--defined-only", self.libraries / "libhakmem.so.0")
        self.assertEqual(
            {line.split()[2].split("@")[0] for line in listed.splitlines()},
            set(re.findall(r"(?m)^ (\S+)@Base ", symbols.split("libhakmem.so.0 ")[1])),
        )
        # None that the list lacks, which dpkg-gensymbols would add with the version that is packed.
        listed_here = (ROOT / "debian/libhakmem0.symbols").read_text(encoding="utf-8")
        self.assertEqual(symbols.splitlines(), listed_here.splitlines())
        self.assertFalse((control / "postinst").exists())

    def test_flags(self) -> None:
        """Those of the distribution change nothing in malloc and free, and lose no protection."""
        checker = [sys.executable, "-B", HERE / "check_hardening.py"]
        inside = self.libraries / "hakmem"
        libraries = [self.libraries / f"libhakmem{rest}" for rest in (".so.0", "-api.so.0", ".a")]
        run(*checker, "--fast-path", *libraries, inside / "libhakmem-trace.so.0")
        hardened = sorted((inside / "hardened").glob("*.so.0"))
        self.assertEqual([path.name for path in hardened], [f"libhakmem{kind}.so.0" for kind in ("-api", "-copies", "")])
        run(*checker, "--landing-pads", *hardened)
        run(*checker, "--fortified", self.root / "usr/bin/hakmem")

    def test_nothing_names_the_place_of_the_build(self) -> None:
        place = str(self.work).encode()
        found = [path for path in self.root.rglob("*") if path.is_file() and place in path.read_bytes()]
        self.assertEqual(found, [])

    def test_found_by_cmake(self) -> None:
        build = self.work / "cmake"
        settings = [f"-DCMAKE_PREFIX_PATH={self.root}/usr", f"-DWANTED_VERSION={VERSION}"]
        run("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, *settings, env=plain_environment())
        run("cmake", "--build", build)
        run("ctest", "--test-dir", build, "--no-tests=error")

    def test_clean_root(self) -> None:
        """A Debian that has nothing of ours: the packages come, are used by debian/tests, and go."""
        if shutil.which("mmdebstrap") is None:
            self.skipTest("mmdebstrap is not installed")
        codename = re.findall(r"(?m)^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(encoding="utf-8"))[0]
        packages = self.work / "packages"
        packages.mkdir()
        for path in self.packages.values():
            shutil.copy(path, packages)
        reached = self.work / "reached"
        command = ["mmdebstrap", "--variant=apt", "--quiet", "--format=tar"]
        # All that debian/tests needs beside the packages comes first, so that what is left by these is seen.
        command += ["--include=g++,libc6-dev,pkg-config"]
        for hook in (
            f"touch {reached}",
            'mkdir "$1/hakmem"',
            f'sync-in {packages} /hakmem',
            f"sync-in {ROOT}/debian/tests /hakmem",
            f"copy-in {HERE}/clean_root.sh /hakmem",
            'chroot "$1" sh /hakmem/clean_root.sh >&2',
        ):
            command.append(f"--customize-hook={hook}")
        done = subprocess.run(
            [*command, codename, "/dev/null"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=self.work, env=plain_environment(),
        )  # fmt: skip
        if not reached.exists():
            print(done.stdout)
            self.skipTest("no clean root can be made here")
        self.assertEqual(done.returncode, 0, done.stdout)
        for words in ("programs: fine", "build: fine", "removed: nothing is left"):
            self.assertIn(words, done.stdout)

    def test_the_build_leaves_the_tree_alone(self) -> None:
        left = [name for name in self.left if not name.startswith("debian/")]
        self.assertEqual(left, [])


if __name__ == "__main__":
    skip_without(dpkg_buildpackage="dpkg-dev", dh="debhelper", lintian="lintian")
    needs = subprocess.run(["dpkg-checkbuilddeps", ROOT / "debian/control"], capture_output=True, text=True)
    if needs.returncode != 0:
        print(needs.stderr.strip().splitlines()[-1])
        sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1], verbosity=2)
