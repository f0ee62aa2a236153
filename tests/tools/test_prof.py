"""hakmem prof: who allocated what lives in a process, read from outside."""

import errno
import json
import re
import time

from common import *
from profiles import *


class Live(ProfCase):
    def test_places_are_named_with_what_they_hold(self):
        pid, live = self.start(HAKMEM_PROF_RATE="65536")
        out = self.prof(pid)
        head = HEAD.match(out.splitlines()[0])
        self.assertIsNotNone(head, out)
        self.assertEqual(head[6], "64.0 KiB")
        self.assert_estimate(amount(head[1], head[2]), live, int(head[5]))
        self.assertLess(abs(amount(head[3], head[4]) / live - 1), 0.1, out)
        if not NAMES:
            return
        rows = self.rows(out)
        small, samples = self.of(rows, "held_in_small")
        self.assert_estimate(small, 64e6, samples)
        large, samples = self.of(rows, "held_in_large")
        self.assert_estimate(large, 16e6, samples)
        self.assertEqual(self.of(rows, "passing")[0], 0)
        self.assertTrue(all("main (sites.c" in " ".join(row[2]) for row in rows), out)
        self.assertTrue(rows[0][2][0].startswith("filled (sites.c:"), out)

    def test_history_is_there_before_anybody_asks(self):
        pid, live = self.start()
        head = HEAD.match(self.prof(pid).splitlines()[0])
        self.assertTrue(head[6].startswith("2.0 MiB"), head[6])
        self.assertGreater(int(head[5]), 10)
        self.assert_estimate(amount(head[1], head[2]), live, int(head[5]))

    def test_all_that_was_allocated(self):
        pid, live = self.start(HAKMEM_PROF_RATE="65536")
        rows = self.rows(self.prof(pid, "--allocated", "--sites=100"))
        allocated = sum(row[0] for row in rows)
        self.assert_estimate(allocated, live + 200e6, sum(row[1] for row in rows))
        if NAMES:
            passed, samples = self.of(rows, "passing")
            self.assert_estimate(passed, 200e6, samples)

    def test_what_grows_is_first(self):
        pid, _ = self.start("1", HAKMEM_PROF_RATE="16384")
        rows = self.rows(self.prof(pid, "--growth=3"))
        self.assertGreater(len(rows), 0)
        if NAMES:
            self.assertTrue(rows[0][2][1].startswith("leaked "), rows)

    def test_growth_tells_what_went_and_its_own_samples(self):
        program = self.build("grows", GROWS, "-O1")
        process = self.launch(program=program, HAKMEM_PROF_RATE="65536")
        with subprocess.Popen([TOOL, "prof", "--growth=4", str(process.pid)], env=environment(), stdout=subprocess.PIPE, text=True) as tool:
            time.sleep(2)
            process.stdin.write("\n")
            process.stdin.flush()
            out = tool.communicate(timeout=60)[0]
        head = re.search(r": ([\d.]+) MiB grown in 4 s, at \d+ places?; net -([\d.]+) MiB \(\+([\d.]+) MiB, -([\d.]+) MiB\)\n", out)
        self.assertTrue(head, out)
        grown, net, more, less = map(float, head.groups())
        self.assertEqual(grown, more)
        self.assertLess(abs(less - more - net), 0.2)
        self.assert_estimate(more * (1 << 20), 8e6, 122)
        self.assert_estimate(less * (1 << 20), 32e6, 488)
        # Not those that the place had before.
        self.assert_estimate(self.rows(out)[0][1], 122, 122)

    def test_a_leak_is_before_larger_caches(self):
        pid, _ = self.start("1", HAKMEM_PROF_RATE="16384")
        rows, out = [], ""
        end = time.monotonic() + 60
        # What lives for a while first has to live shorter than the program by far.
        while time.monotonic() < end and not (rows and self.leaks_first(rows)):
            time.sleep(0.5)
            out = self.prof(pid, "--leaks")
            rows = self.rows(out)
        self.assertTrue(self.leaks_first(rows), out)
        self.assertRegex(out.splitlines()[1], r", of which 1 may leak$")
        self.assertRegex(out, r"\d+ samples?, 0 s to \d+ s old, LEAK\? \+[\d.]+ MiB a minute\n")
        self.assertRegex(out, r"\n +of each quarter of \d+ s:( [\d.]+ \w+,){3} [\d.]+ \w+\n")
        folded = self.prof(pid, "--leaks", "--format=folded").splitlines()
        self.assertEqual(len(folded), 1, folded)
        if NAMES:
            self.assertIn(";leaked;filled ", folded[0])
            self.assertIn("rolling ", out)

    def leaks_first(self, rows):
        """Without names: what was filled at start is larger, what is replaced has no old blocks."""
        first = [row for row in rows if "LEAK?" in row[3]]
        return rows[0] in first and len(first) == 1 and (not NAMES or self.of(rows[:1], "leaked")[0] > 0)

    def test_lines_for_flame_graphs(self):
        pid, live = self.start(HAKMEM_PROF_RATE="65536")
        lines = self.prof(pid, "--format=folded").splitlines()
        self.assertTrue(all(re.fullmatch(r"[^ ;].* \d+", line) for line in lines), lines)
        self.assert_estimate(sum(int(line.rsplit(" ", 1)[1]) for line in lines), live, 1200)
        if NAMES:
            self.assertTrue(any(line.rsplit(" ", 1)[0].endswith("main;held_in_small;filled") for line in lines), lines)

    def test_a_page_with_a_flame_graph(self):
        pid, live = self.start(HAKMEM_PROF_RATE="65536")
        self.assertEqual(self.prof(pid, "--format=html", "-o", self.path("page")), "")
        with open(self.path("page"), encoding="utf-8") as file:
            page = file.read()
        self.assertNotRegex(page, r"https?://|@[A-Z]+@|<link|<img| src=")
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
        self.assertTrue(data["title"].startswith(f"sites ({pid}): "), data["title"])
        self.assertTrue(data["covers"].startswith("covers "))
        self.assert_estimate(sum(stack[0] for stack in data["stacks"]), live, 1200)
        libraries = {library for _, library in data["names"]}
        self.assertIn(os.path.basename(SITES), libraries)
        self.assertTrue(all(libraries), data["names"])
        if NAMES:
            stacks = [[data["names"][name] for name in stack[2:]][-3:] for stack in data["stacks"]]
            program = os.path.basename(SITES)
            self.assertIn([["main", program], ["held_in_small", program], ["filled", program]], stacks)
            self.assertIn(f"held_in_large ({os.path.basename(SITES)}.c:", page.split("<pre>")[1])

    def test_the_rate_of_a_running_process(self):
        pid, _ = self.start("1")
        self.assertRegex(self.prof(pid, "--rate=0"), r"by \d+ samples? \(off\)\n")
        self.assertIn("(one in 32.0 KiB", self.prof(pid, "--rate=32768"))


