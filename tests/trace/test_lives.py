"""Programs that are killed, fork, execute others or allocate in signal handlers, and recorders that end early."""

import errno
import resource
import time

from recording import *

FULL_DISK = os.environ["HAKMEM_TEST_FULL_DISK"]
CHUNK, WAITING = 2048, 128  # tools/trace_layer/shared.h: events of a chunk, chunks that may wait


class Lives(RecordingCase):
    def start(self, *command, **options):
        """Records without waiting for the end."""
        arguments = [TOOL, "trace", "record", "-o", self.trace, "--", *command]
        child = subprocess.Popen(
            arguments, env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **options,
        )  # fmt: skip
        self.addCleanup(child.communicate)
        self.assertEqual(child.stdout.readline(), "ready\n")
        return child

    def test_killed(self):
        """Nothing is missing, up to the last call before the end."""
        for number in (signal.SIGKILL, signal.SIGSEGV):
            result, trace = self.recorded(
                program("lives"), "killed", str(int(number)), "30000", code=-number, options=["-f"]
            )
            self.assertEqual(result.out, "1\n")
            self.assertEqual(trace.sizes().count(3000), 30000)
            self.assertEqual((trace.events[-1].operation, trace.events[-1].size), ("malloc", 3001))
            self.assertEqual(trace.end["status"], 128 + number)

    def test_recorder_killed(self):
        """The program goes on; the trace has whole frames, all but those that waited to be written."""
        child = self.start(program("lives"), "waits")
        child.kill()
        child.wait()
        out, _ = child.communicate("\n", timeout=60)
        self.assertEqual(out, "done\n")
        trace = Recorded(self.trace)
        self.assertIsNone(trace.end)
        self.assertNotIn(3001, trace.sizes())
        self.assertGreater(len(trace.events), 400000 - (WAITING + 2) * CHUNK)
        if trace.broken is not None:  # killed while it was writing
            self.assertLess(trace.broken, trace.size)
        self.assert_threads_in_order(trace)

    def wait_for_events(self, size, count):
        """The trace while it is being written, once it holds so many mallocs of that size."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            trace = Recorded(self.trace)
            if trace.sizes().count(size) >= count:
                return trace
            time.sleep(0.1)
        self.fail(f"the recorder does not write mallocs of {size} bytes: {trace.sizes()}")

    def test_recorder_killed_beside_a_slow_program(self):
        """What has gathered is written by time, too, and once."""
        child = self.start(program("lives"), "few")
        self.wait_for_events(3000, 3)
        child.kill()
        child.wait()
        out, _ = child.communicate("\n", timeout=60)
        self.assertEqual(out, "done\n")
        trace = Recorded(self.trace)
        self.assertIsNone(trace.end)
        self.assertIsNone(trace.broken)
        self.assertEqual(trace.sizes().count(3000), 3)
        self.assert_threads_in_order(trace)

    def test_written_by_time_and_at_the_end(self):
        """A chunk that is written in parts is in the file once."""
        child = self.start(program("lives"), "few")
        self.wait_for_events(3000, 3)
        child.communicate("\n", timeout=60)
        self.assertEqual(child.returncode, 0)
        trace = Recorded(self.trace)
        self.assert_whole(trace)
        self.assertEqual([trace.sizes().count(size) for size in (3000, 3001)], [3, 3])

    def test_signals_reach_the_program(self):
        child = self.start(program("lives"), "pauses")
        child.terminate()
        self.assertEqual(child.wait(timeout=60), 7)
        self.assertEqual(Recorded(self.trace).end["status"], 7)

    def test_interrupt_of_a_terminal(self):
        """It reaches both; the trace is complete, and the caller sees the program's signal."""
        child = self.start(program("lives"), "pauses", start_new_session=True)
        os.killpg(child.pid, signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), -signal.SIGINT)
        trace = Recorded(self.trace)
        self.assert_whole(trace)
        self.assertEqual(trace.end["status"], 128 + signal.SIGINT)

    def test_fork(self):
        """The child is not recorded, and does not write into what is its parent's."""
        _, trace = self.recorded(program("lives"), "forks")
        sizes = trace.sizes()
        self.assertEqual([sizes.count(size) for size in (3000, 3001, 3002)], [1, 0, 1])
        before = next(event for event in trace.events if event.size == 3000)
        frees = [event for event in trace.events if event.operation == "free"]
        self.assertEqual(sum(event.address == before.address for event in frees), 1)
        self.assertEqual(frees[-1].address, before.address)

    def test_child_that_executes(self):
        _, trace = self.recorded(program("lives"), "starts")
        self.assertNotIn(3005, trace.sizes())
        self.assertEqual(trace.sizes().count(3002), 1)

    def test_execution_in_place(self):
        """As a shell's `exec` does: the trace is that of the last program."""
        result, trace = self.recorded(program("lives"), "executes")
        sizes = trace.sizes()
        self.assertEqual([sizes.count(size) for size in (3000, 3005)], [0, 3])
        self.assertIn("executed 2 programs", result.err)

    def test_signal_handlers(self):
        _, trace = self.recorded(program("lives"), "handles")
        mallocs = trace.sizes()
        self.assertEqual([mallocs.count(size) for size in (100, 3001)], [10000, 1000])
        self.assertEqual(trace.sizes("to").count(3000), 10000)
        self.assertEqual(trace.end["lost"], 0)

    def test_wrong_pointer(self):
        """The library ends the program; the trace tells up to there, and is none the worse for it."""
        result, trace = self.recorded(program("lives"), "nonsense", code=-signal.SIGABRT)
        self.assertIn("free(): 0xfedcba9876543210", result.err)
        self.assertEqual((trace.events[-1].operation, trace.events[-1].address), ("free", 0xBA9876543210))

    def test_full_disk(self):
        """The program ends well, what was written is whole, and the tool says what happened."""
        result = self.record(
            program("lives"), "killed", "0", "300000",
            env=environment(LD_PRELOAD=FULL_DISK, HAKMEM_TEST_DISK="50000"),
        )  # fmt: skip
        self.assert_code(result, 1)
        self.assertEqual(result.out, "1\n")
        self.assertIn(f"{self.trace}: cannot write: No space left on device; recording ends", result.err)
        self.assertEqual(result.err.count("cannot write"), 1)
        self.assert_ends_early(result.err, "No space left on device")
        trace = Recorded(self.trace)
        self.assertIsNone(trace.broken)
        self.assertIsNone(trace.end)
        self.assertGreater(len(trace.events), CHUNK)
        self.assertLess(trace.size, 50000)

    def assert_ends_early(self, said, cause):
        """The last lines name the cause, and no other."""
        self.assertIn(f"note: the trace ends before the program did: {cause}\n", said)
        self.assertNotIn("signal handlers", said)

    def test_small_file_system(self):
        """As test_full_disk, with a real one."""
        os.mkdir(self.path("small"))
        script = (
            'mount -t tmpfs -o size=32k none "$1" || exit 77; shift; "$@"; code=$?;'
            ' cp "$HAKMEM_TEST_FROM" "$HAKMEM_TEST_TO" || exit 78; exit $code'
        )
        inside = self.path("small/it.htrace")
        result = execute(
            ["unshare", "-m", "sh", "-c", script, "sh", self.path("small"), TOOL, "trace", "record",
             "-o", inside, "--", program("lives"), "killed", "0", "300000"],
            env=environment(HAKMEM_TEST_FROM=inside, HAKMEM_TEST_TO=self.trace),
        )  # fmt: skip
        if result.code == 77 or "unshare" in result.err:
            self.skipTest(f"no file system can be mounted here: {result.err.strip()}")
        self.assert_code(result, 1)
        self.assertEqual(result.out, "1\n")
        self.assert_ends_early(result.err, "No space left on device")
        trace = Recorded(self.trace)
        self.assertIsNone(trace.broken)
        self.assertGreaterEqual(len(trace.events), CHUNK)

    def test_failing_disk(self):
        env = environment(
            LD_PRELOAD=FULL_DISK, HAKMEM_TEST_DISK="20000", HAKMEM_TEST_DISK_ERROR=str(errno.EIO)
        )
        result = self.record(program("lives"), "killed", "0", "300000", env=env)
        self.assert_code(result, 1)
        self.assert_ends_early(result.err, "Input/output error")

    def test_limit_of_file_size(self):
        """The recorder's; the program has none."""
        child = self.start(program("lives"), "waits")
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        out, err = child.communicate("\n", timeout=60)
        self.assertEqual((child.returncode, out), (1, "done\n"))
        self.assertIn("ulimit -f", err)
        self.assert_ends_early(err, "larger than the limit of file sizes (ulimit -f)")
        self.assertIsNone(Recorded(self.trace).broken)

    def test_nobody_reads_the_messages(self):
        """A standard error that is a closed pipe does not end the recorder."""
        read, write = os.pipe()
        os.close(read)
        child = subprocess.Popen(
            [TOOL, "trace", "record", "-o", self.trace, "--", program("lives"), "few"], stderr=write,
            env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        os.close(write)
        out, _ = child.communicate("\n", timeout=60)
        self.assertEqual((child.returncode, out), (0, "ready\ndone\n"))
        self.assert_whole(Recorded(self.trace))

    def test_full_disk_and_failing_program(self):
        env = environment(LD_PRELOAD=FULL_DISK, HAKMEM_TEST_DISK="10")
        result = self.record(program("lives"), "5", env=env)
        self.assert_code(result, 5)
        self.assertIn("No space left on device", result.err)

    def test_memory_is_bounded(self):
        """A recorder that is stopped makes the program wait, instead of taking more and more memory."""
        child = self.start(program("lives"), "waits")
        os.kill(child.pid, signal.SIGSTOP)
        child.stdin.write("\n")
        child.stdin.flush()
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as file:
            pid = file.read().split()[0]
        shared, before, deadline = 0, -1, time.monotonic() + 60
        while (shared != before or shared == 0) and time.monotonic() < deadline:
            before = shared
            time.sleep(0.5)
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                fields = dict(line.split(":", 1) for line in file)
            shared = int(fields["RssShmem"].split()[0])
        os.kill(child.pid, signal.SIGCONT)
        self.assertEqual(child.stdout.readline(), "done\n")
        self.assertEqual(child.wait(timeout=60), 0)
        self.assertLess(shared, (WAITING + 3) * CHUNK * 24 // 1024 + 300)
        trace = Recorded(self.trace)
        self.assert_whole(trace)
        self.assertEqual(trace.sizes().count(3001), 200000)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
