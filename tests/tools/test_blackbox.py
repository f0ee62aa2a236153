"""Black boxes (HAKMEM_BLACKBOX): when they are written, what tools find in them, and what is left when a process is killed."""

import json
import re
import shutil
import time

from common import *
from profiles import ProfCase

BOXED = os.environ.get("HAKMEM_TEST_BOXED", "")
MIB = 1 << 20
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

    def first_place(self, box):
        if not NAMES:
            self.skipTest("libdw is not installed")
        result = hakmem("prof", "-n", "1", os.path.join(self.boxes, box["file"]))
        self.assert_code(result, 0)
        return result.out

    def assert_tells_the_leak(self, box):
        place = self.first_place(box)
        self.assertRegex(place, r"\n +[0-9.]+ MiB +\d+\.\d%.*\n +.*remember_session\(unsigned long\) \(boxed\.cpp:\d+\)\n")

    def figures(self, box):
        result = hakmem("stats", "--format=json", os.path.join(self.boxes, box["file"]))
        self.assert_code(result, 0)
        return json.loads(result.out)


class Written(BoxCase):
    def test_at_a_size_and_each_fifth_beyond(self):
        self.rest("300", HAKMEM_BLACKBOX_MB="100")
        boxes = self.listed()
        self.assertLessEqual(len(boxes), 4)  # the newest of six, if the helper gets as much time
        for newer, older in zip(boxes, boxes[1:]):
            self.assertGreaterEqual(newer["resident"], older["resident"] * 1.19)
        self.assertEqual({box["reason"] for box in boxes}, {"at"})
        self.assertLess(max(box["size"] for box in boxes), 1 * MIB)
        self.assertEqual(os.stat(os.path.join(self.boxes, boxes[0]["file"])).st_mode & 0o777, 0o600)
        self.assertFalse([name for name in os.listdir(self.boxes) if name.endswith(".tmp")])
        self.assert_tells_the_leak(boxes[0])

    def test_of_threads(self):
        self.serve("threads", "400", HAKMEM_BLACKBOX_MB="60")
        self.assert_tells_the_leak(self.listed()[0])

    def test_the_sum_is_that_of_the_process(self):
        self.rest("200", HAKMEM_BLACKBOX_MB="60")
        box = self.listed()[0]
        memory = self.figures(box)
        parts = memory["equation"] if "equation" in memory else memory
        self.assertGreater(parts["live"], 0.9 * box["resident"])
        self.assertEqual(parts["resident"], box["resident"])
        text = hakmem("explain", os.path.join(self.boxes, box["file"]))
        self.assert_code(text, 0)
        self.assertIn("not ours:", text.out)

    def test_not_without_a_limit(self):
        self.serve("leak", "100", HAKMEM_CONTAINER="0")
        self.assertEqual(self.listed(), [])
        self.assertIn("no black box", hakmem("blackbox", self.boxes).out)

    def test_each_profile(self):
        for profile in "speed", "balanced", "lean":
            self.rest("100", HAKMEM_BLACKBOX_MB="50", HAKMEM_PROFILE=profile)
            for box in self.listed():
                os.unlink(os.path.join(self.boxes, box["file"]))

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
                os.unlink(os.path.join(self.boxes, box["file"]))

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


class Bounded(BoxCase):
    """However many processes write into a directory, it has 32 boxes."""

    def put(self, name, seconds_ago):
        path = os.path.join(self.boxes, name)
        with open(path, "w", encoding="ascii") as file:
            file.write("x")
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
        if os.geteuid() != 0 or execute(["mount", "-t", "tmpfs", "-o", "size=1m", "none", self.boxes]).code != 0:
            self.skipTest("no tmpfs may be mounted here")
        try:
            self.put("hakmem-9000000-0123abcd.tmp", 100)
            path = os.path.join(self.boxes, "hakmem-9000000-0123abcd.tmp")
            with open(path, "wb") as file:
                file.write(bytes(MIB))
            os.utime(path, (1, 1))
            self.write_one()
            self.assertEqual(len(self.listed()), 1)
        finally:
            execute(["umount", "-l", self.boxes])


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


