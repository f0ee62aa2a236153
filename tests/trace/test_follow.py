"""hakmem trace record --follow: a trace for each process that the program starts."""

import re
import time

from recording import *

FULL_DISK = os.environ["HAKMEM_TEST_FULL_DISK"]
SEATS = 64  # tools/trace_layer/shared.h: processes recorded at once
CHUNK = 2048


class FollowCase(RecordingCase):
    def others(self, whole=True):
        """The traces beside the first process's, by the pid in their names."""
        found = {}
        for name in os.listdir(self.directory):
            match = re.fullmatch(r"it\.(\d+)(?:-\d+)?\.htrace", name)
            if match is None:
                continue
            trace = Recorded(self.path(name))
            if whole:
                self.assert_whole(trace)
            self.assertEqual(trace.information["pid"], int(match[1]))
            found.setdefault(int(match[1]), []).append(trace)
        return found

    def followed(self, *command, code=0, **more):
        """Records all processes: the tool's result, the first one's trace, and the list of the others'."""
        result, trace = self.recorded(*command, code=code, options=["--follow"], **more)
        others = [trace for traces in self.others().values() for trace in traces]
        for other in others:
            self.assert_said(result.err, other)
        self.assert_said(result.err, trace)
        self.assertFalse(trace.information.get("forked"))
        return result, trace, others

    def assert_said(self, said, trace):
        """A line of the process, with its number of events."""
        events = trace.end["events"]
        start = rf"^hakmem trace record: {trace.information['pid']} \S.*\.htrace: "
        self.assertRegex(said, re.compile(rf"{start}{events} event", re.MULTILINE))

    def start(self, *command, **options):
        arguments = [TOOL, "trace", "record", "--follow", "-o", self.trace, "--", *command]
        child = subprocess.Popen(
            arguments, env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **options,
        )  # fmt: skip
        self.addCleanup(child.communicate)
        return child


class Started(FollowCase):
    def test_alone(self):
        """A program that starts nothing is recorded as without the option."""
        result, trace, others = self.followed(program("lives"), "after")
        self.assertEqual(others, [])
        self.assertEqual(trace.sizes().count(3005), 3)
        self.assertEqual((trace.end["processes_started"], trace.end["status"]), (0, 0))
        self.assertNotIn("note", result.err)

    def test_not_without_the_option(self):
        self.recorded(program("lives"), "forks")
        self.assertEqual(self.others(), {})

    def test_shell(self):
        script = '"$0" after; sh -c \'"$0" after; exit 0\' "$0"; exit 3'
        _, trace, others = self.followed("sh", "-c", script, program("lives"), code=3)
        self.assertEqual(trace.end["status"], 3)
        self.assertEqual(trace.end["processes_started"], len(others))
        runs = [other for other in others if 3005 in other.sizes()]
        self.assertEqual([run.sizes().count(3005) for run in runs], [3, 3])
        for run in runs:
            self.assertEqual(run.information["command"], [program("lives"), "after"])
            self.assertIs(run.information["forked"], False)
        shell = [other for other in others if other.information["command"][0] == "sh"]
        pids = {other.information["pid"] for other in (trace, *shell)}
        self.assertEqual({run.information["parent"] for run in runs}, pids)

    def test_fork(self):
        """The child's trace holds what the child did; its frees of its parent's blocks have no allocation there."""
        _, trace, (child,) = self.followed(program("lives"), "forks")
        self.assertEqual([trace.sizes().count(size) for size in (3000, 3001, 3002)], [1, 0, 1])
        self.assertEqual([child.sizes().count(size) for size in (3000, 3001, 3002)], [0, 5000, 0])
        self.assertIs(child.information["forked"], True)
        self.assertEqual(child.information["parent"], trace.information["pid"])
        before = next(event for event in trace.events if event.size == 3000)
        first = next(event for event in child.events if event.operation in ("free", "malloc"))
        self.assertEqual((first.operation, first.address), ("free", before.address))
        self.assertEqual(child.end["threads"], 1)

    def test_fork_and_execution(self):
        """One trace, of the program that the child has executed last."""
        _, _, (child,) = self.followed(program("follow"), "executes")
        self.assertEqual([child.sizes().count(size) for size in (3001, 3005)], [0, 3])
        self.assertEqual(child.information["command"], [program("follow"), "after"])
        self.assertIs(child.information["forked"], False)

    def test_daemon(self):
        """The process that was started has ended before its child's child begins."""
        _, trace, others = self.followed(program("lives"), "daemonizes")
        self.assertEqual(trace.sizes().count(3000), 1)
        self.assertEqual([other.sizes().count(3001) for other in others if 3001 in other.sizes()], [1])
        self.assertIn(0, [other.end.get("status") for other in others])

    def test_python(self):
        """It starts programs by vfork, with all descriptors closed."""
        script = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True, close_fds=True)"
        command = [os.path.realpath(sys.executable), "-c", script, program("lives"), "after"]
        _, _, others = self.followed(*command)
        self.assertEqual([other.sizes().count(3005) for other in others], [3])
        self.assertIs(others[0].information["forked"], False)

    def test_beside_threads(self):
        """Other threads may be anywhere when a process forks; the child's threads are its own."""
        count = 8
        _, trace, others = self.followed(program("follow"), "beside_threads", str(count))
        self.assertEqual(len(others), count)
        self.assertEqual(trace.end["threads"], 4)
        for other in others:
            self.assertEqual([other.sizes().count(size) for size in (3001, 3002)], [3000, 1000])
            self.assertEqual(other.end["threads"], 2)
            self.assertEqual(other.sizes().count(70000), 0)
            self.assertEqual(other.end["lost"], 0)

    def test_forks_in_signal_handlers(self):
        _, trace, others = self.followed(program("follow"), "forks_in_handlers")
        self.assertEqual(len(others), 20)
        for other in others:
            self.assertGreaterEqual(other.sizes().count(3002), 10000 - CHUNK)
        self.assertNotIn(3002, trace.sizes())


