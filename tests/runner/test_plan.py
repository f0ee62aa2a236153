"""plan.py and measure.c: tests of several build folders run by one ctest, unchanged, and what they take is written down."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
from plan import SLOTS, Test, make_measure, read_measured, slots, with_fixtures, write_list

STRANGE = ["", " ", "a;b", "${HOME}", "[=[x]=]", "]==]", "x]=", "\nnew\\n", '"quoted"', "\\;", "@x@", "#"]
DEADLY = (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL)


class Listed(unittest.TestCase):
    """A list that ctest reads."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hakmem-plan-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.measured = self.folder / "measured"
        self.measure = self.folder / "measure"
        self.assertTrue(make_measure(HERE / "measure.c", self.measure))

    def run_tests(self, tests: list[Test], prefix: bool = True) -> subprocess.CompletedProcess[str]:
        write_list(tests, self.folder, [str(self.measure), str(self.measured)] if prefix else [])
        return subprocess.run(
            ["ctest", "--test-dir", str(self.folder), "-j", "8", "-V"], capture_output=True, text=True
        )

    def test_words_arrive_as_they_are(self) -> None:
        out = self.folder / "words.json"
        code = "import json, os, sys; json.dump([sys.argv[2:], os.environ['X'], os.getcwd()], open(sys.argv[1], 'w'))"
        command = [sys.executable, "-c", code, str(out), *STRANGE]
        properties = {"ENVIRONMENT": ["X=a;b", "Y=1"], "WORKING_DIRECTORY": str(self.folder)}
        for prefix in (True, False):
            with self.subTest(prefix):
                out.unlink(missing_ok=True)
                done = self.run_tests([Test("one", "words", command, properties)], prefix)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertEqual(json.loads(out.read_text()), [STRANGE, "a;b", str(self.folder)])

    def test_ends_as_the_test_ends(self) -> None:
        tests = [Test("one", str(code), ["sh", "-c", f"exit {code}"], {"SKIP_RETURN_CODE": 77}) for code in (0, 3, 77)]
        tests += [Test("one", f"by-{number.value}", ["sh", "-c", f"kill -{number.value} $$"], {}) for number in DEADLY]
        # Not as a failure that was wanted: it did not end by itself.
        tests.append(Test("one", "will-fail", ["sh", "-c", "kill -SEGV $$"], {"WILL_FAIL": True}))
        tests.append(Test("one", "nowhere", ["/nowhere/program"], {}))
        tests.append(Test("one", "not-built", [], {}))
        done = self.run_tests(tests)
        for name, ended in (("0", "Passed"), ("3", "***Failed"), ("77", "***Skipped"), ("by-11", "SEGFAULT"),
                            ("by-6", "Subprocess aborted"), ("by-9", "Subprocess killed"), ("will-fail", "SEGFAULT"),
                            ("nowhere", "***Failed"), ("not-built", "***Not Run")):  # fmt: skip
            with self.subTest(name):
                self.assertRegex(done.stdout, rf"one/{name} [. ]*.*{ended.replace('*', '[*]')}")
        self.assertEqual(done.returncode != 0, True)

    def test_processor_time_is_written_down(self) -> None:
        busy = "import time\nwhile time.process_time() < 0.3: pass"
        tests = [
            Test("one", "busy with a space", [sys.executable, "-c", busy], {}),
            Test("one", "by a child", ["sh", "-c", f"'{sys.executable}' -c '{busy}'; true"], {}),
            Test("two", "idle", ["sleep", "0.2"], {}),
        ]
        self.assertEqual(self.run_tests(tests).returncode, 0)
        taken = read_measured(self.measured)
        self.assertEqual(set(taken), {test.full_name for test in tests})
        self.assertGreater(taken["one/busy with a space"], 0.29)
        self.assertGreater(taken["one/by a child"], 0.29)
        self.assertLess(taken["two/idle"], 0.2)

    def test_what_is_preloaded_is_the_tests_alone(self) -> None:
        """A library that cannot be loaded: each program that tries to says so."""
        done = self.run_tests([Test("one", "a", ["true"], {"ENVIRONMENT": ["LD_PRELOAD=/nowhere.so"]})])
        self.assertEqual(done.stdout.count("/nowhere.so"), 2, done.stdout)  # ctest -V shows the setting, too

    def test_slow_ones_begin_first(self) -> None:
        tests = [
            Test("one", "short", ["true"], {}),
            Test("one", "slow", ["true"], {"LABELS": ["slow"]}),
            Test("one", "slower", ["true"], {"LABELS": ["slow"], "COST": 60.0}),
        ]
        out = self.run_tests(tests).stdout
        begun = [out.index(f"Start {number}: one/") for number in (3, 2, 1)]
        self.assertEqual(begun, sorted(begun), out)

    def test_fixtures_are_those_of_the_variant(self) -> None:
        def tests(variant: str, code: int) -> list[Test]:
            return [
                Test(variant, "needs", ["true"], {"FIXTURES_REQUIRED": ["f"], "DEPENDS": ["sets-up"]}),
                Test(variant, "sets-up", ["sh", "-c", f"exit {code}"], {"FIXTURES_SETUP": ["f"]}),
            ]

        done = self.run_tests(tests("good", 0) + tests("bad", 1))
        self.assertRegex(done.stdout, r"good/needs [. ]*Passed")
        self.assertRegex(done.stdout, r"bad/needs [. ]*[*]+Not Run")


class Chosen(unittest.TestCase):
    def test_with_what_it_needs(self) -> None:
        every = [
            Test("v", "cleans", [], {"FIXTURES_CLEANUP": ["b"]}),
            Test("v", "last", [], {"FIXTURES_REQUIRED": ["b"]}),
            Test("v", "middle", [], {"FIXTURES_SETUP": ["b"], "FIXTURES_REQUIRED": ["a"]}),
            Test("v", "first", [], {"FIXTURES_SETUP": ["a"]}),
            Test("v", "other", [], {}),
        ]
        self.assertEqual([test.name for test in with_fixtures([every[1]], every)], ["cleans", "last", "middle", "first"])
        self.assertEqual(with_fixtures([every[4]], every), [every[4]])

    def test_those_that_wait_go_beside_the_others(self) -> None:
        self.assertEqual(slots({}), SLOTS)
        self.assertEqual(slots({"PROCESSORS": 2}), 2 * SLOTS)
        self.assertEqual(slots({"LABELS": ["waits", "slow"]}), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
