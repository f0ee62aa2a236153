"""hakmem explain: why memory of a running process does not come back."""

import json

from common import *

PLANTED = os.environ.get("HAKMEM_TEST_PLANTED", "")
NAMES = os.environ.get("HAKMEM_TEST_LIBDW", "") == "1"
MIB = 1 << 20


class Explain(TestCase):
    def start(self, what, **changes):
        env = environment(LD_PRELOAD=LIBRARY, HAKMEM_BACKGROUND="0", **changes)
        process = subprocess.Popen([PLANTED, what], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        words = process.stdout.readline().split()
        self.assertEqual(words[0], "ready")
        return int(words[1]), int(words[2])

    def end(self, process):
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()

    def explain(self, pid, *arguments):
        result = hakmem("explain", *arguments, str(pid))
        self.assert_code(result, 0)
        self.assertEqual(result.err, "")
        return result.out

    def test_planted_survivors_are_named(self):
        pid, kept = self.start("few", HAKMEM_PROF_RATE="16384")
        figures = json.loads(self.explain(pid, "--format=json"))
        first = figures["reasons"][0]
        self.assertEqual(first["kind"], "pinned", figures)
        self.assertEqual(first["size"], 64)
        self.assertGreater(first["bytes"], 28 * MIB)
        self.assertLess(first["bytes"], 33 * MIB)
        self.assertLess(abs(first["blocks"] / kept - 1), 0.1, figures)
        self.assertLess(abs(first["pages"] / 8192 - 1), 0.1, figures)
        self.assertGreater(first["samples"], 5)
        if NAMES:
            self.assertTrue(first["holders"][0]["calls"].startswith("kept_for_long ("), first)
            self.assertGreater(first["holders"][0]["percent"], 90)
        self.assertTrue(any(advice["option"] == "hak_should_move" for advice in figures["advice"]), figures)
        self.assertGreater(figures["mappings"][0]["bytes"], 0)

    def test_text_says_it_in_sentences(self):
        pid, _ = self.start("few", HAKMEM_PROF_RATE="16384")
        lines = self.explain(pid).splitlines()
        self.assertTrue(lines[0].startswith("resident "), lines)
        self.assertRegex(lines[2], r"^Of .* that are resident the program holds .* the largest reason first:$")
        self.assertRegex(lines[4], r"^ 1\. [\d.]+ MiB: free blocks of 64 bytes lie on \d+ pages with blocks in use, ")
        if NAMES:
            self.assertTrue(any("kept_for_long (planted.c:" in line for line in lines), lines)

    def test_nothing_is_wrong(self):
        pid, _ = self.start("full")
        out = self.explain(pid)
        self.assertTrue(out.splitlines()[2].startswith("Nothing is wrong: "), out)
        self.assertEqual(json.loads(self.explain(pid, "--format=json"))["reasons"], [])

    def test_without_samples(self):
        pid, _ = self.start("few", HAKMEM_PROF_RATE="0")
        self.assertIn("no sample of a live block of this size", self.explain(pid))

    def test_errors(self):
        for arguments, code, words in (
            ((), 2, "name a process"),
            (("none",), 2, "not the number of a process"),
            (("--format=yaml", "1"), 2, "accepted: text|json"),
            (("2147483646",), 127, "no process"),
        ):
            result = hakmem("explain", *arguments)
            self.assert_code(result, code)
            self.assertEqual(result.out, "")
            self.assertIn(words, result.err)


if __name__ == "__main__":
    unittest.main()
