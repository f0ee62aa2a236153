"""affected.py: what a change selects; and tests/affected.toml itself, against the files and the tests that there are."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLE = HERE.parent / "affected.toml"
sys.dont_write_bytecode = True
from affected import BadTable, Table, described, path_pattern, read_table, select
from plan import Test, tests_of
from run import VARIANTS

SMALL = """\
[groups]
sanitizers = ["asan/*", "tsan/*"]
nested = ["sanitizers", "check/fuzz.*"]
[environment]
SECONDS = "5"
[[change]]
paths = ["src/**"]
tests = ["nested", "!tsan/unit.*"]
[[change]]
paths = ["src/os/*.c", "docs/**"]
tests = ["standard/site.*"]
[[change]]
paths = ["CHANGELOG.md"]
tests = []
[[change]]
paths = ["CMakeLists.txt"]
tests = ["*/*"]
"""


def read(text: str) -> Table:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return read_table(Path(file.name))


class Select(unittest.TestCase):
    def selected(self, *paths: str) -> list[str]:
        names = ["asan/unit.a", "tsan/unit.a", "tsan/stress.a", "check/fuzz.a", "standard/site.a", "fast/unit.a"]
        selection = select(read(SMALL), paths)
        return [name for name in names if selection.selects(name)]

    def test_groups_and_what_is_taken_out(self) -> None:
        self.assertEqual(self.selected("src/heap/heap.c"), ["asan/unit.a", "tsan/stress.a", "check/fuzz.a"])

    def test_tests_of_all_entries(self) -> None:
        self.assertEqual(
            self.selected("src/os/os.c"), ["asan/unit.a", "tsan/stress.a", "check/fuzz.a", "standard/site.a"]
        )
        self.assertEqual(self.selected("src/os/deep/os.c"), ["asan/unit.a", "tsan/stress.a", "check/fuzz.a"])

    def test_nothing(self) -> None:
        self.assertEqual(self.selected("CHANGELOG.md"), [])
        self.assertEqual(self.selected(), [])
        self.assertEqual(self.selected("CHANGELOG.md", "docs/a/b.md"), ["standard/site.a"])

    def test_everything(self) -> None:
        for path in ("unknown/file", "srcs/a.c", "Makefile", "CMakeLists.txt"):
            with self.subTest(path):
                self.assertEqual(len(self.selected("docs/a.md", path)), 6)
                self.assertIn(path, described(select(read(SMALL), ["docs/a.md", path]))[0])

    def test_variants(self) -> None:
        selection = select(read(SMALL), ["src/heap/heap.c"])
        self.assertEqual([name for name in VARIANTS if selection.of_variant(name)], ["check", "asan", "tsan"])
        selection = select(read(SMALL), ["unknown"])
        self.assertEqual([name for name in VARIANTS if selection.of_variant(name)], VARIANTS)

    def test_bad_tables(self) -> None:
        for text, said in (
            ('[[change]]\npaths = ["a"]\n', "paths and tests"),
            ('[[change]]\npaths = ["a"]\ntests = ["gone"]\n', "gone is neither a group"),
            ('[[change]]\npaths = "a"\ntests = []\n', "a list of texts"),
            ('[[changes]]\npaths = ["a"]\n', "changes: only groups"),
            ('[groups]\na = ["b"]\nb = ["a"]\n[[change]]\npaths = ["x"]\ntests = ["a"]\n', "neither a group"),
            ("[environment]\nSECONDS = 5\n", "texts only"),
            ("[", "toml: "),
        ):
            with self.subTest(text), self.assertRaisesRegex(BadTable, said):
                read(text)


def files_here() -> list[str]:
    """All files of the repository; in an archive, which has no git, those that were not built."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True
    )
    if listed.returncode == 0:
        return [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    walked = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())
    return [name for name in walked if not name.startswith("build/") and "__pycache__" not in name]


# Those of one compiler are configured in one folder, one after the other: what is asked of the compiler is asked once.
CONFIGURED_TOGETHER = [[name for name in VARIANTS if name not in ("asan", "tsan")], ["asan", "tsan"]]


