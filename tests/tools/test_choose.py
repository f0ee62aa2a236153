"""Which process a command is for: its number, its program's name, or none; sizes with letters; what is told of few."""

import re
import time

from common import *
from profiles import *

HOLDS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  volatile char *block = memset(malloc(50000000), 1, 50000000);
  printf("ready %d 0\n", (int)getpid());
  fflush(stdout);
  return getchar() == block[0];
}
"""

# At each line: 200 blocks again, of which one is a sample on average.
AGAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void *get(void) { return malloc(1000); }
int main(void) {
  static void *volatile all[200];
  printf("ready %d 0\n", (int)getpid());
  do {
    for (int i = 0; i < 200; i++) {
      free(all[i]);
      all[i] = get();
    }
    puts("again");
    fflush(stdout);
  } while (getchar() == '\n');
  return 0;
}
"""

# One place, first for many small blocks, then for few large ones.
LARGER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void *get(size_t size) { return malloc(size); }
int main(void) {
  static void *volatile all[4000];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 4000; i++) free(all[i]);
    for (int i = 0; i < 4000; i++) all[i] = round == 0 || i < 20 ? get(round == 0 ? 1000 : 1000000) : NULL;
    if (round == 0) printf("ready %d 0\n", (int)getpid());
    fflush(stdout);
    getchar();
  }
  return 0;
}
"""


class Choose(ProfCase):
    def setUp(self):
        super().setUp()
        self.name = f"held{os.getpid()}"
        self.program = self.build(self.name, HOLDS)

    def hold(self):
        return self.launch(program=self.program)

    def test_a_name_is_as_good_as_a_number(self):
        pid = self.hold().pid
        for command, says in (("stats", rf"^resident \d+ = .*\n{self.name} \({pid}\), "), ("prof", rf"\n{self.name} \({pid}\): "),
                              ("explain", rf"\n{self.name} \({pid}\), "), ("top", rf"hakmem top: {self.name} \({pid}\)"),
                              ("options --effective", r"^HAKMEM_PROFILE=balanced")):  # fmt: skip
            result = hakmem(*command.split(), self.name)
            self.assert_code(result, 0)
            self.assertRegex(result.out, says)
        # The kernel keeps 15 characters of a name; the program's file has all of them.
        long = self.copy(self.program, self.name + "_and_a_longer_name")
        process = self.launch(program=long)
        result = hakmem("stats", os.path.basename(long))
        self.assertIn(f"({process.pid})", result.out)
        os.unlink(long)
        self.assertIn(f"({process.pid})", hakmem("stats", os.path.basename(long)).out)

    def test_several_of_a_name(self):
        pids = [self.hold().pid for _ in range(2)]
        result = hakmem("stats", self.name)
        self.assert_code(result, 0)
        lines = result.out.splitlines()
        self.assertRegex(lines[0], "^ +PID +resident +live +waste +alloc/s  container +hakmem +program$")
        self.assertEqual(sorted(int(line.split()[0]) for line in lines[1:]), sorted(pids))
        self.assertRegex(lines[1], rf"^ +\d+ +\d+\.\d MiB +\d+\.\d MiB +[\d.]+ [KM]iB +[\d.]+ \S+  \S+ +\d+\.\d+\.\d+ \(\w+\) +{re.escape(self.program)}$")
        for command in ("prof", "explain", "top"):
            for words in ((self.name,), map(str, pids)):
                result = hakmem(command, *words)
                self.assert_code(result, 2)
                self.assertEqual(result.out, "")
                self.assertIn("name one by its number", result.err.splitlines()[0])
                self.assertEqual({int(line.split()[0]) for line in result.err.splitlines()[2:]}, set(pids))
        # Each of those that are numbers, or in a format for machines.
        result = hakmem("stats", *map(str, pids))
        self.assert_code(result, 0)
        self.assertEqual(re.findall(r"(?m)^\S+ \((\d+)\), hakmem", result.out), [str(pid) for pid in pids])
        self.assertEqual(result.out.count("\n\nresident "), 1)
        self.assertEqual(len(hakmem("stats", "--format=json", self.name).out.splitlines()), 2)
        result = hakmem("stats", "--format=openmetrics", self.name)
        self.assert_code(result, 2)
        self.assertIn("hakmem serve serves several", result.err)

    def test_a_long_name_is_not_taken_for_another_that_begins_alike(self):
        first = f"a-long-name-of-one-{os.getpid()}"
        pid = self.launch(program=self.build(first, HOLDS)).pid
        found = hakmem("stats", first)
        self.assert_code(found, 0)
        self.assertIn(f"({pid})", found.out)
        other = hakmem("stats", f"a-long-name-of-two-{os.getpid()}")
        self.assertEqual(other.out, "")
        self.assertIn("no process of the name", other.err)

    def test_none(self):
        pid = self.hold().pid
        for command in ("stats", "prof", "explain", "top"):
            result = hakmem(command, "no" + self.name)
            self.assert_code(result, 127)
            self.assertEqual(result.out, "")
            self.assertIn(f"no process of the name 'no{self.name}' runs on hakmem", result.err)
            self.assertRegex(result.err, rf"(?m)^ +{pid} ")
            self.assertIn("; these run on hakmem:", result.err)
        # What an empty $(pidof x) leaves.
        for command in ("prof", "explain"):
            result = hakmem(command)
            self.assert_code(result, 2)
            self.assertIn("name a process, by its number or its program's name", result.err)
            self.assertIn("; these run on hakmem:", result.err)
            self.assertRegex(result.err, rf"(?m)^ +{pid} ")
        for command in ("stats", "top"):
            result = hakmem(command)
            self.assert_code(result, 0)
            self.assertRegex(result.out, rf"(?m)^ +{pid} ")
            self.assertEqual(result.err, "")

    def test_none_on_the_whole_machine(self):
        """One sentence on how to start one, and no list that is announced and missing."""
        alone = ["unshare", "--pid", "--fork", "--mount-proc"]
        if os.geteuid() != 0 or execute([*alone, "true"]).code != 0:
            self.skipTest("no namespace of processes may be made here")
        for command in (["stats", "nothing"], ["prof", "nothing"], ["prof"]):
            result = execute([*alone, TOOL, *command])
            self.assertEqual(result.out, "")
            self.assertEqual(len(result.err.splitlines()), 1, result.err)
            self.assertTrue(result.err.endswith("; start one by: hakmem run -- PROGRAM\n"), result.err)

    def test_sizes_with_letters(self):
        pid = self.hold().pid
        self.assertIn("(one in 64.0 KiB, so far one in 2.0 MiB)", self.prof(pid, "--rate=64K"))
        self.assertIn("(one in 1.0 MiB, so far one in 2.0 MiB)", self.prof(pid, "--rate=1m"))
        for wrong in ("64X", "64KB", "K", "2G", "-1K", ""):
            result = hakmem("prof", f"--rate={wrong}", str(pid))
            self.assert_code(result, 2)
            self.assertIn(f"--rate={wrong}: accepted: 0..1073741824, or with K, M or G", result.err)
        current = hakmem("options", "--current", "HAKMEM_WARM_POOL_MB", env=environment(HAKMEM_WARM_POOL_MB="1G"))
        self.assertTrue(current.out.startswith("HAKMEM_WARM_POOL_MB=1024"), current)
        ran = hakmem("run", "true", env=environment(HAKMEM_WARM_POOL_MB="1500K"))
        self.assertIn("accepted: 0..1048576 or with K, M, G", ran.err)
        self.assertEqual(hakmem("run", "true", env=environment(HAKMEM_WARM_POOL_MB="2048K")).err, "")


class Words(ProfCase):
    def test_one_of_each(self):
        process = self.launch(program=self.build("holds", HOLDS))
        out = self.prof(process.pid)
        self.assertRegex(out, r"^covers .* by 1 sample \(one in 2\.0 MiB\)\nholds \(\d+\): [\d.]+ MiB live, at 1 place\n")
        self.assertRegex(out, r"\n +[\d.]+ MiB +[\d.]+%  about 1 block, 1 sample, the oldest ")
        self.assertRegex(hakmem("top", str(process.pid)).out, r" 1 thread and 0 ended")

    def test_samples_cover_no_more_than_lives(self):
        process = self.launch(program=self.build("again", AGAIN), HAKMEM_PROF_RATE="200000")
        above = False
        end = time.monotonic() + 120
        while not above and time.monotonic() < end:
            self.assertEqual(process.stdout.readline(), "again\n")
            result = hakmem("prof", str(process.pid))  # which notes it when no sample lives
            self.assert_code(result, 0)
            out = result.out
            head = HEAD.match(out.splitlines()[0])
            self.assertLessEqual(amount(head[1], head[2]), amount(head[3], head[4]), out)
            above = out.splitlines()[1].endswith("; an estimate by few samples, above what lives")
            process.stdin.write("\n")
            process.stdin.flush()
        self.assertTrue(above, "one in four is")

    def test_fewer_blocks_that_hold_more(self):
        process = self.launch(program=self.build("larger", LARGER), HAKMEM_PROF_RATE="16384")
        with subprocess.Popen([TOOL, "prof", "--growth=4", str(process.pid)], env=environment(), stdout=subprocess.PIPE, text=True) as tool:
            time.sleep(2)
            process.stdin.write("\n")
            process.stdin.flush()
            out = tool.communicate(timeout=60)[0]
        self.assertRegex(out, r"\n +1\d\.\d MiB .*  about \d+ fewer blocks, ")
        self.assertNotIn("about -", out)

    def test_samples_that_are_thinned(self):
        pid, _ = self.start(HAKMEM_PROF_RATE="4096", HAKMEM_PROF_MOST="100")
        self.assertRegex(self.prof(pid), r"^covers .* samples \(one in 4\.0 KiB, so far one in [\d.]+ KiB\)\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
