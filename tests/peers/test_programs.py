"""Real programs give the same output on every peer as on libc."""

import os
import shutil
import sys
import unittest

from common import built_peers, environment, execute, library_of

PEERS = built_peers()

SQL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
SELECT i % 97, count(*), sum(length(printf('%d-%s', i, hex(i)))) FROM n GROUP BY 1 ORDER BY 1;
"""
PYTHON = """
import json, threading
def work(n):
    text = json.dumps([{str(i): [i] * (i % 50)} for i in range(2000)])
    results[n] = len(json.dumps(json.loads(text)))
results = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(results.items()))
"""
PERL = """
my %h;
$h{$_ % 991} .= "x" x ($_ % 30) for 1..60000;
print join(",", map { length } @h{sort keys %h}), "\\n";
"""

PROGRAMS = {
    "python3": (["python3", "-c", PYTHON], {"PYTHONMALLOC": "malloc"}),
    "perl": (["perl", "-e", PERL], {}),
    "sqlite3": (["sqlite3", ":memory:", SQL], {}),
}


class Programs(unittest.TestCase):
    def compare(self, command: list[str], changes: dict[str, str]) -> None:
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed")
        expected = execute(command, env=environment(**changes))
        self.assertEqual(expected.returncode, 0, expected.stderr)
        self.assertTrue(expected.stdout)
        for peer in PEERS:
            if "missing" in peer:
                continue
            with self.subTest(peer["name"]):
                done = execute(
                    command, env=environment(LD_PRELOAD=str(library_of(peer)), **changes)
                )
                self.assertEqual(done.stderr, expected.stderr)
                self.assertEqual(done.returncode, 0)
                self.assertEqual(done.stdout, expected.stdout)

    def test_python3(self) -> None:
        self.compare(*PROGRAMS["python3"])

    def test_perl(self) -> None:
        self.compare(*PROGRAMS["perl"])

    def test_sqlite3(self) -> None:
        self.compare(*PROGRAMS["sqlite3"])

    def test_cxx_with_threads(self) -> None:
        program = os.environ.get("HAKMEM_TEST_CONTAINERS", "")
        if not program:
            self.skipTest("HAKMEM_TEST_CONTAINERS names no program")
        expected = execute([program]).stdout.splitlines()[-1]
        for peer in PEERS:
            if "missing" in peer:
                continue
            with self.subTest(peer["name"]):
                done = execute([program], env=environment(LD_PRELOAD=str(library_of(peer))))
                self.assertEqual(done.returncode, 0, done.stderr)
                served, total = done.stdout.splitlines()
                self.assertTrue(os.path.samefile(served.split(": ")[1], library_of(peer)), served)
                self.assertEqual(total, expected)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
