"""What the tests of hakmem prof share: a program that holds what it says, and how a table is read."""

import re

from common import *

SITES = os.environ.get("HAKMEM_TEST_SITES", "")
PPROF = os.environ.get("HAKMEM_TEST_PPROF", "") == "1"
HEAD = re.compile(r"^covers ([\d.]+) (\w+) of ([\d.]+) (\w+) live bytes, by (\d+) samples? \((?:one in )?(.*)\)$")
ROW = re.compile(r"^ *([\d.]+) (\w+) +([\d.]+)%  about (\d+) blocks?, (\d+) samples?")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def amount(number, unit):
    return float(number) * UNITS[unit]


class ProfCase(TestCase):
    def launch(self, *arguments, program=SITES, **changes):
        env = environment(**{"LD_PRELOAD": LIBRARY} | changes)
        process = subprocess.Popen([program, *arguments], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        process.words = process.stdout.readline().split()
        self.assertEqual(process.words[0], "ready")
        return process

    def start(self, *arguments, **changes):
        words = self.launch(*arguments, **changes).words
        return int(words[1]), int(words[2])

    def end(self, process):
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()

    def prof(self, pid, *arguments):
        result = hakmem("prof", str(pid), *arguments)
        self.assert_code(result, 0)
        self.assertEqual(result.err, "")
        return result.out

    def rows(self, out):
        """Bytes, samples, the names and the first line of each place."""
        rows = []
        for line in out.splitlines()[2:]:
            row = ROW.match(line)
            if row:
                rows.append((amount(row[1], row[2]), int(row[5]), [], line))
            elif line.strip():
                rows[-1][2].append(line.strip())
        return rows

    def of(self, rows, name):
        """Bytes and samples of the places whose stack has the function."""
        found = [row for row in rows if any(place.startswith(name + " ") for place in row[2])]
        return sum(row[0] for row in found), sum(row[1] for row in found)

    def assert_estimate(self, estimate, truth, samples):
        """Within five standard deviations."""
        self.assertLess(abs(estimate / truth - 1), 5 / samples**0.5 + 0.02, (estimate, truth, samples))


__all__ = ["HEAD", "PPROF", "SITES", "ProfCase", "amount"]
