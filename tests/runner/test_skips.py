"""What counts as skipped, and what tests/may-skip.toml lets be skipped."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from skips import NO_REASON, BadList, Entry, Skip, not_listed, read_list, skipped_cases, skips_of, without_a_test

VARIANTS = ["standard", "asan"]
CMOCKA = """\
[==========] Running 3 test(s).
[ RUN      ] works
[       OK ] works
[ RUN      ] wants_a_network
skipped: no loopback network here
[  SKIPPED ] wants_a_network
[ RUN      ] says_nothing
[  SKIPPED ] says_nothing
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] wants_a_network
[  SKIPPED ] says_nothing
"""
GOOGLETEST = """\
[ RUN      ] New.Small
[       OK ] New.Small (0 ms)
[ RUN      ] New.Large
new.cpp:102: Skipped
these sizes are rounded

[  SKIPPED ] New.Large (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] New.Large
"""
UNITTEST = """\
test_one (__main__.Shell.test_one) ... ok
test_two (__main__.Shell.test_two) ... skipped 'fish is not installed'
test_three (__main__.Shell.test_three)
With words of its own. ... skipped "no 'fish'"
test_four (__main__.Shell.test_four) ... printed between
skipped 'late'

OK (skipped=3)
"""
PYTEST = """\
..s.s
SKIPPED [2] lab/tests/test_soak.py:488: strace is not installed
SKIPPED [1] tests/test_report_browser.py:21: playwright is not installed
5 passed, 3 skipped in 0.2s
"""


class Cases(unittest.TestCase):
    def check(self, output: str, *expected: tuple[str, str]) -> None:
        self.assertEqual(list(skipped_cases(output)), list(expected))

    def test_cmocka(self) -> None:
        self.check(CMOCKA, ("wants_a_network", "no loopback network here"), ("says_nothing", NO_REASON))

    def test_googletest(self) -> None:
        self.check(GOOGLETEST, ("New.Large", "these sizes are rounded"))

    def test_unittest(self) -> None:
        self.check(
            UNITTEST,
            ("test_two", "fish is not installed"),
            ("test_three", "no 'fish'"),
            ("test_four", "late"),
        )

    def test_unittest_that_does_not_say_which(self) -> None:
        self.check("ss.\nOK (skipped=2)\n", ("?", NO_REASON), ("?", NO_REASON))

    def test_pytest(self) -> None:
        self.check(
            PYTEST,
            ("test_soak.py", "strace is not installed"),
            ("test_soak.py", "strace is not installed"),
            ("test_report_browser.py", "playwright is not installed"),
        )

    def test_tests_inside_a_test(self) -> None:
        self.check("skipped: aarch64.unit_stats.4096: no threads\n", ("aarch64.unit_stats.4096", "no threads"))

    def test_none(self) -> None:
        self.check("nothing was skipped here\nOK\n")

    def test_names(self) -> None:
        self.assertEqual(
            skips_of("asan", "unit.x", False, CMOCKA)[0],
            Skip("asan", "unit.x/wants_a_network", "no loopback network here"),
        )
        self.assertEqual(
            skips_of("asan", "unit.x", True, "begins\nskipped: no luck\n\n"), [Skip("asan", "unit.x", "no luck")]
        )
        self.assertEqual(skips_of("asan", "unit.x", True, ""), [Skip("asan", "unit.x", NO_REASON)])


class Allowed(unittest.TestCase):
    ENTRY = Entry(r"stress\.(a|b)", ("asan",), "no room")
    SKIP = Skip("asan", "stress.a", "there is no room here")

    def test_a_listed_skip(self) -> None:
        self.assertEqual(not_listed([self.SKIP], [self.ENTRY]), [])
        self.assertEqual(not_listed([self.SKIP], [Entry(".*", (), "room")]), [])

    def test_any_other_is_found(self) -> None:
        for other in (
            Skip("tsan", "stress.a", "there is no room here"),
            Skip("asan", "stress.c", "there is no room here"),
            Skip("asan", "stress.ab", "there is no room here"),
            Skip("asan", "stress.a/case", "there is no room here"),
            Skip("asan", "stress.a", "not installed"),
            Skip("asan", "stress.a", NO_REASON),
        ):
            self.assertEqual(not_listed([self.SKIP, other], [self.ENTRY]), [other])

    def test_entries_that_no_test_has(self) -> None:
        old = Entry("stress.gone/case", (), "x")
        self.assertEqual(without_a_test([self.ENTRY, old], ["stress.a", "unit.b"]), [old])


class List(unittest.TestCase):
    def read(self, text: str) -> list[Entry]:
        with tempfile.TemporaryDirectory(prefix="hakmem-skips-") as folder:
            path = Path(folder) / "may-skip.toml"
            path.write_text(text)
            return read_list(path, VARIANTS)

    def test_right(self) -> None:
        self.assertEqual(self.read(""), [])
        self.assertEqual(
            self.read('[[skip]]\ntest = "a"\nvariants = ["asan"]\nreason = "b"\n'), [Entry("a", ("asan",), "b")]
        )

    def test_wrong(self) -> None:
        for text, words in (
            ('[[skip]]\ntest = "a"\n', "entry 1: reason has to be"),
            ('[[skip]]\ntest = "a"\nreason = " "\n', "entry 1: reason has to be"),
            ('[[skip]]\nreason = "a"\n', "entry 1: test has to be"),
            ('[[skip]]\ntest = "("\nreason = "a"\n', "no regular expression"),
            ('[[skip]]\ntest = "a"\nreason = "a"\nvariant = "asan"\n', "variant: only test, variants and reason"),
            ('[[skip]]\ntest = "a"\nreason = "a"\nvariants = ["fat"]\n', "no variant fat"),
            ('[[skips]]\ntest = "a"\n', "skips: only [[skip]]"),
            ("[[skip\n", "may-skip.toml: "),
        ):
            with self.subTest(text), self.assertRaisesRegex(BadList, words.replace("[", r"\[")):
                self.read(text)

    def test_that_of_the_repository(self) -> None:
        from run import MAY_SKIP
        from run import VARIANTS as ALL

        self.assertTrue(read_list(MAY_SKIP, ALL))


if __name__ == "__main__":
    unittest.main(verbosity=2)
