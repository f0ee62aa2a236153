"""Names of places in programs and libraries that were deleted or replaced while the process runs, as an upgrade does."""

import re

from common import *
from profiles import *

PLANTED = os.environ.get("HAKMEM_TEST_PLANTED", "")

LIBRARY_TEXT = r"""
#include <stdlib.h>
#include <string.h>
static __attribute__((noinline)) char *NAME(size_t size) { return memset(malloc(size), 1, size); }
char *library_gets(size_t size) {
  char *block = NAME(size);
  block[0] = 2; /* no tail call */
  return block;
}
"""

PROGRAM_TEXT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
char *library_gets(size_t size);
static __attribute__((noinline)) char *NAME(size_t size) { return memset(malloc(size), 1, size); }
int main(void) {
  volatile char *kept = NULL;
  for (int i = 0; i < 300; i++) kept = NAME(100000 + (size_t)i);
  for (int i = 0; i < 300; i++) kept = library_gets(100000 + (size_t)i);
  printf("ready %d 0\n", (int)getpid());
  fflush(stdout);
  return getchar() == kept[0];
}
"""

# Where root runs the tests: another user, who may not read what is mapped but by name.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


def build_id(path):
    out = execute(["readelf", "-n", path]).out
    return re.search(r"Build ID: ([0-9a-f]+)", out)[1]


class Upgrade(ProfCase):
    def setUp(self):
        super().setUp()
        if not NAMES:
            self.skipTest("libdw is not installed")
        os.chmod(self.directory, 0o755)

    def make(self, flags=("-g",)):
        """A program and a library of it as they are at the start, and as an upgrade brings them."""
        for version, suffix in (("old", ""), ("new", ".new")):
            # With another line before, so that each place lies elsewhere in the new one.
            before = "" if version == "old" else "#include <math.h>\nint more(int n) { return n * 3 + 1; }\n"
            self.build("libwork.so" + suffix, before + LIBRARY_TEXT, *flags, "-O1", "-shared", "-fPIC", "-Wl,--build-id",
                       f"-DNAME={version}_library_place", "-Wl,-soname,libwork.so")  # fmt: skip
            self.build("server" + suffix, before + PROGRAM_TEXT, *flags, "-O1", "-Wl,--build-id", f"-DNAME={version}_program_place",
                       self.path("libwork.so"), f"-Wl,-rpath,{self.directory}")  # fmt: skip

    def run_it(self, prefix=(), **changes):
        command = [*prefix, self.path("server")]
        return self.launch(*command[1:], program=command[0], HAKMEM_PROF_RATE="65536", **changes).pid

    def upgrade(self, *names):
        for name in names:
            os.rename(self.path(name + ".new"), self.path(name))

    def assert_old(self, out):
        self.assertRegex(out, r"\n +old_program_place \(server\.c:\d+\)\n")
        self.assertRegex(out, r"\n +old_library_place \(libwork\.so\.c:\d+\)\n")
        self.assertNotRegex(out, r"\bnew_")  # libc has _IO_new_file_xsputn
        self.assertNotIn("(deleted)", out)

    def test_what_was_deleted(self):
        self.make()
        pid = self.run_it()
        os.unlink(self.path("server"))
        os.unlink(self.path("libwork.so"))
        self.assert_old(self.prof(pid))

    def test_what_was_replaced_by_another_build(self):
        self.make()
        pid = self.run_it()
        self.upgrade("server", "libwork.so")
        self.assert_old(self.prof(pid))
        pid = self.run_it()  # the new one, beside it
        self.assertIn("new_program_place", self.prof(pid))

    def test_names_without_lines(self):
        """A file that is no more has a name without what the kernel adds."""
        self.make(flags=())
        pid = self.run_it()
        os.unlink(self.path("server"))
        self.assertRegex(self.prof(pid), r"\n +old_program_place \(server\)\n")

    def test_explain(self):
        copy = self.copy(PLANTED, "planted")
        pid = self.launch("few", program=copy, HAKMEM_BACKGROUND="0", HAKMEM_PROF_RATE="16384").pid
        os.unlink(copy)
        result = hakmem("explain", str(pid))
        self.assert_code(result, 0)
        self.assertEqual(result.err, "")
        self.assertIn("kept_for_long (planted.c:", result.out)

    # --- where what is mapped may not be read ---

    def as_nobody(self, *arguments, **changes):
        # The folder of the build may be root's alone.
        return execute([*NOBODY, self.copy(TOOL, "hakmem"), *arguments], env=environment(**changes))

    def start_as_nobody(self):
        return self.run_it(NOBODY, LD_PRELOAD=self.copy(LIBRARY, "libhakmem.so"))

    def replaced(self):
        self.make()
        pid = self.start_as_nobody()
        identity = build_id(self.path("libwork.so"))
        self.copy(self.path("libwork.so"), "kept")
        os.chmod(self.path("kept"), 0o755)
        self.upgrade("libwork.so")
        if execute([*NOBODY, "sh", "-c", f"cat /proc/{pid}/map_files/* >/dev/null"]).code == 0:
            self.skipTest("everybody may read what is mapped here")
        return pid, identity

    def test_what_cannot_be_read_is_told_with_its_build_id(self):
        pid, identity = self.replaced()
        result = self.as_nobody("prof", str(pid), HOME="/nonexistent")
        self.assert_code(result, 0)
        self.assertRegex(result.out, rf"\n +libwork\.so\+0x[0-9a-f]+ \(build-id {identity}\)\n")
        self.assertNotIn("_library_place", result.out)
        self.assertIn("old_program_place (server.c:", result.out)  # by /proc/PID/exe
        self.assertEqual(result.err, "hakmem prof: note: libwork.so was deleted or replaced, and only root or CAP_CHECKPOINT_RESTORE may read "
                         "what is mapped: its functions have no names\n")  # fmt: skip
        # The same place, told to another machine with that file.
        os.makedirs(self.path(f"cache/{identity}"))
        os.rename(self.path("kept"), self.path(f"cache/{identity}/executable"))
        named = subprocess.run([TOOL, "names"], input=result.out, env=environment(DEBUGINFOD_CACHE_PATH=self.path("cache")),
                               capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertEqual(named.stderr, "")
        self.assertRegex(named.stdout, rf"\n +libwork\.so\+0x[0-9a-f]+ \(build-id {identity}\)  old_library_place \(libwork\.so\.c:4\)\n")
        self.assertEqual(re.sub(r"(\(build-id \w+\))  .*", r"\1", named.stdout), result.out)
        # And with a cache of what was fetched.
        result = self.as_nobody("prof", str(pid), DEBUGINFOD_CACHE_PATH=self.path("cache"))
        self.assert_old(result.out)
        self.assertEqual(result.err, "")

    def test_a_copy_of_the_same_build_at_its_place(self):
        self.make()
        pid = self.start_as_nobody()
        self.copy(self.path("libwork.so"), "libwork.so.new")
        os.chmod(self.path("libwork.so.new"), 0o755)
        self.upgrade("libwork.so")
        result = self.as_nobody("prof", str(pid), HOME="/nonexistent")
        self.assert_old(result.out)
        self.assertEqual(result.err, "")

    def test_debugging_information_by_build_id(self):
        pid, identity = self.replaced()
        os.makedirs(self.path(f"cache/{identity}"))
        made = execute(["objcopy", "--only-keep-debug", self.path("kept"), self.path(f"cache/{identity}/debuginfo")])
        self.assert_code(made, 0)
        result = self.as_nobody("prof", str(pid), DEBUGINFOD_CACHE_PATH=self.path("cache"))
        self.assert_old(result.out)
        self.assertEqual(result.err, "")
        # One of another build is none.
        other = self.path(f"other/{identity}")
        os.makedirs(other)
        self.copy(self.path("server"), f"other/{identity}/debuginfo")
        result = self.as_nobody("prof", str(pid), DEBUGINFOD_CACHE_PATH=self.path("other"))
        self.assertIn(f"(build-id {identity})", result.out)

    def test_debugging_information_in_a_container(self):
        """The files of the process lie under its own root."""
        if not NOBODY:
            self.skipTest("only root can give a process other files")
        self.make()
        for name in ("server", "libwork.so"):
            identity = build_id(self.path(name))
            os.makedirs(self.path(f"debug/.build-id/{identity[:2]}"), exist_ok=True)
            made = execute(["objcopy", "--only-keep-debug", self.path(name), self.path(f"debug/.build-id/{identity[:2]}/{identity[2:]}.debug")])
            self.assert_code(made, 0)
            self.assert_code(execute(["strip", self.path(name)]), 0)
        if not os.path.isdir("/usr/lib/debug"):
            os.mkdir("/usr/lib/debug")
            self.addCleanup(os.rmdir, "/usr/lib/debug")
        inside = f"mount --bind {self.path('debug')} /usr/lib/debug && exec {' '.join(NOBODY)} {self.path('server')}"
        env = environment(LD_PRELOAD=self.copy(LIBRARY, "libhakmem.so"), HAKMEM_PROF_RATE="65536")
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", inside], env=env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(process.communicate, timeout=60)
        if not process.stdout.readline().startswith("ready"):
            self.skipTest("no namespaces of mounts can be made here")
        os.unlink(self.path("server"))
        self.upgrade("libwork.so")
        self.assert_old(self.as_nobody("prof", str(process.pid), HOME="/nonexistent").out)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
