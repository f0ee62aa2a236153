#!/usr/bin/env python3
"""Tests of run_models.py: that it fails where it has to. Exit 77 when spin is missing."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUNNER = Path(__file__).resolve().parent / "run_models.py"

# Two threads add one each; broken, they do it in two steps.
COUNTER = """\
/* counter.pml
 * {directives}
 */
byte count, ended;
active [2] proctype thread() {{
  byte old;
  atomic {{
    old = count;
#ifdef BROKEN
  }};
  atomic {{
#endif
    count = old + 1
  }};
  {extra}
  atomic {{ ended++; assert(ended < 2 || count == 2) }}
}}
"""
CHECK = "check: states 25"
MUTANT = "mutant BROKEN: assertion violated (two steps)"


class Runner(unittest.TestCase):
    def run_model(self, *directives: str, extra: str = "skip;", path: "str | None" = None, searched: "str | None" = None):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "counter.pml"
            text = COUNTER.format(directives="\n * ".join(directives), extra=extra)
            model.write_text(text, encoding="utf-8")
            environment = dict(os.environ)
            if shutil.which("tcc"):
                environment["HAKMEM_TEST_CC"] = "tcc"  # compiles faster
            if path is not None:
                environment["PATH"] = path
            options = []
            if searched is not None:
                keys = Path(folder) / "searched.toml"
                keys.write_text(searched, encoding="utf-8")
                options = ["--searched", str(keys)]
            done = subprocess.run(
                [sys.executable, str(RUNNER), *options, str(model)], env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )
            return done.returncode, done.stdout

    def assert_fails(self, result, text: str) -> None:
        status, output = result
        self.assertEqual(status, 1, output)
        self.assertIn(text, output)

    def test_what_was_searched_before_is_not_searched_again(self):
        status, output = self.run_model(CHECK, MUTANT, searched='other = "x"')
        self.assertEqual(status, 0, output)
        (key,) = [line.partition(": ")[2] for line in output.splitlines() if line.startswith("searched.toml: ")]
        self.assertEqual(self.run_model(CHECK, MUTANT, searched=key), (77, "skipped: the same was searched before\n"))
        # Another model, though of the same name.
        status, output = self.run_model(CHECK, MUTANT, extra="skip; skip;", searched=key)
        self.assertNotEqual(status, 77, output)

    def test_right_model_passes(self):
        status, output = self.run_model(CHECK, MUTANT)
        self.assertEqual(status, 0, output)

    def test_error_in_a_check(self):
        result = self.run_model("check BROKEN: states 25", MUTANT)
        self.assert_fails(result, "an error was found")
        self.assertIn("proc  1", result[1])  # the way to the error is shown

    def test_mutant_without_error(self):
        result = self.run_model(CHECK, "mutant HARMLESS: assertion violated")
        self.assert_fails(result, "the model cannot fail")

    def test_mutant_with_another_error(self):
        result = self.run_model(CHECK, "mutant BROKEN: invalid end state")
        self.assert_fails(result, "expected 'invalid end state'")

    def test_wrong_number_of_states(self):
        self.assert_fails(self.run_model("check: states 1,700", MUTANT), "the comment says 1,700")

    def test_statement_never_executed(self):
        extra = "if :: count > 2 -> old = 9 :: else fi;"
        self.assert_fails(self.run_model("check: states 33", MUTANT, extra=extra), "never executed")

    def test_model_without_mutant(self):
        self.assert_fails(self.run_model(CHECK), "at least one check and one mutant")

    def test_syntax_error(self):
        self.assert_fails(self.run_model(CHECK, MUTANT, extra="nonsense"), "failed:")

    def test_without_spin(self):
        status, output = self.run_model(CHECK, MUTANT, path="/nonexistent")
        self.assertEqual(status, 77, output)
        self.assertIn("spin is not installed", output)


if __name__ == "__main__":
    if shutil.which("spin") is None:
        print("skipped: spin is not installed")
        sys.exit(77)
    unittest.main()
