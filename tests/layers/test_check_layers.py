#!/usr/bin/env python3
"""The layer check finds what it is there for, on small made-up trees."""
import tempfile
import unittest
from pathlib import Path

from check_layers import check_tree


class CheckLayers(unittest.TestCase):
    def findings(self, **files: str) -> list[str]:
        """files: room__file -> text, file's last _ being its dot."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            (root / "include").mkdir()
            (root / "include" / "hakmem.h").touch()
            for key, text in files.items():
                if key == "page":
                    (root / "docs").mkdir()
                    (root / "docs" / "architecture.md").write_text(text, encoding="utf-8")
                    continue
                room, _, file = key.partition("__")
                path = root / "src" / room / ".".join(file.rsplit("_", 1))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_tree(root)[1]

    def test_downwards_is_fine(self) -> None:
        found = self.findings(
            os__os_h="",
            slab__slab_h='#include "os/os.h"\n',
            heap__heap_c='#include "slab/slab.h"\n#include "os/os.h"\n#include "hakmem.h"\n',
        )
        self.assertEqual(found, [])

    def test_upwards_is_found_with_its_line(self) -> None:
        found = self.findings(heap__heap_h="", slab__slab_c='\n\n#include "heap/heap.h"\n')
        self.assertEqual(found, ['src/slab/slab.c:3: slab must not include heap ("heap/heap.h")'])

    def test_heaps_lie_below_the_engine_and_the_engine_below_the_fast_paths(self) -> None:
        files = {"front__fast_h": "", "release__release_h": "", "heap__heap_h": ""}
        for above, below in (("front", "release"), ("front", "heap"), ("release", "heap")):
            with self.subTest(f"{above} -> {below}"):
                down = f'#include "{below}/{"release" if below == "release" else "heap"}.h"\n'
                up = f'#include "{above}/{"fast" if above == "front" else "release"}.h"\n'
                self.assertEqual(self.findings(**files, **{f"{above}__x_c": down}), [])
                self.assertEqual(len(self.findings(**files, **{f"{below}__x_c": up})), 1)

    def test_a_file_that_is_too_long_is_found(self) -> None:
        self.assertEqual(self.findings(os__os_c="\n" * 400), [])
        found = self.findings(os__os_c="\n" * 401)
        self.assertEqual(found, ["src/os/os.c:401: has 401 lines, 400 are the most"])

    def test_a_file_that_the_page_does_not_name_is_found(self) -> None:
        [found] = self.findings(page="| `os` | `os.c` |", os__os_c="", os__lock_c="", os__lock_h="")
        self.assertRegex(found, "src/os/lock.c is not in the table of rooms")

    def test_sideways_is_found(self) -> None:
        found = self.findings(large__large_h="", slab__slab_c='#include "large/large.h"\n')
        self.assertEqual(len(found), 1)

    def test_relative_path_does_not_hide_it(self) -> None:
        found = self.findings(heap__heap_h="", os__os_c='#include "../heap/heap.h"\n')
        self.assertEqual(len(found), 1)

    def test_unknown_header_is_found(self) -> None:
        self.assertEqual(len(self.findings(os__os_c='#include "nowhere.h"\n')), 1)

    def test_file_outside_the_rooms_is_found(self) -> None:
        self.assertEqual(len(self.findings(misc__x_c="")), 1)

    def test_system_call_is_found_outside_os_only(self) -> None:
        call = "void f(void) { munmap(0, 0); }\n"
        self.assertEqual(self.findings(os__os_c=call), [])
        self.assertEqual(
            self.findings(heap__heap_c="/*\n*/" + call),
            ["src/heap/heap.c:2: munmap() belongs in src/os"],
        )

    def test_comments_strings_and_longer_names_are_no_calls(self) -> None:
        text = '/* mmap(x) */ // write(1)\nconst char *s = "open(";\nint os_mmap(int n);\n'
        self.assertEqual(self.findings(heap__heap_c=text), [])

    def test_commented_include_is_none(self) -> None:
        found = self.findings(heap__heap_h="", os__os_c='/* #include "heap/heap.h" */\n')
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
