"""peers.json is well formed, and every library in it really serves malloc."""

import os
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

from common import ROOT, built_peers, environment, execute, library_of

PEERS = built_peers()
CC = os.environ.get("HAKMEM_TEST_CC", "cc")
FUNCTIONS = {
    *("malloc", "free", "calloc", "realloc", "memalign"),
    *("aligned_alloc", "posix_memalign", "malloc_usable_size"),
}
OPERATORS = {"_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm"}


class Listed(unittest.TestCase):
    def test_form(self) -> None:
        self.assertIsInstance(PEERS, list)
        for peer in PEERS:
            with self.subTest(peer.get("name", "?")):
                self.assertIn(set(peer) - {"name", "version", "source"}, ({"library"}, {"missing"}))
                for key, value in peer.items():
                    self.assertIsInstance(value, str, key)
                    self.assertTrue(value.strip(), key)
                    self.assertNotIn("\n", value, key)

    def test_names_are_those_of_the_table(self) -> None:
        with open(ROOT / "bench" / "peers" / "peers.toml", "rb") as file:
            known = [peer["name"] for peer in tomllib.load(file)["peer"]]
        names = [peer["name"] for peer in PEERS]
        # Fewer after `make peers PEERS=...`; in the table's order all the same.
        self.assertEqual(names, [name for name in known if name in names])
        self.assertTrue(names)

    def test_versions_are_exact(self) -> None:
        for peer in PEERS:
            if "missing" in peer:
                print(f"\nskipped: {peer['name']}: {peer['missing']}")
                continue
            with self.subTest(peer["name"]):
                self.assertRegex(peer["version"], r"\d+\.\d+\.\d+|\d+\.\d+|\d{4}-\d\d-\d\d")
                self.assertRegex(peer["source"], r"^(crate|Debian|PyPI) [a-z0-9.-]+ \d\S+$")


class Served(unittest.TestCase):
    folder: tempfile.TemporaryDirectory
    probe: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="hakmem-peers-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.probe = Path(cls.folder.name) / "probe"
        source = str(ROOT / "bench" / "peers" / "probe.c")
        flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
        built = execute([CC, *flags, source, "-o", str(cls.probe), "-ldl"])
        assert built.returncode == 0, built.stderr

    def functions(self, **changes: str) -> dict[str, str]:
        """Function -> the file it is in, as the probe finds them; also that all of them work."""
        done = execute([str(self.probe)], env=environment(**changes))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("works", done.stdout.splitlines())
        return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)

    def test_nothing_preloaded_is_libc(self) -> None:
        self.assertIn("libc.so", self.functions()["malloc"])

    def test_every_function_is_the_librarys(self) -> None:
        for peer in PEERS:
            if "missing" in peer:
                continue
            with self.subTest(peer["name"]):
                library = library_of(peer)
                self.assertTrue(library.is_file(), library)
                found = self.functions(LD_PRELOAD=str(library))
                for function in FUNCTIONS | OPERATORS:
                    self.assertTrue(
                        os.path.samefile(found.get(function, "/dev/null"), library),
                        f"{function} comes from {found.get(function)}",
                    )

    def test_version_is_the_librarys_own(self) -> None:
        for peer in PEERS:
            if "missing" in peer:
                continue
            found = self.functions(LD_PRELOAD=str(library_of(peer)))
            own = found.get("mi_version", found.get("mallctl", "")).split("-")[0]
            if own:
                with self.subTest(peer["name"]):
                    self.assertEqual(peer["version"], own)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
