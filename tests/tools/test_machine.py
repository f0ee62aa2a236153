"""hakmem stats and top without a process: all of the machine that are on hakmem."""

import json
import re
import time

from common import *

HELD = os.environ.get("HAKMEM_TEST_HELD", "")
LYING = os.environ.get("HAKMEM_TEST_LYING", "")
MIB = 1 << 20
MANY = 40
ID = "0123456789abcdef" * 4

HOLDS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  size_t bytes = (size_t)atoi(argv[argc - 1]) << 20;
  volatile char *block = memset(malloc(bytes), 1, bytes);
  printf("ready %d %zu\n", (int)getpid(), bytes);
  fflush(stdout);
  return getchar() == block[0];
}
"""

# In the tool: once all processes were found, and before they are read, one of them ends.
ENDS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
void qsort(void *all, size_t count, size_t size, int (*compare)(const void *, const void *)) {
  void (*real)(void *, size_t, size_t, int (*)(const void *, const void *)) = dlsym(RTLD_NEXT, "qsort");
  real(all, count, size, compare);
  kill(atoi(getenv("ENDS")), SIGKILL);
  usleep(300000);
}
"""

CGROUPS = r"""
#include <stdio.h>
#include "container.h"
int main(void) {
  char line[4096], text[16];
  while (fgets(line, sizeof line, stdin) != NULL) {
    struct container container = {0};
    container_read_line(&container, line);
    printf("%s %s %s\n", container_short(&container, text), container.id[0] ? container.id : "-", container.pod[0] ? container.pod : "-");
  }
  return 0;
}
"""


