"""hakmem options, doctor, version and help."""

import json
import re
import subprocess
import tempfile

from common import *


class Options(TestCase):
    def table(self):
        """Name, type and whether it is listed (it has a help), of each option."""
        with open(os.path.join(SOURCE, "src/policy/options.def"), encoding="utf-8") as file:
            parts = re.split(r"^HAK_OPTION\(", file.read(), flags=re.MULTILINE)[1:]
        heads = [re.match(r'\w+, "(\w+)", (\w+)', part) for part in parts]
        return [(head[1], head[2], '""' not in part) for head, part in zip(heads, parts)]

    def names_in_the_table(self):
        return [name for name, _, listed in self.table() if listed]

    def test_every_option_is_listed(self):
        names = self.names_in_the_table()
        self.assertIn("HAKMEM_PROFILE", names)
        self.assertEqual(hakmem("options", "--format=names").out.split(), names)
        text = hakmem("options").out
        for name in names:
            self.assertIn(f"{name}=", text)

    def test_names_of_the_predecessor_are_accepted_and_not_listed(self):
        self.assertEqual([name for name, _, listed in self.table() if not listed], ["HAKMEM_SS_HUGEPAGE_EXPERIMENT"])
        self.assert_code(hakmem("options", "HAKMEM_SS_HUGEPAGE_EXPERIMENT"), 0)
        for arguments in (["--format", form] for form in ("text", "names", "json", "markdown", "scdoc")):
            self.assertNotRegex(hakmem("options", *arguments).out, "TINYV3|EXPERIMENT")
        for old, profile in (("MIXED_TINYV3_C7_SAFE", "speed"), ("mixed_tinyv3_c7_balanced", "balanced")):
            result = hakmem("options", "--current", "HAKMEM_PROFILE", env=environment(HAKMEM_PROFILE=old))
            self.assertEqual((result.out, result.err), (f"HAKMEM_PROFILE={profile} (environment)\n", ""))
        self.assertNotRegex(hakmem("run", "-p", "fast", "--", "true").err, "TINYV3")
        near = hakmem("options", "HAKMEM_HUGEPAGE_EXPERIMENT")
        self.assertNotIn("SS_HUGEPAGE_EXPERIMENT", near.err)

    def test_one_option(self):
        result = hakmem("options", "HAKMEM_SS_MEM_LEAN_DECOMMIT")
        self.assert_code(result, 0)
        lines = result.out.splitlines()
        self.assertEqual(lines[0], "HAKMEM_SS_MEM_LEAN_DECOMMIT=OFF|FREE|DONTNEED")
        self.assertEqual(len(lines), 3)
        self.assert_code(hakmem("options", "HAKMEM_NONE"), 2)

    def test_json(self):
        table = json.loads(hakmem("options", "--format=json").out)
        self.assertEqual([row["name"] for row in table], self.names_in_the_table())
        for row in table:
            self.assertEqual(set(row["defaults"]), {"speed", "balanced", "lean"})
            self.assertTrue(row["help"])
        words = {"KBYTES": "KiB", "MBYTES": "MiB"}
        types = {name: words.get(kind, kind.lower()) for name, kind, _ in self.table()}
        for row in table:
            self.assertEqual(row["type"], types[row["name"]])
            if row["type"] == "choice":
                for value in row["defaults"].values():
                    self.assertIn(value, row["accepted"].split("|"))

    def test_markdown(self):
        lines = hakmem("options", "--format=markdown").out.splitlines()
        self.assertEqual(len(lines), 2 + len(self.names_in_the_table()))
        for line in lines:
            self.assertEqual(len(re.findall(r"(?<!\\)\|", line)), 5, line)

    def test_current(self):
        def current(**changes):
            lines = hakmem("options", "--current", env=environment(**changes)).out.splitlines()
            return dict(line.split("=", 1) for line in lines)

        plain = current()
        self.assertEqual(plain["HAKMEM_PROFILE"], "balanced (default)")
        self.assertEqual(plain["HAKMEM_SS_OS_STATS"], "0 (default)")
        lean = current(HAKMEM_PROFILE="lean", HAKMEM_SS_OS_STATS="1")
        self.assertEqual(lean["HAKMEM_PROFILE"], "lean (environment)")
        changed = {name for name, value in lean.items() if value.endswith("(profile)")}
        self.assertEqual(changed, {"HAKMEM_SS_MEM_LEAN", "HAKMEM_WARM_POOL_MB", "HAKMEM_WARM_POOL_DECAY_MS"})
        self.assertEqual(lean["HAKMEM_SS_MEM_LEAN"], "1 (profile)")
        self.assertEqual(lean["HAKMEM_SS_OS_STATS"], "1 (environment)")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("HAKMEM_BINS_KB=77\n")
            file.flush()
            self.assertEqual(current(HAKMEM_CONF=file.name)["HAKMEM_BINS_KB"], "77 (file)")
        wrong = current(HAKMEM_SS_OS_STATS="yes")
        self.assertIn("'yes' in the environment is not understood", wrong["HAKMEM_SS_OS_STATS"])

    def test_effective(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("HAKMEM_BINS_KB=77\nHAKMEM_WARM_POOL_MB=5\n")
            file.flush()
            env = environment(LD_PRELOAD=LIBRARY, HAKMEM_CONF=file.name, HAKMEM_PROFILE="lean", HAKMEM_WARM_POOL_MB="6")
            with subprocess.Popen(["cat"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                try:
                    process.stdin.write("ready\n")
                    process.stdin.flush()
                    process.stdout.readline()
                    self.look_at(str(process.pid))
                finally:
                    process.stdin.close()
                    process.wait(timeout=60)

    def look_at(self, pid):
        result = hakmem("options", "--effective", pid)
        self.assert_code(result, 0)
        values = dict(line.split("=", 1) for line in result.out.splitlines())
        self.assertEqual(values["HAKMEM_PROFILE"], "lean (environment)")
        self.assertEqual(values["HAKMEM_WARM_POOL_MB"], "6 (environment)")
        self.assertEqual(values["HAKMEM_BINS_KB"], "77 (file)")
        self.assertEqual(values["HAKMEM_SS_MEM_LEAN"], "1 (profile)")
        self.assertEqual(values["HAKMEM_BACKGROUND"], "auto (default)")
        one = json.loads(hakmem("options", "--effective", pid, "--format=json", "HAKMEM_BINS_KB").out)
        self.assertEqual(one, [{"name": "HAKMEM_BINS_KB", "value": "77", "source": "file"}])
        self.assert_code(hakmem("options", "--effective", pid, "--current"), 2)
        self.assert_code(hakmem("options", "--effective", pid, "--format=scdoc"), 2)
        self.assertIn("there is no process", hakmem("options", "--effective", "999999999").err)

    def test_current_as_json(self):
        env = environment(HAKMEM_PROFILE="LEAN", HAKMEM_SS_OS_STATS="yes\x01\"\udcff\u00e9",
                          HAKMEM_BINS_KB="0064", HAKMEM_PROFIL="speed", HAKMEM_QQQ="1",
                          HAKMEM_TEST_X="1")  # fmt: skip
        result = hakmem("options", "--current", "--format=json", env=env)
        self.assert_code(result, 0)
        rows = {row["name"]: row for row in json.loads(result.out)}
        self.assertEqual(list(rows)[: len(self.names_in_the_table())], self.names_in_the_table())
        self.assertEqual(set(rows) - set(self.names_in_the_table()), {"HAKMEM_PROFIL", "HAKMEM_QQQ"})
        self.assertEqual(rows["HAKMEM_PROFILE"], {"name": "HAKMEM_PROFILE", "value": "lean",
                                                  "source": "environment", "rejected": None})  # fmt: skip
        self.assertEqual(rows["HAKMEM_BINS_KB"]["value"], 64)
        self.assertEqual(rows["HAKMEM_SS_MEM_LEAN"]["source"], "profile")
        self.assertEqual(rows["HAKMEM_SS_OS_STATS"]["value"], 0)
        self.assertEqual(rows["HAKMEM_SS_OS_STATS"]["rejected"], "yes\x01\"\ufffd\u00e9")
        self.assertEqual(rows["HAKMEM_PROFIL"], {"name": "HAKMEM_PROFIL", "value": None,
                                                 "source": "unknown", "rejected": "speed",
                                                 "nearest": "HAKMEM_PROFILE"})  # fmt: skip
        self.assertNotIn("nearest", rows["HAKMEM_QQQ"])
        one = hakmem("options", "--current", "--format=json", "HAKMEM_PROFILE", env=env)
        self.assertEqual(len(json.loads(one.out)), 1)

    def test_current_in_other_formats(self):
        env = environment(HAKMEM_PROFIL="speed")
        names = hakmem("options", "--current", "--format=names", env=env).out.split()
        self.assertEqual(names, [*self.names_in_the_table(), "HAKMEM_PROFIL"])
        for name in ("markdown", "scdoc"):
            result = hakmem("options", "--current", f"--format={name}", env=env)
            self.assert_code(result, 2)
            self.assertEqual(result.out, "")
            self.assertIn("accepted: text|names|json", result.err)

    def test_current_shows_what_is_misspelled(self):
        for name, meant in (("HAKMEM_PROFIL", "HAKMEM_PROFILE"), ("hakmem_profile", "HAKMEM_PROFILE"),
                            ("HAKMEN_PROFILE", "HAKMEM_PROFILE"), ("HAKMEM_HUGEPAGE", "HAKMEM_SS_HUGEPAGE"),
                            ("HAKMEM_WARMPOOL_MB", "HAKMEM_WARM_POOL_MB"), ("HAKMEM_XYZ", None)):  # fmt: skip
            lines = hakmem("options", "--current", env=environment(**{name: "a\nb"})).out.splitlines()
            self.assertEqual(len(lines), len(self.names_in_the_table()) + 1, lines)
            hint = f"; did you mean {meant}?" if meant else ""
            self.assertEqual(lines[-1], f"{name}=a?b (unknown variable{hint})")
        for name in ("HAKMEM_TEST_A", "HAKMEM_LAB_A", "HAKMEM_BENCH_A", "HAKMEM", "HAKMEMX_A", "HAND", "",
                     "HAKMEM_TOLD"):  # fmt: skip
            env = environment(**{name or "A": "1"})
            lines = hakmem("options", "--current", env=env).out.splitlines()
            self.assertEqual(len(lines), len(self.names_in_the_table()), (name, lines[-1]))
            self.assertEqual(hakmem("run", SUBJECT, env=env).err, "", name)

    def test_current_knows_the_other_name_of_huge_pages(self):
        env = environment(HAKMEM_SS_HUGEPAGE_EXPERIMENT="1", HAKMEM_SS_HUGEPAGE="off")
        lines = hakmem("options", "--current", env=env).out.splitlines()
        self.assertIn("HAKMEM_SS_HUGEPAGE=explicit (HAKMEM_SS_HUGEPAGE_EXPERIMENT)", lines)

    def test_unknown_option_has_a_hint(self):
        result = hakmem("options", "HAKMEM_PROFIL")
        self.assert_code(result, 2)
        self.assertIn("did you mean HAKMEM_PROFILE?", result.err)

    def test_current_agrees_with_the_library(self):
        """A value is either taken by both or by neither: the library complains of what it does not."""
        for name, value in (("HAKMEM_PROFILE", "lean"), ("HAKMEM_PROFILE", "Lean"), ("HAKMEM_PROFILE", "le@n"),
                            ("HAKMEM_SS_MEM_LEAN_DECOMMIT", "dontneed"), ("HAKMEM_STATS", "JSON"),
                            ("HAKMEM_SS_OS_STATS", "2"), ("HAKMEM_SS_OS_STATS", ""),
                            ("HAKMEM_SS_MEM_LEAN_TARGET_MB", "100"),
                            ("HAKMEM_SS_MEM_LEAN_TARGET_MB", "-1"),
                            ("HAKMEM_SS_MEM_LEAN_TARGET_MB", "99999999999999999999"),
                            ("HAKMEM_SS_MEM_LEAN_TARGET_MB", "1k"),
                            ("HAKMEM_SS_HUGEPAGE", "thp"), ("HAKMEM_SS_HUGEPAGE", "thp|off")):  # fmt: skip
            env = environment(**{name: value})
            tool = "is not understood" not in hakmem("options", "--current", name, env=env).out
            library = "not understood" not in hakmem("run", SUBJECT, env=env).err
            self.assertEqual(tool, library, f"{name}={value}: tool {tool}, library {library}")

    def test_unknown_format(self):
        self.assert_code(hakmem("options", "--format=xml"), 2)

    def test_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TOOL, "options"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=60, check=False)  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("No space left", done.stderr)


class Doctor(TestCase):
    def test_library_takes_effect(self):
        result = hakmem("doctor")
        self.assert_code(result, 0)
        self.assertIn(f"ok    library: {LIBRARY}\n", result.out)
        self.assertRegex(result.out, r"ok +child process: hakmem \d+\.\d+\.\d+, \w+ variant\n")
        self.assertIn("malloc and its family come from the library", result.out)
        self.assertNotIn("FAIL", result.out)

    def test_program(self):
        result = hakmem("doctor", "--", SUBJECT, "--whatever")
        self.assert_code(result, 0)
        self.assertRegex(result.out, re.escape(SUBJECT) + r": malloc comes from the library in all")
        self.assertNotIn("pid ", result.out, "the program was started")

    def test_arguments_of_the_program(self):
        """They are the program's, with and without --."""
        for arguments in (["sh", "-c", "echo ran"], ["--", "sh", "-c", "echo ran"], ["sh", "--library"]):
            result = hakmem("doctor", *arguments)
            self.assert_code(result, 0)
            self.assertIn("malloc comes from the library in all", result.out)
            self.assertNotIn("ran\n", result.out)

    def test_target_of_env(self):
        result = hakmem("doctor", "env", "A=1", SUBJECT)
        self.assert_code(result, 0)
        self.assertRegex(result.out, rf"note  /.*/env starts {re.escape(SUBJECT)}\n")
        self.assertRegex(result.out, re.escape(SUBJECT) + r": malloc comes from the library in all")
        script = self.write("script", f"#!/usr/bin/env {os.path.basename(SUBJECT)}\n")
        path = os.path.dirname(SUBJECT) + ":" + os.environ["PATH"]
        result = hakmem("doctor", script, env=environment(PATH=path))
        self.assert_code(result, 0)
        self.assertIn(f"note  {script} is a script; {SUBJECT} runs it", result.out)

    def test_script(self):
        script = self.write("script", "#!/bin/sh\necho ran\n")
        result = hakmem("doctor", script)
        self.assert_code(result, 0)
        self.assertIn(f"note  {script} is a script; /bin/sh runs it", result.out)
        self.assertNotIn("\nran", result.out)

    def test_program_with_a_malloc_of_its_own(self):
        source = self.write("own.c", """
            #include <stddef.h>
            static char memory[1 << 20];
            static size_t used;
            void *malloc(size_t size) { used += (size + 31) & ~15ul; return memory + used - size; }
            void *calloc(size_t n, size_t size) { return malloc(n * size); }
            void *realloc(void *p, size_t size) { (void)p; return malloc(size); }
            void free(void *p) { (void)p; }
            int main(void) { return malloc(1) == NULL; }
            """)  # fmt: skip
        built = execute([CC, "-fno-builtin", "-rdynamic", "-o", self.path("own"), source])
        self.assert_code(built, 0)
        result = hakmem("doctor", self.path("own"))
        self.assert_code(result, 1)
        self.assertRegex(result.out, "FAIL .*libc.so.6 takes malloc from " + self.path("own"))

    def test_program_that_takes_the_address_of_malloc(self):
        """At a fixed address the program itself stands in for malloc; still the library's is called."""
        source = self.write("fixed.c", """
            #include <stdlib.h>
            void *(*volatile allocate)(size_t);
            int main(void) { allocate = malloc; free(allocate(1)); free(malloc(1)); return 0; }
            """)  # fmt: skip
        built = execute([CC, "-O1", "-fno-pie", "-no-pie", "-fno-builtin", "-o", self.path("fixed"),
                         source])  # fmt: skip
        self.assert_code(built, 0)
        result = hakmem("doctor", self.path("fixed"))
        self.assert_code(result, 0)
        self.assertIn(self.path("fixed") + ": malloc comes from the library in all", result.out)

    def test_refused_program(self):
        result = hakmem("doctor", STATIC)
        self.assert_code(result, 126)
        self.assertIn("statically linked", result.err)

    def test_library_without_malloc(self):
        """libhakmem-api.so exports hak_* only: preloading it has no effect, and that is told."""
        result = hakmem("doctor", "--library", API_LIBRARY)
        self.assert_code(result, 1)
        self.assertIn("FAIL  child process: not from the library: malloc (", result.out)

    def test_some_other_library(self):
        libm = execute([CC, "-print-file-name=libm.so.6"]).out.strip()
        result = hakmem("doctor", "--library", libm)
        self.assert_code(result, 1)
        self.assertIn("FAIL  child process: the library does not load, or is not hakmem", result.out)

    def test_environment_is_told(self):
        result = hakmem("doctor", env=environment(HAKMEM_PROFILE="lean", HAKMEM_NONSENSE="1"))
        self.assert_code(result, 0)
        self.assertIn("set in the environment: HAKMEM_PROFILE=lean", result.out)
        self.assertEqual(result.err.count("HAKMEM_NONSENSE: unknown variable"), 1, result)

    def test_boxes_that_cannot_be_written(self):
        """A wrong directory would be noticed when the process has been killed, and left no box."""
        missing = self.path("missing")
        told = f"note  HAKMEM_BLACKBOX: nothing can be written to {missing} as this user: No such file or directory\n"
        self.assertIn(told, hakmem("doctor", env=environment(HAKMEM_BLACKBOX=missing)).out)
        os.mkdir(missing)
        self.assertNotIn("nothing can be written", hakmem("doctor", env=environment(HAKMEM_BLACKBOX=missing)).out)

    def test_program_with_an_allocator_inside(self):
        """As redis has its own jemalloc: it calls malloc for little, and nothing fails."""
        text = "#include <stdlib.h>\nvoid *%s(size_t size) { return (char *)0 + size; }\nint main(void) { free(malloc(1)); return %s(0) != NULL; }\n"
        for name, told in (("je_malloc", True), ("my_malloc", False)):
            program = self.path(name)
            source = self.write(name + ".c", text % (name, name))
            self.assert_code(execute([CC, "-O0", "-fno-builtin", "-o", program, source]), 0)
            result = hakmem("doctor", program)
            self.assert_code(result, 0)
            self.assertEqual(f"note  {program} has an allocator inside ({name}): " in result.out, told, result.out)

    def test_forced_libc(self):
        result = hakmem("doctor", env=environment(HAKMEM_FORCE_LIBC_ALLOC="1"))
        self.assert_code(result, 0)
        self.assertIn("hands every call on to libc", result.out)


class VersionAndHelp(TestCase):
    def test_version(self):
        with open(os.path.join(SOURCE, "include/hakmem.h"), encoding="utf-8") as file:
            version = re.search(r'HAKMEM_VERSION_STRING "(.*)"', file.read()).group(1)
        for argument in ("version", "--version"):
            result = hakmem(argument)
            self.assert_code(result, 0)
            first, second = result.out.splitlines()
            self.assertEqual(first, f"hakmem {version}")
            self.assertRegex(second, rf"^library {re.escape(version)} \(\w+\), {re.escape(LIBRARY)}$")

    def test_help(self):
        for arguments in (["help"], ["--help"], ["-h"]):
            result = hakmem(*arguments)
            self.assert_code(result, 0)
            for command in ("run", "options", "doctor", "version"):
                self.assertRegex(result.out, rf"\n  {command} ")
        for command in ("run", "options", "doctor", "version"):
            by_help = hakmem("help", command)
            self.assert_code(by_help, 0)
            self.assertIn(f"Usage: hakmem {command}", by_help.out)
            self.assertEqual(by_help.out, hakmem(command, "--help").out)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
