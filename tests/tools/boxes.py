"""What the tests of black boxes share: a program that writes boxes, and what tools say of them."""

import json
import time

from common import *
from profiles import ProfCase

BOXED = os.environ.get("HAKMEM_TEST_BOXED", "")
MIB = 1 << 20


class BoxCase(ProfCase):
    def setUp(self):
        super().setUp()
        self.boxes = self.path("boxes")
        os.mkdir(self.boxes)

    def variables(self, **changes):
        return environment(**{"LD_PRELOAD": LIBRARY, "HAKMEM_BLACKBOX": self.boxes} | changes)

    def serve(self, *arguments, code=0, said="", **changes):
        done = execute([BOXED, *arguments], env=self.variables(**changes), cwd=self.directory)
        self.assertEqual(done.code, code, done)
        if said is not None:
            self.assertRegex(done.err, f"^{said}$")
        return done

    def rest(self, mib, **changes):
        """The program leaks as much, and ends when there is a box."""
        process = subprocess.Popen([BOXED, "rest", mib], env=self.variables(**changes), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with process:
            self.assertEqual(process.stdout.readline(), "served\n")
            for _ in range(200):
                if self.listed():
                    break
                time.sleep(0.1)
            process.communicate("")
        self.assertGreaterEqual(len(self.listed()), 1, changes)

    def listed(self):
        """The boxes, the newest first."""
        result = hakmem("blackbox", "--format=json", self.boxes)
        self.assert_code(result, 0)
        told = json.loads(result.out)
        self.assertEqual((told["version"], told["unreadable"]), (1, 0))
        return told["boxes"]

    def file(self, box):
        return os.path.join(self.boxes, box["file"])

    def mount(self, *options):
        """The directory of boxes is a small file system."""
        if os.geteuid() != 0 or execute(["mount", "-t", "tmpfs", "-o", ",".join(options), "none", self.boxes]).code != 0:
            self.skipTest("no tmpfs may be mounted here")
        self.addCleanup(execute, ["umount", "-l", self.boxes])

    def first_place(self, box):
        if not NAMES:
            self.skipTest("libdw is not installed")
        result = hakmem("prof", "-n", "1", self.file(box))
        self.assert_code(result, 0)
        return result.out

    def assert_tells_the_leak(self, box):
        place = self.first_place(box)
        self.assertRegex(place, r"\n +[0-9.]+ MiB +\d+\.\d%.*\n +.*remember_session\(unsigned long\) \(boxed\.cpp:\d+\)\n")

    def figures(self, box):
        result = hakmem("stats", "--format=json", self.file(box))
        self.assert_code(result, 0)
        return json.loads(result.out)


__all__ = ["BOXED", "MIB", "BoxCase"]
