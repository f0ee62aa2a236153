"""What rounding adds to live blocks: hakmem stats, explain and metrics against a program that knows it."""

import json
import re

from common import *
from cores import CoreCase

MIB = 1 << 20

# Blocks of which rounding adds much, of two sizes, and such of which it adds nothing; each asked for in a function of its own. Prints what the
# allocator gives for each, and with "large" blocks above 64 KiB, whose slices it touches in full.
PROGRAM = r"""
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile int sink;
static char *volatile last;
static unsigned long asked, given;
static __attribute__((noinline)) void hold(size_t size, size_t touched) {
  char *block = malloc(size);
  if (block == NULL) abort();
  memset(block, 1, size);
  asked += size;
  given += touched != 0 ? touched : malloc_usable_size(block);
  last = block;
  sink++;
}
__attribute__((noinline)) void wasteful(void) { hold(8300, 0); sink++; }
__attribute__((noinline)) void less_so(int i) { hold(4100 + i % 10, 0); sink++; }
__attribute__((noinline)) void exact(void) { hold(1024, 0); sink++; }
__attribute__((noinline)) void large(void) { hold(70000, 18 * 4096); sink++; }
int main(int argc, char **argv) {
  for (int i = 0; i < 8000; i++) wasteful();
  for (int i = 0; i < 8000; i++) less_so(i);
  for (int i = 0; i < 20000; i++) exact();
  for (int i = 0; i < 200 && argc > 1; i++) large();
  printf("ready %d %lu %lu\n", (int)getpid(), asked, given);
  fflush(stdout);
  return getchar() == *argv[0];
}
"""


