"""hakmem prof of programs whose functions are made at run time: names from /tmp/perf-PID.map, of a program of ours, CPython and Node."""

import json
import re
import resource
import time

from common import *
from cores import CoreCase

PYTHON = os.environ.get("HAKMEM_TEST_PYTHON", "")  # one of 3.12 or later, if python3 is older
KB = 1000

# Allocates by functions that it makes: each calls what it is given, as CPython's trampolines do.
PROGRAM = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const uint8_t trampoline[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};
static volatile int sink;
static char *volatile last;
typedef void function(void);
typedef void made(function *);
static made *handle, *render;
__attribute__((noinline)) static void allocate(void) {
  last = memset(malloc(30000), 1, 30000);
  sink++;
}
__attribute__((noinline)) static void by_handle(void) {
  handle(allocate);
  sink++;
}
int main(int count, char **words) {
  char path[100];
  uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 2; i++) memcpy(page + 100 * i, trampoline, sizeof trampoline);
  mprotect(page, 4096, PROT_READ | PROT_EXEC);
  handle = (made *)(void *)page;
  render = (made *)(void *)(page + 100);
  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
  unlink(path);
  FILE *file = fopen(path, "w");
  fprintf(file, "%lx 1000 old_code\n", (unsigned long)(uintptr_t)page);
  fprintf(file, "nonsense\n\nffffffffffffffff 10 beyond\n%lx 0 nothing\n%lx b\n", (unsigned long)(uintptr_t)page, (unsigned long)(uintptr_t)page);
  fprintf(file, "%lx b py::Server.handle:/srv/job \033[31m.py\n", (unsigned long)(uintptr_t)page);
  fprintf(file, "%lx b JS:*render /srv/app.js:12:5\n", (unsigned long)(uintptr_t)(page + 100));
  fprintf(file, "%lx b cut", (unsigned long)(uintptr_t)page);
  fclose(file);
  for (int i = 0; i < 1000; i++) render(by_handle);
  printf("ready %d\n", (int)getpid());
  fflush(stdout);
  getchar();
  if (count > 1) unlink(path);
  _exit(0);
}
"""

PYTHON_PROGRAM = """
import os, sys
class Cache:
    def leak(self):
        return bytearray(50000)
def outer():
    return [Cache().leak() for _ in range(2000)]
