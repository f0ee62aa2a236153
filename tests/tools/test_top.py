"""hakmem top, in a real terminal."""

import fcntl
import pty
import re
import select
import struct
import termios
import time

from common import *

HELD = os.environ.get("HAKMEM_TEST_HELD", "")


class Top(TestCase):
    def start(self, *arguments, **changes):
        process = subprocess.Popen([HELD, *arguments], env=environment(LD_PRELOAD=LIBRARY, **changes), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.addCleanup(self.end, process)
        return process, int(process.stdout.readline().split()[1])

    def end(self, process):
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()

    def open(self, *words, rows=24, columns=80, term="xterm", locale="C.UTF-8"):
        """hakmem top on a terminal of its own."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        env = environment(TERM=term, LC_ALL=locale, LINES=None, COLUMNS=None)
        top = subprocess.Popen([TOOL, "top", "--delay", "0.2", *map(str, words)], env=env, stdin=slave, stdout=slave,
                               stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
        os.close(slave)
        self.addCleanup(top.stderr.close)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        return top, master

    def read_until(self, terminal, words):
        """What the terminal was sent until all of `words` were among it."""
        text, end = "", time.monotonic() + 50
        while not all(word in text for word in words):
            self.assertLess(time.monotonic(), end, f"never shown: {words} in {text[-3000:]!r}")
            if select.select([terminal], [], [], 0.1)[0]:
                text += os.read(terminal, 65536).decode(errors="replace")
        return text

    def test_once(self):
        _, pid = self.start("threads")
        result = hakmem("top", "--once", str(pid))
        self.assert_code(result, 0)
        lines = result.out.splitlines()
        self.assertLessEqual(len(lines), 24)
        self.assertTrue(all(len(line) <= 80 for line in lines), result)
        self.assertIn(f"held ({pid})", lines[0])
        for words in ("resident", "= live", "+ not ours", "calls a second", "waste", "thread"):
            self.assertIn(words, result.out)
        # A pipe is no terminal.
        self.assertEqual(re.sub(r"\d", "", hakmem("top", str(pid)).out.split("\n")[0]), re.sub(r"\d", "", lines[0]))

    def test_first_thread_that_ends_while_others_live(self):
        process, pid = self.start("leave")
        top, terminal = self.open(pid)
        self.read_until(terminal, [f"held ({pid})"])
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(1)
        self.assertIsNone(top.poll())
        os.write(terminal, b"q")
        self.assertEqual(top.wait(timeout=30), 0)

    def test_places_are_named(self):
        if not NAMES:
            self.skipTest("libdw is not installed")
        process = subprocess.Popen([os.environ["HAKMEM_TEST_SITES"]], env=environment(LD_PRELOAD=LIBRARY), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.addCleanup(self.end, process)
        pid = int(process.stdout.readline().split()[1])
        lines = hakmem("top", "--once", str(pid)).out.splitlines()
        self.assertLessEqual(len(lines), 24)
        at = next(i for i, line in enumerate(lines) if "allocated in" in line)
        largest = re.match(r" +([\d.]+) MiB +(\d+)  (.*)", lines[at + 1])
        self.assertTrue(largest, lines)
        self.assertIn("filled < held_in_small < main", largest[3])
        # 64 MB and some 30 samples: within five standard deviations
        self.assertLess(abs(float(largest[1]) / 61 - 1), 1)
        top, terminal = self.open(pid)
        self.read_until(terminal, ["filled < held_in_small < main", "held_in_large"])
        os.write(terminal, b"q")
        self.assertEqual(top.wait(timeout=60), 0)

    def test_arguments(self):
        self.assert_code(hakmem("top", "--delay=0", "1"), 2)
        self.assert_code(hakmem("top", "--delay=x", "1"), 2)
        self.assert_code(hakmem("top", "--delay=nan", "1"), 2)
        self.assertIn("does not run on hakmem", hakmem("top", str(os.getpid())).err)

    def test_shows_changes_resizes_and_quits(self):
        _, pid = self.start("churn")
        top, terminal = self.open(pid)
        text = self.read_until(terminal, ["hakmem top", "resident", "not ours", "fragmentation", "thread"])
        self.assertIn("\x1b[?1049h", text)  # a screen of its own, as terminals have it
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        os.kill(top.pid, signal.SIGWINCH)
        self.read_until(terminal, ["hakmem top", "resident"])
        # The curve of a process in motion.
        self.read_until(terminal, ["\u2588"])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 20, 0, 0))
        os.kill(top.pid, signal.SIGWINCH)
        self.read_until(terminal, ["hakmem top"])
        os.write(terminal, b"q")
        text = self.read_until(terminal, ["\x1b[?1049l"])  # as it was
        self.assertEqual(top.wait(timeout=50), 0)
        self.assertEqual(top.stderr.read(), b"")

    def test_terminal_without_utf8(self):
        _, pid = self.start("churn")
        top, terminal = self.open(pid, term="vt100", locale="C")
        self.read_until(terminal, ["hakmem top", "resident", "#"])
        os.write(terminal, b"q")
        self.assertEqual(top.wait(timeout=50), 0)

    def test_process_ends(self):
        process, pid = self.start("fresh")
        top, terminal = self.open(pid)
        self.read_until(terminal, ["hakmem top"])
        process.stdin.close()
        process.wait(timeout=50)
        self.assertEqual(top.wait(timeout=50), 1 if b"has ended" in top.stderr.read() else 0)
        self.assertEqual(top.returncode, 1)

    def test_process_becomes_another_program(self):
        process, pid = self.start("exec")
        top, terminal = self.open(pid)
        self.read_until(terminal, ["hakmem top"])
        process.stdin.write("\n")
        process.stdin.flush()
        self.addCleanup(process.kill)
        self.assertIn(b"(held) runs another program meanwhile", top.stderr.read())
        self.assertEqual(top.wait(timeout=50), 1)

    def test_machine_choose_one_and_come_back(self):
        # The largest of the machine, one after the other: nobody else's test holds as much.
        script = "import sys; x = bytearray(%d << 20); print('ready', __import__('os').getpid(), flush=True); sys.stdin.read()"
        pids = []
        for size in (400, 300):
            process = subprocess.Popen(["/usr/bin/python3", "-c", script % size], env=environment(LD_PRELOAD=LIBRARY), text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
            self.addCleanup(self.end, process)
            pids.append(int(process.stdout.readline().split()[1]))
        top, terminal = self.open(rows=30, columns=140)
        text = self.read_until(terminal, ["hakmem top: ", "alloc/s", "container", f"{pids[0]} ", f"{pids[1]} ", "enter: look into it"])
        self.assertLess(text.index(f"{pids[0]} "), text.index(f"{pids[1]} "))
        os.write(terminal, b"\r")
        self.read_until(terminal, [f"python3 ({pids[0]})", "= live"])
        os.write(terminal, b"q")
        self.read_until(terminal, ["alloc/s", f"{pids[1]} "])
        os.write(terminal, b"\x1b[B\x1bOB\x1b[A\x1bOA")  # as terminals send the keys, in either mode
        os.write(terminal, b"kkkkj\n")
        self.read_until(terminal, [f"python3 ({pids[1]})", "= live"])
        # It ends while it is looked at, and the list is there again.
        os.kill(pids[1], signal.SIGKILL)
        self.read_until(terminal, ["has ended", "alloc/s"])
        os.write(terminal, b"q")
        self.assertEqual(top.wait(timeout=50), 0)
        self.assertEqual(top.stderr.read(), b"")
        self.assertEqual(termios.tcgetattr(terminal)[:4], self.before[:4])

    def test_machine_on_a_small_terminal_and_signals(self):
        self.start("churn")
        for rows, columns in ((24, 80), (3, 20), (1, 1), (300, 500)):
            top, terminal = self.open(rows=rows, columns=columns)
            self.read_until(terminal, ["hakmem top" if columns > 10 else "\x1b[?1049h"])
            os.write(terminal, b"j\x1b[6~\x1b[5~")
            time.sleep(0.5)
            self.assertIsNone(top.poll())
            top.send_signal(signal.SIGTERM)
            self.read_until(terminal, ["\x1b[?1049l"])
            self.assertEqual(top.wait(timeout=50), -signal.SIGTERM)

    def test_terminals_that_cannot_be_used(self):
        _, pid = self.start("fresh")
        for term in ("no-such-terminal", "dumb"):
            with self.subTest(term=term):
                top, _ = self.open(pid, term=term)
                self.assertIn(f"cannot be used (TERM={term}): try --once".encode(), top.stderr.read())
                self.assertEqual(top.wait(timeout=50), 126)

    def test_terminals_of_multiplexers_and_consoles(self):
        _, pid = self.start("churn")
        for term in ("screen", "screen-256color", "tmux-256color", "linux", "xterm-256color", "vt220"):
            with self.subTest(term=term):
                if execute(["infocmp", term]).code != 0:
                    continue  # ncurses-base has those of Debian's terminals only
                top, terminal = self.open(pid, term=term)
                self.read_until(terminal, ["hakmem top", "resident", "thread"])
                os.write(terminal, b"q")
                self.assertEqual(top.wait(timeout=50), 0)

    def test_signals_leave_the_terminal_as_it_was(self):
        _, pid = self.start("churn")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                top, terminal = self.open(pid)
                self.read_until(terminal, ["hakmem top", "thread"])
                top.send_signal(number)
                self.read_until(terminal, ["\x1b[?1049l"])
                self.assertEqual(top.wait(timeout=50), -number)
                self.assertEqual(termios.tcgetattr(terminal)[:4], self.before[:4])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
