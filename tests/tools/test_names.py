"""hakmem names: functions and lines for the places that a report of a guarded sample tells."""

import re
import tempfile
from pathlib import Path

from common import *

FREED = """
#include <stdlib.h>
__attribute__((noinline)) char *get_block(void) { return malloc(100); }
__attribute__((noinline)) void drop_block(char *block) { free(block); }
__attribute__((noinline)) int use_block(volatile char *block) { return block[3] + 1; }
int main(void) {
  char *block = get_block();
  drop_block(block);
  return use_block(block) * 0;
}
"""

RUST = os.environ.get("HAKMEM_TEST_RUST_NAMES", "") == "1"
# Functions by their linkers' names, as compilers make them of these.
LANGUAGES = {
    "_RNvNtCs1234_7mycrate3foo3bar": "mycrate::foo::bar",
    "_RINvNtC3std3mem8align_ofjdE": "std::mem::align_of::<usize, f64>",
    "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3new": "<std::path::PathBuf>::new",
    "_ZN7mycrate3foo3bar17h05af221e174051e9E": "mycrate::foo::bar",
    "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE": "<Test + 'static as foo::Bar<Test>>::bar",
    "_ZN3foo3barEi": "foo::bar(int)",
    "_Rather_not": "_Rather_not",
    "plain": "plain",
}


def names(*arguments, given=""):
    return subprocess.run([TOOL, "names", *arguments], input=given, capture_output=True, text=True, timeout=60)


class Names(TestCase):
    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp(prefix="hakmem names "))  # a blank in the path
        self.addCleanup(shutil.rmtree, self.folder)

    def report(self):
        source, program = self.folder / "freed.c", self.folder / "freed"
        source.write_text(FREED)
        subprocess.run([os.environ["HAKMEM_TEST_CC"], "-g", "-O1", "-fno-builtin", "-o", program, source], check=True)
        env = environment(LD_PRELOAD=LIBRARY, HAKMEM_PROF_RATE="1", HAKMEM_GUARD_SAMPLE="1")
        run = subprocess.run([program], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, -6, run)
        return run.stderr

    def test_a_report_gets_functions_and_lines(self):
        if not NAMES:
            self.skipTest("libdw is not installed")
        report = self.report()
        if "freed+0x" not in report:
            self.skipTest("libc does not tell which file a place in code is from")
        out = names(given=report)
        self.assertEqual((out.returncode, out.stderr), (0, ""))
        told = re.findall(r"/freed\+0x[0-9a-f]+  (\w+) \(freed.c:(\d+)\)", out.stdout)
        for wanted in (("use_block", "5"), ("drop_block", "4"), ("get_block", "3"), ("main", "8"), ("main", "9")):
            self.assertIn(wanted, told)
        without = re.sub(r"(\+0x[0-9a-f]+)  .*", r"\1", out.stdout)
        self.assertEqual(without, report)
        # As loggers write it, with the library's name in the line or without.
        for before, named in (("Nov 27 10:00:00 host srv[12]: ", True), ("2026-11-27T10:00:00 hakmem: srv[1]: ", True), ("Nov 27 host srv[12]: ", False)):
            logged = "".join(before + (line if named else line.removeprefix("hakmem:")) for line in report.splitlines(True))
            self.assertEqual(re.findall(r"/freed\+0x[0-9a-f]+  (\w+) \(freed.c:(\d+)\)", names(given=logged).stdout), told)
        file = self.folder / "report"
        file.write_text(report)
        self.assertEqual(names(file).stdout, out.stdout)

    def test_names_of_other_languages(self):
        if not (NAMES and RUST):
            self.skipTest("libdw or libiberty is not installed")
        text = "".join(f'int f{i}(void) __asm__("{name}");\nint f{i}(void) {{ return {i}; }}\n' for i, name in enumerate(LANGUAGES))
        library = self.build("languages.so", text, "-shared", "-fPIC")
        addresses = {line.split()[2]: line.split()[0] for line in execute(["nm", "--defined-only", library]).out.splitlines()}
        told = names(given="".join(f"{library}+0x{addresses[name]}\n" for name in LANGUAGES)).stdout.splitlines()
        self.assertEqual([line.partition("  ")[2] for line in told], list(LANGUAGES.values()))

    def test_other_lines_stay_as_they_are(self):
        for text in ("", "\n", "a line\n1+0x2\n", "/none/such+0x10\nnot ended", "+0x1\n", "/bin/sh+0xzz\n", f"{TOOL}+0x0\n",
                     f"{TOOL}+0xffffffffffffffff\n", "a\0b\nc\n", "\0\0+0x1\0\n\0", "x" * 100000 + "+0x1\n", "hakmem:     +0x1\n"):
            out = names(given=text)
            self.assertEqual((out.returncode, out.stderr, out.stdout), (0, "", text))

    def test_what_cannot_be_read_is_told(self):
        out = names("/none/such")
        self.assertEqual((out.returncode, out.stdout), (1, ""))
        self.assertIn("hakmem names: /none/such: No such file", out.stderr)
        self.assertEqual(names("a", "b").returncode, 2)


if __name__ == "__main__":
    unittest.main()