class Rounding(CoreCase):
    def setUp(self):
        super().setUp()
        self.program = self.build("rounds", PROGRAM, "-O1", "-g")

    def run_it(self, *arguments, **changes):
        """Its number, what it asked for, and what rounding has added."""
        process = self.launch(*arguments, program=self.program, **changes)
        asked, given = int(process.words[2]), int(process.words[3])
        return process.pid, asked, given - asked

    def stats(self, *arguments):
        result = hakmem("stats", "--format=json", *arguments)
        self.assert_code(result, 0)
        return json.loads(result.out)

    def check(self, data, truth):
        """Off by twice as much as it says is off in one case of 20,000."""
        said = data["rounding"]
        self.assertAlmostEqual(said["asked"] + said["rounding"], data["equation"]["live"], delta=2)
        self.assertLess(abs(said["rounding"] - truth), 2 * said["error"] + 0.02 * truth + 100000, (said, truth))
        self.assertLess(said["error"], truth / 2, said)
        classes = sum(row["memory"]["rounding"] for row in data["classes"])
        self.assertAlmostEqual(classes + said["large"] + said["huge"], said["rounding"], delta=len(data["classes"]) + 2)

    def test_stats_are_near_the_truth_at_the_rate_of_every_process(self):
        pid, _, truth = self.run_it()
        data = self.stats(str(pid))
        self.check(data, truth)
        # It takes no more than some 50 samples.
        self.assertLess(data["rounding"]["samples"], 150)

    def test_a_core_says_the_same(self):
        pid, _, truth = self.run_it()
        alive, dead = self.stats(str(pid)), self.stats(self.gcore(pid))
        self.check(dead, truth)
        self.assertLess(abs(alive["rounding"]["rounding"] - dead["rounding"]["rounding"]), 0.05 * truth)

    def test_sizes_are_told_one_by_one(self):
        pid, _, _ = self.run_it(HAKMEM_PROF_RATE="65536")
        rows = {row["size"]: row["memory"] for row in self.stats(str(pid))["classes"]}
        size = min(size for size in rows if size >= 8300)
        self.assertLess(abs(rows[size]["rounding"] / (rows[size]["live"] * (1 - 8300 / size)) - 1), 0.05, rows[size])
        self.assertGreater(rows[size]["samples"], 500)
        # But for what lies beside samples in their slots, of 1,024 bytes.
        self.assertLess(rows[1024]["rounding"], 0.01 * rows[1024]["live"], rows[1024])

    def test_large_blocks_count_as_far_as_they_were_touched(self):
        # Huge pages make all of it resident.
        pid, _, truth = self.run_it("large", HAKMEM_PROF_RATE="65536", HAKMEM_SS_HUGEPAGE="off")
        data = self.stats(str(pid))
        said = data["rounding"]["large"]
        self.assertLess(said, 200 * 65536, data["rounding"])
        self.assertGreater(said, 0.5 * 200 * (18 * 4096 - 70000), data["rounding"])

    def test_text(self):
        pid, _, _ = self.run_it()
        out = hakmem("stats", str(pid)).out
        said = re.search(
            r"\n  live +[\d.]+ MiB +[\d.]+%  .*\n    asked for +([\d.]+) MiB +[\d.]+%  by \d+ live samples\n"
            r"    rounding +([\d.]+) MiB +[\d.]+%  added to their sizes; in 19 of 20 cases within [\d.]+ [KM]iB\n  slack ",
            out,
        )
        self.assertIsNotNone(said, out)
        self.assertRegex(out, r"\n +size +live +rounding +caches ")

    def test_top(self):
        pid, _, _ = self.run_it()
        out = hakmem("top", "--once", str(pid)).out
        amount = r"[\d.]+ [KMG]iB"
        self.assertRegex(out, rf"\nlive = asked {amount} \+ rounding {amount} \(\+-{amount}\)\npeak {amount} \(\+-{amount}\) \d+ s ago\n")
        self.assertLessEqual(len(out.splitlines()), 24)
        pid, _, _ = self.run_it(HAKMEM_PROF_RATE="0")
        self.assertNotIn("asked", hakmem("top", "--once", str(pid)).out)

    def test_without_samples_nothing_is_said(self):
        pid, _, _ = self.run_it(HAKMEM_PROF_RATE="0")
        self.assertNotIn("rounding", self.stats(str(pid)))
        out = hakmem("stats", str(pid)).out
        self.assertNotIn("asked for", out)
        self.assertRegex(out, r"\n +1024 +[\d.]+ MiB +- ")
        self.assertNotIn("asked for", hakmem("explain", str(pid)).out)

    def test_explain_names_the_size_and_the_place(self):
        pid, _, _ = self.run_it(HAKMEM_PROF_RATE="65536")
        data = json.loads(hakmem("explain", "--format=json", str(pid)).out)["rounding"]
        first, second = data["sizes"][:2]
        self.assertTrue(8300 <= first["size"] < 9400 and 4110 <= second["size"] < 4700, data["sizes"])
        # All but the samples, whose slots are no fault of the program's.
        truth = (8000 - first["samples"]) * (first["size"] - 8300)
        self.assertLess(abs(first["bytes"] / truth - 1), 0.02, (first, truth))
        self.assertEqual(first["asked"], 8300)
        self.assertGreater(first["bytes"], second["bytes"])
        self.assertNotIn(1024, [row["size"] for row in data["sizes"]])
        if NAMES:
            self.assertRegex(first["holders"][0]["calls"], r"hold .*< wasteful < main")
            self.assertRegex(second["holders"][0]["calls"], r"hold .*< less_so < main")
        self.assertGreater(first["holders"][0]["percent"], 99)
        out = hakmem("explain", str(pid)).out
        self.assertRegex(out, r"\nrounding: [\d.]+ MiB of the [\d.]+ MiB in blocks were not asked for \(in 19 of 20 cases within [\d.]+ [KM]iB\), most in\n")
        self.assertRegex(out, rf"\n +[\d.]+ MiB  blocks of {first['size']} bytes, of which 8300 were asked for on average \(\d+ samples\), by\n +100%  ")

    def test_metrics(self):
        pid, _, truth = self.run_it()
        out = hakmem("stats", "--format=openmetrics", str(pid)).out
        labels = re.escape(f'{{pid="{pid}",program="rounds"')
        value = {name: float(re.search(rf"\nhakmem_{name}{labels}}} (\d+)\n", out)[1]) for name in ("rounding_bytes", "rounding_error_bytes")}
        self.assertLess(abs(value["rounding_bytes"] - truth), 2 * value["rounding_error_bytes"] + 0.02 * truth + 100000, value)
        self.assertRegex(out, rf'\nhakmem_class_rounding_bytes{labels},size="1024"}} \d+\n')


if __name__ == "__main__":
    unittest.main()
