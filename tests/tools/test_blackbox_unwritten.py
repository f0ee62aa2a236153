"""Where no black box can be written, and what the library says then."""

from boxes import *
from common import *


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
        # No size is known by which memory could have grown: one box, of all the allocations that fail.
        execute([*command, "env", f"LD_PRELOAD={LIBRARY}", BOXED, "refused"], env=environment(HAKMEM_BLACKBOX=self.boxes))
        self.assertEqual([name[-6:] for name in os.listdir(self.boxes)], ["-0.box"])

    def test_without_a_descriptor(self):
        done = self.serve("few", "100", said=None, HAKMEM_BLACKBOX_MB="50")
        self.assertRegex(done.err, "^hakmem: HAKMEM_BLACKBOX: nothing was written to .*: /proc/thread-self/statm cannot be read\n$")

    def test_a_full_disk(self):
        self.mount("size=64k")
        self.assert_said(r"no space left \(error \d+\)")
        self.assertEqual(os.listdir(self.boxes), [])

    def test_read_only(self):
        self.mount("ro")
        self.assert_said(r"read-only file system \(error \d+\)")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
