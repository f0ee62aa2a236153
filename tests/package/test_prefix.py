#!/usr/bin/env python3
"""make install and make uninstall: one prefix holds the standard library and the hardened one beside it.

Usage: test_prefix.py BUILD_DIR WORK_DIR, of the standard variant. CMAKE, CC and CXX in the environment.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from distribution import JOBS, ROOT, run

BUILD, WORK = Path(sys.argv[1]), Path(sys.argv[2])
HARDENED_BUILD, PREFIX = WORK / "hardened", WORK / "prefix"
CMAKE = os.environ.get("CMAKE", "cmake")
HARDENED = "lib/hakmem/hardened/"


def install_script(*words: object, **environment: str) -> str:
    """As `make` calls it, with its cmake."""
    path = f"{Path(CMAKE).parent}:{os.environ['PATH']}"
    return run("sh", ROOT / "scripts/install.sh", *words, env=os.environ | {"DESTDIR": "", "PATH": path} | environment)


def files(folder: Path) -> dict[str, str]:
    """What each file holds, or where each link leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


class Prefix(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        settings = [f"-DHAK_{name}" for name in ("VARIANT=hardened", "TOOLS=OFF", "WERROR=OFF")]
        run(CMAKE, "-G", "Ninja", "-S", ROOT, "-B", HARDENED_BUILD, "-DBUILD_TESTING=OFF", *settings)
        run(CMAKE, "--build", HARDENED_BUILD, "-j", JOBS, "--target", "hakmem_targets")

    def setUp(self) -> None:
        shutil.rmtree(PREFIX, ignore_errors=True)

    def install(self, prefix: Path = PREFIX, **environment: str) -> None:
        install_script("install", prefix, "standard", BUILD, **environment)
        install_script("install", prefix, "hardened", HARDENED_BUILD, **environment)

    def test_a_prefix_holds_both(self) -> None:
        install_script("install", PREFIX, "standard", BUILD)
        before = files(PREFIX)
        self.assertIn("lib/libhakmem.so", before)
        self.assertIn("bin/hakmem", before)
        self.assertFalse([name for name in before if "hardened" in name])
        install_script("install", PREFIX, "hardened", HARDENED_BUILD)
        after = files(PREFIX)
        self.assertEqual({name: after.get(name) for name in before}, before)
        more = after.keys() - before.keys()
        for library in ("libhakmem.so", "libhakmem.so.0", "libhakmem-api.so.0", "libhakmem-copies.so.0", "libhakmem.a"):
            self.assertIn(HARDENED + library, more)
        self.assertFalse([name for name in more if not name.startswith((HARDENED, "share/hakmem/"))])
        # In the other order it is the same.
        shutil.rmtree(PREFIX)
        said = install_script("install", PREFIX, "hardened", HARDENED_BUILD)
        self.assertIn("'make install PREFIX=", said)
        install_script("install", PREFIX, "standard", BUILD)
        self.assertEqual(files(PREFIX), after)

    def test_the_tool_finds_each(self) -> None:
        self.install()
        tool = PREFIX / "bin/hakmem"
        if not tool.exists():
            self.skipTest("built without the tool")
        for variant in ("standard", "hardened"):
            self.assertIn(f"{variant} variant", run(tool, "doctor", "--variant", variant, sys.executable))
        # It lies beside the hardened library.
        run(tool, "run", "--variant", "hardened", "--check-copies", "--", "true")
        install_script("uninstall", PREFIX, "hardened")
        missing = subprocess.run(
            [tool, "run", "--variant", "hardened", "--", "true"], capture_output=True, text=True, check=False
        )
        self.assertEqual(missing.returncode, 2, missing.stderr)
        self.assertIn("cannot find the library of variant hardened", missing.stderr)
        self.assertIn(f"'make VARIANT=hardened install PREFIX={PREFIX.resolve()}'", missing.stderr)

    def test_uninstall_leaves_what_is_not_its_own(self) -> None:
        foreign = ("lib/libother.so", "include/hakmem/mine.hpp", "share/man/man1/other.1")
        for name in foreign:
            (PREFIX / name).parent.mkdir(parents=True, exist_ok=True)
            (PREFIX / name).write_text(name, encoding="utf-8")
        before = files(PREFIX)
        self.install()
        install_script("uninstall", PREFIX)
        self.assertEqual(files(PREFIX), before)
        left = [path for path in PREFIX.rglob("*hakmem*") if path.name != "hakmem" or path.parent.name != "include"]
        self.assertEqual(left, [])
        with self.assertRaisesRegex(AssertionError, "nothing to remove"):
            install_script("uninstall", PREFIX)

    def test_uninstall_of_one_variant(self) -> None:
        install_script("install", PREFIX, "standard", BUILD)
        before = files(PREFIX)
        install_script("install", PREFIX, "hardened", HARDENED_BUILD)
        install_script("uninstall", PREFIX, "hardened")
        self.assertEqual(files(PREFIX), before)

    def test_what_an_older_version_had_goes_too(self) -> None:
        self.install()
        old = PREFIX / "lib/libhakmem.so.0.0.9"
        old.write_text("old", encoding="utf-8")
        with (PREFIX / "share/hakmem/installed-standard").open("a", encoding="utf-8") as kept:
            kept.write("lib/libhakmem.so.0.0.9\n")
        self.install()
        install_script("uninstall", PREFIX)
        self.assertEqual(files(PREFIX), {})

    def test_destdir_and_a_tree_that_is_moved(self) -> None:
        root = WORK / "root"
        shutil.rmtree(root, ignore_errors=True)
        self.install(Path("/opt/a place"), DESTDIR=str(root))
        self.assertIn(f"opt/a place/{HARDENED}libhakmem.so", files(root))
        self.assertFalse(Path("/opt/a place").exists())
        (root / "opt/a place").rename(PREFIX)
        install_script("uninstall", PREFIX)
        self.assertEqual(files(PREFIX), {})
        self.install(Path("/opt/a place"), DESTDIR=str(root))
        install_script("uninstall", "/opt/a place", DESTDIR=str(root))
        self.assertEqual(files(root), {})

    def test_make_calls_the_script(self) -> None:
        """Without running it: it would build in the tree that is tested."""
        for words, called in (
            (("uninstall",), 'uninstall "/x"'),
            (("uninstall", "VARIANT=hardened"), 'uninstall "/x" "hardened"'),
            (("install", "VARIANT=hardened"), 'install "/x" "hardened" "build/hardened"'),
        ):
            said = run("make", "-n", "-C", ROOT, *words, "PREFIX=/x", "DESTDIR=/y")
            self.assertRegex(said, rf'DESTDIR="/y" sh scripts/install.sh {called}\s')


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
