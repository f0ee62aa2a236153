"""hakmem run: programs that cannot run on the library are refused, each with its reason and code."""

from common import *

EM_OFFSET = 18  # e_machine of an ELF header
CLASS_OFFSET = 4


class NotFound(TestCase):
    def test_no_such_program(self):
        self.assert_refused(hakmem("run", "no-such-program"), 127, "'no-such-program'", "PATH")
        self.assert_refused(hakmem("run", "./no/such"), 127, "No such file or directory")
        self.assert_refused(hakmem("run", ""), 127)
        self.assert_refused(hakmem("run", SUBJECT + "/x"), 127, "Not a directory")

    def test_not_executable(self):
        file = self.write("file", "echo ran\n", mode=0o644)
        self.assert_refused(hakmem("run", file), 126, file, "Permission denied")
        found = hakmem("run", "file", env=environment(PATH=self.directory))
        self.assert_refused(found, 126, "Permission denied")

    def test_directory(self):
        self.assert_refused(hakmem("run", self.directory), 126, "Is a directory")

    def test_directory_in_path_is_no_program(self):
        os.mkdir(self.path("thing"))
        found = hakmem("run", "thing", env=environment(PATH=self.directory))
        self.assert_refused(found, 127, "not found in PATH")

    def test_dangling_link(self):
        os.symlink("nowhere", self.path("link"))
        self.assert_refused(hakmem("run", self.path("link")), 127, "No such file or directory")


class NotPreloadable(TestCase):
    def test_static(self):
        self.assertEqual(execute([STATIC]).out, "ran\n")
        self.assert_refused(hakmem("run", STATIC), 126, STATIC, "statically linked", "libhakmem.a")

    def test_static_position_independent(self):
        source = os.path.join(SOURCE, "tests/tools/static.c")
        built = execute([CC, "-static-pie", "-o", self.path("pie"), source])
        self.assert_code(built, 0)
        self.assert_refused(hakmem("run", self.path("pie")), 126, "statically linked")

    def test_setuid(self):
        program = self.copy(SUBJECT, "setuid")
        os.chmod(program, 0o4755)
        self.assert_refused(hakmem("run", program), 126, "set-user-ID")

    def test_setgid(self):
        program = self.copy(SUBJECT, "setgid")
        os.chmod(program, 0o2755)
        self.assert_refused(hakmem("run", program), 126, "set-group-ID")
        # Without group execution the bit is the mark of mandatory locking, no privilege.
        os.chmod(program, 0o2745)
        self.assert_code(hakmem("run", program), 0)

    def test_capabilities(self):
        program = self.copy(SUBJECT, "capable")
        # revision 2, effective; permitted: CAP_NET_RAW
        value = (0x02000001).to_bytes(4, "little") + (1 << 13).to_bytes(4, "little") + bytes(12)
        try:
            os.setxattr(program, "security.capability", value)
        except OSError as error:
            self.skipTest(f"file capabilities cannot be set here: {error}")
        self.assert_refused(hakmem("run", program), 126, "file capabilities")

    def test_through_a_link(self):
        os.symlink(STATIC, self.path("link"))
        self.assert_refused(hakmem("run", self.path("link")), 126, "statically linked")

    def patched(self, name, offset, value):
        with open(SUBJECT, "rb") as file:
            content = bytearray(file.read())
        content[offset : offset + len(value)] = value
        return self.write(name, bytes(content))

    def test_other_machine(self):
        program = self.patched("sparc", EM_OFFSET, (2).to_bytes(2, "little"))
        self.assert_refused(hakmem("run", program), 126, "machine 2, 64-bit", "the library is for")
        program = self.patched("mips", EM_OFFSET, (8).to_bytes(2, "little"))
        self.assert_refused(hakmem("run", program), 126, "is a program for MIPS, 64-bit")

    def test_other_word_size(self):
        program = self.patched("small", CLASS_OFFSET, b"\x01")
        self.assert_refused(hakmem("run", program), 126, "32-bit", "the library is for")

    def test_missing_dynamic_linker(self):
        with open(SUBJECT, "rb") as file:
            content = file.read()
        place = content.index(b"/ld-linux")
        program = self.write("lost", content[:place] + b"/xx" + content[place + 3 :])
        self.assert_refused(hakmem("run", program), 127, "its dynamic linker /", "No such file")

    def test_damaged_headers(self):
        with open(SUBJECT, "rb") as file:
            content = file.read()
        for name, damaged in (
            ("four", content[:4]),
            ("header", content[:40]),
            ("short", content[:100]),
            ("offset", content[:32] + b"\xff" * 8 + content[40:]),
            ("count", content[:56] + b"\xff\xff" + content[58:]),
            ("object", content[:16] + b"\x01\x00" + content[18:]),
        ):
            program = self.write(name, damaged)
            self.assert_refused(hakmem("run", program), 126, program, "not a valid program")

    def test_no_damage_makes_the_tool_crash(self):
        """Every 16-bit word of the first KiB overwritten: the ends are a refusal, or the program's."""
        with open(SUBJECT, "rb") as file:
            content = file.read()
        for offset in range(4, 1024, 24):
            program = self.write("damaged", content[:offset] + b"\xff" * 2 + content[offset + 2 :])
            result = hakmem("doctor", program)
            self.assertIn(result.code, (0, 1, 126, 127), (offset, result))

    def test_nothing_at_all(self):
        program = self.write("binary", b"\x00\x01\x02" * 100)
        self.assert_refused(hakmem("run", program), 126, "Exec format error")


