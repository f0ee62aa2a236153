"""What the pages on C and C++, installed programs, Node, Java, Ruby, PHP, .NET and Go say: their commands, what runs on hakmem, and
what does not.

Usage: test_ecosystems.py cpp|preload|node|java|ruby|php|dotnet|go      exit code 77: the runtime is not here; the last line says so
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
HERE = "tests/ecosystems"
TOOL = os.environ["HAKMEM_TEST_TOOL"]
LIBRARY = os.environ["HAKMEM_TEST_LIBRARY"]
WORK = Path(os.environ["HAKMEM_TEST_WORK"])
JEMALLOC = next(iter(sorted(Path("/usr/lib").glob("*/libjemalloc.so.2"))), None)
MIB = 1 << 20
SKIP = 77
HELD = 48 * MIB


def environment(**changes):
    """The caller's, without anything that concerns an allocator."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HAKMEM_") and name not in ("LD_PRELOAD", "USE_ZEND_ALLOC")
    }
    return kept | {"HAKMEM_LAB_WARM_MIB": "0"} | changes


def execute(command, **changes):
    """Runs a line of shell, or a list of words, from the repository's root."""
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=SOURCE,
        env=environment(**changes),
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=240,
    )


def commands_of(page):
    """The commands of a page's first block, without comments and with the lines of each joined."""
    text = (SOURCE / "docs" / page).read_text(encoding="utf-8")
    block = re.search(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1].replace("\\\n", " ")
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in block.splitlines())
    return [line for line in lines if line]


