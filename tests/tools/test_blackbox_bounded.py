"""How many black boxes a directory has, and what goes for a new one."""

import json
import time

from boxes import *
from common import *


class Bounded(BoxCase):
    """However many processes write into a directory, it has 32 boxes."""

    def put(self, name, seconds_ago, content=b"x"):
        path = os.path.join(self.boxes, name)
        with open(path, "wb") as file:
            file.write(content)
        then = time.time() - seconds_ago
        os.utime(path, (then, then))

    def write_one(self):
        self.serve("message", "1", code=-signal.SIGABRT, said=None, HAKMEM_BACKGROUND="0")

    def names(self):
        return set(os.listdir(self.boxes))

    def test_a_crash_loop(self):
        for _ in range(36):
            self.write_one()
        self.assertEqual(len(self.names()), 32)
        self.assertEqual(len(self.listed()), 32)

    def test_the_last_box_of_each_process_stays_longest(self):
        last = {f"hakmem-{pid}-3.box" for pid in range(9000000, 9000020)}
        for pid in range(9000000, 9000020):
            self.put(f"hakmem-{pid}-3.box", 50000)
            self.put(f"hakmem-{pid}-1.box", 60000 + pid - 9000000)
        self.write_one()
        names = self.names()
        own = {box["file"] for box in self.own()}
        older = {f"hakmem-{pid}-1.box" for pid in range(9000000, 9000011)}
        self.assertEqual(names, last | older | own)
        self.assertEqual(len(own), 1)

    def own(self):
        return json.loads(hakmem("blackbox", "--format=json", self.boxes).out)["boxes"]

    def test_then_the_oldest_goes(self):
        for pid in range(9000000, 9000200):
            self.put(f"hakmem-{pid}-0.box", pid - 9000000 + 100)
        self.write_one()
        own = {box["file"] for box in self.own()}
        self.assertEqual(self.names(), {f"hakmem-{pid}-0.box" for pid in range(9000000, 9000031)} | own)

    def test_only_our_files_go(self):
        others = ["hakmem-1-4.box", "hakmem-1-.box", "hakmem--1.box", "hakmem-1-0.box.gz", "hakmem-12345678901-0.box", "hakmem-1-00.box", "notes", "hakmem-1-12345678.tmp2", "hakmem-1-1234567.tmp", "hakmem-1-123456789.tmp", "hakmem-1-1.tmp", "hakmem-1-12345678.box", "hakmem-1.tmp"]
        for name in others:
            self.put(name, 90000)
        os.symlink("notes", os.path.join(self.boxes, "hakmem-2-0.box"))
        os.mkdir(os.path.join(self.boxes, "hakmem-3-0.box"))
        os.mkfifo(os.path.join(self.boxes, "hakmem-4-0.box"))
        os.symlink("notes", os.path.join(self.boxes, "hakmem-2-12345678.tmp"))
        others += ["hakmem-2-0.box", "hakmem-3-0.box", "hakmem-4-0.box", "hakmem-2-12345678.tmp"]
        for pid in range(9000000, 9000040):
            self.put(f"hakmem-{pid}-0.box", 100)
        self.write_one()
        self.assertLessEqual(set(others), self.names())
        self.assertEqual(len(self.names()), len(others) + 32)

    def test_what_was_never_finished_goes(self):
        self.put("hakmem-9000000-0123abcd.tmp", 100)
        self.put("hakmem-9000001-0123abcd.tmp", 5)  # somebody may be writing it
        self.put("hakmem-9000002-0123abcd.tmp", -5000)  # before the clock was set back
        self.write_one()
        self.assertNotIn("hakmem-9000002-0123abcd.tmp", self.names())
        self.assertNotIn("hakmem-9000000-0123abcd.tmp", self.names())
        self.assertIn("hakmem-9000001-0123abcd.tmp", self.names())

    def test_what_was_never_finished_fills_no_disk(self):
        self.mount("size=1m")
        self.put("hakmem-9000000-0123abcd.tmp", 100, bytes(MIB))
        self.write_one()
        self.assertEqual(len(self.listed()), 1)


class OfOneNumber(BoxCase):
    """Containers that share a directory: the first process of each has number 1."""

    def test_they_do_not_disturb_each_other(self):
        alone = ["unshare", "--pid", "--fork", "--mount-proc"]
        if os.geteuid() != 0 or execute([*alone, "true"]).code != 0:
            self.skipTest("no namespace of processes may be made here")
        command = [*alone, "env", f"LD_PRELOAD={LIBRARY}", BOXED, "leak", "60"]
        variables = environment(HAKMEM_BLACKBOX=self.boxes, HAKMEM_BLACKBOX_MB="8")
        for _ in range(8):
            processes = [subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
            for process in processes:
                self.assertEqual(process.communicate(), ("served\n", ""))
            self.assertLessEqual({box["pid"] for box in self.listed()}, {1})  # none is torn
        for box in self.listed():
            self.assertGreater(self.figures(box)["equation"]["live"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