class MachineCase(TestCase):
    def start(self, *command, preload=LIBRARY, **changes):
        env = environment(LD_PRELOAD=preload, HAKMEM_BACKGROUND="0", **changes)
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline().split()[:2], ["ready", str(process.pid)])
        return process

    def end(self, process):
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()

    def json(self, *options, **more):
        result = hakmem("stats", "--format=json", *options, **more)
        self.assert_code(result, 0)
        self.assertEqual((result.err, len(result.out.splitlines())), ("", 1))
        told = json.loads(result.out)
        self.assertEqual(told["version"], 1)
        sizes = [row.get("resident", 0) for row in told["processes"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        return {row["pid"]: row for row in told["processes"]}, told["unread"]

    def rows(self, out):
        """The line of each process in the text, by its number."""
        lines = out.splitlines()
        self.assertRegex(lines[0], "^ +PID +resident +live +waste +alloc/s  container +hakmem +program$")
        return {int(line.split()[0]): line for line in lines[1:] if not line.startswith("and ")}


class Machine(MachineCase):
    def test_largest_first_with_figures(self):
        program = self.build("holds", HOLDS)
        sizes = [5, 40, 20]
        started = {self.start(program, str(size)).pid: size * MIB for size in sizes}
        told, _ = self.json()
        order = [pid for pid in told if pid in started]
        self.assertEqual([started[pid] for pid in order], sorted(started.values(), reverse=True))
        for pid, size in started.items():
            row = told[pid]
            self.assertTrue(size <= row["live"] < 1.02 * size + MIB, row)
            self.assertLessEqual(row["live"] + row["waste"], row["resident"] * 1.01)
            self.assertEqual((row["program"], row["command"]), ("holds", f"{program} {size // MIB}"))
            self.assertEqual((row["partial"], row["counted"]), (False, False))
            # The same as of this process alone.
            alone = json.loads(hakmem("stats", "--format=json", str(pid)).out)
            self.assertEqual((row["hakmem"], row["variant"]), (alone["hakmem"], alone["variant"]))
            equation = alone["equation"]
            waste = equation["resident"] - equation["live"] - equation["not_ours"]
            self.assertLessEqual(abs(row["waste"] - waste), equation["resident"] / 100 + 4, (row, equation))
        for command in ("stats", "top"):
            result = hakmem(command)
            self.assert_code(result, 0)
            self.assertEqual(result.err, "")
            lines = self.rows(result.out)
            self.assertEqual([pid for pid in lines if pid in started], order)
            self.assertRegex(lines[order[0]], rf"^ +{order[0]} +4\d\.\d MiB +40\.\d MiB +[\d.]+ [KM]iB +[\d.]+ [KM]?i?B  \S+ +[\d.]+ \(\w+\) +{re.escape(program)}")

    def test_rate_of_allocation_since_the_start(self):
        script = """if True:
            import time
            print("ready", __import__("os").getpid(), flush=True)
            end = time.monotonic() + 60
            while time.monotonic() < end:
                block = bytearray(1000000)
                time.sleep(0.01)"""
        process = subprocess.Popen(["/usr/bin/python3", "-c", script], env=environment(LD_PRELOAD=LIBRARY, HAKMEM_PROF_RATE="65536"),
                                   stdout=subprocess.PIPE, text=True)  # fmt: skip
        try:
            process.stdout.readline()
            started = time.monotonic()
            time.sleep(2)
            row = self.json()[0][process.pid]
            seconds = time.monotonic() - started
            # Blocks of 1 MB at most 100 times a second, and its start.
            self.assertTrue(MIB < row["allocated"] < 110 * MIB * (seconds + 1), row)
            self.assertLess(abs(row["allocated_a_second"] / (row["allocated"] / seconds) - 1), 0.5, row)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def test_metrics_are_of_one(self):
        self.start(HELD, "fresh")
        result = hakmem("stats", "--format=openmetrics")
        self.assert_code(result, 2)
        self.assertIn("name a process", result.err)

    def test_free_blocks_are_waste(self):
        pid = self.start(HELD, "small").pid
        row = self.json()[0][pid]
        self.assertGreater(row["waste"], row["live"])

    def test_many_processes(self):
        pids = {self.start(HELD, "fresh").pid for _ in range(MANY)}
        self.assertLessEqual(pids, set(self.json()[0]))


class Hostile(MachineCase):
    def test_one_that_ends_meanwhile(self):
        other, ends = self.start(HELD, "fresh").pid, self.start(HELD, "fresh").pid
        shim = self.build("ends.so", ENDS, "-shared", "-fPIC", "-ldl")
        env = environment(LD_PRELOAD=shim, ENDS=str(ends))
        result = hakmem("stats", env=env)
        self.assert_code(result, 0)
        lines = self.rows(result.out)
        self.assertRegex(lines[ends], rf"^ +{ends} +- +- +- +-  - +- +-$")
        self.assertRegex(lines[other], "MiB|KiB")
        self.assertGreater(list(lines).index(ends), list(lines).index(other))
        self.assertEqual(result.err, "")

    def test_one_that_lies(self):
        other = self.start(HELD, "fresh").pid
        pid = self.start(LYING, "slices", preload=None).pid
        row = self.json()[0][pid]
        self.assertEqual(row["program"], "lying")
        self.assertGreater(row["resident"], 0)
        self.assertEqual([name for name in ("live", "waste", "hakmem") if name in row], [])
        result = hakmem("stats")
        self.assert_code(result, 0)
        lines = self.rows(result.out)
        self.assertRegex(lines[pid], rf"^ +{pid} +[\d.]+ [KM]iB +- +- +-  \S+ +- +{re.escape(LYING)} slices$")
        self.assertRegex(lines[other], r"^ +\d+ +[\d.]+ [KM]iB +[\d.]+ [KM]?i?B ")

    def test_one_whose_samples_are_of_another_version(self):
        pid = self.start(LYING, "old", preload=None).pid
        row = self.json()[0][pid]
        self.assertIn("live", row)
        self.assertNotIn("allocated", row)

    def test_one_that_lies_about_much_is_given_up(self):
        pid = self.start(LYING, "units", preload=None).pid
        name = self.start(LYING, "name", preload=None).pid
        told = self.json()[0]
        self.assertIn(pid, told)
        self.assertTrue(told[pid].get("partial", True), told[pid])
        out = execute([TOOL, "stats"]).out
        self.assertIn(name, self.rows(out))
        self.assertNotIn("\033", out)
        self.assertNotIn("\x9b", out)

    @unittest.skipIf(os.geteuid() != 0, "only root can start a process of another user")
    def test_another_users(self):
        self.start(HELD, "fresh")
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        os.chmod(self.directory, 0o755)
        held, library, tool = self.copy(HELD, "held"), self.copy(LIBRARY, "libhakmem.so.0"), self.copy(TOOL, "hakmem")
        env = environment(LD_PRELOAD=library, HAKMEM_BACKGROUND="0")
        process = subprocess.Popen([held, "fresh"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **nobody)
        self.addCleanup(self.end, process)
        process.stdout.readline()
        # Root reads it; nobody reads its own and is told that there are others.
        self.assertIn("live", self.json()[0][process.pid])
        # One that nobody else may read, with the page that it keeps, and one without.
        pages = [subprocess.Popen([held, "private"], env=dict(env, HAKMEM_SHM=shm), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **nobody)
                 for shm in ("1", "0")]  # fmt: skip
        for page in pages:
            self.addCleanup(self.end, page)
            page.stdout.readline()
        told, unread = self.json(tool=tool, **nobody)
        self.assertIn("live", told[process.pid])
        self.assertTrue(told[pages[0].pid]["counted"], told[pages[0].pid])
        self.assertGreater(told[pages[0].pid]["live"], 8 * MIB)
        self.assertNotIn(pages[1].pid, told)
        self.assertGreater(unread, 0)
        result = hakmem("stats", tool=tool, **nobody)
        self.assert_code(result, 0)
        self.assertRegex(result.out.splitlines()[-1], r"^and \d+ process(es)? that this user may not read, on hakmem or not$")


class Containers(TestCase):
    def test_names_in_paths_of_cgroups(self):
        source = os.path.join(SOURCE, "tools")
        program = self.build("cgroups", CGROUPS, os.path.join(source, "container.c"), "-I" + source)
        pod = "12345678-9abc-def0-1234-56789abcdef0"
        other = ID[::-1]
        low = pod.replace("-", "_")
        known = {
            "0::/": "- - -",
            "0::/user.slice/user-1000.slice/session-3.scope": "- - -",
            f"0::/system.slice/docker-{ID}.scope": f"{ID[:12]} {ID} -",
            f"4:memory:/docker/{ID}": f"{ID[:12]} {ID} -",
            f"0::/machine.slice/libpod-{ID}.scope/container": f"{ID[:12]} {ID} -",
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{low}.slice/cri-containerd-{ID}.scope": f"{ID[:12]} {ID} {pod}",
            f"0::/kubepods/besteffort/pod{pod}/{ID}": f"{ID[:12]} {ID} {pod}",
            f"0::/kubepods/pod{pod}": f"{pod[:12]} - {pod}",
            f"0::/docker/{ID}/kubepods/pod{pod}/{other}": f"{other[:12]} {other} {pod}",
            f"0::/a/{ID}0": "- - -",  # longer
            f"0::/a/{ID[:-1]}": "- - -",
            "0::/kubepods/podinfo/pod/" + "pod" * 50: "- - -",
            "no path at all": "- - -",
        }
        done = subprocess.run([program], input="\n".join(known) + "\n", stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        self.assertEqual(dict(zip(known, done.stdout.splitlines())), known)

    def test_a_process_in_a_cgroup(self):
        top = next((d for d in ("/sys/fs/cgroup/name=systemd", "/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.access(d, os.W_OK)), None)
        path = os.path.join(top or "", f"docker-{ID}.scope")
        if top is None:
            self.skipTest("no cgroup can be made here")
        process = subprocess.Popen([HELD, "fresh"], env=environment(LD_PRELOAD=LIBRARY), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            process.stdout.readline()
            try:
                os.mkdir(path)
                with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
                    file.write(str(process.pid))
            except OSError as error:
                self.skipTest(f"no cgroup can be made here: {error}")
            told = json.loads(hakmem("stats", "--format=json").out)
            self.assertEqual([row.get("container") for row in told["processes"] if row["pid"] == process.pid], [ID])
            line = [line for line in hakmem("stats").out.splitlines() if line.split()[0] == str(process.pid)]
            self.assertIn(f"  {ID[:12]}  ", line[0])
        finally:
            process.stdin.close()
            process.wait(timeout=60)
            process.stdout.close()
            if os.path.isdir(path):
                os.rmdir(path)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
