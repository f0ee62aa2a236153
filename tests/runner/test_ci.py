""".ci/run on a project of its own: its last line sums up the tests that ran, and its exit status tells of every failure."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PASSED = '@echo "100% tests passed, 0 tests failed out of 4"'
NOTHING = "@echo nothing to run beyond make test"


class Run(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="hakmem-ci-"))
        self.addCleanup(shutil.rmtree, self.root)
        for name in (".ci", "scripts"):
            (self.root / name).mkdir()
        shutil.copy(ROOT / ".ci/run", self.root / ".ci/run")

    def run_it(self, test: str, changed: str, lint: str = "exit 0", setup: str = "exit 0") -> tuple[int, list[str]]:
        (self.root / "Makefile").write_text(f"test:\n\t{test}\ntest-changed:\n\t{changed}\n")
        (self.root / "scripts/lint.sh").write_text(f"{lint}\n")
        (self.root / "scripts/setup.sh").write_text(f"{setup}\n")
        done = subprocess.run(["bash", str(self.root / ".ci/run")], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    def test_the_last_line_is_of_all_tests(self) -> None:
        code, lines = self.run_it(PASSED, PASSED)
        self.assertEqual((code, lines[-1]), (0, "100% tests passed, 0 tests failed out of 8"))
        code, lines = self.run_it(PASSED, NOTHING)
        self.assertEqual((code, lines[-1]), (0, "100% tests passed, 0 tests failed out of 4"))

    def test_parts_with_their_seconds(self) -> None:
        code, lines = self.run_it(PASSED, NOTHING)
        self.assertEqual(code, 0)
        for part in ("make test", "packages, and lint", "make test-changed"):
            self.assertRegex("\n".join(lines), rf"(?m)^ *\d+ s +\d+ s of a processor  {part}$")

    def test_failures(self) -> None:
        failed = '@echo "75% tests passed, 1 tests failed out of 4"; exit 1'
        for test, changed, closing in (
            (failed, PASSED, "87% tests passed, 1 tests failed out of 8"),
            (PASSED, failed, "87% tests passed, 1 tests failed out of 8"),
            (failed, NOTHING, "75% tests passed, 1 tests failed out of 4"),
            # One that ends without its closing line, or fails in spite of it.
            ("@exit 1", PASSED, "80% tests passed, 1 tests failed out of 5"),
            (PASSED, "@exit 1", "80% tests passed, 1 tests failed out of 5"),
            (PASSED, f"{PASSED}; exit 1", "87% tests passed, 1 tests failed out of 8"),
            ("@exit 1", "@exit 1", "0% tests passed, 2 tests failed out of 2"),
        ):
            with self.subTest((test, changed)):
                code, lines = self.run_it(test, changed)
                self.assertEqual((code, lines[-1]), (1, closing))

    def test_failures_stand_at_the_end(self) -> None:
        closing = "75% tests passed, 1 tests failed out of 4"
        named = f'@printf "FAILED   check: unit.a\\n         | unit_a.c:7: why\\n{closing}\\n"; exit 1'.replace("%", "%%")
        shown = ["FAILED   check: unit.a", "         | unit_a.c:7: why"]
        for test, changed in ((named, PASSED), (PASSED, named)):
            with self.subTest((test, changed)):
                lines = self.run_it(test, changed)[1]
                self.assertEqual(lines[-4:-2], shown)

    def test_lint_does_not_hide_the_tests(self) -> None:
        code, lines = self.run_it(PASSED, PASSED, lint="echo bad; exit 1")
        self.assertEqual((code, lines[-1]), (1, "100% tests passed, 0 tests failed out of 8"))
        self.assertIn("lint failed (see above)", lines)

    def test_packages_that_cannot_be_installed(self) -> None:
        self.assertEqual(self.run_it(PASSED, PASSED, setup="exit 1")[0], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
