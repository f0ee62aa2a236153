"""hakmem prof --by: what lives by function, file, library, thread, size and age, of a process and of a core."""

import json
import re
import time

from common import *
from cores import CoreCase
from profiles import HEAD, amount

SERVER = os.environ.get("HAKMEM_TEST_SERVER", "")
MB = 1000000

LIBRARY_TEXT = r"""
#include <string.h>
volatile int library_sink;
/* The block is strdup's, which is libc's. */
__attribute__((noinline)) char *copied_in_library(const char *text) {
  char *copy = strdup(text);
  library_sink++;
  return copy;
}
"""

# What each function and thread holds is known.
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
char *copied_in_library(const char *text);
static volatile int sink;
static char *volatile last;
/* std::vector<char, std::allocator<char> >::reserve(unsigned long), as the linker names a template's function in a program. */
__attribute__((noinline)) char *_ZNSt6vectorIcSaIcEE7reserveEm(size_t bytes) {
  char *block = memset(malloc(bytes), 1, bytes);
  sink++;
  return block;
}
__attribute__((noinline)) void small_in_main(void) {
  last = _ZNSt6vectorIcSaIcEE7reserveEm(1000);
  sink++;
}
__attribute__((noinline)) void medium_in_thread(void) {
  last = memset(malloc(5000), 1, 5000);
  sink++;
}
__attribute__((noinline)) void fresh(void) {
  last = memset(malloc(3000), 1, 3000);
  sink++;
}
static void *work(void *thread) {
  pthread_setname_np(pthread_self(), "worker");
  for (int i = 0; i < 6400; i++) medium_in_thread();
  pthread_barrier_wait(thread);
  pause();
  return NULL;
}
int main(void) {
  pthread_t thread;
  pthread_barrier_t barrier;
  char text[40000] = "";
  memset(text, 'x', sizeof text - 1);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&thread, NULL, work, &barrier);
  for (int i = 0; i < 16000; i++) small_in_main();
  for (int i = 0; i < 600; i++) last = copied_in_library(text);
  for (int i = 0; i < 200; i++) free(memset(malloc(1000000), 1, 1000000));
  pthread_barrier_wait(&barrier);
  printf("ready %d\n", (int)getpid());
  fflush(stdout);
  if (getchar() == '\n') {
    for (int i = 0; i < 4000; i++) fresh();
    puts("fresh");
    fflush(stdout);
  }
  getchar();
  _exit(0);
}
"""


class Grouped(CoreCase):
    def planted(self, **changes):
        flags = ("-g", "-O1", "-fPIC", "-pthread")
        library = self.build("libcopies.so", LIBRARY_TEXT, *flags, "-shared")
        program = self.build("grouped", PROGRAM, *flags, library)
        return self.launch(program=program, **{"HAKMEM_PROF_RATE": "32768"} | changes)

    def groups(self, pid, by, *arguments):
        """Bytes, samples and all else of each group, by its name; they add up, the largest first."""
        told = json.loads(self.prof(pid, f"--by={by}", "--format=json", *arguments))
        groups = told["groups"]
        self.assertEqual(told["by"], by)
        self.assertLessEqual(abs(sum(group["bytes"] for group in groups) - told["bytes"]), len(groups) + 1)
        self.assertEqual([group["bytes"] for group in groups], sorted((group["bytes"] for group in groups), reverse=True))
        return {group.get("name", ""): group for group in groups}

    def assert_group(self, group, truth, size=None):
        self.assert_estimate(group["bytes"], truth, group["samples"])
        if size is not None:
            self.assertLess(abs(group["blocks"] * size / group["bytes"] - 1), 0.01, group)

    def assert_planted(self, which):
        if NAMES:
            groups = self.groups(which, "function")
            self.assert_group(groups["medium_in_thread (grouped)"], 32 * MB, 5000)
            # Neither strdup nor std::vector.
            self.assert_group(groups["copied_in_library (libcopies.so)"], 24 * MB, 40000)
            self.assert_group(groups["small_in_main (grouped)"], 16 * MB, 1000)
            groups = self.groups(which, "file")
            self.assert_group(groups[self.path("grouped.c")], 48 * MB)
            self.assert_group(groups[self.path("libcopies.so.c")], 24 * MB)
        groups = self.groups(which, "library")
        self.assert_group(groups[self.path("grouped")], 48 * MB)
        self.assert_group(groups[self.path("libcopies.so")], 24 * MB)
        groups = self.groups(which, "size")
        self.assert_group(groups["above 4.0 KiB, up to 8.0 KiB"], 32 * MB, 5000)
        self.assert_group(groups["above 32.0 KiB, up to 64.0 KiB"], 24 * MB, 40000)
        self.assert_group(groups["above 512 B, up to 1.0 KiB"], 16 * MB, 1000)
        self.assertEqual([groups["above 512 B, up to 1.0 KiB"][end] for end in ("least", "most")], [513, 1024])

    def test_a_process(self):
        self.assert_planted(self.planted().words[1])

    def test_a_core_says_the_same(self):
        process = self.planted()
        core = self.gcore(process.words[1])
        bys = ("function", "file", "library", "size")
        live = [self.groups(process.words[1], by) for by in bys]
        threads = self.groups(process.words[1], "thread")
        self.end(process)
        self.assertEqual([self.groups(core, by) for by in bys], live)
        self.assert_planted(core)
        # A core has no names of threads.
        dead = self.groups(core, "thread")
        self.assertEqual({name.split()[0]: group["bytes"] for name, group in threads.items()},
                         {name.split()[0]: group["bytes"] for name, group in dead.items()})  # fmt: skip
        self.assertEqual(sum(group["samples"] for group in self.groups(core, "age").values()),
                         sum(group["samples"] for group in dead.values()))  # fmt: skip

    def test_threads(self):
        pid = self.planted().words[1]
        threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            if os.uname().machine != "x86_64" or "libc" not in file.read():
                self.skipTest("numbers of threads are not known here")
        groups = self.groups(pid, "thread")
        self.assert_group(groups[f"{threads[0]} grouped"], 40 * MB)
        worker = [name for name in groups if name.endswith(" worker")]
        self.assertEqual(len(worker), 1, groups)
        self.assertIn(int(worker[0].split()[0]), threads)
        self.assert_group(groups[worker[0]], 32 * MB, 5000)

    def test_ages(self):
        for _ in range(5):
            process = self.planted()
            time.sleep(1.5)
            began = time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "fresh\n")
            groups = self.groups(process.words[1], "age")
            if time.monotonic() - began < 0.9:
                break
        else:
            self.skipTest("this machine is too slow for it")
        self.assert_group(groups["below 1 s"], 12 * MB, 3000)
        self.assertEqual((groups["below 1 s"]["least_ms"], groups["below 1 s"]["below_ms"]), (0, 1000))
        older = [group for group in groups.values() if group["least_ms"] >= 1000]
        self.assert_estimate(sum(group["bytes"] for group in older), 72 * MB, sum(group["samples"] for group in older))

    def test_a_table(self):
        pid = self.planted().words[1]
        out = self.prof(pid, "--by=size", "-n", "2")
        lines = out.splitlines()
        self.assertIsNotNone(HEAD.match(lines[0]), out)
        self.assertRegex(lines[1], r"^grouped \(\d+\): [\d.]+ MiB live, at \d+ places?, \d+ ranges of sizes$")
        self.assertEqual(lines[3].split(), ["bytes", "share", "about", "blocks", "samples", "range", "of", "sizes"])
        rows = [re.fullmatch(r" *([\d.]+) (\w+) +([\d.]+)% +(\d+) +(\d+)  (.*)", line) for line in lines[4:]]
        self.assertEqual([row[6] for row in rows[:2]], ["above 4.0 KiB, up to 8.0 KiB", "above 32.0 KiB, up to 64.0 KiB"])
        self.assertRegex(rows[2][6], r"^\(\d+ more\)$")
        self.assertEqual(len(rows), 3)
        self.assertLess(abs(sum(float(row[3]) for row in rows) - 100), 0.2, out)
        whole = re.search(r": ([\d.]+) (\w+) live", lines[1])
        self.assertLess(abs(sum(amount(row[1], row[2]) for row in rows) / amount(*whole.groups()) - 1), 0.01, out)

    def test_what_was_allocated(self):
        pid = self.planted().words[1]
        groups = self.groups(pid, "library", "--allocated")
        self.assert_group(groups[self.path("grouped")], 248 * MB)
        self.assert_group(groups[self.path("libcopies.so")], 24 * MB)

    def test_what_grows(self):
        process = self.planted()
        with subprocess.Popen([TOOL, "prof", "--growth=2", "--by=library", "--format=json", process.words[1]],
                              env=environment(), stdout=subprocess.PIPE, text=True) as tool:  # fmt: skip
            time.sleep(1)
            process.stdin.write("\n")
            process.stdin.flush()
            told = json.loads(tool.communicate(timeout=60)[0])
        self.assertEqual((told["view"], [group["name"] for group in told["groups"]]), ("growth", [self.path("grouped")]))
        self.assert_group(told["groups"][0], 12 * MB, 3000)

    def test_stacks_as_json(self):
        pid = self.planted().words[1]
        told = json.loads(self.prof(pid, "--format=json"))
        self.assertEqual(told["by"], "stacks")
        self.assertEqual((told["pid"], told["program"], told["view"]), (int(pid), "grouped", "live"))
        rows = self.rows(self.prof(pid, "--by=stacks", "--sites=100"))
        self.assertEqual([group["calls"] for group in told["groups"]], [row[2] for row in rows])
        self.assertEqual([group["samples"] for group in told["groups"]], [row[1] for row in rows])

    def test_lines_of_headers_are_in_the_programs_file(self):
        if not NAMES:
            self.skipTest("libdw is not installed")
        pid = self.launch(program=SERVER, HAKMEM_PROF_RATE="65536").pid
        groups = self.groups(pid, "function")
        self.assertTrue(any("ask()" in name for name in groups), groups)
        self.assertFalse([name for name in groups if "std::" in name.split("(tools_server)")[0]], groups)
        # The lines are those of inlined functions of headers, the functions begin in the program's file.
        groups = self.groups(pid, "file")
        self.assertTrue(any(name.endswith("/server.cpp") for name in groups), groups)
        self.assertFalse([name for name in groups if "/c++/" in name], groups)

    def test_a_program_that_has_ended(self):
        program = self.build("ends", HOLDS, "-g", "-O1")
        result = hakmem("prof", "--by=size", "--format=json", "--rate=65536", "-o", self.path("told"), "--", program)
        self.assert_code(result, 0)
        with open(self.path("told"), encoding="utf-8") as file:
            groups = json.load(file)["groups"]
        self.assertEqual(groups[0]["name"], "above 64.0 KiB, up to 128.0 KiB")
        self.assert_group(groups[0], 20 * MB, 100000)


class Refused(CoreCase):
    def test_arguments(self):
        for arguments, says in (
            (["1", "--by=line"], "--by=line: unknown; accepted: stacks|function|file|library|thread|size|age\n"),
            (["1", "--by="], "--by=: unknown; accepted: stacks|function|file|library|thread|size|age\n"),
            (["1", "--by=thread", "--allocated"], "known only of live blocks; with --allocated, --growth and --peak accepted: stacks|function|file|library\n"),
            (["1", "--by=size", "--growth=1"], "known only of live blocks"),
            (["1", "--by=age", "--allocated"], "known only of live blocks"),
            (["1", "--by=function", "--leaks"], "accepted with it: --allocated, --growth and --peak\n"),
            (["1", "--by=file", "--format=pprof"], "--format=pprof shows stacks; accepted with it: table|json\n"),
            (["1", "--by=file", "--format=html"], "accepted with it: table|json\n"),
            (["1", "--by=file", "--format=folded"], "accepted with it: table|json\n"),
            (["1", "--leaks", "--format=json"], "accepted with it: table|folded|html\n"),
            (["diff", "a", "b", "--by=file"], "--by is for a process or a core file\n"),
            (["diff", "a", "b", "--format=json"], "accepted here: --format=table|folded\n"),
        ):
            result = hakmem("prof", *arguments)
            self.assert_code(result, 2)
            self.assertEqual(result.out, "")
            self.assertEqual(len(result.err.splitlines()), 1, result)
            self.assertIn(says, result.err)


HOLDS = r"""
#include <stdlib.h>
#include <string.h>
static void *volatile kept;
int main(void) {
  for (int i = 0; i < 200; i++) kept = memset(malloc(100000), 1, 100000);
  return 0;
}
"""


if __name__ == "__main__":
    unittest.main(verbosity=2)