class Scripts(TestCase):
    def test_static_interpreter(self):
        script = self.write("script", f"#!{STATIC}\n")
        self.assert_refused(hakmem("run", script), 126, STATIC, "statically linked")

    def test_setuid_interpreter(self):
        interpreter = self.copy("/bin/sh", "shell")
        os.chmod(interpreter, 0o4755)
        script = self.write("script", f"#!{interpreter}\necho ran\n")
        self.assert_refused(hakmem("run", script), 126, interpreter, "set-user-ID")

    def test_setuid_bit_of_a_script_means_nothing(self):
        script = self.write("script", "#!/bin/sh\necho ran\n", mode=0o4755)
        result = hakmem("run", script)
        self.assertEqual((result.code, result.out), (0, "ran\n"), result)

    def test_interpreter_through_env(self):
        shutil.copy(STATIC, self.path("fixed"))
        for line in ("#!/usr/bin/env fixed", "#!/usr/bin/env -S A=1 fixed -x"):
            script = self.write("script", line + "\n")
            path = self.directory + ":" + os.environ["PATH"]
            result = hakmem("run", script, env=environment(PATH=path))
            self.assert_refused(result, 126, self.path("fixed"), "statically linked")

    def test_missing_program_of_env(self):
        for line, name in (("#!/usr/bin/env no-such-program", "no-such-program"),
                           ("#!/usr/bin/env -S A=1 no-such-program -x", "no-such-program"),
                           ("#!/usr/bin/env sh -e", "sh -e")):  # fmt: skip
            script = self.write("script", line + "\n")
            self.assert_refused(hakmem("run", script), 127, script, f"env is to start '{name}'")
            doctor = hakmem("doctor", script)
            self.assert_code(doctor, 127)
            self.assertIn(f"env is to start '{name}'", doctor.err)

    def test_env_as_the_program(self):
        for before in ([], ["A=1"], ["-u", "A"], ["-uA", "-v", "--unset=A", "--"], ["-S", "A=1"],
                       ["env", "B=1"]):  # fmt: skip
            self.assert_refused(hakmem("run", "env", *before, STATIC), 126, STATIC, "statically linked")
            result = hakmem("run", "--", "env", *before, SUBJECT)
            self.assert_code(result, 0)
            self.assertIn("allocator hakmem", result.out)
        self.assert_refused(hakmem("run", "env", "no-such-program"), 127, "'no-such-program'")
        for rest in ([], ["A=1"], ["-C", "/", "true"], ["PATH=/nowhere:/usr/bin:/bin", "true"],
                     ["-S", "sh -c 'exit 0'"]):  # fmt: skip
            self.assert_code(hakmem("run", "env", *rest), 0)

    def test_env_that_drops_the_library(self):
        for drop in (["-i"], ["-"], ["-u", "LD_PRELOAD"], ["LD_PRELOAD="], ["--ignore-environment"],
                     ["-vi"], ["-S", "-i A=1"]):  # fmt: skip
            self.assert_refused(hakmem("run", "env", *drop, SUBJECT), 126, "without the LD_PRELOAD")
        self.assert_code(hakmem("run", "env", "-i"), 0)

    def test_missing_interpreter(self):
        script = self.write("script", "#!/no/such/interpreter -x\n")
        self.assert_refused(hakmem("run", script), 127, script, "/no/such/interpreter: No such file")

    def test_dos_line_ends(self):
        script = self.write("script", "#!/bin/sh\r\necho ran\r\n")
        self.assert_refused(hakmem("run", script), 127, script, "DOS line ends")

    def test_script_run_by_scripts(self):
        inner = self.write("a0", f"#!{STATIC}\n")
        for depth in range(1, 4):
            inner = self.write(f"a{depth}", f"#!{inner}\n")
        self.assert_refused(hakmem("run", inner), 126, STATIC, "statically linked")

    def test_script_run_by_itself(self):
        script = self.path("loop")
        self.write("loop", f"#!{script}\n")
        self.assert_refused(hakmem("run", script), 126, "too many scripts")


