"""hakmem explain: why memory of a running process does not come back."""

import json
import time

from common import *
from profiles import ProfCase

PLANTED = os.environ.get("HAKMEM_TEST_PLANTED", "")
TRIMMED = os.environ.get("HAKMEM_TEST_TRIMMED", "")
LYING = os.environ.get("HAKMEM_TEST_LYING", "")
MIB = 1 << 20


# Seizes it, says what came of it, and lets it go when its standard input ends.
PTRACE_SEIZE = 0x4206
TRACER = f"""
import ctypes, sys
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
print(libc.ptrace({PTRACE_SEIZE}, int(sys.argv[1]), 0, 0), flush=True)
sys.stdin.read()
"""


# Frees 40 MB, and sleeps. With "thread": beside a thread; with "filter": that has a filter of system calls as well.
IDLE = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *sleeps(void *unused) {
  pause();
  return unused;
}
int main(int argc, char **argv) {
  static void *all[4000];
  struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  struct sock_fprog filter = {1, &allow};
  pthread_t thread;
  for (int i = 0; i < 4000; i++) all[i] = memset(malloc(10000), 1, 10000);
  if (argc > 1 && strcmp(argv[1], "filter") == 0 &&
      (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0))
    return 1;
  if (argc > 1) pthread_create(&thread, NULL, sleeps, NULL);
  for (int i = 0; i < 4000; i++) free(all[i]);
  printf("ready %d 0\n", (int)getpid());
  fflush(stdout);
  return getchar() == 'x';
}
"""

KEEPS = {"HAKMEM_BACKGROUND": "0", "HAKMEM_WARM_POOL_DECAY_MS": "100000"}


class Explain(ProfCase):
    def plant(self, what, **changes):
        return self.start(what, program=PLANTED, HAKMEM_BACKGROUND="0", **changes)

    def explain(self, pid, *arguments):
        result = hakmem("explain", *arguments, str(pid))
        self.assert_code(result, 0)
        self.assertEqual(result.err, "")
        return result.out

    def test_planted_survivors_are_named(self):
        pid, kept = self.plant("few", HAKMEM_PROF_RATE="16384")
        figures = json.loads(self.explain(pid, "--format=json"))
        first = figures["reasons"][0]
        self.assertEqual(first["kind"], "pinned", figures)
        self.assertEqual(first["size"], 64)
        self.assertGreater(first["bytes"], 28 * MIB)
        self.assertLess(first["bytes"], 33 * MIB)
        self.assertLess(abs(first["blocks"] / kept - 1), 0.1, figures)
        self.assertLess(abs(first["pages"] / 8192 - 1), 0.1, figures)
        self.assertGreater(first["samples"], 5)
        if NAMES:
            self.assertTrue(first["holders"][0]["calls"].startswith("kept_for_long ("), first)
            self.assertGreater(first["holders"][0]["percent"], 90)
        self.assertTrue(any(advice["option"] == "hak_should_move" for advice in figures["advice"]), figures)
        self.assertGreater(figures["mappings"][0]["bytes"], 0)

    def test_text_says_it_in_sentences(self):
        pid, _ = self.plant("few", HAKMEM_PROF_RATE="16384")
        lines = self.explain(pid).splitlines()
        self.assertTrue(lines[0].startswith("resident "), lines)
        self.assertRegex(lines[2], r"^Of .* that are resident the program holds .* the largest reason first:$")
        self.assertRegex(lines[4], r"^ 1\. [\d.]+ MiB: free blocks of 64 bytes lie on \d+ pages with blocks in use, ")
        if NAMES:
            self.assertTrue(any("kept_for_long (planted.c:" in line for line in lines), lines)

    def test_heaps_of_the_program_are_no_threads(self):
        pid, _ = self.start("bins", program=LYING, LD_PRELOAD=None)
        figures = json.loads(self.explain(pid, "--format=json"))
        self.assertEqual([reason for reason in figures["reasons"] if reason["kind"] == "thread"], [], figures)
        heaps = [reason for reason in figures["reasons"] if reason["kind"] == "heap"]
        self.assertEqual(sorted(heap.get("heap", "") for heap in heaps), ["", "session"], figures)
        # HAKMEM_BINS_KB is of threads.
        self.assertFalse(any(advice["option"].startswith("HAKMEM_BINS_KB") for advice in figures["advice"]), figures)
        out = self.explain(pid)
        self.assertRegex(out, r'(?m)^ \d\. [\d.]+ [KM]iB: the heap "session" of the program keeps free blocks for its next calls$')
        self.assertRegex(out, r"(?m)^ \d\. [\d.]+ [KM]iB: a heap of the program without a name keeps free blocks for its next calls$")
        self.assertNotIn("thread heap", out)

    def idle(self, *arguments, **changes):
        program = self.build("idle", IDLE, "-pthread")
        pid = self.launch(*arguments, program=program, HAKMEM_PROF_RATE="0", **changes).pid
        figures = json.loads(self.explain(pid, "--format=json"))
        waits = [reason["when"] for reason in figures["reasons"] if reason["kind"] in ("loose", "empty")]
        return figures["helper"], waits, [advice["option"] for advice in figures["advice"]], self.explain(pid)

    def test_why_no_helper_runs(self):
        for arguments, changes, helper, why in (
            ((), {}, "one_thread", "the program has one thread"),
            (("thread",), {"HAKMEM_BACKGROUND": "0"}, "off", "HAKMEM_BACKGROUND is 0"),
            (("filter",), {}, "seccomp", "the program has a filter of system calls (seccomp)"),
        ):
            told, waits, advice, out = self.idle(*arguments, **changes)
            self.assertEqual(told, helper, out)
            self.assertGreater(len(waits), 0, out)
            for when in waits:
                self.assertTrue(when.endswith(f"while it sleeps nothing happens, since no helper thread runs ({why})"), when)
            self.assertIn("HAKMEM_BACKGROUND=1", advice, out)
            self.assertEqual("if the filter allows its calls" in out, helper == "seccomp", out)
            # Sooner is no help where nobody is there to do it.
            self.assertNotIn("HAKMEM_PROFILE=lean", advice)

    def test_a_helper_that_runs(self):
        told, waits, advice, out = self.idle("thread", HAKMEM_BACKGROUND="1", HAKMEM_WARM_POOL_DECAY_MS="100000")
        self.assertEqual(told, "runs", out)
        self.assertIn("hakmem's thread is at it", " ".join(waits))
        self.assertIn("HAKMEM_PROFILE=lean", advice)

    def test_it_keeps_little(self):
        pid, _ = self.plant("full")
        out = self.explain(pid)
        self.assertTrue(out.splitlines()[2].startswith("hakmem keeps little: of "), out)
        self.assertEqual(json.loads(self.explain(pid, "--format=json"))["reasons"], [])

    def test_without_samples(self):
        pid, _ = self.plant("few", HAKMEM_PROF_RATE="0")
        self.assertIn("no sample of a live block of this size", self.explain(pid))

    # Threads whose one call in 10 ms finds its block in their bins.
    def start_trimmed(self, threads, sleepers, **changes):
        pid, _ = self.start(str(threads), str(sleepers), program=TRIMMED, **KEEPS, **changes)
        return pid

    def test_trim_of_a_program_that_is_idle(self):
        process = self.launch("3", "0", program=TRIMMED, **KEEPS)
        pid = process.pid
        figures = json.loads(self.explain(pid, "--trim", "--format=json"))
        self.assertGreater(figures["resident"], 10 * MIB)
        self.assertEqual(figures["trimmed"]["done"], True)
        self.assertEqual((figures["trimmed"]["threads"], figures["trimmed"]["emptied"]), (4, 3), "the first thread waits")
        self.assertLess(figures["trimmed"]["resident"], 6 * MIB)
        lines = self.explain(pid, "--trim").splitlines()
        self.assertRegex(lines[-2], r"^trim: done, resident .* -> .*; 3 of 4 threads emptied their caches \(the others do at their next malloc\)$")
        self.assertTrue(lines[-1].startswith("resident "), lines)
        process.stdin.close()
        self.assertEqual(process.stdout.readline().split(), ["0", "0"], "no sleep was cut short")

    def test_trim_loses_no_signal(self):
        process = self.launch("2", "0", program=TRIMMED, HAKMEM_BACKGROUND="0")
        tool = subprocess.Popen([TOOL, "explain", "--trim", str(process.pid)], stdout=subprocess.PIPE)
        sent = 0
        while tool.poll() is None:
            for _ in range(10):
                os.kill(process.pid, signal.SIGRTMIN)
                sent += 1
            time.sleep(0.001)
        self.assertIn(b"trim: done", tool.communicate()[0])
        process.stdin.close()
        self.assertEqual(int(process.stdout.readline().split()[0]), sent)

    def test_trim_beside_another_tool_and_without_samples(self):
        pid = self.start_trimmed(2, 0, HAKMEM_PROF_RATE="0")
        both = [subprocess.Popen([TOOL, "explain", "--trim", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for tool in both:
            out, err = tool.communicate(timeout=60)
            # One of them may find the threads in the other's hands.
            self.assertTrue(tool.returncode == 0 or "cannot be stopped" in err, (out, err))
        self.assertLess(json.loads(self.explain(pid, "--format=json"))["resident"], 6 * MIB)

    def test_trim_where_nobody_calls(self):
        pid = self.start_trimmed(0, 2)
        result = hakmem("explain", "--trim", str(pid))
        self.assert_code(result, 1)
        self.assertIn("none of the 3 threads that have memory has called malloc for 5 s", result.out)

    def test_trim_leaves_signals_and_stops_alone(self):
        pid = self.start_trimmed(2, 0)
        os.kill(pid, signal.SIGSTOP)
        result = hakmem("explain", "--trim", str(pid))
        self.assert_code(result, 1)
        with open(f"/proc/{pid}/stat") as file:
            self.assertEqual(file.read().rpartition(")")[2].split()[0], "T")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(json.loads(self.explain(pid, "--trim", "--format=json"))["trimmed"]["done"], True)

    def test_trim_under_a_tracer(self):
        pid = self.start_trimmed(1, 0)
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(tracer.stdout.close)
        self.assertEqual(tracer.stdout.readline(), b"0\n")
        result = hakmem("explain", "--trim", str(pid))
        tracer.communicate(timeout=60)
        self.assert_code(result, 126)
        self.assertIn("is a debugger or strace attached", result.err)

    def test_errors(self):
        for arguments, code, words in (
            ((), 2, "name a process"),
            (("no such program",), 127, "no process of the name 'no such program' runs on hakmem"),
            (("--format=yaml", "1"), 2, "accepted: text|json"),
            (("2147483646",), 127, "no process"),
        ):
            result = hakmem("explain", *arguments)
            self.assert_code(result, code)
            self.assertEqual(result.out, "")
            self.assertIn(words, result.err)


if __name__ == "__main__":
    unittest.main()