class Wrong(ProfCase):
    def test_arguments(self):
        for arguments, says in (
            ([], "name a process"),
            (["1", "--format=pdf"], "accepted: table|json|folded|pprof|html"),
            (["1", "--growth=0"], "accepted: 1..86400"),
            (["1", "--growth=x"], "accepted: 1..86400"),
            (["1", "--rate=-1"], "accepted: 0..1073741824"),
            (["1", "--leaks", "--format=pprof"], "accepted with it: table|folded|html"),
            (["1", "-n", "0"], "accepted: 1..1000000"),
            (["1", "--growth=2", "--allocated"], "exclude each other"),
            (["1", "--leaks", "--growth=2"], "exclude each other"),
            (["--allocated", "--leaks", "--", "true"], "exclude each other"),
            (["1", "--sites=x"], "accepted: 1..1000000"),
        ):
            result = hakmem("prof", *arguments)
            self.assert_code(result, 2)
            self.assertIn(says, result.err)
            self.assertNotIn("PROGRAM ERROR", result.err)

    def test_file_that_cannot_be_written(self):
        ran, there = self.path("ran"), self.write("there", "as it was")
        pid, _ = self.start("1")
        for path, error in ((self.path("none/such"), errno.ENOENT), (self.directory, errno.EISDIR)):
            for arguments in (("--growth=3000", str(pid)), ("--", "touch", ran)):
                result = hakmem("prof", "-o", path, *arguments)
                self.assert_code(result, 2)
                self.assertEqual(result.err, f"hakmem prof: -o {path}: {os.strerror(error)}\n")
        self.assertFalse(os.path.exists(ran))
        # What was there stays where there is no report, and nothing new is left.
        for path in (there, self.path("new")):
            self.assert_code(hakmem("prof", "-o", path, "--", "/none/such"), 127)
            self.assert_code(hakmem("prof", "-o", path, str(os.getpid())), 126)
        with open(there, encoding="ascii") as file:
            self.assertEqual(file.read(), "as it was")
        self.assertFalse(os.path.exists(self.path("new")))
        # A report replaces all of it.
        self.write("there", "x" * 100000)
        self.assertEqual(self.prof(pid, "-o", there), "")
        with open(there, encoding="ascii") as file:
            self.assertRegex(file.read(), r"\Acovers ")
        self.assertLess(os.path.getsize(there), 100000)


GROWS = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) void *went(void) { return malloc(1000); }
__attribute__((noinline)) void *grew(void) { return malloc(1000); }
int main(void) {
  static void *volatile all[32000], *volatile kept[16000];
  for (int i = 0; i < 32000; i++) all[i] = went();
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 8000; i++) kept[8000 * round + i] = grew();
    if (round == 0) {
      puts("ready");
      fflush(stdout);
      getchar();
    }
  }
  for (int i = 0; i < 32000; i++) free(all[i]);
  return getchar() == 'x';
}
"""

HOLDS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) char *NAME(size_t size) { return memset(malloc(size), 1, size); }
int main(void) {
  volatile char *kept = NULL;
  for (int i = 0; i < 1000; i++) kept = NAME(100000 + (size_t)i);
  puts("ready");
  fflush(stdout);
  return getchar() == kept[0];
}
"""

