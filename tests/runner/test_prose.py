#!/usr/bin/env python3
"""The linter of prose (scripts/prose.py) finds what it is there for, and nothing else, on small made-up pages."""
import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts"))
import prose

RULES = prose.read_rules(SOURCE / "scripts" / "prose.toml")


def words(count: int) -> str:
    return " ".join(["word"] * count)


class Pages(unittest.TestCase):
    def read(self, text: str, name: str = "page.md") -> prose.Page:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder).resolve() / name
            path.write_text(text, encoding="utf-8")
            return prose.read_page(path, path.parent)

    def lengths(self, text: str, name: str = "page.md") -> list[int]:
        return self.read(text, name).lengths

    def findings(self, text: str) -> list[str]:
        return prose.check(self.read(text), RULES)


class Sentences(Pages):
    def test_they_end_at_stops_before_a_new_one(self) -> None:
        self.assertEqual(self.lengths("One two. Three four five! Is it six? `seven` is code. hakmem too.\n"), [2, 3, 3, 3, 2])

    def test_a_stop_inside_a_figure_a_name_or_an_abbreviation_ends_none(self) -> None:
        self.assertEqual(self.lengths("It took 0.95 of page.md's time, e.g. Here and i.e. There.\n"), [11])

    def test_lines_of_a_paragraph_belong_together_and_items_do_not(self) -> None:
        self.assertEqual(self.lengths("One\ntwo\n\nthree\n- four five\n  six\n- seven\n2. eight\n"), [2, 1, 3, 1, 1])

    def test_headings_tables_and_code_are_none(self) -> None:
        self.assertEqual(self.lengths(f"# {words(50)}\n\n| {words(50)} |\n\n```\n{words(50)}\n```\nOne two.\n"), [2])

    def test_a_longer_fence_holds_shorter_ones(self) -> None:
        self.assertEqual(self.lengths(f"````\n```\n{words(50)}\n```\n{words(50)}\n````\nOne two.\n"), [2])

    def test_code_is_a_word_and_a_link_its_text(self) -> None:
        text = "Run `hakmem prof --peak` or see [the page](a/very/long.md 'and a title').\n"
        self.assertEqual(self.lengths(text), [6])

    def test_marks_are_no_words(self) -> None:
        self.assertEqual(self.lengths("One **two** - *three* & <b>four</b>.\n"), [4])

    def test_the_line_is_that_of_the_paragraph(self) -> None:
        self.assertEqual([sentence.line for sentence in self.read("# A\n\nOne. Two\nthree.\n").sentences], [3, 3])


class Manual(Pages):
    def test_terms_of_definitions_are_no_sentences(self) -> None:
        text = "*--option*=_value_ _of_ _many_ _words_\n\tTakes three words.\n\n\tAnd these *two words* more.\n"
        self.assertEqual(self.lengths(text, "page.scd"), [3, 4])

    def test_headings_tables_and_examples_are_none(self) -> None:
        text = f"hakmem(1)\n\n# {words(50)}\n\n[[ *a*\n:[ {words(50)}\n|  {words(50)}\n:  b\n\n```\n{words(50)}\n```\n\nOne two.\n"
        self.assertEqual(self.lengths(text, "page.scd"), [2])


class Rules(Pages):
    def test_forty_words_pass_and_one_more_does_not(self) -> None:
        short = "One. " * 3
        self.assertEqual(self.findings(f"{short}W{words(40)}.\n"), [])
        self.assertEqual(len(self.findings(f"{short}W{words(41)}.\n")), 1)
        self.assertIn("41 words", self.findings(f"{short}W{words(41)}.\n")[0])

    def test_from_36_words_on_it_is_reported(self) -> None:
        page = self.read(f"{words(35)}. W{words(36)}. W{words(40)}. W{words(41)}.\n")
        self.assertEqual([line.split()[1] for line in prose.long_ones(page, RULES)], ["36", "40"])

    def test_the_median(self) -> None:
        self.assertEqual(self.findings(f"{words(17)}. W{words(30)}. One.\n"), [])
        self.assertIn("has 18 words", self.findings(f"{words(18)}. W{words(30)}. One.\n")[0])

    def test_each_listed_word_is_found(self) -> None:
        for text in ("the veil", "It is veiled", "a Ride", "rides", "a trade", "loans", "a pile", "its offers", "strays", "a look at it",
                     "in one look", "the last look", "taken back", "no hurry", "of which alone", "It is told", "to be had", "beside that",
                     "so many seconds"):
            self.assertEqual(len(self.findings(f"Here {text} is.\n")), 1, text)

    def test_their_ordinary_uses_and_names_in_code_are_not(self) -> None:
        for text in ("override", "a trade-off", "to pile up", "It offers no way", "one offers the other", "Look at it", "It looks there",
                     "a look-up", "`ride`", "[why](0013-loans.md)", "strayed", "the tool told it"):
            self.assertEqual(self.findings(f"Here {text} is.\n"), [], text)


class Tree(unittest.TestCase):
    def lint(self, held: tuple[str, ...], show_all: bool = False) -> tuple[int, str, str]:
        rules = prose.Rules(40, 35, 17, held, ("*.md", "docs/*.md"), ("docs/made.md",), RULES.words)
        out, err = io.StringIO(), io.StringIO()
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            root = Path(name).resolve()
            (root / "docs").mkdir()
            (root / "README.md").write_text("One two.\n", encoding="utf-8")
            (root / "docs" / "bad.md").write_text("This is a loan.\n", encoding="utf-8")
            (root / "docs" / "made.md").write_text("A program writes of loans.\n", encoding="utf-8")
            code = prose.lint(rules, root, show_all)
        return code, out.getvalue(), err.getvalue()

    def test_a_finding_on_a_held_page_fails(self) -> None:
        code, _, err = self.lint(("README.md", "docs/*.md"))
        self.assertEqual(code, 1)
        self.assertEqual(err, 'docs/bad.md:1: "loan": rather: fallback to a larger class\n')

    def test_one_on_another_page_is_counted_and_shown_on_request(self) -> None:
        code, out, err = self.lint(("README.md",))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("1 of 2 pages are held to the rules, 0 findings; 1 others have some", out)
        self.assertNotIn("loan", out)
        self.assertIn("loan", self.lint(("README.md",), show_all=True)[1])

    def test_a_page_that_is_gone_may_not_stay_in_the_list(self) -> None:
        code, _, err = self.lint(("README.md", "docs/gone.md"))
        self.assertEqual(code, 1)
        self.assertIn("docs/gone.md, which is no page", err)


if __name__ == "__main__":
    unittest.main()
