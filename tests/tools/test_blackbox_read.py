"""What the tools read in a black box, also in one that is damaged."""

import re

from boxes import *
from common import *


class Read(BoxCase):
    def test_the_sum_is_that_of_the_process(self):
        self.rest("200", HAKMEM_BLACKBOX_MB="60")
        box = self.listed()[0]
        parts = self.figures(box)["equation"]
        self.assertGreater(parts["live"], 0.9 * box["resident"])
        self.assertEqual(parts["resident"], box["resident"])
        text = hakmem("explain", self.file(box))
        self.assert_code(text, 0)
        self.assertIn("not ours:", text.out)

    def box_of_another_user(self, further=""):
        """Of a process that has changed its user: the kernel keeps the list of its pages from it."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        os.chmod(self.directory, 0o755)
        os.chmod(self.boxes, 0o777)
        script = "import ctypes, os, struct\nos.setuid(65534)\n" + further + "kept = [bytes(5000) for _ in range(10000)]\n"
        done = execute([sys.executable, "-c", script], env=self.variables(HAKMEM_BLACKBOX_MB="40"))
        self.assert_code(done, 0)
        return self.listed()[0]

    def test_a_process_that_has_changed_its_user(self):
        box = self.box_of_another_user()
        self.assertGreater(self.figures(box)["equation"]["live"], 0.6 * box["resident"])
        self.assertLess(box["size"], MIB)

    def test_one_that_may_not_ask_for_its_pages(self):
        """A filter may kill for mincore: it is not called, and nobody is to believe that nothing lives."""
        if os.uname().machine != "x86_64":
            self.skipTest("the filter has numbers of x86-64")
        result = hakmem("stats", self.file(self.box_of_another_user(self.WITHOUT_MINCORE)))
        self.assert_code(result, 0)
        self.assertIn("does not say which pages were resident", result.err)
        self.assertNotRegex(result.out, r" -\d")

    WITHOUT_MINCORE = '''
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in
    [(0x20, 0, 0, 0), (0x15, 0, 1, 27), (6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000)]))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(program)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(317, 1, 1, filter) == 0  # of all threads
'''

    def test_what_is_no_box(self):
        for name, content in {"hakmem-1-0.box": b"", "hakmem-1-1.box": b"x" * 1000, "other": b"", "hakmem-2.tmp": b""}.items():
            with open(os.path.join(self.boxes, name), "wb") as file:
                file.write(content)
        result = hakmem("blackbox", self.boxes)
        self.assert_code(result, 0)
        self.assertIn("1 file was not written to its end, 2 cannot be read", result.err)
        self.assert_code(hakmem("blackbox"), 2)
        self.assert_code(hakmem("blackbox", self.path("nothing")), 127)

    def test_a_damaged_box(self):
        self.rest("80", HAKMEM_BLACKBOX_MB="50")
        path = self.file(self.listed()[0])
        with open(path, "rb") as file:
            whole = file.read()
        for length in range(0, len(whole), len(whole) // 40):
            with open(path, "wb") as file:
                file.write(whole[:length])
            for command in "stats", "prof", "explain", "core":
                self.assertIn(hakmem(command, path).code, (0, 1, 126), (command, length))
        # A name that changed in one of the library's mappings, or an end of it: it seems to have terabytes, which would take longer than execute() waits.
        maps = list(re.finditer(rb"[0-9a-f]+-[0-9a-f]+ .*libhakmem.*\n", whole))
        for at in (maps[0].end() - 5, maps[0].start()):
            with open(path, "wb") as file:
                file.write(whole[:at] + b"1" + whole[at + 1 :])
            for command in "stats", "prof", "explain", "core":
                self.assertIn(hakmem(command, path).code, (0, 1, 126), (command, at))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
