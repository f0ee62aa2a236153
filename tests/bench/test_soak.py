"""Soaks: the epochs of random_mixed, the scripts that run them, and idle, phases and stall."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from common import APART, LIBRARY, PROGRAMS, ROOT, TestCase, bench, environment, execute

SCRIPTS = ROOT / "scripts"
EPOCHS = "epoch,elapsed_s,throughput_ops_s,rss_kb"
THROUGHPUT = r"^Throughput = [1-9]\d* ops/s$"


class Scripted(TestCase):
    def setUp(self) -> None:
        self.work = Path(tempfile.mkdtemp(prefix="hakmem-soak-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)

    def run_script(
        self, script: str, *arguments: str, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        return execute([str(SCRIPTS / script), *arguments], env=environment(**changes))

    def check_refused(self, result: subprocess.CompletedProcess[str], words: str) -> None:
        self.check_code(result, 2)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(words, result.stderr)

    def check_epochs(self, text: str, count: int) -> None:
        """The CSV of an epoch a second, nothing else beside it."""
        header, *lines = text.splitlines()
        self.assertEqual(header, EPOCHS)
        self.assertEqual(len(lines), count)
        for number, line in enumerate(lines, start=1):
            found = re.fullmatch(r"(\d+),(\d+\.\d{3}),([1-9]\d*),([1-9]\d*)", line)
            assert found is not None, line
            self.assertEqual(int(found[1]), number)
            self.assertGreaterEqual(float(found[2]), number)


class Epochs(Scripted):
    def test_lines_and_report(self) -> None:
        for threads in ("1", "2"):
            result = bench(
                "random_mixed", "1000000000000", "400", "1", threads,
                HAKMEM_BENCH_EPOCH_SEC="1", HAKMEM_BENCH_DURATION_SEC="2",
            )  # fmt: skip
            self.check_code(result, 0)
            self.check_epochs(result.stdout, 2)
            self.assertRegex(result.stderr.splitlines()[-1], THROUGHPUT)

    def test_duration_alone(self) -> None:
        result = bench("random_mixed", "1000000000000", "400", "1", HAKMEM_BENCH_DURATION_SEC="1")
        self.check_code(result, 0)
        self.assertRegex(result.stdout.splitlines()[-1], THROUGHPUT)
        self.assertNotIn(EPOCHS, result.stdout)

    def test_iterations_end_it_too(self) -> None:
        """No epoch was over by then, so there is no line of one."""
        result = bench("random_mixed", "100000", "400", "1", HAKMEM_BENCH_EPOCH_SEC="1000")
        self.check_code(result, 0)
        self.assertEqual(result.stdout, EPOCHS + "\n")
        self.assertIn("iters=100000 ", result.stderr)


SINGLE = {
    "BENCH_BIN": str(PROGRAMS / "random_mixed"), "DURATION_SEC": "1", "EPOCH_SEC": "1",
    "WS": "50",
}  # fmt: skip


class SingleProcess(Scripted):
    script = "soak_mixed_single_process.sh"

    def test_libraries(self) -> None:
        for words, allocator in (
            ("", "allocator: libc"),
            ("system", "allocator: libc"),
            (f"{LIBRARY} HAKMEM_PROFILE=lean", f"allocator: {LIBRARY} (preloaded)"),
        ):
            with self.subTest(words=words):
                result = self.run_script(self.script, words, **SINGLE)
                self.check_code(result, 0)
                self.check_epochs(result.stdout, 1)
                self.assertIn(allocator, result.stderr)
                self.assertIn(" ws=50 seed=1 threads=1 ", result.stderr)

    def test_variables_reach_the_program(self) -> None:
        result = self.run_script(
            self.script, f"{LIBRARY} HAKMEM_SS_OS_STATS=1", **SINGLE,
            OUT=str(self.work / "soak.csv"), THREADS="2", SEED="7", CPU="0",
            HAKMEM_BENCH_MAX_SIZE="512", HAKMEM_PROFILE="nonsense",
        )  # fmt: skip
        self.check_code(result, 0)
        self.assertEqual(result.stdout, "")
        self.check_epochs((self.work / "soak.csv").read_text(), 1)
        self.assertIn(" ws=50 seed=7 threads=2 sizes=16..512\n", result.stderr)
        self.assertIn("[SS_OS_STATS] ", result.stderr)
        self.assertNotIn("nonsense", result.stderr, "the environment is cleaned")
        kept = self.run_script(
            self.script, LIBRARY, **SINGLE, KEEP="HAKMEM_PROFILE", HAKMEM_PROFILE="nonsense"
        )
        self.assertIn("nonsense", kept.stderr)

    def test_mistakes(self) -> None:
        fake = self.work / "fake.so"
        fake.write_text("no library\n")
        for arguments, changes, words in (
            ([], {"DURATION_SEC": "0"}, "DURATION_SEC=0: out of range; accepted: 1..8640000"),
            ([], {"EPOCH_SEC": "1.5"}, "EPOCH_SEC=1.5: not a number; accepted: 1.."),
            ([], {"EPOCH_SEC": "2"}, "EPOCH_SEC=2 is above DURATION_SEC=1"),
            ([], {"WS": "many"}, "WS=many: not a number"),
            ([], {"WS": "99999999999999999999999"}, "out of range"),
            ([], {"THREADS": "-1"}, "THREADS=-1: not a number"),
            ([], {"BENCH_BIN": "/nowhere/bench"}, "no benchmark at /nowhere/bench"),
            ([], {"BENCH_BIN": str(self.work)}, "no benchmark at "),
            ([], {"BENCH_BIN": str(PROGRAMS / "tree")}, "knows epochs"),
            ([], {"OUT": "/nowhere/soak.csv"}, "OUT=/nowhere/soak.csv: cannot be written"),
            ([], {"CPU": "99999"}, "CPU=99999: this process may not use it"),
            (["/nowhere/lib.so"], {}, "no library at /nowhere/lib.so"),
            (["one", "two"], {}, "at most one argument"),
        ):
            with self.subTest(words=words):
                result = self.run_script(self.script, *arguments, **(SINGLE | changes))
                self.check_refused(result, words)
        result = self.run_script(self.script, str(fake), **SINGLE)
        self.check_code(result, 2)
        self.assertIn("fake.so has no effect on ", result.stderr)

    def test_help(self) -> None:
        for script in (self.script, "soak_mixed_rss.sh", "soak_fragmentation.sh",
                       "soak_results.sh"):  # fmt: skip
            result = self.run_script(script, "--help")
            self.check_code(result, 0)
            self.assertIn("EPOCH_SEC" if script != "soak_fragmentation.sh" else "CYCLES",
                          result.stdout)  # fmt: skip
            self.assertNotIn("pipefail", result.stdout)


OUTSIDE = {
    "BENCH_BIN": str(PROGRAMS / "random_mixed"), "DURATION_SEC": "2", "EPOCH_SEC": "1",
    "WS": "50",
}  # fmt: skip


class FromOutside(Scripted):
    script = "soak_mixed_rss.sh"

    def check_lines(self, text: str, labels: list[str]) -> None:
        header, *lines = text.splitlines()
        self.assertEqual(header, "epoch,elapsed_s,rss_kb,pss_kb,anon_huge_kb,label")
        found = [re.fullmatch(r"(\d+),\d+\.\d{3},[1-9]\d*,\d*,\d*,([\w.]+)", at) for at in lines]
        self.assertEqual(
            [(at[1], at[2]) for at in found if at],
            [(epoch, label) for epoch in "12" for label in labels],
            text,
        )

    def test_side_by_side(self) -> None:
        result = self.run_script(
            self.script, "glibc=system", f"lean={LIBRARY} HAKMEM_PROFILE=lean", CPUS="0",
            **OUTSIDE,
        )  # fmt: skip
        self.check_code(result, 0)
        self.check_lines(result.stdout, ["glibc", "lean"])
        self.assertIn("glibc: allocator: libc", result.stderr)
        self.assertIn(f"lean: allocator: {LIBRARY} (preloaded)", result.stderr)

    def test_program_that_knows_no_duration(self) -> None:
        """It is stopped: any program that runs for long enough will do."""
        endless = self.work / "endless"
        endless.write_text("#!/bin/sh\nexec sleep 1000\n")
        endless.chmod(0o755)
        result = self.run_script(self.script, **(OUTSIDE | {"BENCH_BIN": str(endless)}))
        self.check_code(result, 0)
        self.check_lines(result.stdout, ["endless"])

    def test_program_that_ends_early(self) -> None:
        result = self.run_script(self.script, **(OUTSIDE | {"BENCH_BIN": "/bin/true"}))
        self.check_code(result, 2)
        self.assertIn("true ended in epoch 1", result.stderr)

    def test_mistakes(self) -> None:
        for arguments, changes, words in (
            (["glibc"], {}, "'glibc': wanted is LABEL=WORDS"),
            (["a b=system"], {}, "a label is of letters"),
            (["a=system", "a=system"], {}, "two runs are called a"),
            (["a=/nowhere/lib.so"], {}, "no library at /nowhere/lib.so"),
            (["a=/nowhere/bench"], {}, "no benchmark at /nowhere/bench"),
            ([], {"EPOCH_SEC": "3"}, "EPOCH_SEC=3 is above DURATION_SEC=2"),
            ([], {"DURATION_SEC": "1h"}, "DURATION_SEC=1h: not a number"),
        ):
            with self.subTest(words=words):
                result = self.run_script(self.script, *arguments, **(OUTSIDE | changes))
                self.check_refused(result, words)


PHASES = {
    "BENCH_BIN": str(PROGRAMS / "phases"), "THREADS": "2", "MIB": "4", "CYCLES": "2",
    "IDLE_MS": "10",
}  # fmt: skip


class Fragmentation(Scripted):
    script = "soak_fragmentation.sh"
    names = ("grow", "shrink", "change", "drop", "idle")

    def test_libraries(self) -> None:
        result = self.run_script(self.script, "glibc=system", f"hakmem={LIBRARY}", **PHASES)
        self.check_code(result, 0)
        header, *lines = result.stdout.splitlines()
        self.assertEqual(header, "cycle,phase,elapsed_s,live_kb,rss_kb,ratio,label")
        live: dict[tuple[str, str], str] = {}
        expected = [
            (cycle, phase, label)
            for label in ("glibc", "hakmem")
            for cycle in "12"
            for phase in self.names
        ]
        for line, (cycle, phase, label) in zip(lines, expected, strict=True):
            cells = line.split(",")
            self.assertEqual((cells[0], cells[1], cells[6]), (cycle, phase, label))
            self.assertAlmostEqual(int(cells[4]) / int(cells[3]), float(cells[5]), delta=0.001)
            # What is live is the program's choice, not the allocator's.
            self.assertEqual(cells[3], live.setdefault((cycle, phase), cells[3]))
            full = phase in ("grow", "change")
            self.assertAlmostEqual(int(cells[3]), 4096 if full else 409, delta=20)
        self.assertEqual(
            len(set(re.findall(r"^checksum=(\w+)$", result.stderr, re.M))), 1, result.stderr
        )

    def test_mistakes(self) -> None:
        for arguments, changes, words in (
            ([], {"SIZES": "1 2 3"}, "SIZES=1 2 3: wanted are four numbers"),
            ([], {"CYCLES": "0"}, "CYCLES=0: out of range"),
            ([], {"KEEP_PERCENT": "101"}, "KEEP_PERCENT=101: out of range"),
            (["a=/nowhere/lib.so"], {}, "no library at /nowhere/lib.so"),
        ):
            with self.subTest(words=words):
                result = self.run_script(self.script, *arguments, **(PHASES | changes))
                self.check_refused(result, words)


class Programs(TestCase):
    def test_idle(self) -> None:
        sums = set()
        for preload in ("", LIBRARY):
            result = bench("idle", "2", "8", "16", "4096", "95", "1", "1", LD_PRELOAD=preload)
            self.check_code(result, 0)
            text = result.stdout
            figures = dict(re.findall(r"^(\w+): blocks=(\d+) ms=", text, re.M))
            self.assertEqual(set(figures), {"fill", "refill"})
            full = [int(kb) for kb in re.findall(r"fill: .* live_kb=(\d+)", text)]
            left = re.findall(r"^freed 95%: live_kb=(\d+)$", text, re.M)
            for kb in full:
                self.assertAlmostEqual(kb, 8192, delta=10)
            self.assertAlmostEqual(int(left[0]), 8192 * 0.05, delta=100)
            # What was freed is allocated again.
            first, again = int(figures["fill"]), int(figures["refill"])
            self.assertAlmostEqual(again / first, 0.95, delta=0.05)
            idle = re.findall(r"^idle (\d+\.\d\d) s: resident_kb=([1-9]\d*)$", text, re.M)
            self.assertEqual(len(idle), 5)
            self.assertRegex(
                text,
                r"(?m)^quiet 1 s: cpu_ms=\d+\.\d+ voluntary_switches=\d+ involuntary_switches=\d+$",
            )
            self.assertRegex(text, r"(?m)^threads: program=4 others=\d$")
            self.assertRegex(text, r"(?m)^step 100 ms: first=[1-9]\d* again=[1-9]\d* blocks_per_s$")
            self.assertRegex(text.splitlines()[-1], THROUGHPUT)
            sums.add(re.findall(r"^checksum=(\w+)$", text, re.M)[0])
        self.assertEqual(len(sums), 1)

    def test_at_rest(self) -> None:
        for mode in ("others", "own", "ended"):
            sums = set()
            for preload in ("", LIBRARY):
                result = bench("at_rest", mode, "3", "8", "1024", "1", LD_PRELOAD=preload)
                self.check_code(result, 0)
                text = result.stdout
                self.assertRegex(text, r"(?m)^fill: threads=3 blocks=819[2-9] resident_kb=")
                self.assertRegex(text, r"(?m)^freed 100%: live_kb=0$")
                filled = int(re.findall(r"^fill: .* resident_kb=(\d+)$", text, re.M)[0])
                self.assertGreaterEqual(filled, 8192)
                idle = re.findall(r"^idle (\d+\.\d\d) s: resident_kb=([1-9]\d*)$", text, re.M)
                self.assertEqual(len(idle), 5)
                self.assertRegex(text.splitlines()[-1], THROUGHPUT)
                sums.add(re.findall(r"^checksum=(\w+)$", text, re.M)[0])
            self.assertEqual(len(sums), 1, mode)

    def test_idle_goes_on_with_its_load(self) -> None:
        result = bench("idle", "2", "2", "16", "4096", "100", "0", "0", "400")
        self.check_code(result, 0)
        steps = re.findall(r"^step (\d+) ms: first=(\d+) again=(\d+) ", result.stdout, re.M)
        self.assertGreaterEqual(len(steps), 4)
        self.assertEqual([step[0] for step in steps[:4]], ["100", "200", "300", "400"])
        self.assertRegex(result.stdout, r"(?m)^first second: again_to_first=\d+\.\d+$")
        self.assertRegex(result.stdout, r"(?m)^freed 100%: live_kb=0$")
        self.assertNotIn("checksum", result.stdout, "how much was replaced is not said in advance")

    def test_phases_report(self) -> None:
        result = bench("phases", *APART["phases"])
        self.check_code(result, 0)
        self.assertEqual(len(result.stdout.splitlines()), 1 + 2 * 5)
        self.assertRegex(result.stderr.splitlines()[-1], THROUGHPUT)

    def test_stall(self) -> None:
        for preload in ("", LIBRARY):
            result = bench("stall", *APART["stall"], LD_PRELOAD=preload)
            self.check_code(result, 0)
            calls = {}
            for name, rest in re.findall(r"^(\w+): (calls=.*)$", result.stdout, re.M):
                found = re.fullmatch(
                    r"calls=(\d+) p50=(\d+) p99=(\d+) p99.9=(\d+) p99.99=(\d+) max=(\d+) ns"
                    r" above_100us=(\d+)",
                    rest,
                )
                assert found is not None, rest
                waits = [int(value) for value in found.groups()[1:6]]
                self.assertEqual(waits, sorted(waits))
                self.assertGreater(waits[0], 0)
                # The percentiles and the count of long waits come from the same cells.
                if int(found[7]) == 0:
                    self.assertLess(waits[-1], 104_000)
                calls[name] = int(found[1])
            self.assertEqual(calls["calls"], calls["malloc"] + calls["free"])
            self.assertEqual(calls["touch"], calls["malloc"])
            self.assertGreaterEqual(calls["malloc"], calls["free"])
            self.assertRegex(result.stdout, r"(?m)^timer: \w+, nothing takes p50=\d+ ns$")
            self.assertRegex(result.stdout.splitlines()[-1], THROUGHPUT)


if __name__ == "__main__":
    unittest.main()
