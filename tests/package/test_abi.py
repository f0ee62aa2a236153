#!/usr/bin/env python3
"""The comparison of binary interfaces finds what breaks a program, and allows what does not. CC in the environment."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from abi import SKIP, compare, describe

HEADER = """#include <stddef.h>
#include <stdint.h>
struct hak_stats { uint32_t size; uint32_t version; uint64_t live; uint64_t warm; };
struct hak_fixed { uint32_t size; };
int hak_stats_get(struct hak_stats *stats);
int hak_fixed_get(struct hak_fixed *fixed);
size_t hak_purge(void);
extern char hakmem_directory[8];
"""
SOURCE = """#include "x.h"
int hak_stats_get(struct hak_stats *stats) { return (int)stats->live; }
int hak_fixed_get(struct hak_fixed *fixed) { return (int)fixed->size; }
size_t hak_purge(void) { return 0; }
char hakmem_directory[8];
"""


class Abi(unittest.TestCase):
    def broken(self, old: str = "", new: str = "", source: tuple[str, str] = ("", ""), more: str = "") -> str:
        """What breaks when `old` becomes `new` in the header, source[0] source[1] in the source."""
        with tempfile.TemporaryDirectory() as name:
            versions = ((HEADER, SOURCE), (HEADER.replace(old, new), SOURCE.replace(*source) + more))
            if old:
                self.assertNotEqual(versions[0][0], versions[1][0], "the header has not changed")
            described = []
            for number, (header, code) in enumerate(versions):
                folder = Path(name, str(number))
                folder.mkdir()
                (folder / "x.h").write_text(header, encoding="utf-8")
                (folder / "x.c").write_text(code, encoding="utf-8")
                library, out = folder / "x.so", folder / "x.abi"
                command = [os.environ.get("CC", "cc"), "-g", "-shared", "-fPIC", "-o", str(library), "x.c"]
                subprocess.run(command, cwd=folder, check=True)
                describe(folder, library, out)
                described.append(out)
            return compare(*described)

    def test_nothing_changed(self) -> None:
        self.assertEqual(self.broken(), "")

    def test_a_new_function(self) -> None:
        self.assertEqual(self.broken(more="int hak_more(void); int hak_more(void) { return 1; }\n"), "")

    def test_a_field_at_the_end_where_the_caller_says_the_size(self) -> None:
        self.assertEqual(self.broken("uint64_t warm;", "uint64_t warm; uint64_t more;"), "")

    def test_a_directory_of_another_size(self) -> None:
        self.assertEqual(self.broken("directory[8]", "directory[16]", ("directory[8]", "directory[16]")), "")

    def test_a_function_that_is_gone(self) -> None:
        found = self.broken(source=("size_t hak_purge", "__attribute__((unused)) static size_t unused"))
        self.assertIn("hak_purge", found)

    def test_fields_that_changed_places(self) -> None:
        found = self.broken("uint64_t live; uint64_t warm;", "uint64_t warm; uint64_t live;")
        self.assertIn("offset changed", found)

    def test_fields_that_changed_places_while_the_struct_grew(self) -> None:
        found = self.broken("uint64_t live; uint64_t warm;", "uint64_t warm; uint64_t live; uint64_t more;")
        self.assertIn("offset changed", found)

    def test_a_field_in_the_middle(self) -> None:
        self.assertIn("more", self.broken("uint64_t live;", "uint64_t more; uint64_t live;"))

    def test_a_field_that_is_gone(self) -> None:
        self.assertIn("warm", self.broken(" uint64_t warm;", ""))

    def test_a_narrower_field_at_the_end(self) -> None:
        self.assertIn("warm", self.broken("uint64_t warm;", "uint32_t warm;"))

    def test_a_field_at_the_end_where_the_caller_does_not_say_the_size(self) -> None:
        found = self.broken("hak_fixed { uint32_t size; }", "hak_fixed { uint32_t size; uint32_t more; }")
        self.assertIn("hak_fixed", found)

    def test_another_result(self) -> None:
        found = self.broken("size_t hak_purge", "unsigned hak_purge", ("size_t hak_purge", "unsigned hak_purge"))
        self.assertIn("return type changed", found)


if __name__ == "__main__":
    if shutil.which("abidw") is None or shutil.which("abidiff") is None:
        print("abidw and abidiff not installed (package abigail-tools)")
        sys.exit(SKIP)
    unittest.main()
