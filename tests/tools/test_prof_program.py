"""hakmem prof -- program: what lives at its end, and that the program ends as it would without."""

import re
import select
import time

from common import *
from profiles import *

# Says what it is told: memory that stays, other threads, and ways to end.
PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *kept[1000];
static volatile int sink;

__attribute__((noinline)) void fill(void) {
  for (int i = 0; i < 1000; i++) memset(kept[i] = malloc(20000), 1, 20000);
  sink++;
}

static char **words;

static void *other(void *unused) {
  usleep(300000); /* the first thread has ended, in most cases */
  if (strcmp(words[1], "exec") == 0) execvp(words[2], words + 2);
  fill();
  exit(7);
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  words = argv;
  if (argc == 1) fill();
  else if (strcmp(argv[1], "_exit") == 0) fill(), _exit(3);
  else if (strcmp(argv[1], "kill") == 0) fill(), kill(getpid(), atoi(argv[2]));
  else if (strcmp(argv[1], "fork") == 0) {
    if (fork() == 0) fill(), _exit(1);
    wait(NULL);
  } else {
    pthread_create(&thread, NULL, other, NULL);
    if (strcmp(argv[1], "exec") == 0) pause();
    pthread_exit(NULL);
  }
  return 0;
}
"""


class Program(ProfCase):
    @classmethod
    def setUpClass(cls):
        case = TestCase()
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        cls.program = case.build("subject", PROGRAM, "-g", "-O1", "-pthread")

    def run_it(self, *arguments, options=("--rate=65536",), code=0):
        result = hakmem("prof", *options, "--", self.program, *arguments)
        self.assert_code(result, code)
        self.assertEqual(result.err, "")
        return result.out

    def assert_filled(self, out):
        """20 MB, of fill()."""
        rows = self.rows(out)
        self.assert_estimate(sum(row[0] for row in rows), 20e6, sum(row[1] for row in rows))
        if NAMES:
            self.assertGreater(self.of(rows, "fill")[0], 10e6)

    def test_however_it_ends(self):
        out = self.run_it()
        self.assertRegex(out, r" \(one in 64\.0 KiB(, so far one in \S+ KiB)?\)\n")
        self.assert_filled(out)
        self.assert_filled(self.run_it("_exit", code=3))
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assert_filled(self.run_it("kill", str(int(number)), code=-number))

    def test_the_first_thread_may_end_before(self):
        self.assert_filled(self.run_it("thread", code=7))

    def test_an_exec_is_followed(self):
        out = hakmem("prof", "--rate=65536", "--", "sh", "-c", f"exec {self.program} _exit")
        self.assert_code(out, 3)
        self.assertIn("subject (", out.out)
        self.assert_filled(out.out)
        # By another thread than the first.
        self.assert_filled(self.run_it("exec", self.program, "_exit", code=3))

    def test_other_processes_are_not(self):
        self.assertIn("\nsubject (", self.run_it("fork"))
        self.assertEqual(self.rows(self.run_it("fork")), [])

    def test_output(self):
        file = self.path("out")
        self.assertEqual(self.run_it(options=("--rate=65536", "--format=folded", "-o", file)), "")
        with open(file, encoding="utf-8") as lines:
            self.assertTrue(all(re.fullmatch(r"[^ ;].* \d+\n", line) for line in lines))
        result = hakmem("prof", "-o", self.path("no/file"), "--", "true")
        self.assert_code(result, 2)
        self.assertIn("No such file", result.err)
        # What the program wrote stands before.
        result = hakmem("prof", "--", "echo", "--growth=x")
        self.assert_code(result, 0)
        self.assertTrue(result.out.startswith("--growth=x\ncovers "), result)

    def test_all_that_was_allocated(self):
        self.assert_filled(self.run_it(options=("--rate=65536", "--allocated")))

    def test_refused(self):
        for arguments, code, says in (
            (["--", STATIC], 126, "static"),
            (["--", "no-such-program-here"], 127, "not found"),
            (["--"], 2, "no program given"),
            (["1", "--", "true"], 2, "either a process or a program"),
            (["true"], 127, "no process of the name 'true' runs on hakmem"),
        ):
            result = hakmem("prof", *arguments)
            self.assert_code(result, code)
            self.assertIn(says, result.err)
            self.assertEqual(result.out, "")


class Running(ProfCase):
    def start_under(self, *arguments):
        """The tool, and the number of the program."""
        tool = subprocess.Popen([TOOL, "prof", "--rate=65536", *arguments, "--", SITES, "1"], env=environment(),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                bufsize=0)  # fmt: skip
        self.addCleanup(tool.wait)
        self.addCleanup(tool.kill)
        for stream in (tool.stdin, tool.stdout, tool.stderr):
            self.addCleanup(stream.close)
        self.assertTrue(select.select([tool.stdout], [], [], 60)[0])
        words = os.read(tool.stdout.fileno(), 100).decode().split()
        self.assertEqual(words[0], "ready")
        return tool, int(words[1])

    def test_a_signal_asks_for_it(self):
        tool, pid = self.start_under()
        out = b""
        tool.send_signal(signal.SIGINT)
        while b"_start" not in out and b"main (" not in out and (NAMES or out.count(b"\n") < 10):
            self.assertTrue(select.select([tool.stdout], [], [], 60)[0])
            out += os.read(tool.stdout.fileno(), 65536)
        self.assertIsNone(tool.poll())
        self.assertTrue(os.path.exists(f"/proc/{pid}"))
        out, err = tool.communicate(timeout=60) # closes its standard input
        self.assertNotIn("covers ", out)
        self.assertEqual((tool.returncode, err), (0, ""))

    def test_growth(self):
        tool, _ = self.start_under("--growth=1")
        time.sleep(2)
        out, err = tool.communicate(timeout=60)
        self.assertEqual((tool.returncode, err), (0, ""))
        self.assertRegex(out, r" grown since its first 1 s, at \d+ places?; net [+-][\d.]+ \w+ \(\+[\d.]+ \w+, -[\d.]+ \w+\)\n")
        if NAMES:
            self.assertGreater(self.of(self.rows(out), "leaked")[0], 0)
        result = hakmem("prof", "--growth=3600", "--", "true")
        self.assert_code(result, 0)
        self.assertIn("ended within 3600 s", result.err)

    def test_other_signals_are_the_programs(self):
        tool, _ = self.start_under()
        tool.send_signal(signal.SIGTERM)
        tool.wait(timeout=60) # with the program's standard input open, so that it does not end by itself
        out, err = tool.communicate(timeout=60)
        self.assertEqual((tool.returncode, err), (-signal.SIGTERM, ""))
        self.assertIn("covers ", out)

    def test_it_can_be_stopped(self):
        tool, pid = self.start_under()
        os.kill(pid, signal.SIGSTOP)
        end = time.monotonic() + 60
        state = ""
        while state not in ("T", "t") and time.monotonic() < end:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                state = file.read().rsplit(") ", 1)[1][0]
        self.assertIn(state, "Tt")
        os.kill(pid, signal.SIGCONT)
        out, err = tool.communicate(timeout=60)
        self.assertEqual((tool.returncode, err), (0, ""))
        self.assertIn("covers ", out)

    def test_the_program_outlives_the_tool(self):
        tool, pid = self.start_under()
        tool.kill()
        tool.wait()
        self.assertTrue(os.path.exists(f"/proc/{pid}"))
        self.prof(pid)
        tool.stdin.close()
        end = time.monotonic() + 60
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rsplit(") ", 1)[1][0] == "Z": # nobody may ask for its code
                    return
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
