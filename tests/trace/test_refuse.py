"""hakmem trace record: wrong arguments, files that cannot be written, programs that cannot be recorded."""

from recording import *

TRACE_LIBRARY = os.environ["HAKMEM_TEST_TRACE_LIBRARY"]


class Arguments(RecordingCase):
    def test_no_file_given(self):
        self.assert_refused(hakmem("trace", "record", "--", "true"), 2, "no file given", "-o FILE")
        self.assert_refused(hakmem("trace", "record", "-o", "", "--", "true"), 2, "no name of a file")

    def test_no_program_given(self):
        result = hakmem("trace", "record", "-o", self.trace)
        self.assert_code(result, 2)
        self.assertIn("hakmem trace record: no program given", result.err)
        self.assertFalse(os.path.exists(self.trace))

    def test_unknown_words(self):
        self.assert_refused(hakmem("trace"), 2, "usage: hakmem trace record")
        self.assert_refused(hakmem("trace", "replay"), 2, "replay: unknown; there is: record")
        result = hakmem("trace", "record", "--frob", "true")
        self.assert_code(result, 2)
        self.assertIn("--frob", result.err)

    def test_help(self):
        for arguments in (("trace", "--help"), ("trace", "record", "--help"), ("help", "trace")):
            result = hakmem(*arguments)
            self.assert_code(result, 0)
            self.assertIn("Usage: hakmem trace record [OPTION...] [--] PROGRAM", result.out)
            self.assertIn("--output=FILE", result.out)
            self.assertEqual(result.err, "")

    def test_options_of_the_program_are_its_own(self):
        result, trace = self.recorded("sh", "-c", 'echo "$0 $*"', "--force", "-o", "x")
        self.assertEqual(result.out, "--force -o x\n")
        self.assertEqual(trace.information["command"][-3:], ["--force", "-o", "x"])


class Files(RecordingCase):
    def test_existing_file_is_kept(self):
        self.write("it.htrace", "precious")
        self.assert_refused(self.record("true"), 2, f"{self.trace}: exists; -f overwrites it")
        with open(self.trace, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_existing_file_is_overwritten_on_demand(self):
        self.write("it.htrace", "precious" * 100000)
        self.recorded(program("lives"), "after", options=["--force"])

    def test_existing_file_is_kept_when_the_program_cannot_start(self):
        self.write("it.htrace", "precious")
        self.assert_refused(self.record("./none", options=["-f"]), 127, "./none")
        with open(self.trace, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_unwritable(self):
        for path, reason in (
            (self.path("none/it.htrace"), "No such file or directory"),
            ("/proc/it.htrace", "No such file or directory"),
            (TOOL + "/it.htrace", "Not a directory"),
        ):
            self.assert_refused(hakmem("trace", "record", "-o", path, "--", "true"), 2, path, reason)

    def test_no_regular_file(self):
        os.mkfifo(self.path("pipe"))
        for path, reason in (
            (self.directory, "a directory is not a regular file"),
            (self.path("pipe"), "a pipe is not a regular file"),
            ("/dev/null", "it is not a regular file"),
        ):
            for force in ([], ["-f"]):
                result = hakmem("trace", "record", *force, "-o", path, "--", "true")
                self.assert_refused(result, 2, path, reason)

    def test_pipe_that_is_read(self):
        os.mkfifo(self.path("pipe"))
        reader = os.open(self.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        for force in ([], ["-f"]):
            result = hakmem("trace", "record", *force, "-o", self.path("pipe"), "--", "true")
            self.assert_refused(result, 2, "a pipe is not a regular file")

    def test_standard_output(self):
        """It is no file of the name "-", which the option can have all the same."""
        for output in (["-o", "-"], ["--output=-"]):
            result = hakmem("trace", "record", *output, "--", "true", cwd=self.directory)
            self.assert_refused(result, 2, "standard output", "./-")
        self.assertEqual(os.listdir(self.directory), [])
        self.assert_code(
            hakmem("trace", "record", "-o", "./-", "--", "true", cwd=self.directory), 0
        )
        self.assertIsNone(Recorded(self.path("-")).broken)

    def test_limit_of_file_size(self):
        """`ulimit -f` holds for the memory between the two as well; it is said before the program runs."""
        result = execute(["sh", "-c", 'ulimit -f 1000; exec "$0" "$@"', TOOL, "trace", "record", "-o",
                          self.trace, "--", "echo", "ran"])  # fmt: skip
        self.assert_refused(result, 2, "cannot make the memory for events, ", "(ulimit -f)")
        self.assertFalse(os.path.exists(self.trace))


class Programs(RecordingCase):
    def assert_nothing_written(self, result, code, *words):
        self.assert_refused(result, code, *words)
        self.assertFalse(os.path.exists(self.trace))

    def test_not_found(self):
        self.assert_nothing_written(self.record("no-such-program"), 127, "'no-such-program'", "PATH")
        self.assert_nothing_written(self.record(self.directory), 126, "Is a directory")

    def test_static(self):
        self.assert_nothing_written(self.record(STATIC), 126, STATIC, "statically linked")

    def test_setuid(self):
        copy = self.copy(program("lives"), "setuid")
        os.chmod(copy, 0o4755)
        self.assert_nothing_written(self.record(copy), 126, "set-user-ID")

    def test_removed_between_check_and_start(self):
        """The kernel's refusal comes from the child; it looks the same."""
        text = self.write("text", b"\x7fnot an executable\0")
        self.assert_nothing_written(self.record(text), 126, "Exec format error")

    def test_exit_codes(self):
        for code in (0, 1, 2, 126, 255):
            self.recorded(program("lives"), str(code), code=code, options=["-f"])

    def test_program_without_the_library(self):
        """A program that clears LD_PRELOAD and executes another one."""
        result, trace = self.recorded("env", "-i", program("lives"), "after")
        self.assertNotIn(3005, trace.sizes())


class Library(RecordingCase):
    def test_beside_the_tool(self):
        os.makedirs(self.path("bin"))
        tool = self.copy(TOOL, "bin/hakmem")
        missing = self.record("true", tool=tool)
        if missing.code == 2:  # else one is installed in the configured directory of this machine
            self.assertIn("cannot find the library for traces; searched:\n", missing.err)
            self.assertIn(self.path("bin/libhakmem-trace.so.0"), missing.err)
        self.copy(TRACE_LIBRARY, "bin/libhakmem-trace.so.0")
        result, trace = self.recorded("env", tool=tool, options=["-f"])
        self.assertIn(f"LD_PRELOAD={self.path('bin/libhakmem-trace.so.0')}\n", result.out)
        self.assertGreater(len(trace.events), 0)

    def test_in_an_installation(self):
        for folder in ("bin", "lib/hakmem"):
            os.makedirs(self.path(folder))
        tool = self.copy(TOOL, "bin/hakmem")
        library = self.copy(TRACE_LIBRARY, "lib/hakmem/libhakmem-trace.so.0")
        result, _ = self.recorded("env", tool=tool, options=["-f"])
        self.assertIn(f"LD_PRELOAD={library}\n", result.out)

    def test_given(self):
        copy = self.copy(TRACE_LIBRARY, "other.so")
        result, _ = self.recorded("env", options=["--library", copy])
        self.assertIn(f"LD_PRELOAD={copy}\n", result.out)

    def test_given_one_that_does_not_record(self):
        result = self.record("true", options=["--library", os.environ["HAKMEM_TEST_LIBRARY"]])
        self.assert_code(result, 0)
        self.assertIn("took no memory from the library that records", result.err)
        self.assertEqual(Recorded(self.trace).events, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