class CannotBeWritten(BoxCase):
    def assert_said(self, why, **changes):
        done = self.serve("leak", "200", said=None, HAKMEM_BLACKBOX_MB="50", **changes)
        self.assertEqual(done.out, "served\n")
        self.assertRegex(done.err, rf"^hakmem: HAKMEM_BLACKBOX: nothing was written to [^\n]*: {why}\n$")

    def test_a_message_without_a_directory(self):
        os.rmdir(self.boxes)
        said = "hakmem: free.*\nhakmem: HAKMEM_BLACKBOX: nothing was written to .*: no such directory .*\n"
        self.serve("message", "1", code=-signal.SIGABRT, said=said, HAKMEM_BACKGROUND="0")

    def test_no_directory(self):
        os.rmdir(self.boxes)
        self.assert_said(r"no such directory \(error \d+\)")

    def test_a_file(self):
        os.rmdir(self.boxes)
        self.write("boxes", "")
        self.assert_said(r"no such directory \(error \d+\)")

    def with_names_taken(self, count):
        """The child that writes has a number that is not known before."""
        script = f"""
import os, sys
makers = [os.mkdir, os.mkfifo, lambda name: os.symlink("nothing", name), os.mkdir]
for number in range({count}):
    makers[number](f"{{sys.argv[1]}}/hakmem-{{os.getpid()}}-{{number}}.box")
os.environ["LD_PRELOAD"] = sys.argv[2]
os.execv(sys.argv[3], [sys.argv[3], "message", "1"])
"""
        variables = self.variables(HAKMEM_BACKGROUND="0")
        del variables["LD_PRELOAD"]
        done = execute([sys.executable, "-c", script, self.boxes, LIBRARY, BOXED], env=variables)
        self.assertEqual(done.code, -signal.SIGABRT, done)
        return done

    def test_names_of_what_is_no_file(self):
        self.with_names_taken(3)
        kinds = sorted((name[-5], os.lstat(os.path.join(self.boxes, name)).st_mode >> 12) for name in os.listdir(self.boxes))
        self.assertEqual(kinds, [("0", 4), ("1", 1), ("2", 10), ("3", 8)])

    def test_each_name_is_of_what_is_no_file(self):
        self.assertIn("something else has the name", self.with_names_taken(4).err)
        self.assertEqual(len(os.listdir(self.boxes)), 4)

    def test_without_proc(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        cover = 'mount --make-rprivate / && mount -t tmpfs none /proc && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", cover, "sh"]
        if execute([*command, "true"]).code != 0:
            self.skipTest("nothing may be mounted here")
        done = execute([*command, "env", f"LD_PRELOAD={LIBRARY}", BOXED, "leak", "100"], env=environment(HAKMEM_BLACKBOX=self.boxes, HAKMEM_BLACKBOX_MB="50"))
        self.assertEqual(done.code, 0, done)
        self.assertRegex(done.err, "^hakmem: HAKMEM_BLACKBOX: nothing was written to .*: /proc/thread-self/statm cannot be read\n$")

    def test_without_a_descriptor(self):
        done = self.serve("few", "100", said=None, HAKMEM_BLACKBOX_MB="50")
        self.assertRegex(done.err, "^hakmem: HAKMEM_BLACKBOX: nothing was written to .*: /proc/thread-self/statm cannot be read\n$")

    def test_a_full_disk(self):
        if os.geteuid() != 0 or execute(["mount", "-t", "tmpfs", "-o", "size=64k", "none", self.boxes]).code != 0:
            self.skipTest("no tmpfs may be mounted here")
        try:
            self.assert_said(r"no space left \(error \d+\)")
            self.assertEqual(os.listdir(self.boxes), [])
        finally:
            execute(["umount", self.boxes])

    def test_read_only(self):
        if os.geteuid() != 0 or execute(["mount", "-t", "tmpfs", "-o", "ro", "none", self.boxes]).code != 0:
            self.skipTest("no tmpfs may be mounted here")
        try:
            self.assert_said(r"read-only file system \(error \d+\)")
        finally:
            execute(["umount", self.boxes])

    def test_a_process_that_has_changed_its_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        os.chmod(self.directory, 0o755)
        os.chmod(self.boxes, 0o777)
        drops = "import ctypes, os, struct\nos.setuid(65534)\n"
        kept = "kept = [bytes(5000) for _ in range(10000)]\n"
        # The kernel keeps the list of its pages from it.
        self.assert_code(self.run_python(drops + kept), 0)
        box = self.listed()[0]
        self.assertGreater(self.figures(box)["equation"]["live"], 0.6 * box["resident"])
        self.assertLess(box["size"], MIB)
        os.unlink(os.path.join(self.boxes, box["file"]))
        if os.uname().machine != "x86_64":
            return
        # A filter may kill for mincore: it is not called, and nobody is to believe that nothing lives.
        self.assert_code(self.run_python(drops + self.WITHOUT_MINCORE + kept), 0)
        result = hakmem("stats", os.path.join(self.boxes, self.listed()[0]["file"]))
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

    def run_python(self, script):
        return execute([sys.executable, "-c", script], env=self.variables(HAKMEM_BLACKBOX_MB="40"))

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
        path = os.path.join(self.boxes, self.listed()[0]["file"])
        with open(path, "rb") as file:
            whole = file.read()
        for length in range(0, len(whole), len(whole) // 40):
            with open(path, "wb") as file:
                file.write(whole[:length])
            for command in "stats", "prof", "explain", "core":
                self.assertIn(hakmem(command, path).code, (0, 1, 126), (command, length))
        # A name that changed in one of the library's mappings, or an end of it: it seems to have terabytes.
        maps = list(re.finditer(rb"[0-9a-f]+-[0-9a-f]+ .*libhakmem.*\n", whole))
        for at in (maps[0].end() - 5, maps[0].start()):
            with open(path, "wb") as file:
                file.write(whole[:at] + b"1" + whole[at + 1 :])
            for command in "stats", "prof", "explain", "core":
                start = time.monotonic()
                self.assertIn(hakmem(command, path).code, (0, 1, 126), (command, at))
                self.assertLess(time.monotonic() - start, 10, (command, at))


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
