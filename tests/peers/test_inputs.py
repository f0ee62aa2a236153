"""bench/programs.toml is well formed; scripts/make_bench_inputs.py makes the same inputs, once."""

import importlib.util
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from common import ROOT, execute

MAKE = ROOT / "scripts" / "make_bench_inputs.py"
specification = importlib.util.spec_from_file_location("make_bench_inputs", MAKE)
make_bench_inputs = importlib.util.module_from_spec(specification)
sys.modules["make_bench_inputs"] = make_bench_inputs
specification.loader.exec_module(make_bench_inputs)


class Table(unittest.TestCase):
    def setUp(self) -> None:
        self.programs = make_bench_inputs.load_programs()

    def test_enough_of_different_kinds(self) -> None:
        names = [program.name for program in self.programs]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), 15)
        self.assertGreaterEqual(len({program.kind for program in self.programs}), 6)

    def test_entries(self) -> None:
        for program in self.programs:
            with self.subTest(program.name):
                self.assertRegex(program.name, r"^[a-zA-Z0-9.+-]+$")
                self.assertIn(program.command[0], program.needs)
                for words in (program.command, *program.prepare):
                    self.assertTrue(words and all(isinstance(word, str) for word in words))
                # What a command reads is made by its own `prepare`.
                used = set(re.findall(r"\{inputs\}/([A-Za-z0-9_.-]+)", " ".join(program.command)))
                made = {
                    name
                    for words in program.prepare
                    for name in words
                    if name in make_bench_inputs.INPUTS
                }
                self.assertLessEqual(used, made)
                self.assertTrue(made)


class Inputs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hakmem-inputs-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make(self, folder: str, *names: str) -> Path:
        path = self.folder / folder
        done = execute([sys.executable, "-B", str(MAKE), "--inputs", str(path), *names])
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_same_each_time(self) -> None:
        names = ["classes.java", "queens.smt2", "classes.cc", "checked"]
        sums = [make_bench_inputs.sum_of(self.make(folder, *names)) for folder in ("a", "b")]
        self.assertEqual(*sums)
        self.assertGreater(sums[0][1], 100_000)

    def test_made_once_and_again_when_broken(self) -> None:
        folder = self.make("a", "graph.dot")
        first = (folder / "graph.dot").read_bytes()
        (folder / "graph.dot").write_bytes(b"kept")
        self.make("a", "graph.dot")
        self.assertEqual(
            (folder / "graph.dot").read_bytes(), b"kept", "it is there, and was made again"
        )
        (folder / ".made" / "graph.dot").write_text("another recipe")
        self.make("a", "graph.dot")
        self.assertEqual((folder / "graph.dot").read_bytes(), first)

    def test_check_reports(self) -> None:
        if shutil.which("jq", path=make_bench_inputs.SEARCH_PATH) is None:
            self.skipTest("jq is not installed")
        folder = self.folder / "a"
        lines = [
            execute(
                [sys.executable, "-B", str(MAKE), "--inputs", str(folder), "--check", "jq"]
            ).stdout.splitlines()[1]
            for _ in range(2)
        ]
        self.assertRegex(lines[0], r"^jq +text +\d+\.\d\d +\d+\.\d +\d+\.\d\d  [0-9a-f]{8}$")
        self.assertEqual(
            lines[0].split()[-1], lines[1].split()[-1], "its output differs from run to run"
        )

    def test_refuses_nonsense(self) -> None:
        for arguments, words in (
            (["nothing.txt"], "no input 'nothing.txt'; there are: "),
            (["--check", "nothing"], "no program 'nothing' in programs.toml; there are: "),
            (["--check", "--preload", "/no/such.so"], "--preload /no/such.so: no file"),
            (["--frob"], "unrecognized arguments"),
        ):
            done = execute(
                [sys.executable, "-B", str(MAKE), "--inputs", str(self.folder / "x"), *arguments]
            )
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stderr)

    def test_a_program_that_is_absent_is_no_error(self) -> None:
        original = make_bench_inputs.SEARCH_PATH
        self.addCleanup(setattr, make_bench_inputs, "SEARCH_PATH", original)
        make_bench_inputs.SEARCH_PATH = str(self.folder)
        self.assertEqual(make_bench_inputs.check(self.folder, ["jq"], ""), 0)


class Redis(unittest.TestCase):
    def test_the_server_is_the_process_that_is_measured(self) -> None:
        programs = {program.name: program for program in make_bench_inputs.load_programs()}
        absent = [
            name
            for name in programs["redis"].needs
            if not shutil.which(name, path=make_bench_inputs.SEARCH_PATH)
        ]
        if absent:
            self.skipTest(f"not installed: {' '.join(absent)}")
        with tempfile.TemporaryDirectory(prefix="hakmem-inputs-") as folder:
            make_bench_inputs.make_inputs(Path(folder), ["redis.sh"])
            used = make_bench_inputs.run_once(programs["redis"], Path(folder), "")
        # redis-benchmark and the shells stay below 30 MB; the data take more.
        self.assertGreater(used.peak, 50)
        self.assertGreater(used.size, 40)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
