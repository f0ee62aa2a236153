"""hakmem run: the program gets the library, and everything else as it would have without the tool."""

import json
import re

from common import *


def facts(result):
    """The lines of subject.c by their first word."""
    table = {"arguments": []}
    for line in result.out.splitlines():
        if line.startswith("argument "):
            table["arguments"].append(line[len("argument ") :])
        elif "=" in line.split(" ")[0]:
            name, value = line.split("=", 1)
            table[name] = value
        else:
            name, value = line.split(" ", 1)
            table[name] = value
    return table


class Run(TestCase):
    def subject(self, *arguments, before=(), env=None, **options):
        result = hakmem("run", *before, "--", SUBJECT, *arguments, env=env, **options)
        return result, facts(result)

    def test_program_runs_on_the_library(self):
        result, got = self.subject()
        self.assert_code(result, 0)
        self.assertEqual(got["allocator"], "hakmem", result)
        self.assertEqual(got["LD_PRELOAD"], LIBRARY)
        self.assertEqual(result.err, "")

    def test_without_the_tool_it_does_not(self):
        """Else the test above would prove nothing."""
        self.assertEqual(facts(execute([SUBJECT]))["allocator"], "other")

    def test_dashes_may_be_left_out(self):
        result = hakmem("run", SUBJECT, "--profile", "x", "--help")
        self.assert_code(result, 0)
        self.assertEqual(facts(result)["arguments"], [SUBJECT, "--profile", "x", "--help"])

    def test_arguments_are_passed_on_unchanged(self):
        odd = ["two words", "", " lead", "a'b\"c", "$HOME *", "--", "-x", "é\u00fc", "back\\slash"]
        result, got = self.subject(*odd)
        self.assertEqual(got["arguments"], [SUBJECT, *odd], result)

    def test_exit_code_is_the_programs(self):
        for code in (0, 1, 2, 42, 126, 127, 255):
            result, _ = self.subject(f"exit={code}")
            self.assert_code(result, code)

    def test_signal_is_the_programs(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            result, _ = self.subject(f"signal={int(number)}")
            self.assert_code(result, -number)

    def test_same_process(self):
        """A supervisor that waits for the tool waits for the program."""
        child = subprocess.Popen(
            [TOOL, "run", "--", SUBJECT], env=environment(), stdout=subprocess.PIPE, text=True
        )
        out, _ = child.communicate(timeout=60)
        self.assertIn(f"pid {child.pid}\n", out)

    def test_environment_is_passed_on(self):
        _, got = self.subject(env=environment(SUBJECT_VARIABLE="a b=c"))
        self.assertEqual(got["SUBJECT_VARIABLE"], "a b=c")
        self.assertNotIn("HAKMEM_PROFILE", got)
        self.assertNotIn("HAKMEM_STATS", got)

    def test_earlier_preload_is_kept(self):
        libm = os.path.realpath(
            execute([CC, "-print-file-name=libm.so.6"]).out.strip()
        )
        result, got = self.subject(env=environment(LD_PRELOAD=libm))
        self.assertEqual(got["LD_PRELOAD"], f"{LIBRARY}:{libm}", result)
        self.assertEqual(got["allocator"], "hakmem", result)

    def test_library_stands_there_once(self):
        result = hakmem("run", TOOL, "run", TOOL, "run", SUBJECT)
        self.assertEqual(facts(result)["LD_PRELOAD"], LIBRARY, result)

    def test_more_mistakes_than_a_variable_holds(self):
        mistakes = {f"HAKMEM_{i:0100}": "1" for i in range(1500)}
        result, got = self.subject(env=environment(**mistakes))
        self.assert_code(result, 0)
        self.assertEqual(got["allocator"], "hakmem")
        self.assertEqual(result.err.count("hakmem run: "), 1500)

    def test_profile(self):
        for profile in ("speed", "balanced", "lean", "MIXED_TINYV3_C7_SAFE"):
            result, got = self.subject(before=["--profile", profile])
            self.assertEqual(got.get("HAKMEM_PROFILE"), profile, result)
            self.assertEqual(result.err, "")

    def test_profile_wins_over_the_environment(self):
        _, got = self.subject(before=["-p", "lean"], env=environment(HAKMEM_PROFILE="speed"))
        self.assertEqual(got["HAKMEM_PROFILE"], "lean")

    def test_profile_of_the_environment_stays(self):
        _, got = self.subject(env=environment(HAKMEM_PROFILE="speed"))
        self.assertEqual(got["HAKMEM_PROFILE"], "speed")

    def test_unknown_profile_is_refused(self):
        result, _ = self.subject(before=["--profile=fast"])
        self.assert_refused(result, 2, "--profile fast: unknown", "speed|balanced|lean")

    def test_profile_in_any_case(self):
        for before in (["--profile", "Lean"], ["--stats=JSON"]):
            result, got = self.subject(before=before)
            self.assert_code(result, 0)
            self.assertNotIn("understood", result.err)

    def test_one_warning_a_process_tree(self):
        """A program of three processes: one line for each mistake, and none in a tool that it calls."""
        script = f'"{SUBJECT}" >&2; sh -c true; "{TOOL}" run -- true; "{TOOL}" run -- sh -c true'
        env = environment(HAKMEM_PROFIL="lean", HAKMEM_STATS="xml", HAKMEM_SS_HUGEPAGE="of\nf" * 99)
        result = hakmem("run", "--", "sh", "-c", script, env=env)
        self.assert_code(result, 0)
        lines = [line for line in result.err.splitlines() if line.startswith("hakmem")]
        self.assertEqual(len(lines), 3, result)
        self.assertIn("HAKMEM_SS_HUGEPAGE=of?fof?f", lines[0])
        self.assertIn("hakmem run: HAKMEM_STATS=xml: not understood; accepted: off|text|json|all (using off)",
                      lines)  # fmt: skip
        self.assertIn("hakmem run: HAKMEM_PROFIL: unknown variable; did you mean HAKMEM_PROFILE?", lines)

    def test_a_new_mistake_further_down_is_told(self):
        script = f'HAKMEM_FOO=1 "{SUBJECT}"'
        result = hakmem("run", "--", "sh", "-c", script, env=environment(HAKMEM_PROFIL="lean"))
        lines = result.err.splitlines()
        self.assertEqual(len(lines), 2, result)
        self.assertIn("HAKMEM_FOO: unknown option", lines[1])

    def test_stats_are_printed_at_exit(self):
        for option in ("--stats", "--stats=text"):
            result, got = self.subject(before=[option])
            self.assertEqual(got["HAKMEM_STATS"], "text")
            lines = result.err.splitlines()
            self.assertEqual(len(lines), 10, result)
            self.assertRegex(lines[0], r"^\[STATS\] \w*subject \(pid \d+\) at exit, hakmem ")
        result, got = self.subject(before=["--stats=all"])
        self.assertEqual(got["HAKMEM_STATS"], "all")
        lines = result.err.splitlines()
        self.assertRegex(lines[0], r"^\[SS_OS_STATS\] alloc=\d+ free=\d+ madvise=\d+ ")
        for label in ("WARM_POOL_STATS", "TINY_HEAP_STATS", "TINY_FRONT_CLASS_STATS"):
            self.assertRegex(result.err, rf"(?m)^\[{label}\] class=6 size=112 \w+=\d+ ")

    def test_each_process_has_a_summary(self):
        """Ten lines each, which do not mix."""
        script = f'"{SUBJECT}" >/dev/null & "{SUBJECT}" >/dev/null; wait; exit'
        result = hakmem("run", "--stats", "--", "sh", "-c", script)
        self.assert_code(result, 0)
        lines = result.err.splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("[STATS] ")]
        self.assertEqual(starts, list(range(0, len(lines), 10)), result)
        names = [re.match(r"\[STATS\] (\S+) \(pid (\d+)\) at exit", lines[at]) for at in starts]
        self.assertEqual(len({name[2] for name in names}), len(starts), result)
        self.assertEqual(sum(name[1] == os.path.basename(SUBJECT) for name in names), 2, result)

    def test_stats_as_json(self):
        result, got = self.subject(before=["--stats=json"])
        self.assertEqual(got["HAKMEM_STATS"], "json")
        self.assertEqual(result.err.count("\n"), 1, result)
        self.assertEqual(json.loads(result.err)["version"], 1)

    def test_unknown_format_of_stats_is_refused(self):
        result, _ = self.subject(before=["--stats=xml"])
        self.assert_refused(result, 2, "--stats=xml: unknown", "off|text|json|all")

    def test_program_is_found_in_path(self):
        result = hakmem("run", os.path.basename(SUBJECT),
                        env=environment(PATH="/nonexistent:" + os.path.dirname(SUBJECT)))  # fmt: skip
        self.assert_code(result, 0)
        self.assertEqual(facts(result)["arguments"], [os.path.basename(SUBJECT)])

    def test_path_skips_what_cannot_be_executed(self):
        self.write("subject", "not for execution", mode=0o644)
        os.mkdir(self.path("bin"))
        shutil.copy(SUBJECT, self.path("bin/subject"))
        result = hakmem("run", "subject",
                        env=environment(PATH=self.directory + ":" + self.path("bin")))  # fmt: skip
        self.assert_code(result, 0)

    def test_scripts(self):
        for name, head in (("plain", ""), ("sh", "#!/bin/sh\n"), ("arg", "#! /bin/sh -e \n"),
                           ("env", "#!/usr/bin/env sh\n"), ("split", "#!/usr/bin/env -S sh -e\n")):  # fmt: skip
            script = self.write(name, f'{head}exec "{SUBJECT}" "$@"\n')
            result = hakmem("run", "--", script, "two words")
            self.assert_code(result, 0)
            self.assertEqual(facts(result)["arguments"], [SUBJECT, "two words"], result)
            self.assertEqual(facts(result)["allocator"], "hakmem", result)

    def test_dynamic_linker_as_program(self):
        linker = execute([CC, "-print-file-name=ld-linux-x86-64.so.2"]).out.strip()
        if not os.path.isabs(linker):
            self.skipTest("not x86-64")
        result = hakmem("run", os.path.realpath(linker), SUBJECT)
        self.assert_code(result, 0)
        self.assertEqual(facts(result)["allocator"], "hakmem", result)

    def test_real_programs(self):
        for command, expected in (
            (["sh", "-c", "echo $((6*7))"], "42\n"),
            (["sort", "-r"], ""),
            ([sys.executable, "-c", "import json; print(json.dumps({'a': [1]}))"], '{"a": [1]}\n'),
        ):
            result = hakmem("run", "--", *command)
            self.assert_code(result, 0)
            self.assertEqual((result.out, result.err), (expected, ""))