keep = outer()
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
"""

NODE_PROGRAM = """
const kept = [];
function leak() { return Buffer.allocUnsafeSlow(50000).fill(1); }
function outer() { for (let i = 0; i < 2000; i++) kept.push(leak()); }
outer();
console.log("ready", process.pid);
process.stdin.on("data", () => {}).on("end", () => process.exit(0));
"""


class PerfMapCase(CoreCase):
    def stacks(self, pid, *arguments):
        """The calls of each place, innermost first, the largest place first; and what stands on stderr."""
        result = hakmem("prof", "--format=json", str(pid), *arguments)
        self.assert_code(result, 0)
        return [place["calls"] for place in json.loads(result.out)["groups"]], result.err

    def map_of(self, process):
        return f"/tmp/perf-{process.words[1]}.map"


@unittest.skipUnless(NAMES, "built without libdw")
class MadeAtRunTime(PerfMapCase):
    def begin(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the program's functions are for x86-64")
        program = self.build("maker", PROGRAM, "-O1")
        process = self.launch("remove", program=program, HAKMEM_PROF_RATE="65536")
        self.addCleanup(lambda: os.path.lexists(self.map_of(process)) and os.unlink(self.map_of(process)))
        return process

    def assert_unnamed(self, process):
        (calls, *_), _ = self.stacks(process.words[1])
        self.assertNotRegex(" ".join(calls), "Server|render")
        self.assertRegex(calls[-1], "_start|__libc_start")  # the walk went through all the same

    def test_names_of_both_kinds(self):
        process = self.begin()
        (calls, *_), notes = self.stacks(process.words[1])
        self.assertEqual(notes, "")
        self.assertTrue(calls[0].startswith("allocate ("), calls)
        self.assertEqual(calls[1], "Server.handle (job ?[31m.py)")
        self.assertTrue(calls[2].startswith("by_handle ("), calls)
        self.assertEqual(calls[3], "render (app.js:12)")
        self.assertTrue(calls[4].startswith("main ("), calls)
        for key, name in (("function", "Server.handle (job ?[31m.py)"), ("file", "/srv/job ?[31m.py"), ("library", self.path("maker"))):
            groups = json.loads(self.prof(process.words[1], f"--by={key}", "--format=json"))["groups"]
            self.assertEqual(groups[0]["name"], name)  # a buffer of stdio's may be a sample as well

    def test_where(self):
        process = self.begin()
        with open(self.map_of(process), encoding="utf-8") as file:
            starts = [line.split()[0] for line in file if " py::" in line or " JS:" in line]
        result = hakmem("where", process.words[1], *(f"0x{start}" for start in starts))
        self.assert_code(result, 0)
        self.assertIn(", Server.handle (job ?[31m.py)\n", result.out)
        self.assertIn(", render (app.js:12)\n", result.out)

    def test_what_is_later_in_the_map_counts(self):
        process = self.begin()
        with open(self.map_of(process), encoding="utf-8") as file:
            start = next(line for line in file if " py::" in line).split()[0]
        with open(self.map_of(process), "a", encoding="utf-8") as file:
            file.write(f"\n{int(start, 16) - 4096:x} 2000 newest\n")
        (calls, *_), _ = self.stacks(process.words[1])
        self.assertEqual((calls[1], calls[3]), ("newest", "newest"))

    def test_a_map_without_end(self):
        """The part of it that counts is read, not all into memory."""
        process = self.begin()
        os.truncate(self.map_of(process), 1 << 30)
        (calls, *_), _ = self.stacks(process.words[1])
        self.assertEqual(calls[3], "render (app.js:12)")
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 512 << 10)

    def test_a_map_that_is_not_to_be_trusted(self):
        process = self.begin()
        path = self.map_of(process)
        os.rename(path, self.path("map"))
        for make in (
            lambda: None,  # it is not there
            lambda: os.symlink(self.path("map"), path),
            lambda: os.mkfifo(path),
            lambda: os.mkdir(path),
            lambda: shutil.copy(self.path("map"), path) and os.utime(path, (1, 1)),  # before the process began
            lambda: os.geteuid() == 0 and shutil.copy(self.path("map"), path) and os.chown(path, 65534, 65534),
        ):
            made = make()
            if made is not False:
                self.assert_unnamed(process)
            if os.path.isdir(path):
                os.rmdir(path)
            elif os.path.lexists(path):
                os.unlink(path)

    def test_a_core(self):
        """Its map is looked for below --root."""
        process = self.begin()
        core = self.gcore(process.words[1])
        (calls, *_), _ = self.stacks(core)
        self.assertEqual((calls[1], calls[3]), ("Server.handle (job ?[31m.py)", "render (app.js:12)"))
        os.mkdir(self.path("tmp"))
        shutil.copy2(self.map_of(process), self.path("tmp"))
        os.unlink(self.map_of(process))
        self.assertNotIn("render", " ".join(self.stacks(core)[0][0]))
        shutil.copytree(os.path.dirname(LIBRARY), self.path(os.path.dirname(LIBRARY)[1:]), ignore=lambda _, names: [
            name for name in names if not name.startswith("libhakmem.so")])  # fmt: skip
        (calls, *_), _ = self.stacks(core, "--root", self.directory)
        self.assertEqual((calls[1], calls[3]), ("Server.handle (job ?[31m.py)", "render (app.js:12)"))


@unittest.skipUnless(NAMES, "built without libdw")
class Languages(PerfMapCase):
    def python(self):
        """The program, and whether it can tell of its functions."""
        for name in (PYTHON, "python3.14", "python3.13", "python3.12", "/usr/bin/python3"):
            found = shutil.which(name) if name else None
            if found is None:
                continue
            script = "import sys; print(sys.version_info >= (3, 12) and hasattr(sys, 'activate_stack_trampoline'))"
            if name == "/usr/bin/python3" or execute([found, "-c", script]).out == "True\n":
                return found, execute([found, "-c", script]).out == "True\n"
        self.skipTest("no Python")

    def test_python(self):
        python, tells = self.python()
        script = self.write("job.py", PYTHON_PROGRAM)
        options = ("-X", "perf") if tells else ()
        process = self.launch(*options, script, program=python, HAKMEM_PROF_RATE="262144")
        stacks, notes = self.stacks(process.words[1])
        told = json.loads(hakmem("prof", "--by=function", "--format=json", process.words[1]).out)["groups"][0]
        if not tells:
            self.assertIn("note: Python's functions are not in the stacks, only its interpreter's", notes)
            self.assertIn("python3 -X perf (3.12 or later)", notes)
            self.skipTest("no Python 3.12 or later is here")
        self.assertEqual(notes, "")
        named = [call for call in stacks[0] if call.endswith("(job.py)")]
        self.assertEqual(named, ["Cache.leak (job.py)", "outer (job.py)", "<module> (job.py)"])
        self.assertRegex(stacks[0][-1], "_start|__libc_start")
        self.assertEqual(told["name"], "Cache.leak (job.py)")
        # Without it they are the interpreter's, and that is said.
        process = self.launch(script, program=python, HAKMEM_PROF_RATE="262144")
        stacks, notes = self.stacks(process.words[1])
        self.assertNotIn("job.py", str(stacks))
        self.assertIn("note: Python's functions are not in the stacks, only its interpreter's", notes)

    def test_node(self):
        node = shutil.which("node")
        if node is None or os.uname().machine != "x86_64":
            self.skipTest("node is not installed, or not for x86-64")
        script = self.write("job.js", NODE_PROGRAM)
        flags = ("--perf-basic-prof", "--interpreted-frames-native-stack")
        process = self.launch(*flags, script, program=node, HAKMEM_PROF_RATE="262144")
        path = self.map_of(process)
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        deadline = time.monotonic() + 60
        while True:  # it is written as it comes
            stacks, notes = self.stacks(process.words[1])
            named = [re.sub(r":\d+\)$", ")", call) for call in stacks[0] if "(job.js:" in call]
            if named[:2] == ["leak (job.js)", "outer (job.js)"] or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        self.assertEqual(named[:2], ["leak (job.js)", "outer (job.js)"], stacks[0])
        self.assertEqual(notes, "")
        told = json.loads(hakmem("prof", "--by=function", "--format=json", process.words[1]).out)["groups"][0]
        self.assertEqual(told["name"], "leak (job.js)")  # not Node's own functions in JavaScript
        process = self.launch(script, program=node, HAKMEM_PROF_RATE="262144")
        notes = self.stacks(process.words[1])[1]
        self.assertIn("note: JavaScript's functions are not in the stacks", notes)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