# Each way to get memory, whose caller a stack begins with. The operators of C++ by their linker's names.
ENTRIES = r"""
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *_Znwm(size_t size), *_ZnamSt11align_val_t(size_t size, size_t alignment);
void *hak_malloc(size_t size);
static volatile int sink;
static void *posix(size_t size) {
  void *block = NULL;
  return posix_memalign(&block, 64, size) == 0 ? block : NULL;
}
#define ENTRY(name, call)                                                                                              \
  static __attribute__((noinline)) void *by_##name(size_t size) {                                                      \
    void *block = call;                                                                                                \
    sink++;                                                                                                            \
    return block;                                                                                                      \
  }
#define ENTRIES(X)                                                                                                     \
  X(malloc, malloc(size)) X(calloc, calloc(1, size)) X(realloc, realloc(malloc(size / 2), size))                       \
  X(aligned, aligned_alloc(64, size)) X(memalign, memalign(64, size)) X(posix, posix(size))                            \
  X(new, _Znwm(size)) X(new_aligned, _ZnamSt11align_val_t(size, 64)) X(own, hak_malloc(size))
ENTRIES(ENTRY)
#define LOOP(name, call)                                                                                               \
  for (int i = 0; i < 3000; i++) by_##name(1024);                                                                      \
  for (int i = 0; i < 30; i++) by_##name(200064);                                                                      \
  for (int i = 0; i < 4; i++) by_##name(4000000);
int main(void) {
  ENTRIES(LOOP)
  printf("ready %d 0\n", (int)getpid());
  fflush(stdout);
  return getchar() == 'x';
}
"""


class Entries(ProfCase):
    def test_a_stack_begins_with_the_caller_of_the_allocator(self):
        """The library shared or linked in, with symbols that would tell our own functions."""
        if not NAMES:
            self.skipTest("libdw is not installed")
        archive = os.path.join(os.path.dirname(LIBRARY), "libhakmem.a")
        flags = ("-g", "-O1", "-fno-inline", "-pthread")
        for built in (
            self.build("shared", ENTRIES, *flags, LIBRARY, f"-Wl,-rpath,{os.path.dirname(LIBRARY)}"),
            self.build("linked", ENTRIES, *flags, archive),
            self.build("static_pie", ENTRIES, *flags, "-static-pie", archive),
        ):
            process = self.launch(program=built, HAKMEM_PROF_RATE="65536", LD_PRELOAD=None)
            rows = self.rows(self.prof(process.pid, "--sites=100"))
            first = {row[2][0].split()[0] for row in rows if any(place.startswith("by_") for place in row[2])}
            self.assertEqual(first - {"posix"}, {f"by_{name}" for name in ("malloc", "calloc", "realloc", "aligned", "memalign", "new", "new_aligned", "own")}, rows)
            self.assertIn("posix", first)


# Code of no object, as a JIT makes it, calls the function that allocates.
MADE = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *volatile kept;
static void allocate(void) {
  for (int i = 0; i < 3000; i++) kept = malloc(1024);
}
int main(void) {
  void (*call)(void (*)(void)) = NULL;
#if defined(__x86_64__)
  static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, code, sizeof code);
  if (mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0) *(void **)&call = page;
#endif
  if (call != NULL) call(allocate);
  else allocate();
  printf("ready %d 0\n", (int)getpid());
  fflush(stdout);
  return getchar() == 'x';
}
"""


class Made(ProfCase):
    def test_each_block_of_a_program_linked_with_us_may_be_a_sample(self):
        """Also the first one, of a libc that is not set up; and where code of no object is among the callers."""
        archive = os.path.join(os.path.dirname(LIBRARY), "libhakmem.a")
        flags = ("-g", "-O1", "-fno-inline", "-pthread", archive)
        for name, *more in (("made_linked",), ("made_static_pie", "-static-pie"), ("made_static", "-static")):
            process = self.launch(program=self.build(name, MADE, *flags, *more), HAKMEM_PROF_RATE="1", LD_PRELOAD=None)
            if NAMES and name != "made_static":  # whose glibc tells no tables
                self.assertIn("allocate", self.prof(process.pid), name)


class Containers(ProfCase):
    def test_names_come_from_the_process_own_files(self):
        """Where it has another file under the name of one that is here."""
        if not NAMES:
            return
        here = self.build("holds", HOLDS, "-g", "-DNAME=as_it_is_here")
        there = self.build("other", HOLDS, "-g", "-DNAME=as_it_is_there")
        inside = f"mount --bind {there} {here} && exec {here}"
        env = environment(LD_PRELOAD=LIBRARY, HAKMEM_PROF_RATE="65536")
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", inside], env=env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(process.communicate, timeout=60)
        if process.stdout.readline() != "ready\n":
            self.skipTest("no namespaces of mounts can be made here")
        out = self.prof(process.pid)
        self.assertIn("as_it_is_there (", out)
        self.assertNotIn("as_it_is_here", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