# Takes /proc away from a program that it is preloaded into.
WITHOUT_PROC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define REFUSE(path, result) if (strncmp(path, "/proc", 5) == 0) return errno = ENOENT, result
#define REAL(name) static __typeof__(name) *real; if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)
ssize_t readlink(const char *path, char *to, size_t size) {
  REFUSE(path, -1); REAL(readlink); return real(path, to, size);
}
char *realpath(const char *path, char *to) { REFUSE(path, NULL); REAL(realpath); return real(path, to); }
int execv(const char *path, char *const argv[]) { REFUSE(path, -1); REAL(execv); return real(path, argv); }
int open(const char *path, int flags, ...) {
  va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list);
  REFUSE(path, -1); REAL(open); return real(path, flags, mode);
}
"""


class FindLibrary(TestCase):
    """The tool is copied to where it would be installed."""

    def install(self, libdir, name="libhakmem.so.0"):
        os.makedirs(self.path("bin"))
        tool = self.copy(TOOL, "bin/hakmem")
        os.makedirs(self.path(libdir), exist_ok=True)
        return tool, self.copy(LIBRARY, os.path.join(libdir, name))

    def assert_uses(self, tool, library, *arguments):
        result = hakmem("run", *arguments, "--", SUBJECT, tool=tool)
        self.assert_code(result, 0)
        self.assertEqual(facts(result)["LD_PRELOAD"], library, result)
        self.assertEqual(facts(result)["allocator"], "hakmem", result)

    def test_beside_the_tool(self):
        self.assert_uses(*self.install("bin"))

    def test_in_lib(self):
        self.assert_uses(*self.install("lib"))

    def test_development_name(self):
        self.assert_uses(*self.install("lib", "libhakmem.so"))

    def test_tool_called_through_a_link(self):
        _, library = self.install("lib")
        os.makedirs(self.path("elsewhere"))
        os.symlink("../bin/hakmem", self.path("elsewhere/hakmem"))
        self.assert_uses(self.path("elsewhere/hakmem"), library)

    def ways_to_call(self):
        """Each with its directory and PATH."""
        os.makedirs(self.path("elsewhere"))
        os.symlink("../bin/hakmem", self.path("elsewhere/hakmem"))
        path = os.environ["PATH"]
        return ((self.path("bin/hakmem"), "/", path), ("./hakmem", self.path("bin"), path),
                ("bin/../bin/hakmem", self.directory, path), ("elsewhere/hakmem", self.directory, path),
                ("hakmem", "/", self.path("bin") + ":" + path), ("hakmem", self.path("bin"), ":" + path),
                ("hakmem", "/", "/nonexistent:" + self.path("elsewhere") + ":" + path))  # fmt: skip

    def test_without_proc(self):
        _, library = self.install("lib")
        preload = self.build("without.so", WITHOUT_PROC, "-shared", "-fPIC")
        for tool, directory, path in self.ways_to_call():
            env = environment(PATH=path, LD_PRELOAD=preload)
            result = execute([tool, "run", "--", SUBJECT], env=env, cwd=directory)
            self.assert_code(result, 0)
            self.assertEqual(facts(result)["LD_PRELOAD"], f"{library}:{preload}", tool)
            for command in (["version"], ["doctor", SUBJECT]):
                result = execute([tool, *command], env=env, cwd=directory)
                self.assert_code(result, 0)
                self.assertIn(library, result.out)

    def test_with_nothing_in_proc(self):
        _, library = self.install("lib")
        hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if os.geteuid() != 0:
            hide.insert(1, "-r")
        if execute([*hide, "test", "!", "-e", "/proc/self"]).code != 0:
            self.skipTest("/proc cannot be hidden here")
        for tool, directory, path in self.ways_to_call():
            env = environment(PATH=path)
            result = execute([*hide, tool, "run", "--", SUBJECT], env=env, cwd=directory)
            self.assert_code(result, 0)
            self.assertEqual(facts(result)["LD_PRELOAD"], library, tool)

    def test_called_through_the_dynamic_linker(self):
        tool, library = self.install("lib")
        linker = execute([CC, "-print-file-name=ld-linux-x86-64.so.2"]).out.strip()
        if not os.path.isabs(linker):
            self.skipTest("not x86-64")
        result = execute([linker, tool, "run", "--", SUBJECT])
        self.assert_code(result, 0)
        self.assertEqual(facts(result)["LD_PRELOAD"], library, result)
        self.assertIn(library, execute([linker, tool, "version"]).out)

    def test_variant_of_a_build_tree(self):
        os.makedirs(self.path("build/standard"))
        tool = self.copy(TOOL, "build/standard/hakmem")
        os.makedirs(self.path("build/observe"))
        library = self.copy(LIBRARY, "build/observe/libhakmem.so")
        self.assert_uses(tool, library, "--variant", "observe")

    def test_variant_of_an_installation(self):
        """Below the library directory, where no other program finds it."""
        tool, _ = self.install("lib")
        os.makedirs(self.path("lib/hakmem/hardened"))
        library = self.copy(LIBRARY, "lib/hakmem/hardened/libhakmem.so.0")
        self.assert_uses(tool, library, "--variant", "hardened")

    def test_named_library(self):
        library = self.copy(LIBRARY, "other.so")
        self.assert_uses(TOOL, library, "--library", library)

    def test_missing_library_says_where_it_looked(self):
        tool, library = self.install("lib")
        os.remove(library)
        result = hakmem("run", SUBJECT, tool=tool)
        if result.code == 0:
            self.skipTest("hakmem is installed in the configured directory of this machine")
        self.assert_code(result, 2)
        self.assertEqual(result.out, "")
        self.assertIn("hakmem run: cannot find the library; searched:\n", result.err)
        self.assertIn(self.path("bin/libhakmem.so"), result.err)
        self.assertIn("lib/libhakmem.so.0: No such file or directory", result.err)

    def test_missing_variant(self):
        tool, _ = self.install("lib")
        result = hakmem("run", "--variant", "observe", SUBJECT, tool=tool)
        self.assert_code(result, 2)
        self.assertIn("cannot find the library of variant observe", result.err)
        self.assertIn(f"'make VARIANT=observe install PREFIX={self.directory}' in hakmem's source", result.err)

    def test_a_library_that_is_none(self):
        for content, words in ((b"text", "not a shared library"), (b"", "not a shared library"),
                               (b"\x7fELF", "not a shared library")):  # fmt: skip
            result = hakmem("run", "--library", self.write("x.so", content), SUBJECT)
            self.assert_refused(result, 2, "x.so", words)
        result = hakmem("run", "--library", SUBJECT, SUBJECT)
        self.assert_refused(result, 2, "a program, not a shared library")
        result = hakmem("run", "--library", self.path("none.so"), SUBJECT)
        self.assert_refused(result, 2, "none.so: No such file or directory")

    def test_a_path_that_the_dynamic_linker_rewrites(self):
        for directory in ("$ORIGIN", "a${LIB}b", "$PLATFORM"):
            os.mkdir(self.path(directory))
            library = self.copy(LIBRARY, os.path.join(directory, "libhakmem.so"))
            result = hakmem("run", "--library", library, SUBJECT)
            self.assert_refused(result, 2, "$ORIGIN, $LIB or $PLATFORM")
        os.mkdir(self.path("$money$"))
        library = self.copy(LIBRARY, "$money$/libhakmem.so")
        self.assert_uses(TOOL, library, "--library", library)

    def test_a_path_that_cannot_be_preloaded(self):
        for directory in ("two words", "a:b"):
            os.mkdir(self.path(directory))
            library = self.copy(LIBRARY, os.path.join(directory, "libhakmem.so"))
            result = hakmem("run", "--library", library, SUBJECT)
            self.assert_refused(result, 2, "space or a colon")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
