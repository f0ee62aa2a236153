"""When black boxes (HAKMEM_BLACKBOX) are written, and what is left when a process is killed."""

import re
import time

from boxes import *
from common import *

DAEMON = """
#include <stdlib.h>
#include <unistd.h>
static int none;
int main(void) {
  int *volatile foreign = &none;
  if (chdir("/") == 0) free(foreign);
  return 0;
}
"""


class Written(BoxCase):
    def test_at_a_size_and_each_fifth_beyond(self):
        self.rest("300", HAKMEM_BLACKBOX_MB="100")
        boxes = self.listed()
        self.assertLessEqual(len(boxes), 4)  # the newest of six, if the helper gets as much time
        for newer, older in zip(boxes, boxes[1:]):
            self.assertGreaterEqual(newer["resident"], older["resident"] * 1.19)
        self.assertEqual({box["reason"] for box in boxes}, {"at"})
        for box in boxes:
            self.assertLess(box["size"], 0.005 * box["resident"])
        self.assertEqual(os.stat(self.file(boxes[0])).st_mode & 0o777, 0o600)
        self.assertFalse([name for name in os.listdir(self.boxes) if name.endswith(".tmp")])
        self.assert_tells_the_leak(boxes[0])

    def test_of_threads(self):
        self.serve("threads", "400", HAKMEM_BLACKBOX_MB="60")
        self.assert_tells_the_leak(self.listed()[0])

    def test_not_without_a_limit(self):
        self.serve("leak", "100", HAKMEM_CONTAINER="0")
        self.assertEqual(self.listed(), [])
        self.assertIn("no black box", hakmem("blackbox", self.boxes).out)

    def test_each_profile(self):
        for profile in "speed", "balanced", "lean":
            self.rest("100", HAKMEM_BLACKBOX_MB="50", HAKMEM_PROFILE=profile)
            for box in self.listed():
                os.unlink(self.file(box))

    def test_not_by_the_program_itself(self):
        said = "hakmem: HAKMEM_BLACKBOX: nothing was written to .*: there is no helper thread\n"
        self.serve("leak", "100", said=said, HAKMEM_BLACKBOX_MB="50", HAKMEM_BACKGROUND="0")
        self.assertEqual(self.listed(), [])

    def test_a_child_has_boxes_of_its_own(self):
        done = self.serve("fork", "150", HAKMEM_BLACKBOX_MB="100")
        child = int(done.out.split()[0])
        pids = [box["pid"] for box in self.listed()]
        self.assertEqual(len(set(pids)), 2)
        self.assertIn(child, pids)
        self.assert_tells_the_leak(next(box for box in self.listed() if box["pid"] == child))

    def test_when_an_allocation_fails(self):
        self.serve("refused")
        boxes = self.listed()
        self.assertIn("failure", {box["reason"] for box in boxes})
        self.assertIn("address_space", {box["reason"] for box in boxes})
        for box in boxes:
            self.assertIn("refused()", self.first_place(box))

    def test_when_a_block_cannot_grow_or_a_heap(self):
        for how in "grown", "heap":
            self.serve(how)
            self.assertEqual(self.listed()[0]["reason"], "failure", how)
            for box in self.listed():
                os.unlink(self.file(box))

    def test_not_of_sizes_that_nothing_has(self):
        self.serve("impossible")
        self.assertEqual(self.listed(), [])

    def test_when_a_message_ends_it(self):
        for background in "0", "1":
            self.serve("message", "20", code=-signal.SIGABRT, said="hakmem: free.*\n", HAKMEM_BACKGROUND=background)
            box = self.listed()[0]
            self.assertEqual(box["reason"], "message")
            self.assertRegex(box["said"], r"^hakmem: free\(\): 0x[0-9a-f]+: not a block of this allocator$")
            self.assert_tells_the_leak(box)

    def test_in_a_directory_of_the_start(self):
        """A daemon goes to / before it allocates anything."""
        source = self.write("daemon.c", DAEMON)
        self.assert_code(execute([CC, "-fno-builtin", "-o", self.path("daemon"), source]), 0)
        done = execute([self.path("daemon")], env=self.variables(HAKMEM_BLACKBOX="boxes"), cwd=self.directory)
        self.assertEqual(done.code, -signal.SIGABRT, done)
        self.assertEqual(len(self.listed()), 1)

    def test_system_calls_are_in_the_manual(self):
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        with open(os.path.join(SOURCE, "docs/man/hakmem.5.scd"), encoding="utf-8") as file:
            told = set(re.findall(r"\*(\w+)\*", re.search(r"^A black box takes ([^:]*):", file.read(), re.MULTILINE)[1]))
        for _ in range(2):
            log = self.path("log")
            command = ["strace", "-f", "-qq", "-o", log, "-E", f"LD_PRELOAD={LIBRARY}", BOXED, "message", "10"]
            variables = self.variables(HAKMEM_BACKGROUND="0")
            del variables["LD_PRELOAD"]
            if execute(command, env=variables).code != -signal.SIGABRT:
                self.skipTest("no program may be traced here")
            with open(log, encoding="utf-8", errors="replace") as file:
                calls = re.findall(r"^\d+ +(\w+)\(", file.read().split("hakmem: free")[1], re.MULTILINE)
            self.assertIn("renameat2", calls)
            self.assertLessEqual(set(calls) - {"gettid", "rt_sigprocmask", "tgkill"}, told)  # these are abort's

    def test_it_rests(self):
        """A helper that has written does not wake again."""
        process = subprocess.Popen([BOXED, "rest", "120"], env=self.variables(HAKMEM_BLACKBOX_MB="50"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with process:
            self.assertEqual(process.stdout.readline(), "served\n")
            time.sleep(3)  # two scans of the helper
            before = self.switches(process.pid)
            time.sleep(2)
            self.assertEqual(self.switches(process.pid), before)
            process.communicate("")
        self.assertGreaterEqual(len(self.listed()), 1)

    def switches(self, pid):
        told = {}
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
                told[task] = re.findall(r"ctxt_switches:\s*(\d+)", file.read())
        self.assertEqual(len(told), 2)  # with the helper
        return told


class Killed(BoxCase):
    """By the kernel, at the limit of a memory cgroup."""

    LIMIT = 256 * MIB

    def group(self):
        first = os.path.isdir("/sys/fs/cgroup/memory")
        top = "/sys/fs/cgroup/memory" if first else "/sys/fs/cgroup"
        path = f"{top}/hakmem-test-{os.getpid()}"
        try:
            os.mkdir(path)
        except OSError as error:
            self.skipTest(f"no control group may be made here: {error.strerror}")
        self.addCleanup(os.rmdir, path)
        name = "memory.limit_in_bytes" if first else "memory.max"
        try:
            with open(f"{path}/{name}", "w", encoding="ascii") as file:
                file.write(str(self.LIMIT))
            swap = f"{path}/memory.swap.max"
            if os.path.exists(swap):
                with open(swap, "w", encoding="ascii") as file:
                    file.write("0")
        except OSError as error:
            self.skipTest(f"this control group has no limit of memory: {error.strerror}")
        return path

    def test_what_is_left(self):
        path = self.group()

        def enter():
            with open(f"{path}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")

        done = execute([BOXED, "leak", "2000"], env=self.variables(), cwd=self.directory, preexec_fn=enter)
        self.assertEqual(done.code, -signal.SIGKILL, done)
        boxes = self.listed()
        self.assertEqual(boxes[0]["reason"], "limit")
        self.assertEqual(boxes[0]["limit"], self.LIMIT)
        self.assertGreaterEqual(boxes[0]["resident"], self.LIMIT / 1.25)
        self.assert_tells_the_leak(boxes[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
