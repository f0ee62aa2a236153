"""What a run is called, when a promise counts as kept, and how the table is put into a document."""

import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
import table  # noqa: E402
from guarantees import FAULT, Guarantee, Outcome, is_kept, judge, load  # noqa: E402

TWICE = "double free (block is already free)"
LINE = f"hakmem: free(): 0x10: {TWICE}"
DUE = "due free 0x10\n"


def guarantee(*what: str) -> Guarantee:
    return Guarantee("name", "attack", ["tiny"], list(what), {}, {}, False)


class Judging(unittest.TestCase):
    def test_kinds(self) -> None:
        for code, stdout, stderr, kind in (
            (-6, DUE, LINE + "\n", "detected"),
            (-4, DUE, "", "detected"),
            (1, DUE, "fatal: no signal\n", "detected"),
            (-11, DUE + "access\n", "", "fault"),
            (-11, DUE + "access\naccessed\n", "", "crashed"),
            (-11, "", "", "crashed"),
            (0, DUE + "survived\n", "", "survived"),
            (0, "access\naccessed\nwell\n", "", "well"),
            (1, "harm: a secret is read\n", "", "harm"),
            (3, "harm: a secret is read\n", "", "harm"),
            (2, "not tried: no such function\n", "", "untried"),
            (0, "", "", "other"),
            (-9, "", "", "other"),
            (0, "survived\n", "ERROR: ld.so: object 'x' cannot be preloaded: ignored.\n", "other"),
        ):
            with self.subTest(code=code, stdout=stdout, stderr=stderr):
                self.assertEqual(judge(code, stdout, stderr).kind, kind)

    def test_a_message_counts_to_the_letter(self) -> None:
        for stderr, kept in (
            (LINE, True),
            (LINE + "\nmore", False),
            (LINE.replace("0x10", "0x20"), False),
            (LINE.replace("free()", "realloc()"), False),
            (LINE.replace("already", "still"), False),
            ("fatal: another allocator", False),
        ):
            outcome = judge(-6, DUE, stderr)
            self.assertEqual(is_kept("stopped", guarantee(TWICE), outcome), kept, stderr)
        beyond = "hakmem: memcpy(): 0x10: writes beyond its block"
        for figures, kept in ((" (57 bytes; room for 56)", True), ("", True), (" (57)", False)):
            outcome = judge(-6, "due memcpy 0x10\n", beyond + figures)
            allowed = guarantee("writes beyond its block")
            self.assertEqual(is_kept("stopped", allowed, outcome), kept, figures)
        anywhere = judge(-6, "due - -\n", LINE)
        self.assertTrue(is_kept("prevented", guarantee(TWICE), anywhere))

    def test_what_a_promise_accepts(self) -> None:
        survived, harm = Outcome("survived", ""), Outcome("harm", "x")
        fault, crashed = Outcome("fault", "SIGSEGV"), Outcome("crashed", "SIGSEGV")
        for verdict, outcome, what, kept in (
            ("stopped", survived, FAULT, False),
            ("stopped", fault, FAULT, True),
            ("stopped", fault, TWICE, False),
            ("stopped", crashed, FAULT, False),
            ("prevented", survived, TWICE, True),
            ("improbable", survived, TWICE, True),
            ("prevented", harm, TWICE, False),
            ("prevented", crashed, FAULT, False),
        ):
            self.assertEqual(is_kept(verdict, guarantee(what), outcome), kept, (verdict, outcome))

    def test_the_table_of_promises(self) -> None:
        self.assertGreater(len(load()), 50)


class Table(unittest.TestCase):
    def test_numbers_do_not_differ_between_runs(self) -> None:
        text = "ERROR: 0x7f01 in pid 12345\nsecond"
        self.assertEqual(table.without_numbers(text), "ERROR: ADDRESS in N")

    def test_cells(self) -> None:
        notes: dict[str, int] = {}
        cell = table.cell_text(Counter({"harm: secret": 1, "detected": 2}), notes)
        self.assertEqual(cell, "detected (2 of 3), **harm** 1 (1 of 3)")
        self.assertEqual(table.cell_text(Counter({"harm: secret": 3}), notes), "**harm** 1")
        self.assertEqual(notes, {"secret": 1})

    def test_a_document_keeps_its_prose(self) -> None:
        with tempfile.TemporaryDirectory(prefix="hakmem-guarantees-") as folder:
            document = Path(folder) / "page.md"
            document.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
            table.put_into(document, "new")
            once = document.read_text()
            self.assertEqual(once, f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n")
            table.put_into(document, "new")
            self.assertEqual(document.read_text(), once)
            document.write_text("no marks")
            with self.assertRaises(SystemExit):
                table.put_into(document, "new")


if __name__ == "__main__":
    unittest.main()
