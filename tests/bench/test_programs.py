"""The benchmark programs refuse wrong arguments and notice an allocator that is wrong."""

import re
import resource
import unittest

from common import BROKEN, LIBRARY, PROGRAMS, TestCase, bench, environment, execute, one_row_of_each

# Arguments of these positions are words.
WORDS = {("realloc_growth", 0), ("cache_pingpong", 0), ("larson", 6), ("handoff", 6), ("idle", 8), ("at_rest", 0)}


def last_number(text: str, key: str) -> int:
    return int(re.findall(rf"{key}=(\d+)", text)[-1])


class Mistakes(TestCase):
    def check_refused(
        self, program: str, arguments: list[str], *words: str, **changes: str
    ) -> None:
        """One line on stderr that names the program and holds `words`, exit code 2, nothing run."""
        result = bench(program, *arguments, **changes)
        self.check_code(result, 2)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue(result.stderr.startswith(f"{program}: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_number_of_arguments(self) -> None:
        for program, arguments in one_row_of_each():
            for wrong in ([], arguments + ["1"] * 12):
                with self.subTest(program=program, given=len(wrong)):
                    result = bench(program, *wrong)
                    self.check_code(result, 2)
                    self.assertEqual(result.stdout, "")
                    first, usage = result.stderr.splitlines()[:2]
                    self.assertRegex(
                        first, rf"^{program}: {len(wrong)} arguments given, \d+ to \d+ accepted$"
                    )
                    self.assertTrue(usage.startswith(f"usage: {program} "), usage)

    def test_each_argument(self) -> None:
        for program, arguments in one_row_of_each():
            for position in range(len(arguments)):
                wrong = list(arguments)
                for value in ("bogus", "", "-1", "12x", "99999999999999999999999"):
                    with self.subTest(program=program, position=position, value=value):
                        wrong[position] = value
                        kind = "not a number"
                        if (program, position) in WORDS:
                            kind = "unknown"
                        elif value.startswith("99"):
                            kind = "out of range"
                        self.check_refused(program, wrong, f": {kind}: ", value, "accepted: ")

    def test_ranges_upside_down(self) -> None:
        for program, arguments, words in (
            ("larson", "1 10 10 0 100 99", "MIN_SIZE is above MAX_SIZE: 100 > 99"),
            ("handoff", "1 1 10 1 100 99", "MIN_SIZE is above MAX_SIZE"),
            ("asymmetric", "2 10 10 100 99", "MIN_SIZE is above MAX_SIZE"),
            ("asymmetric", "1 10 10 16 99", "THREADS: out of range: 1; accepted: 2.."),
            ("churn_threads", "4 3 10 16 99", "THREADS is above STARTS"),
            ("churn_threads", "1 3 10 100 99", "MIN_SIZE is above MAX_SIZE"),
            ("realloc_growth", "x2 1 1 100 99 1", "START is above LIMIT"),
            ("realloc_growth", "x2 2 1 100 999 1", "THREADS is above GROWTHS"),
            ("mid", "1 10 10 100 99", "MIN_SIZE is above MAX_SIZE"),
            ("calloc", "1 10 10 100 99", "MIN_SIZE is above MAX_SIZE"),
            ("aligned", "1 10 10 64 32", "MIN_ALIGN is above MAX_ALIGN"),
            ("aligned", "1 10 10 48", "MIN_ALIGN: not a power of 2: 48"),
            ("fragmentation", "1 1 100 99 100 200", "MIN_A is above MAX_A"),
            ("fragmentation", "1 1 100 200 100 99", "MIN_B is above MAX_B"),
            ("malloc_large", "1 1 1 3 2", "MIN_MIB is above MAX_MIB"),
            ("idle", "1 1 100 99", "MIN_SIZE is above MAX_SIZE"),
            ("phases", "1 1 1 100 99", "MIN_A is above MAX_A"),
            ("phases", "1 1 1 16 32 100 99", "MIN_B is above MAX_B"),
            ("stall", "1 1 10 100 99", "MIN_SIZE is above MAX_SIZE"),
        ):
            with self.subTest(program=program, arguments=arguments):
                self.check_refused(program, arguments.split(), words)

    def test_variables(self) -> None:
        for name, value, words in (
            (
                "HAKMEM_BENCH_TOUCH",
                "some",
                "HAKMEM_BENCH_TOUCH: unknown: 'some'; accepted: ends|all",
            ),
            ("HAKMEM_BENCH_MIN_SIZE", "1k", "HAKMEM_BENCH_MIN_SIZE: not a number: '1k'"),
            ("HAKMEM_BENCH_MAX_SIZE", "15", "HAKMEM_BENCH_MIN_SIZE is above HAKMEM_BENCH_MAX_SIZE"),
            ("HAKMEM_BENCH_THREADS", "0", "HAKMEM_BENCH_THREADS: out of range: 0; accepted: 1.."),
            ("HAKMEM_BENCH_EPOCH_SEC", "1s", "HAKMEM_BENCH_EPOCH_SEC: not a number: '1s'"),
            ("HAKMEM_BENCH_EPOCH_SEC", "0", "HAKMEM_BENCH_EPOCH_SEC: out of range: 0"),
            ("HAKMEM_BENCH_DURATION_SEC", "-1", "HAKMEM_BENCH_DURATION_SEC: not a number: '-1'"),
        ):
            self.check_refused("random_mixed", ["10", "10", "1"], words, **{name: value})


class Help(TestCase):
    def test_help(self) -> None:
        for program, arguments in one_row_of_each():
            with self.subTest(program=program):
                for flag in ("--help", "-h"):
                    result = bench(program, flag)
                    self.check_code(result, 0)
                    self.assertEqual(result.stderr, "")
                    lines = result.stdout.splitlines()
                    names = re.findall(r"\[?([A-Z_]+)\]?", lines[0].split(program, 1)[1])
                    self.assertGreaterEqual(len(names), len(arguments))
                    for name in names:
                        self.assertRegex(result.stdout, rf"(?m)^  {name} +\w.*: .*(\.\.|\|)")

    def test_version(self) -> None:
        for program, _ in one_row_of_each():
            self.assertRegex(bench(program, "--version").stdout, r"^allocator: libc")
            self.assertEqual(
                bench(program, "--version", LD_PRELOAD=LIBRARY).stdout,
                f"allocator: {LIBRARY} (preloaded)\n",
            )


class Behaviour(TestCase):
    def checksum(self, program: str, *arguments: str) -> str:
        result = bench(program, *arguments)
        self.check_code(result, 0)
        return str(re.findall(r"^checksum=([0-9a-f]{16})$", result.stdout, re.M)[0])

    def test_seed_decides(self) -> None:
        for program, arguments in (
            ("larson", "2 20000 100 1000 8 1000 free"),
            ("handoff", "2 2 1000 3 16 300 yes 64"),
            ("churn_threads", "3 100 20 16 300"),
            ("stress_mix", "3 2 20000 100 0"),
            ("heavy_tail", "1 20000"),
        ):
            with self.subTest(program=program):
                sums = [self.checksum(program, *arguments.split(), seed) for seed in "1123"]
                self.assertEqual(sums[0], sums[1])
                self.assertEqual(len(set(sums)), 3, sums)

    def test_together_is_the_same_work(self) -> None:
        sums = {self.checksum("stress_mix", "3", "2", "20000", "100", together, "1") for together in "01"}
        self.assertEqual(len(sums), 1)

    def test_threads_share_the_work(self) -> None:
        """Operations are those of all threads: as many nodes, whatever the number of threads."""
        few, many = (self.checksum("cache_pingpong", "active", n, "96", "100") for n in ("2", "8"))
        self.assertEqual(few, many)

    def test_touch(self) -> None:
        """libc maps each of these blocks anew: pages touched are page faults."""
        faults = {}
        for touch in ("", "ends", "all"):
            result = bench(
                "random_mixed", "100", "4", "1", HAKMEM_BENCH_TOUCH=touch,
                HAKMEM_BENCH_MIN_SIZE="67108864", HAKMEM_BENCH_MAX_SIZE="67108864",
            )  # fmt: skip
            self.check_code(result, 0)
            faults[touch] = last_number(result.stdout, "minor_faults")
        self.assertLess(faults["ends"], 2000)
        self.assertLess(abs(faults[""] - faults["ends"]), 200)
        # About 50 blocks of 16384 pages; a huge page may stand for 512 of them.
        self.assertGreater(faults["all"], faults["ends"] + 1000)

    def test_larson_says_how_it_frees(self) -> None:
        arguments = ["1", "1000", "10", "0", "8", "100"]
        for release, libc, ours in (
            ("free", "free", "free"),
            ("sized", r"free \(this allocator has no free_sized\)|free_sized", "free_sized"),
            ("delete", r"free \(this allocator has no sized .*\)", "sized operator delete"),
        ):
            for changes, pattern in (({}, libc), ({"LD_PRELOAD": LIBRARY}, ours)):
                result = bench("larson", *arguments, release, **changes)
                self.check_code(result, 0)
                self.assertRegex(result.stdout, rf"(?m)^release: ({pattern})$")

    def test_fragmentation_prints_each_phase(self) -> None:
        result = bench("fragmentation", "2", "8", "64", "128", "512", "1024", "90", "3", "20")
        self.check_code(result, 0)
        phases = re.findall(
            r"^phase (\d+), sizes (\d+)\.\.(\d+): filled resident_kb=(\d+) freed resident_kb=(\d+)$",
            result.stdout, re.M,
        )  # fmt: skip
        self.assertEqual([phase[:3] for phase in phases],
                         [("1", "64", "128"), ("2", "512", "1024"), ("3", "64", "128")])  # fmt: skip
        for phase in phases:
            self.assertGreater(int(phase[3]), 8 * 1024, "what is live is resident")
        self.assertRegex(result.stdout, r"(?m)^idle 20 ms: resident_kb=[1-9]\d*$")


class BrokenAllocator(TestCase):
    def check_noticed(self, words: str, program: str, *arguments: str) -> None:
        self.check_code(bench(program, *arguments), 0)
        result = bench(program, *arguments, LD_PRELOAD=BROKEN, BROKEN_CALLOC="1")
        self.check_code(result, 1)
        self.assertIn(words, result.stderr)
        self.assertNotIn("Throughput", result.stdout)

    def test_calloc_that_does_not_clear(self) -> None:
        for size in ("8", "100", "5000", "100000"):
            self.check_noticed("bytes that are not zero", "calloc", "1", "1", "1", size, size)

    def test_realloc_that_does_not_copy(self) -> None:
        self.check_noticed(
            "changed as it grew", "realloc_growth", "x2", "1", "1", "16", "4096", "1"
        )

    def test_aligned_alloc_that_does_not_align(self) -> None:
        self.check_noticed("not aligned", "aligned", "1", "1", "1")

    def test_blocks_that_overlap(self) -> None:
        arguments = ["1", "1", "4000", "4000", "50", "0"]
        self.check_code(bench("idle", *arguments), 0)
        result = bench("idle", *arguments, LD_PRELOAD=BROKEN, BROKEN_MALLOC="1")
        self.check_code(result, 1)
        self.assertEqual(result.stderr, "idle: a live block has changed\n")

    def test_out_of_memory(self) -> None:
        limit = 256 << 20  # bytes
        result = execute(
            [str(PROGRAMS / "malloc_large"), "1", "100", "20", "25", "25"],
            env=environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        self.check_code(result, 1)
        self.assertEqual(result.stderr, "malloc_large: out of memory: no block of 26214400 bytes\n")


if __name__ == "__main__":
    unittest.main()