def tests_there_are(variants: list[str]) -> list[Test]:
    """Of a build folder of its own, which is configured and not built: for the names that is enough."""
    folder = Path(os.environ.get("RUNNER_FOLDER") or ROOT / "build/listed") / f"like-{variants[0]}"
    found = []
    for variant in variants:
        done = subprocess.run(
            [os.environ.get("CMAKE", "cmake"), "--preset", variant, "-B", str(folder), "-DBUILD_TESTING=ON"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise AssertionError(done.stdout)
        found += tests_of(variant, folder)
    return found


class Repository(unittest.TestCase):
    """The table that the repository has."""

    table: Table
    files: list[str]
    tests: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.table = read_table(TABLE)
        cls.files = files_here()
        with ThreadPoolExecutor(2) as pool:
            cls.tests = [test.full_name for found in pool.map(tests_there_are, CONFIGURED_TOGETHER) for test in found]

    def selected(self, *paths: str) -> list[str]:
        selection = select(self.table, paths)
        return [name for name in self.tests if selection.selects(name)]

    def folders(self, *paths: str) -> set[str]:
        """The selected tests as VARIANT/FOLDER."""
        return {name.split(".", 1)[0] for name in self.selected(*paths)}

    def test_every_file_is_known(self) -> None:
        self.assertGreater(len(self.files), 1000)
        self.assertEqual([path for path in self.files if not self.table.known(path)], [])

    def test_every_folder_is_known(self) -> None:
        folders = {path.split("/")[0] for path in self.files if "/" in path}
        for above in ("src", "tests"):
            inside = (path.split("/") for path in self.files if path.startswith(f"{above}/"))
            folders |= {"/".join(parts[:2]) for parts in inside if len(parts) > 2}
        self.assertLessEqual({"src/front", "tests/unit", "lab", "debian", ".ci"}, folders)
        # A new file of such a folder is known, too. In these folders each file has to be named, since each is for something else.
        each = {folder for folder in folders if not self.table.known(f"{folder}/new.c")}
        self.assertEqual(each, {".ci", "bindings", "cmake", "scripts", "tests"})

    def test_every_name_is_that_of_a_file_or_a_test(self) -> None:
        for entry in self.table.entries:
            for glob in entry.paths:
                with self.subTest(glob):
                    self.assertTrue(any(path_pattern(glob).fullmatch(path) for path in self.files))
            for glob in entry.wanted + entry.unwanted:
                with self.subTest(glob):
                    self.assertTrue(any(fnmatchcase(name, glob) for name in self.tests))

    def test_every_test_has_a_path_that_selects_it(self) -> None:
        self.assertGreater(len(self.tests), 1500)
        entries = [entry for entry in self.table.entries if "*/*" not in entry.wanted]
        self.assertEqual([name for name in self.tests if not any(entry.selects(name) for entry in entries)], [])

    def test_a_change_of_the_library(self) -> None:
        found = self.folders("src/heap/heap.c", "CHANGELOG.md")
        self.assertLessEqual(
            {"asan/unit", "asan/stress", "tsan/unit", "tsan/stress", "hardened/unit", "hardened/guarantees",
             "check/stress", "standard/stress", "check/fuzz"}, found,
        )  # fmt: skip
        self.assertFalse({"standard/lab", "standard/site", "standard/bindings", "standard/programs"} & found, found)
        # One other processor.
        self.assertEqual(len([name for name in self.selected("src/heap/heap.c") if name.startswith("standard/cross")]), 1)

    def test_a_source_that_the_schedules_are_compiled_of(self) -> None:
        text = (ROOT / "tests/schedule/CMakeLists.txt").read_text(encoding="utf-8")
        named = {f"src/{name}" for name in re.findall(r"\b(\w+/\w+\.[ch])\b", text)} & set(self.files)
        self.assertGreater(len(named), 20)
        for path in [*named, "src/policy/options.def", "src/front/new.h"]:
            with self.subTest(path):
                self.assertIn("standard/schedule", self.folders(path))
        self.assertNotIn("standard/schedule", self.folders("src/heap/refill.c", "src/release/release.c"))

    def test_other_changes(self) -> None:
        self.assertEqual(self.folders("docs/faq.md"), {"standard/site"})
        self.assertEqual(self.folders("lab/hakmem_lab/base/new.py"), {"standard/lab"})
        self.assertEqual(self.folders("bindings/rust/gone/lib.rs"), {"standard/bindings"})
        self.assertEqual(self.folders("CHANGELOG.md", "tests/last-complete"), set())
        self.assertLessEqual({"fast/unit", "observe/unit", "asan/unit"}, self.folders("tests/unit/shadow.c"))
        self.assertEqual(len(self.selected("docs/faq.md", "unheard/of")), len(self.tests))


if __name__ == "__main__":
    unittest.main(verbosity=2)
