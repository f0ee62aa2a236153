"""hakmem prof --format=pprof, read by the real pprof: the one that comes with Go."""

import re
import time

from common import *
from profiles import *

GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")


@unittest.skipIf(GO is None, "golang-go is not installed")
class Pprof(ProfCase):
    def pprof(self, *arguments):
        # Neither another release of Go nor anything else is to be fetched.
        env = environment(GOTOOLCHAIN="local", GOPROXY="off", GOFLAGS="", TZ="UTC")
        result = execute([GO, "tool", "pprof", *arguments], env=env, cwd=self.directory)
        self.assert_code(result, 0)
        return result.out

    def save(self, pid, name, *arguments):
        self.assertEqual(self.prof(pid, "--format=pprof", "-o", self.path(name), *arguments), "")
        return self.path(name)

    def top(self, *arguments):
        """Bytes of each function: its own, and with all that it calls."""
        rows = {}
        for line in self.pprof("-top", "-unit=B", "-nodefraction=0", *arguments).splitlines():
            row = re.match(r" *(-?\d+)B? +\S+ +\S+ +(-?\d+)B? +\S+  (\S+)", line)
            if row:
                rows[row[3]] = int(row[1]), int(row[2])
        return rows

    def test_what_lives_and_what_was_allocated(self):
        pid, live = self.start(HAKMEM_PROF_RATE="65536")
        file = self.save(pid, "a.pb.gz")
        rows = self.top(file)
        self.assertIn("Type: inuse_space", self.pprof("-top", file))
        self.assert_estimate(sum(own for own, _ in rows.values()), live, 1000)
        if not NAMES:
            return
        self.assert_estimate(rows["filled"][0], live, 1000)
        self.assert_estimate(rows["held_in_small"][1], 64e6, 1000)
        self.assert_estimate(rows["held_in_large"][1], 16e6, 80)
        # What else main allocates, as the buffer of its output, is a sample now and then.
        others = rows["main"][1] - rows["filled"][0]
        self.assertTrue(0 <= others < 1e6, rows)
        self.assertNotIn("passing", rows)
        rows = self.top("-sample_index=alloc_space", file)
        self.assert_estimate(rows["passing"][1], 200e6, 3000)
        counted = self.pprof("-top", "-sample_index=inuse_objects", "-nodefraction=0", file)
        self.assertRegex(counted, r"(?m)^ +0 .* held_in_large$")
        lines = self.pprof("-lines", "-top", "-nodefraction=0", file)
        self.assertRegex(lines, r"held_in_small .*tests/tools/sites\.c:\d+")
        self.assertIn("malloc(bytes)", self.pprof("-list=^filled$", f"-source_path={SOURCE}/tests/tools",
                                                  "-trim_path=../../tests/tools", file))  # fmt: skip

    def test_how_it_was_taken(self):
        pid, _ = self.start(HAKMEM_PROF_RATE="65536")
        raw = self.pprof("-raw", self.save(pid, "a.pb.gz"))
        self.assertIn("PeriodType: space bytes\nPeriod: 65536\n", raw)
        self.assertIn("alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]", raw)
        self.assertIn(f"Comment: sites ({pid}), hakmem ", raw)
        first = re.search(r"^1: 0x\w+/0x\w+/0x\w+ (\S+) ?(\w*)", raw, re.MULTILINE)
        self.assertEqual(first[1], os.path.realpath(SITES))
        notes = execute(["readelf", "-n", SITES]).out
        if NAMES:
            self.assertIn("Build ID: " + first[2], notes)

    def test_growth_alone_has_a_duration(self):
        pid, _ = self.start("1")
        self.prof(pid, "--rate=16384")
        time.sleep(1.1)
        for arguments in ((), ("--allocated",)):
            self.assertNotIn("Duration:", self.pprof("-raw", self.save(pid, "a.pb.gz", *arguments)))
        began = time.monotonic()
        file = self.save(pid, "a.pb.gz", "--growth=2")
        took = time.monotonic() - began
        duration = re.search(r"^Duration: ([\d.]+)", self.pprof("-raw", file), re.MULTILINE)
        # Of the growth, not of the process, which is older than the command.
        self.assertTrue(2 <= float(duration[1]) <= took + 0.01, (duration, took))

    def test_difference_of_two(self):
        pid, _ = self.start("1")
        self.prof(pid, "--rate=16384")
        before = self.save(pid, "before.pb.gz")
        after = self.save(pid, "after.pb.gz", "--growth=2")
        grown = self.top(after)
        rows = self.top("-diff_base", before, self.save(pid, "later.pb.gz"))
        if NAMES:
            self.assertGreater(rows["leaked"][1], 0)
            self.assertGreater(grown["leaked"][1], 0)
            self.assertNotIn("held_in_small", grown)
            self.assertEqual(rows.get("held_in_small", (0, 0))[1], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