class Ends(FollowCase):
    def test_interrupt_ends_the_recording_of_a_daemon(self):
        child = self.start(program("follow"), "background")
        pid = int(child.stdout.readline())
        self.addCleanup(self.end_process, pid)
        line = child.stderr.readline()
        self.assertIn("the program has ended, 1 process that it started is recorded on; Ctrl-C", line)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 0)
        (trace,) = self.others()[pid]
        self.assertEqual([trace.sizes().count(size) for size in (3001, 3002)], [5, 0])
        self.assertNotIn("status", trace.end)
        self.assert_whole(Recorded(self.trace))
        child.stdin.write("\n")
        child.stdin.flush()
        self.assertEqual(child.stdout.readline(), "done\n")

    @staticmethod
    def end_process(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_end_of_a_daemon_ends_the_recording(self):
        child = self.start(program("follow"), "background")
        pid = int(child.stdout.readline())
        child.stdin.write("\n")
        child.stdin.flush()
        self.assertEqual(child.wait(timeout=60), 0)
        (trace,) = self.others()[pid]
        self.assertEqual([trace.sizes().count(size) for size in (3001, 3002)], [5, 200000])
        self.assertEqual(trace.end["status"], 0)

    def test_recorder_killed(self):
        """All processes go on, also those whose parent it is not."""
        child = self.start(program("follow"), "grandchild")
        child.stdout.readline()
        child.kill()
        child.wait()
        child.stdin.write("\n")
        child.stdin.flush()
        self.assertEqual(child.stdout.readline(), "done\n")

    def test_signal(self):
        """The tool ends as the program did, and the program's processes are in files."""
        script = '"$0" after; kill -TERM $$; sleep 10'
        result = self.record("sh", "-c", script, program("lives"), options=["--follow"])
        self.assert_code(result, -signal.SIGTERM)
        self.assertEqual([trace.sizes().count(3005) for (trace,) in self.others().values()], [3])


class Files(FollowCase):
    def test_names_that_exist_are_left_alone(self):
        """As when a pid is used again."""
        child = self.start(program("follow"), "tells")
        pid = int(child.stdout.readline())
        self.write(f"it.{pid}.htrace", "precious")
        self.write(f"it.{pid}-2.htrace", "precious")
        child.communicate("\n", timeout=60)
        self.assertEqual(child.returncode, 0)
        for name in (f"it.{pid}.htrace", f"it.{pid}-2.htrace"):
            with open(self.path(name), encoding="ascii") as file:
                self.assertEqual(file.read(), "precious")
        trace = Recorded(self.path(f"it.{pid}-3.htrace"))
        self.assert_whole(trace)
        self.assertEqual(trace.sizes().count(3001), 1)

    def test_names(self):
        """The pid stands before what the name ends with; a dot in a directory's name, or at the start, is no such end."""
        os.mkdir(self.path("a.b"))
        for name, others in (("a.b/it", r"it\.\d+"), ("a.b/.it", r"\.it\.\d+"), ("x.y.z", r"x\.y\.\d+\.z")):
            self.trace = self.path(name)
            self.recorded(program("lives"), "forks", options=["--follow"])
            names = os.listdir(os.path.dirname(self.trace))
            self.assertEqual(sum(re.fullmatch(others, other) is not None for other in names), 1, names)

    def test_directory_that_goes(self):
        """The program goes on; what is missing is said, and the exit code tells."""
        os.mkdir(self.path("gone"))
        self.trace = self.path("gone/it.htrace")
        script = 'rm -r "$1"; "$0" after && echo ran'
        result = self.record("sh", "-c", script, program("lives"), self.path("gone"), options=["--follow"])
        self.assert_code(result, 1)
        self.assertEqual(result.out, "ran\n")
        self.assertRegex(result.err, r"\d+ \S*lives: not recorded: .*gone/it\.\d+\.htrace: No such file")

    def test_full_disk(self):
        result = self.record(
            program("follow"), "beside_threads", "2", options=["--follow"],
            env=environment(LD_PRELOAD=FULL_DISK, HAKMEM_TEST_DISK="6000"),
        )  # fmt: skip
        self.assert_code(result, 1)
        self.assertIn("No space left on device; recording ends", result.err)
        self.assertRegex(result.err, r"note: \d+ \S+follow( \(forked\))?: the trace ends before the program did")
        self.assertIsNone(Recorded(self.trace).broken)

    def test_limit_of_file_size(self):
        """The memory for all that may be recorded at once; it is said before the program runs."""
        result = execute(["sh", "-c", 'ulimit -f 1000000; exec "$0" "$@"', TOOL, "trace", "record", "--follow",
                          "-o", self.trace, "--", "echo", "ran"])  # fmt: skip
        self.assert_refused(result, 2, "cannot make the memory for events, ", "(ulimit -f)")


class Many(FollowCase):
    def test_one_after_the_other(self):
        """Seats are used again."""
        count = 3 * SEATS
        result, trace, others = self.followed(program("follow"), "in_turn", str(count))
        self.assertEqual([other.sizes().count(3001) for other in others], [1] * count)
        self.assertEqual(trace.end["processes_started"], count)
        self.assertNotIn("note", result.err)

    def test_too_many_at_once(self):
        """The program does not wait for a seat, and how many were not recorded is said."""
        more = 5
        count = SEATS - 1 + more
        child = self.start(program("follow"), "at_once", str(count))
        for _ in range(count):
            self.assertEqual(child.stdout.readline(), "ready\n")
        _, err = child.communicate("\n" * count, timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertIn(f"note: {more} processes were not recorded: more than {SEATS} would have been", err)
        others = self.others()
        self.assertEqual(len(others), SEATS - 1)
        for (trace,) in others.values():
            self.assertEqual([trace.sizes().count(size) for size in (3001, 3002)], [1, 1])


class NotRecorded(FollowCase):
    def assert_seen(self, started, reason, **options):
        """Seen by looking: a program that ends sooner is counted at most."""
        for seconds in (1, 5, 20):
            child = self.start("sh", "-c", '"$0" few; exit 0', started, **options)
            self.assertEqual(child.stdout.readline(), "ready\n")
            time.sleep(seconds)
            _, err = child.communicate("\n", timeout=60)
            self.assertEqual(child.returncode, 0)
            if re.search(rf"note: \d+ {re.escape(started)}: not recorded: {reason}\n", err):
                return
            os.unlink(self.trace)
        self.fail(err)

    def test_static(self):
        self.assert_seen(STATIC, "statically linked")

    def test_set_user_id(self):
        nobody = 65534
        copy = self.copy(program("lives"), "raises")
        os.chmod(copy, 0o4755)
        os.chmod(self.directory, 0o777)
        can = os.geteuid() == 0 and not os.statvfs(copy).f_flag & os.ST_NOSUID
        if can:
            can = subprocess.run([TOOL, "version"], user=nobody, capture_output=True, check=False).returncode == 0
        if not can:
            self.skipTest("needs root, programs that may raise privileges, and a build that all may read")
        self.assert_seen(copy, "it has privileges of its own", user=nobody, group=nobody, extra_groups=[])

    def test_set_user_id_of_the_same_user(self):
        """For its owner it raises nothing: it is recorded."""
        copy = self.copy(program("lives"), "raises")
        os.chmod(copy, 0o4755)
        _, _, (other,) = self.followed("sh", "-c", '"$0" after; exit 0', copy)
        self.assertEqual(other.sizes().count(3005), 3)

    def test_without_the_environment(self):
        """Nobody waits for a process that is not recorded when all others have ended."""
        child = self.start("sh", "-c", 'exec 3<&0; env -i "$0" few <&3 2>/dev/null & exit 0', program("lives"))
        self.assertEqual(child.stdout.readline(), "ready\n")
        child.wait(timeout=60)
        err = child.stderr.readlines()
        self.assertEqual(sum("lives: not recorded: it runs without the library" in line for line in err), 1, err)
        child.stdin.write("\n")
        child.stdin.flush()
        self.assertEqual(child.stdout.readline(), "done\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
