"""run.py on a small project of its own: a skip that is not listed makes it red, nothing runs twice, and a change runs what it
can affect."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
from run import VARIANTS

LISTS = """\
cmake_minimum_required(VERSION 3.21)
project(small LANGUAGES NONE)
enable_testing()
add_test(NAME passes COMMAND true)
add_test(NAME skips COMMAND sh -c "echo skipped: no luck today; exit 77")
add_test(NAME has_cases COMMAND sh -c "echo '[ RUN      ] x'; echo no network; echo '[  SKIPPED ] x'")
add_test(NAME long COMMAND true)
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(long PROPERTIES LABELS slow)
"""
SKIPS = '[[skip]]\ntest = "skips"\nreason = "no luck"\n'
TABLE = """\
[environment]
SHORT = "yes"
[[change]]
paths = ["CMakeLists.txt", "src/**"]
tests = ["asan/*", "standard/long", "standard/passes"]
[[change]]
paths = ["docs/**", ".gitignore", "CMakePresets.json", "tests/**"]
tests = []
[[change]]
paths = ["quick/**"]
tests = ["check/passes"]
"""
# One who commits, whatever the machine has set.
IDENTITY = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]
CASES = '[[skip]]\ntest = "has_cases/x"\nreason = "no network"\n'


class Project(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="hakmem-runner-"))
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(HERE, self.root / "tests/runner", ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / "CMakeLists.txt").write_text(LISTS)
        (self.root / ".gitignore").write_text("/build/\n")
        presets = [
            {"name": name, "generator": "Ninja", "binaryDir": f"${{sourceDir}}/build/{name}"} for name in VARIANTS
        ]
        (self.root / "CMakePresets.json").write_text(
            json.dumps({"version": 3, "configurePresets": presets})
        )
        self.may_skip(SKIPS + CASES)
        (self.root / "tests/affected.toml").write_text(TABLE)
        self.git("init", "-q")

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *IDENTITY, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text)

    def last_complete(self) -> str:
        file = self.root / "tests/last-complete"
        return file.read_text() if file.exists() else ""

    def may_skip(self, text: str) -> None:
        (self.root / "tests/may-skip.toml").write_text(text)

    def run_tests(self, *arguments: str, ci: str = "true") -> tuple[int, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "CTEST"))}
        done = subprocess.run(
            [sys.executable, "-B", str(self.root / "tests/runner/run.py"), *arguments],
            env=environment | {"CI": ci},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def assert_runs(self, output: str, *expected: int) -> None:
        """How many tests of each variant ran, by the table at the end."""
        table = [line.split() for line in output[output.rindex("variant ") :].splitlines()]
        found = [int(line[1]) for line in table if line and line[0] in VARIANTS]
        self.assertEqual(found, list(expected), output)

    def test_listed_skips_are_green(self) -> None:
        code, output = self.run_tests("standard")
        self.assertEqual(code, 0, output)
        self.assertIn("skipped  standard: skips: no luck today\n", output)
        self.assertIn("skipped  standard: has_cases, 1 of its cases: no network\n", output)
        self.assertTrue(output.endswith("\n100% tests passed, 0 tests failed out of 4\n"), output)

    def test_a_skip_that_is_not_listed_is_red(self) -> None:
        for listed, name in (
            (CASES, "standard: skips: no luck today"),
            (SKIPS.replace("no luck", "other reason") + CASES, "standard: skips: no luck today"),
            (SKIPS.replace("reason", 'variants = ["asan"]\nreason') + CASES, "standard: skips: no luck today"),
            (SKIPS, "standard: has_cases/x: no network"),
        ):
            with self.subTest(listed):
                self.may_skip(listed)
                code, output = self.run_tests("standard")
                self.assertEqual(code, 1, output)
                self.assertIn(f"FAILED   {name} (a skip that tests/may-skip.toml does not list)\n", output)
                self.assertTrue(output.endswith("\n75% tests passed, 1 tests failed out of 4\n"), output)

    def test_outside_of_ci_it_is_said_loudly(self) -> None:
        self.may_skip(CASES)
        code, output = self.run_tests("standard", ci="")
        self.assertEqual(code, 0, output)
        self.assertIn("SKIPPED  standard: skips: no luck today (a skip that", output)
        self.assertIn("1 not run and not listed: with CI=true they would count as failures\n", output)

    def test_an_entry_without_a_test_is_red(self) -> None:
        self.may_skip(SKIPS + CASES + '[[skip]]\ntest = "gone"\nreason = "x"\n')
        code, output = self.run_tests()
        self.assertEqual(code, 1, output)
        self.assertIn("FAILED   tests/may-skip.toml: there is no test gone\n", output)
        code, output = self.run_tests("--quick")  # which does not have all tests
        self.assertEqual(code, 0, output)

    def test_a_list_that_is_wrong_is_red(self) -> None:
        self.may_skip('[[skip]]\ntest = "skips"\n')
        code, output = self.run_tests("standard")
        self.assertEqual((code, "reason has to be" in output), (1, True), output)

    def test_what_the_tests_took(self) -> None:
        busy = 'add_test(NAME busy COMMAND python3 -c "import time\nwhile time.process_time() < 0.3: pass")\n'
        (self.root / "CMakeLists.txt").write_text(LISTS + busy)
        code, output = self.run_tests("check", "standard")
        self.assertEqual(code, 0, output)
        for variant in ("check", "standard"):
            self.assertRegex(output, rf"(?m)^ +0\.[3-9] s +\d+\.\d s  {variant}: busy$")
        self.assertRegex(output, r"(?m)^ +\d+ s +\d+ s  all: \d+% of \d+ processors$")

    def test_a_failure_is_red(self) -> None:
        (self.root / "CMakeLists.txt").write_text(LISTS + 'add_test(NAME fails COMMAND sh -c "echo why; exit 1")\n')
        code, output = self.run_tests("--quick")
        self.assertEqual(code, 1, output)
        self.assertIn("FAILED   standard: fails\n         | why\n", output)
        code, output = self.run_tests()
        self.assert_runs(output, *[5] * len(VARIANTS))

    def test_quick_ones_are_not_repeated(self) -> None:
        code, output = self.run_tests("--quick")
        self.assertEqual(code, 0, output)
        self.assert_runs(output, 3, 3)
        code, output = self.run_tests()
        self.assertEqual(code, 0, output)
        self.assert_runs(output, *[1 if name in ("check", "standard") else 4 for name in VARIANTS])
        # That was for one run.
        self.assert_runs(self.run_tests()[1], *[4] * len(VARIANTS))

    def test_other_files_are_tested_again(self) -> None:
        self.assertEqual(self.run_tests("--quick")[0], 0)
        (self.root / "new.c").write_text("int x;\n")
        self.assert_runs(self.run_tests()[1], *[4] * len(VARIANTS))

    def test_a_change_runs_what_it_can_affect(self) -> None:
        base = self.commit()
        self.write("tests/last-complete", f'commit = "{base}"\n')
        self.write("src/new.c", "int x;\n")
        self.assertEqual(self.run_tests("--quick")[0], 0)
        code, output = self.run_tests("--changed")
        self.assertEqual(code, 0, output)
        self.assert_runs(output, 4, 1)  # standard/passes was run by --quick
        self.assertIn("src/new.c: asan/*, standard/long, standard/passes\n", output)
        self.assertNotIn("make test has not passed", output)
        self.assertTrue(output.endswith("\n100% tests passed, 0 tests failed out of 5\n"), output)
        self.assertEqual(self.last_complete(), f'commit = "{base}"\n')
        # What --quick has passed is still known.
        self.assert_runs(self.run_tests()[1], *[1 if name in ("check", "standard") else 4 for name in VARIANTS])
        self.assertIn("make test has not passed", self.run_tests("--changed")[1])

    def test_the_environment_of_a_change(self) -> None:
        self.write("src/a.c", "int x;\n")
        base = self.commit()
        self.write("src/a.c", "int y;\n")
        shows = 'add_test(NAME long2 COMMAND sh -c "test x$SHORT = xyes")\n'
        (self.root / "CMakeLists.txt").write_text(LISTS + shows)
        code, output = self.run_tests("--changed", "--base", base)
        self.assertEqual(code, 0, output)
        self.write("unheard/of", "everything then, and at its full length\n")
        self.assertEqual(self.run_tests("--changed", "--base", base)[0], 1)

    def test_a_change_that_affects_nothing(self) -> None:
        base = self.commit()
        self.write("docs/a.md", "x\n")
        self.write("quick/a.c", "x\n")
        code, output = self.run_tests("--changed", "--base", base)
        self.assertEqual(code, 0, output)
        self.assertTrue(output.endswith("nothing to run beyond make test\n"), output)
        self.assertNotIn("== check: build", output)

    def test_everything_where_the_change_is_not_known(self) -> None:
        base = self.commit()
        for name, said, *arguments in (
            ("src/a.c", "every test: there is no commit that it could name here (tests/last-complete says it)"),
            ("src/a.c", f"every test: there is no commit {'0' * 40} here (the argument says it)", "--base", "0" * 40),
            ("unheard/of", "every test: tests/affected.toml does not know unheard/of", "--base", base),
        ):
            with self.subTest(said):
                self.write(name, "x\n")
                code, output = self.run_tests("--changed", "--list", *arguments)
                self.assertEqual(code, 0, output)
                self.assertIn(f"  {said}\n", output)
        code, output = self.run_tests("--changed")
        self.assertEqual(code, 0, output)
        self.assert_runs(output, *[1 if name in ("check", "standard") else 4 for name in VARIANTS])

    def test_a_failure_after_a_change_is_red(self) -> None:
        base = self.commit()
        (self.root / "CMakeLists.txt").write_text(LISTS + "add_test(NAME fails COMMAND false)\n")
        code, output = self.run_tests("--changed", "--base", base)
        self.assertEqual(code, 1, output)
        self.assertIn("FAILED   asan: fails\n", output)

    def test_a_complete_run_is_written_down(self) -> None:
        commit = self.commit()
        self.assertEqual(self.run_tests("--quick")[0], 0)
        self.assertEqual(self.last_complete(), "")
        code, output = self.run_tests()  # without what --quick has passed
        self.assertEqual(code, 0, output)
        self.assertIn(f'\ncommit = "{commit}"\n', self.last_complete())
        closing = "100% tests passed, 0 tests failed out of 22\n"
        self.assertTrue(output.endswith(f"\ntests/last-complete names {commit[:12]} now: commit it\n{closing}"), output)
        # The file that it wrote is no change by itself.
        self.commit()
        self.assertEqual(self.run_tests("--changed")[1].splitlines()[-1], "nothing to run beyond make test")

    def test_what_is_not_complete_is_not_written_down(self) -> None:
        self.commit()
        self.run_tests("standard")
        self.run_tests("--changed")
        self.assertEqual(self.last_complete(), "")
        self.write("docs/a.md", "x\n")
        code, output = self.run_tests()
        self.assertEqual((code, self.last_complete()), (0, ""))
        self.assertIn("\ntests/last-complete stays as it was: docs/a.md differs from the commit\n", output)
        self.may_skip(CASES)
        self.commit()
        code, output = self.run_tests(ci="")
        self.assertEqual((code, self.last_complete()), (0, ""))
        self.assertIn("\ntests/last-complete stays as it was: a skip is not listed: check: skips: no luck", output)
        self.run_tests()
        self.assertEqual(self.last_complete(), "")

    def test_what_excludes_each_other(self) -> None:
        for arguments in (["--quick", "--changed"], ["--base", "HEAD"], ["--list"]):
            self.assertEqual(self.run_tests(*arguments)[0], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
