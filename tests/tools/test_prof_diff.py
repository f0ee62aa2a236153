"""hakmem prof diff: profiles that were saved, read back and compared; files that are none."""

import gzip
import re

from common import *
from profiles import *

ROW = re.compile(r"^ *([+-][\d.]+) (\w+)  about ([+-]\d+) blocks?, ([\d.]+) (\w+) instead of ([\d.]+) (\w+)$")


class Diff(ProfCase):
    def save(self, pid, name):
        self.assertEqual(self.prof(pid, "--format=pprof", "--output", self.path(name)), "")
        return self.path(name)

    def diff(self, *arguments):
        result = hakmem("prof", "diff", *arguments)
        self.assert_code(result, 0)
        self.assertEqual(result.err, "")
        return result.out

    def rows(self, out):
        """More, now and before in bytes, and the names of each place."""
        rows = []
        for line in out.splitlines()[3:]:
            row = ROW.match(line)
            if row:
                rows.append((amount(row[1], row[2]), amount(row[4], row[5]), amount(row[6], row[7]), []))
            elif line.strip():
                rows[-1][3].append(line.strip())
        return rows

    def test_what_has_grown_and_what_has_gone(self):
        pid, _ = self.start("1")
        self.prof(pid, "--rate=16384")
        before = self.save(pid, "before")
        grown = self.prof(pid, "--growth=2", "--format=folded")
        after = self.save(pid, "after")
        self.assertIn("leaked" if NAMES else " ", grown)
        out = self.diff(before, after)
        self.assertRegex(out, r"^\+[\d.]+ \w+ live: [\d.]+ \w+ instead of [\d.]+ \w+, at \d+ places?\n")
        self.assertRegex(out, rf"\nbefore: sites \({pid}\), .* one sample in 16.0 KiB\nafter: sites \({pid}\), ")
        rows = self.rows(out)
        self.assertTrue(all(abs(row[0]) > 0 for row in rows))
        self.assertEqual(sorted((-abs(row[0]) for row in rows)), [-abs(row[0]) for row in rows])
        reverse = self.rows(self.diff(after, before))
        self.assertEqual([(-row[0], row[2], row[1], row[3]) for row in rows], reverse)
        self.assertEqual(self.rows(self.diff(after, after)), [])
        if NAMES:
            leaked = [row for row in rows if "leaked (" in " ".join(row[3])]
            self.assertEqual(len(leaked), 1, out)
            self.assertGreater(leaked[0][0], 0)
            self.assertNotIn("held_in_small", out)
        self.assertIn(" allocated: ", self.diff(before, after, "--allocated"))

    def test_two_processes_have_places_in_common(self):
        files = [self.save(self.start(HAKMEM_PROF_RATE="65536")[0], name) for name in ("a", "b")]
        rows = self.rows(self.diff(*files, "--allocated"))
        if NAMES:
            rows = [row for row in rows if "filled (" in " ".join(row[3])]  # not standard output's buffer
            # Two may have the same number of samples by chance, and then do not differ.
            self.assertIn(len(rows), (1, 2, 3))
            self.assertTrue(all(row[1] > 0 and row[2] > 0 for row in rows), rows)

    def test_lines_for_flame_graphs(self):
        pid, live = self.start(HAKMEM_PROF_RATE="65536")
        other, _ = self.start(HAKMEM_PROF_RATE="0")
        none, all_of_it = self.path("none"), self.save(pid, "all")
        self.assertIn("takes no samples", hakmem("prof", str(other), "--format=pprof", "-o", none).err)
        lines = self.diff(none, all_of_it, "--format=folded").splitlines()
        self.assertTrue(all(re.fullmatch(r"[^ ;].* 0 \d+", line) for line in lines), lines)
        self.assert_estimate(sum(int(line.rsplit(" ", 1)[1]) for line in lines), live, 1000)
        # Into a file, the second one first: all has gone.
        self.assertEqual(self.diff(all_of_it, none, "--format=folded", "-o", self.path("folded")), "")
        with open(self.path("folded"), encoding="utf-8") as file:
            gone = file.read().splitlines()
        self.assertEqual(len(gone), len(lines))
        self.assertTrue(all(line.endswith(" 0") for line in gone), gone)


class Damaged(ProfCase):
    def refused(self, path, *words):
        for files in ((path, self.good), (self.good, path)):
            result = hakmem("prof", "diff", *files)
            self.assert_code(result, 1)
            self.assertEqual(result.out, "")
            self.assertEqual(len(result.err.splitlines()), 1, result)
            self.assertTrue(result.err.startswith(f"hakmem prof: {path}: "), result)
            for word in words:
                self.assertIn(word, result.err)

    def setUp(self):
        super().setUp()
        pid, _ = self.start(HAKMEM_PROF_RATE="65536")
        self.good = self.path("good")
        self.prof(pid, "--format=pprof", "-o", self.good)
        with open(self.good, "rb") as file:
            self.packed = file.read()
        self.plain = gzip.decompress(self.packed)

    def test_no_profiles(self):
        self.refused(self.path("missing"), "No such file")
        self.refused(self.directory, "directory")
        self.refused(self.write("empty", ""), "empty")
        self.refused(self.write("text", "held_in_small 12345\n" * 100), "no profile")
        self.refused(self.write("zipped", gzip.compress(b"some text " * 10)), "no profile")
        self.refused(self.write("noise", self.packed[:20] + bytes(range(256))), "damaged")
        # Of a processor's time: its values are "cpu" in "nanoseconds".
        texts = b"".join(b"2" + bytes([len(text)]) + text for text in (b"", b"cpu", b"nanoseconds"))
        self.refused(self.write("cpu", gzip.compress(b"\x0a\x04\x08\x01\x10\x02" + texts)), "inuse_space")

    def test_cut_short(self):
        for length in (11, len(self.packed) // 2, len(self.packed) - 9, len(self.packed) - 1):
            self.refused(self.write("cut", self.packed[:length]), "cut short")
        self.refused(self.write("cut", self.plain[: len(self.plain) - 3]), "damaged")

    def test_not_compressed_is_no_damage(self):
        plain = self.write("plain", self.plain)
        result = hakmem("prof", "diff", plain, self.good)
        self.assert_code(result, 0)
        self.assertIn(", at 0 places\n", result.out)

    def test_any_byte_may_be_wrong(self):
        step = len(self.plain) // 60 + 1
        for at in range(0, len(self.plain), step):
            for value in (0xFF, self.plain[at] ^ 1):
                path = self.write("wrong", self.plain[:at] + bytes([value]) + self.plain[at + 1 :])
                result = hakmem("prof", "diff", path, self.good)
                self.assertIn(result.code, (0, 1), (at, value, result))
                self.assertNotRegex(result.out, r"[\x00-\x08\x0b-\x1f\x7f]")

    def test_arguments(self):
        for arguments, says in (
            (["diff"], "name two files"),
            (["diff", self.good], "name two files"),
            (["diff", self.good, self.good, "--growth=3"], "are for a process"),
            (["diff", self.good, self.good, "--format=pprof"], "pprof -diff_base"),
            (["1", "2"], "one process at a time"),
        ):
            result = hakmem("prof", *arguments)
            self.assert_code(result, 2)
            self.assertIn(says, result.err)
        result = hakmem("prof", "diff", self.good, self.good, "-o", self.path("no/such/place"))
        self.assert_code(result, 2)
        self.assertIn("No such file", result.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