class Odd(TestCase):
    """What nobody means to pass, and somebody does."""

    def test_library_that_is_no_file(self):
        os.mkfifo(self.path("pipe"))
        for name in (self.path("pipe"), self.directory, "/dev/null", "/dev/zero"):
            self.assert_refused(hakmem("run", "--library", name, SUBJECT), 2, name, "not a shared library")
        self.assert_refused(hakmem("run", "--library=", SUBJECT), 2, "''")
        self.assert_refused(hakmem("run", "--library=" + "x" * 5000, SUBJECT), 2, "too long")

    def test_control_characters_stay_out_of_the_terminal(self):
        script = self.write("script", "#!/bin/\033]0;title\007\n")
        for arguments in (["run", script], ["run", "\033[31mred\nline"], ["doctor", script]):
            result = hakmem(*arguments)
            self.assert_code(result, 127)
            self.assertNotRegex(result.err[:-1], "[\x00-\x1f\x7f]", result)

    def test_names_of_variants(self):
        for command in ("run", "doctor"):
            for name in ("", "../x", "a" * 200, "nope", "standard fast"):
                result = hakmem(command, "--variant", name, "true")
                self.assert_code(result, 2)
                self.assertIn("not the name of a variant; there are standard fast ", result.err)
            result = hakmem(command, "--variant=fast", "--library", LIBRARY, "true")
            self.assert_code(result, 2)
            self.assertIn("cannot be used together", result.err)

    def test_format_of_stats_without_its_sign(self):
        result = hakmem("run", "--stats", "json", "true")
        self.assert_code(result, 127)
        self.assertIn("--stats=json", result.err)

    def test_closed_descriptors(self):
        """They stay closed for the program, and do not confuse the tool's own children."""
        for closed in ("<&-", "2>&-", "<&- 2>&-"):
            for command in ("version", "doctor", f"doctor '{SUBJECT}'"):
                result = execute(["sh", "-c", f"'{TOOL}' {command} {closed}"])
                self.assert_code(result, 0)
                self.assertIn(LIBRARY, result.out)
        result = execute(["sh", "-c", f"'{TOOL}' version >&-"])
        self.assert_code(result, 1)
        self.assertIn("cannot write", result.err)
        result = execute(["sh", "-c", f"'{TOOL}' run ls /proc/self/fd 2>&- <&-"])
        self.assertNotIn("2", result.out.split(), result)

    def test_doctor_starts_no_foreign_dynamic_linker(self):
        marker = self.path("marker")
        evil = self.write("ld-linux-x86-64.so.2", f"#!/bin/sh\ntouch {marker}\n")
        program = self.build("program", "int main(void) { return 0; }", f"-Wl,--dynamic-linker={evil}")
        result = hakmem("doctor", program)
        self.assert_code(result, 0)
        self.assertIn("is not started", result.out)
        self.assertFalse(os.path.exists(marker))


class Usage(TestCase):
    def test_mistakes(self):
        for arguments, words in (
            (["run"], "no program given"),
            (["run", "--"], "no program given"),
            (["run", "--nonsense", "true"], "unrecognized option"),
            (["run", "--variant", "../x", "true"], "not the name of a variant"),
            (["run", "--variant=fast", "--library=x", "true"], "cannot be used together"),
            (["jog", "true"], "no command 'jog'"),
            (["help", "jog"], "no command 'jog'"),
            ([], "usage: hakmem COMMAND"),
        ):
            result = hakmem(*arguments)
            self.assert_code(result, 2)
            self.assertEqual(result.out, "", result)
            self.assertIn(words, result.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
