#!/usr/bin/env python3
"""The check of the lab's layers finds what it is there for, on small made-up trees."""
import tempfile
import unittest
from pathlib import Path

from check_lab_layers import check_tree


class CheckLabLayers(unittest.TestCase):
    def findings(self, **files: str) -> list[str]:
        """files: room__module -> text; one without a room lies beside the rooms."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for key, text in files.items():
                path = root.joinpath("lab", "hakmem_lab", *key.split("__")).with_suffix(".py")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_tree(root)[1]

    def test_downwards_is_fine(self) -> None:
        found = self.findings(
            base__errors="import hakmem_labels, os\n",
            run__rows="from hakmem_lab import __version__\nfrom hakmem_lab.base import errors\n",
            cli__app="from hakmem_lab.run.rows import Row\nfrom . import commands\n",
            start="from hakmem_lab.cli import app\n",
        )
        self.assertEqual(found, [])

    def test_upwards_is_found_with_its_line(self) -> None:
        found = self.findings(analysis__tail="\n\nfrom hakmem_lab.cli.soak_scripts import SHARES\n")
        self.assertEqual(found, ["lab/hakmem_lab/analysis/tail.py:3: analysis must not import cli"])

    def test_every_form_of_import_is_seen(self) -> None:
        for text in (
            "import hakmem_lab.report.tables\n",
            "import os, hakmem_lab.report.tables as tables\n",
            "from hakmem_lab import report\n",
            "from hakmem_lab.report import tables\n",
            "from ..report import tables\n",
            "from .. import report\n",
            "def later():\n    from hakmem_lab.report import tables\n",
            "from hakmem_lab import start\n",
        ):
            with self.subTest(text):
                self.assertEqual(len(self.findings(run__rows=text)), 1)

    def test_a_module_outside_the_rooms_is_found(self) -> None:
        self.assertEqual(len(self.findings(helpers="")), 1)
        self.assertEqual(len(self.findings(misc__x="")), 1)
        self.assertEqual(len(self.findings(run__x="from hakmem_lab.misc import x\n")), 1)

    def test_a_word_in_a_text_is_no_import(self) -> None:
        self.assertEqual(self.findings(run__rows='"""\nfrom hakmem_lab.cli import app\n"""\n'), [])


if __name__ == "__main__":
    unittest.main()
