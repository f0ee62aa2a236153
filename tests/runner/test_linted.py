"""linted.py: which files clang-tidy has to look at again after a change."""

import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
from linted import OF_ALL, affected

FILES = {
    "include/hakmem.h": "",
    "src/heap/heap.h": '#include "os/lock.h"\n',
    "src/heap/heap.c": '#include "heap/heap.h"\n',
    "src/heap/options.def": "",
    "src/os/lock.h": "#include <hakmem.h>\n",
    "src/os/lock.c": '  #  include "lock.h"\n',
    "src/os/clock.c": "#include <time.h>\n",
    "tools/main.c": '#include "../src/heap/options.def"\n',
    "tests/unit/locks.c": '/* "heap/heap.h" */\n#include "os/lock.h"\n',
    "tests/unit/any.c": "#include WHATEVER\n",
    "tests/api/plain.c": "",
}


class Linted(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        self.compiled = [name for name in FILES if name.endswith(".c")]

    def chosen(self, *changed: str) -> set[str]:
        commands = []
        for name in self.compiled:
            folder = "/".join(name.split("/")[:2]) if name.startswith("tests/") else "."
            commands.append({"file": f"{self.root}/{name}", "command": f"cc -c {name} -o {folder}/x.o"})
        # A file that another folder compiles.
        commands.append({"file": f"{self.root}/src/os/clock.c", "command": "cc -o tests/api/clock.o"})
        found = affected(self.root, commands, list(FILES), list(changed))
        return {name.removeprefix(f"{self.root}/") for name in found} - {"tests/unit/any.c"}

    def test_one_source(self) -> None:
        self.assertEqual(self.chosen("src/heap/heap.c"), {"src/heap/heap.c"})
        self.assertEqual(self.chosen("src/heap/gone.c"), set())

    def test_who_includes_it_however_deep(self) -> None:
        of_heap = {"src/heap/heap.c"}
        of_lock = of_heap | {"src/os/lock.c", "tests/unit/locks.c"}
        self.assertEqual(self.chosen("src/heap/heap.h"), of_heap)
        self.assertEqual(self.chosen("src/os/lock.h"), of_lock)
        self.assertEqual(self.chosen("include/hakmem.h"), of_lock)
        self.assertEqual(self.chosen("src/heap/options.def"), {"tools/main.c"})

    def test_a_file_that_may_now_be_found_first(self) -> None:
        self.assertEqual(self.chosen("src/new/lock.h"), {"src/os/lock.c"})

    def test_an_include_by_a_macro_may_be_of_any_file(self) -> None:
        found = affected(self.root, [{"file": f"{self.root}/tests/unit/any.c", "command": ""}], list(FILES), ["docs/faq.md"])
        self.assertEqual(len(found), 1)

    def test_flags_of_a_folder(self) -> None:
        self.assertEqual(self.chosen("tests/api/deep/CMakeLists.txt"), {"tests/api/plain.c", "src/os/clock.c"})
        self.assertEqual(self.chosen("tests/unit/wrapped.cmake"), {"tests/unit/locks.c"})

    def test_all(self) -> None:
        every = set(self.compiled) - {"tests/unit/any.c"}
        for name in ("CMakeLists.txt", "src/.clang-tidy", "cmake/flags.cmake", "tools/CMakeLists.txt", "scripts/lint.sh",
                     "scripts/packages.txt", "CMakePresets.json", "tests/.clang-tidy", "cmake/hakmem.pc.in"):  # fmt: skip
            with self.subTest(name):
                self.assertEqual(self.chosen(name), every)
        commands = [{"file": f"{self.root}/src/os/clock.c", "command": ""}]
        self.assertEqual(len(affected(self.root, commands, [], None)), 1)

    def test_none(self) -> None:
        for name in ("docs/faq.md", "lab/tests/CMakeLists.txt", "bindings/python/CMakeLists.txt", "cmake/hakmem.map"):
            self.assertEqual(self.chosen(name), set(), name)

    def test_the_names_are_those_of_the_repository(self) -> None:
        for name in ("CMakePresets.json", ".clang-tidy", "tests/.clang-tidy", "cmake/flags.cmake", "cmake/machine.c", "tools/CMakeLists.txt",
                     "scripts/lint.sh", "scripts/one_compile_command.py", "scripts/packages.txt", "tests/runner/linted.py",
                     "tests/runner/changes.py"):  # fmt: skip
            with self.subTest(name):
                self.assertTrue((ROOT / name).is_file())
                self.assertTrue(OF_ALL.fullmatch(name))


if __name__ == "__main__":
    unittest.main(verbosity=2)
