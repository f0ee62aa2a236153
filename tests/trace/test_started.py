"""Processes that the recorded program starts: they are counted, and leave its recording alone."""

from recording import *


class Started(RecordingCase):
    def assert_started(self, count, result, trace):
        self.assertEqual(trace.end["processes_started"], count, result)
        said = f"note: {count} process{'es were' if count != 1 else ' was'} started, not recorded\n"
        self.assertIn(said, result.err)

    def test_none(self):
        result, trace = self.recorded(program("lives"), "after")
        self.assertEqual(trace.end["processes_started"], 0)
        self.assertNotIn("not recorded", result.err)

    def test_forked(self):
        self.assert_started(1, *self.recorded(program("lives"), "forks"))

    def test_forked_and_executed(self):
        """One process, whatever it does then."""
        self.assert_started(1, *self.recorded(program("lives"), "starts"))

    def test_wrapper(self):
        """A shell forks some and starts others by vfork; the last one takes its place or not."""
        script = '"$0" after; "$0" after; ("$0" after; "$0" after; :); exit 0'
        self.assert_started(5, *self.recorded("sh", "-c", script, program("lives")))

    def test_children_of_children(self):
        script = "sh -c '\"$0\" after; \"$0\" after; exit 0' \"$0\"; exit 0"
        self.assert_started(3, *self.recorded("sh", "-c", script, program("lives")))

    def test_spawned_with_all_descriptors_closed(self):
        """As Python does, by vfork and without the descriptor of the memory."""
        script = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True, close_fds=True)"
        self.assert_started(1, *self.recorded(sys.executable, "-c", script, program("lives"), "after"))

    def test_daemon(self):
        """The parent has ended before its child runs: at least that child is counted."""
        result, trace = self.recorded(program("lives"), "daemonizes")
        self.assertIn(trace.end["processes_started"], (1, 2))
        self.assertIn("started, not recorded\n", result.err)
        self.assertNotIn(3001, trace.sizes())

    def test_child_shares_no_events(self):
        """Only the count of processes, which is no part of the recording, is common."""
        result, _ = self.recorded(program("lives"), "shares")
        counts = 0x10000  # TRACE_STARTED_AT of tools/trace_layer/shared.h
        self.assertEqual([int(line.split()[2], 16) for line in result.out.splitlines()], [counts])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