class Ecosystem(unittest.TestCase):
    maxDiff = None
    page = ""
    work: tuple[str, ...] = ()  # the program of tests/ecosystems, as it is started
    needs: tuple[str, ...] = ()

    @classmethod
    def build(cls):
        """Makes `work`, where it has to be made; the page's commands do the same."""

    def succeeds(self, done):
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.stdout}{done.stderr}")
        return done.stdout

    def held(self, *arguments, **changes):
        """What `hakmem stats` says of the program while it holds memory."""
        words = [TOOL, "run", "--", *self.work, *arguments]
        process = subprocess.Popen(
            words, cwd=SOURCE, env=environment(**changes), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with process:
            try:
                said = process.stdout.readline().split()
                self.assertEqual(said[:1], ["ready"], f"{words}: {said}")
                figures = json.loads(self.succeeds(execute([TOOL, "stats", "--format", "json", said[1]])))
            finally:
                process.stdin.close()
                status = process.wait(timeout=60)
        self.assertEqual(status, 0, words)
        return figures["equation"]

    def assert_on_hakmem(self, kind, **changes):
        """Of 48 MiB all are hakmem's. What a runtime has itself differs by 2 MiB between runs: its compilers."""
        before, after = (self.held(*kind, str(mib), **changes) for mib in (0, 48))
        grown = after["live"] - before["live"]
        self.assertGreater(grown, HELD * 0.9, (before, after))
        self.assertLess(grown, HELD * 1.25, (before, after))
        self.assertLess(after["not_ours"] - before["not_ours"], HELD / 5, (before, after))

    def assert_not_on_hakmem(self, kind, **changes):
        """The 48 MiB are resident, and not hakmem's."""
        before, after = (self.held(*kind, str(mib), **changes) for mib in (0, 48))
        self.assertGreater(after["not_ours"] - before["not_ours"], HELD * 0.9, (before, after))
        self.assertLess(after["live"] - before["live"], HELD / 8, (before, after))

    def run_page(self):
        """The commands as they stand, but for where hakmem was built, and with one round instead of six."""
        commands = commands_of(self.page)
        self.assertLessEqual(len(commands), 5, commands)
        self.assertEqual(commands[0], "make")  # that is what built this test's library
        kept = Path(self.enterContext(tempfile.TemporaryDirectory())) / "compare.json"
        for command in commands[1:]:
            command = command.replace("build/standard/hakmem ", shlex.quote(TOOL) + " ")
            if "hakmem-lab compare" in command:
                self.assertIn("--allocators glibc,hakmem", command)
                self.assertIn(" --rounds 6 --same-output ", command)
                command = command.replace("glibc,hakmem", f"glibc,tested={LIBRARY}")
                if JEMALLOC is None:
                    command = re.sub(r",jemalloc=\$\([^)]*\)", "", command)
                options = f"--rounds 1 --warmup 0 --no-system-calls --fail -o {kept}"
                self.succeeds(execute(command.replace("--rounds 6", options)))
            else:
                out = self.succeeds(execute(command))
                if " run -- " in command:
                    self.assertRegex(out, r"^job \w+")
        compared = kept.read_text(encoding="utf-8")
        self.assertIn(LIBRARY, compared)
        self.assertIn('"tested"', compared)


class Cpp(Ecosystem):
    page = "c-cpp.md"
    work = (str(WORK / "work-cpp"),)
    needs = ("g++",)

    @classmethod
    def build(cls):
        execute(["g++", "-O2", "-o", str(WORK / "work-cpp"), f"{HERE}/work.cpp"]).check_returncode()

    def test_page(self):
        self.run_page()

    def test_blocks(self):
        self.assert_on_hakmem(["blocks"])

    def test_mappings(self):
        self.assert_not_on_hakmem(["mapped"])

    def test_with_a_sanitizer_the_doctor_says_so(self):
        program = str(WORK / "work-asan")
        self.succeeds(execute(["g++", "-fsanitize=address", "-o", program, f"{HERE}/work.cpp"]))
        done = execute([TOOL, "doctor", "--", program])
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("AddressSanitizer has to have malloc itself", done.stdout)


class Preload(Ecosystem):
    page = "preload.md"
    work = ("perl", f"{HERE}/work.pl")
    needs = ("perl",)

    def test_page(self):
        self.run_page()

    def test_strings(self):
        self.assert_on_hakmem([])

    def test_the_doctor_looks_without_starting_it(self):
        out = self.succeeds(execute([TOOL, "doctor", "--", *self.work]))
        page = (SOURCE / "docs" / self.page).read_text(encoding="utf-8")
        for line in re.findall(r"^ok    .*$", page, re.MULTILINE)[1:4]:
            self.assertIn(re.sub(r"hakmem \S+, \w+ variant", "", line), re.sub(r"hakmem \S+, \w+ variant", "", out))
        self.assertRegex(out, r"perl: malloc comes from the library in all \d objects")


class Node(Ecosystem):
    page = "node.md"
    work = ("node", f"{HERE}/work.js")
    needs = ("node",)

    def test_page(self):
        self.run_page()

    def test_buffers(self):
        self.assert_on_hakmem(["buffers"])

    def test_heap_of_javascript(self):
        self.assert_not_on_hakmem(["objects"])


class Java(Ecosystem):
    page = "java.md"
    work = ("java", "-cp", str(WORK / "java"), "Work")
    needs = ("java", "javac")

    @classmethod
    def build(cls):
        execute(["javac", "-d", str(WORK / "java"), f"{HERE}/Work.java"]).check_returncode()

    def test_page(self):
        self.run_page()

    def test_direct_buffers(self):
        self.assert_on_hakmem(["direct"])

    def test_heap(self):
        self.assert_not_on_hakmem(["objects"])


class Ruby(Ecosystem):
    page = "ruby.md"
    work = ("ruby", f"{HERE}/work.rb")
    needs = ("ruby",)

    def test_page(self):
        self.run_page()

    def test_strings(self):
        self.assert_on_hakmem(["strings"])

    def test_slots_of_objects(self):
        self.assert_not_on_hakmem(["objects"])


class Php(Ecosystem):
    page = "php.md"
    work = ("php", f"{HERE}/work.php")
    needs = ("php",)

    def test_page(self):
        self.run_page()

    def test_without_its_own_allocator(self):
        self.assert_on_hakmem([], USE_ZEND_ALLOC="0")

    def test_with_its_own_allocator(self):
        self.assert_not_on_hakmem([])

    def test_modules(self):
        """PHP opens them with RTLD_DEEPBIND. These free what PHP has allocated."""
        modules = self.succeeds(execute(["php", "-m"])).split()
        self.assertLessEqual({"PDO", "Phar", "tokenizer", "iconv", "ctype"}, set(modules))
        script = "$p = new Phar($argv[1]); $p['a.php'] = '<?php return 42;'; unset($p);"
        script += "echo include 'phar://' . $argv[1] . '/a.php', ' ', count(token_get_all('<?php 1 + 1;')), ' ';"
        script += "try { new PDO('none:'); } catch (PDOException $e) { echo $e->getMessage(); }"
        for zend in ("0", "1"):
            archive = WORK / f"{zend}.phar"
            archive.unlink(missing_ok=True)
            words = [TOOL, "run", "--", "php", "-d", "phar.readonly=0", "-r", script, str(archive)]
            self.assertEqual(self.succeeds(execute(words, USE_ZEND_ALLOC=zend)), "42 7 could not find driver")


class Dotnet(Ecosystem):
    page = "dotnet.md"
    work = ("dotnet", "exec", "--runtimeconfig", f"{HERE}/work.runtimeconfig.json", str(WORK / "work.dll"))
    needs = ("dotnet", "mcs")

    @classmethod
    def build(cls):
        execute(["mcs", f"-out:{WORK / 'work.dll'}", f"{HERE}/work.cs"]).check_returncode()

    def test_page(self):
        self.run_page()

    def test_native_memory(self):
        self.assert_on_hakmem(["native"])

    def test_heap(self):
        self.assert_not_on_hakmem(["objects"])


class Go(Ecosystem):
    page = "go.md"
    work = (str(WORK / "work-go"),)
    needs = ("go", "cc")

    @classmethod
    def build(cls):
        execute(["go", "build", "-o", str(WORK / "work-go"), f"{HERE}/work.go"], CGO_ENABLED="1").check_returncode()

    def test_page(self):
        self.run_page()

    def test_malloc_of_c(self):
        self.assert_on_hakmem(["c"])

    def test_heap(self):
        self.assert_not_on_hakmem(["go"])

    def test_without_cgo_it_is_refused(self):
        pure = WORK / "pure.go"
        pure.write_text('package main\n\nfunc main() { println("ran") }\n', encoding="utf-8")
        self.succeeds(execute(["go", "build", "-o", str(WORK / "pure"), str(pure)], CGO_ENABLED="0"))
        done = execute([TOOL, "run", "--", str(WORK / "pure")])
        self.assertEqual((done.returncode, done.stdout), (126, ""), done.stderr)
        self.assertIn("is a statically linked Go program", done.stderr)


CASES = {"cpp": Cpp, "preload": Preload, "node": Node, "java": Java, "ruby": Ruby, "php": Php, "dotnet": Dotnet, "go": Go}


def fetch_dotnet():
    """A runtime of .NET where none is installed: Debian has none, PyPI an old one."""
    place = WORK / "dotnet"
    runtime = place / "dotnetcore2/bin"
    if not (runtime / "dotnet").exists():
        shutil.rmtree(place, ignore_errors=True)
        python = SOURCE / "build/lab/venv/bin/python"
        execute(
            [
                python,
                "-m",
                "pip",
                "--quiet",
                "--disable-pip-version-check",
                "--no-input",
                "install",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--target",
                place,
                "dotnetcore2==3.1.23",
            ]
        )
    if (runtime / "dotnet").exists():
        (runtime / "dotnet").chmod(0o755)
        os.environ["PATH"] = f"{runtime}:{os.environ['PATH']}"


def main():
    name = sys.argv[1]
    case = CASES[name]
    WORK.mkdir(parents=True, exist_ok=True)
    if name == "dotnet" and shutil.which("dotnet") is None:
        fetch_dotnet()
    missing = [program for program in case.needs if shutil.which(program) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not installed")
        sys.exit(SKIP)
    case.build()
    unittest.main(argv=[sys.argv[0], case.__name__], verbosity=2)


if __name__ == "__main__":
    main()
