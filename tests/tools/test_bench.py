"""bench_random_mixed does what its description says, and the scripts around it count right."""

import re

from common import *

BENCH = os.path.join(SOURCE, "bench")
TEN_RUNS = os.path.join(SOURCE, "scripts/run_mixed_10_cleanenv.sh")
COMPARE = os.path.join(SOURCE, "scripts/compare_mixed.sh")


class Benchmark(TestCase):
    def build(self, *flags):
        binary = self.path("bench_random_mixed")
        sources = [os.path.join(BENCH, name) for name in ("random_mixed.c", "allocator.c")]
        built = execute([CC, "-std=gnu11", "-O2", "-o", binary, *sources, *flags, "-pthread"])
        self.assert_code(built, 0)
        return binary

    def counted(self, *arguments, low=16, high=1024, **changes):
        """Runs the benchmark on tests/tools/counted.c and gives what that counted."""
        objects = []
        for source, flags in (
            (os.path.join(BENCH, "random_mixed.c"), ["-Dmalloc=counted_malloc", "-Dfree=counted_free"]),
            (os.path.join(BENCH, "allocator.c"), []),
            (os.path.join(SOURCE, "tests/tools/counted.c"), []),
        ):
            objects.append(self.path(os.path.basename(source) + ".o"))
            built = execute([CC, "-std=gnu11", "-O2", "-fno-builtin", "-c", source, "-o", objects[-1], *flags])  # fmt: skip
            self.assert_code(built, 0)
        binary = self.path("counted")
        self.assert_code(execute([CC, *objects, "-pthread", "-o", binary]), 0)
        env = environment(COUNTED=self.path("counts"), COUNTED_LOW=str(low), COUNTED_HIGH=str(high),
                          **changes)  # fmt: skip
        self.assert_code(execute([binary, *arguments], env=env), 0)
        with open(self.path("counts"), encoding="utf-8") as file:
            return {line.split()[0]: int(line.split()[1]) for line in file}

    def test_output(self):
        result = execute([self.build(), "100000", "400", "1"])
        self.assert_code(result, 0)
        lines = result.out.splitlines()
        self.assertRegex(lines[-1], r"^Throughput = [1-9]\d* ops/s$")
        self.assertRegex(lines[-2], r"^cpu_ns_per_op=\d+\.\d+$")
        self.assertIn("iters=100000 ws=400 seed=1 threads=1 sizes=16..1024", lines)
        self.assertEqual(result.err, "")

    def test_what_it_allocates(self):
        counts = self.counted("200000", "400", "7")
        # An iteration is one or the other; what is left at the end is freed after the run.
        done = counts["mallocs"] + counts["frees"]
        self.assertGreaterEqual(done, 200000)
        self.assertLess(done, 200000 + 400)
        self.assertAlmostEqual(counts["mallocs"] / 200000, 0.5, delta=0.005)
        self.assertEqual(counts["live"], 0)
        self.assertEqual(counts["unwritten"], 0, "first and last byte are written")
        self.assertTrue(200 < counts["most_live"] <= 400, counts)
        self.assertEqual((counts["smallest"], counts["largest"]), (16, 1024))
        for bucket in range(8):
            self.assertAlmostEqual(counts[f"bucket{bucket}"] / counts["mallocs"], 1 / 8, delta=0.01)

    def test_sizes_of_the_environment(self):
        counts = self.counted("50000", "100", "1", low=100, high=131,
                              HAKMEM_BENCH_MIN_SIZE="100", HAKMEM_BENCH_MAX_SIZE="131")  # fmt: skip
        self.assertEqual((counts["smallest"], counts["largest"]), (100, 131))
        counts = self.counted("50000", "100", "1", low=513, high=1024, HAKMEM_BENCH_C7_ONLY="1")
        self.assertEqual((counts["smallest"], counts["largest"]), (513, 1024))
        counts = self.counted("1000", "10", "1", low=64, high=64,
                              HAKMEM_BENCH_MIN_SIZE="64", HAKMEM_BENCH_MAX_SIZE="64")  # fmt: skip
        self.assertEqual((counts["smallest"], counts["largest"]), (64, 64))

    def test_seed_decides(self):
        same = [self.counted("5000", "100", seed) for seed in ("1", "1", "2", "0")]
        self.assertEqual(same[0], same[1])
        self.assertNotEqual(same[0], same[2])
        self.assertGreater(same[3]["mallocs"], 2000, "seed 0 is as good as any")

    def test_threads(self):
        binary = self.build()
        for arguments, changes in ((["4"], {}), ([], {"HAKMEM_BENCH_THREADS": "4"})):
            result = execute([binary, "20000", "100", "1", *arguments], env=environment(**changes))
            self.assert_code(result, 0)
            self.assertIn(" threads=4 ", result.out)

    def test_mistakes(self):
        binary = self.build()
        for arguments, changes, words in (
            ([], {}, "usage: "),
            (["1", "2"], {}, "usage: "),
            (["1", "2", "3", "4", "5"], {}, "usage: "),
            (["x", "400", "1"], {}, "ITERS: not a number: 'x'"),
            (["1000x", "400", "1"], {}, "ITERS: not a number"),
            (["0", "400", "1"], {}, "ITERS: out of range"),
            (["1000", "-4", "1"], {}, "WS: not a number"),
            (["1000", "0", "1"], {}, "WS: out of range: 0; accepted: 1.."),
            (["1000", "400", ""], {}, "SEED: not a number"),
            (["1000", "400", "1", "0"], {}, "THREADS: out of range"),
            (["1000", "400", "1"], {"HAKMEM_BENCH_MIN_SIZE": "0"}, "HAKMEM_BENCH_MIN_SIZE"),
            (["1000", "400", "1"], {"HAKMEM_BENCH_MIN_SIZE": "2000"}, "is above"),
            (["1000", "400", "1"], {"HAKMEM_BENCH_C7_ONLY": "yes"}, "HAKMEM_BENCH_C7_ONLY"),
        ):
            result = execute([binary, *arguments], env=environment(**changes))
            self.assert_code(result, 2)
            self.assertEqual(result.out, "")
            self.assertIn(words, result.err)

    def test_it_names_its_allocator(self):
        binary = self.build()
        self.assertRegex(execute([binary, "--version"]).out, r"^allocator: libc")
        if LIBRARY and os.path.isfile(LIBRARY):
            preloaded = execute([binary, "--version"], env=environment(LD_PRELOAD=LIBRARY))
            self.assertEqual(preloaded.out, f"allocator: {LIBRARY} (preloaded)\n")


class Scripts(TestCase):
    """The scripts run stand-ins that print figures known beforehand."""

    def stand_in(self, name, figures):
        """A benchmark that prints one of `figures` a run, in order."""
        self.write(name + ".figures", "".join(f"{figure}\n" for figure in figures))
        return self.write(name, f"""#!/bin/sh
if [ "$1" = --version ]; then echo "allocator: {name}"; exit 0; fi
echo "{name} $*" >>"{self.path("log")}"
env >"{self.path("environment")}"
echo "cpu_ns_per_op=2.5"
figure=$(head -n 1 "{self.path(name + ".figures")}")
sed -i 1d "{self.path(name + ".figures")}"
echo "Throughput = $figure ops/s"
""")  # fmt: skip

    def log(self):
        with open(self.path("log"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_statistics_of_ten_runs(self):
        binary = self.stand_in("a", [1000, 3000, 2000, 5000, 4000, 6000, 10000, 8000, 9000, 7000])
        result = execute([TEN_RUNS], env=environment(BENCH_BIN=binary, ITERS="5", WS="6"))
        self.assert_code(result, 0)
        self.assertEqual(self.log(), ["a 5 6 1 1"] * 10)
        for line in ("mean    5500 ops/s", "median  5500 ops/s", "stddev  3028 ops/s",
                     "CV      55.05 %", "min     1000 ops/s", "max     10000 ops/s"):  # fmt: skip
            self.assertIn(line, result.out.splitlines())
        self.assertIn("run 10  Throughput = 7000 ops/s", result.out)

    def test_odd_number_of_runs(self):
        binary = self.stand_in("a", [30, 10, 20])
        result = execute([TEN_RUNS], env=environment(BENCH_BIN=binary, RUNS="3"))
        self.assertIn("median  20 ops/s", result.out)
        self.assertEqual(self.log()[0], "a 20000000 400 1 1")

    def test_environment_is_clean(self):
        binary = self.stand_in("a", [1])
        execute([TEN_RUNS], env=environment(
            BENCH_BIN=binary, RUNS="1", HAKMEM_PROFILE="speed", MALLOC_ARENA_MAX="1", NOISE="x",
            HAKMEM_BENCH_MAX_SIZE="99", HAKMEM_SS_OS_STATS="1", KEEP="HAKMEM_SS_OS_STATS"))  # fmt: skip
        with open(self.path("environment"), encoding="utf-8") as file:
            names = {line.split("=")[0] for line in file}
        self.assertTrue({"PATH", "HAKMEM_BENCH_MAX_SIZE", "HAKMEM_SS_OS_STATS"} <= names, names)
        self.assertFalse({"HAKMEM_PROFILE", "MALLOC_ARENA_MAX", "NOISE"} & names, names)

    def test_what_was_left_out_is_told(self):
        binary = self.stand_in("a", [1])
        result = execute([TEN_RUNS],
                         env=environment(BENCH_BIN=binary, RUNS="1", HAKMEM_PROFILE="speed"))  # fmt: skip
        self.assertIn("left out of the environment: HAKMEM_PROFILE", result.out)

    def test_failures_end_the_script(self):
        for content in ("#!/bin/sh\nexit 3\n", "#!/bin/sh\necho nothing\n"):
            binary = self.write("broken", content)
            result = execute([TEN_RUNS], env=environment(BENCH_BIN=binary))
            self.assertNotEqual(result.code, 0)
            self.assertIn("run_mixed_10_cleanenv: ", result.err)
        result = execute([TEN_RUNS], env=environment(BENCH_BIN=self.path("none")))
        self.assert_code(result, 2)
        self.assertIn("no benchmark at", result.err)
        result = execute([TEN_RUNS], env=environment(BENCH_BIN=binary, RUNS="ten"))
        self.assert_code(result, 2)

    def test_comparison_is_interleaved(self):
        first = self.stand_in("a", [100, 300, 200])
        second = self.stand_in("b", [100, 100, 400])
        result = execute([COMPARE, first, second], env=environment(RUNS="3", ITERS="5", WS="6"))
        self.assert_code(result, 0)
        # The starting binary changes, the seed with it; both get the same in a round.
        self.assertEqual(self.log(), ["a 5 6 1 1", "b 5 6 1 1", "b 5 6 2 1", "a 5 6 2 1",
                                      "a 5 6 3 1", "b 5 6 3 1"])  # fmt: skip
        self.assertIn("a / b = 2.000 (medians); per round: median 1.000, 0.500 to 3.000", result.out)

    def test_acceptance(self):
        for ratio, code, word in (("0.90", 0, "reached"), ("1.00", 0, "reached"), ("1.01", 1, "MISSED")):
            first = self.stand_in("a", [100])
            second = self.stand_in("b", [100])
            result = execute([COMPARE, first, second], env=environment(RUNS="1", MIN_RATIO=ratio))
            self.assert_code(result, code)
            self.assertTrue(re.search(rf"^{word}: 1\.000, wanted ", result.out, re.MULTILINE), result)

    def test_comparison_by_processor_time(self):
        first = self.stand_in("a", [100])
        second = self.stand_in("b", [300])
        result = execute([COMPARE, first, second], env=environment(RUNS="1", BY="cpu"))
        self.assertIn("a=400000000 b=400000000", result.out)
        self.assertIn("a / b = 1.000", result.out)

    def test_three_are_compared_with_the_first(self):
        binaries = [self.stand_in(name, [figure]) for name, figure in (("a", 50), ("b", 100), ("c", 25))]
        result = execute([COMPARE, *binaries], env=environment(RUNS="1"))
        self.assertIn("a / b = 0.500", result.out)
        self.assertIn("a / c = 2.000", result.out)

    def test_comparison_refuses_nonsense(self):
        self.assert_code(execute([COMPARE, self.stand_in("a", [1])]), 2)
        self.assert_code(execute([COMPARE, self.path("x"), self.path("y")]), 2)
        self.assert_code(execute([COMPARE, self.path("x.so"), self.path("y.so")]), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
