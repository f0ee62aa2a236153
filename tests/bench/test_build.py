"""`make bench-build` builds every program, and again only what changed."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from common import ROOT, TestCase, environment, execute, sources


class Build(TestCase):
    def setUp(self) -> None:
        self.out = Path(tempfile.mkdtemp(prefix="hakmem-bench-"))
        self.addCleanup(shutil.rmtree, self.out, ignore_errors=True)

    def make(self, *arguments: str) -> list[str]:
        """The programs that were compiled, by name."""
        result = self.run_make(*arguments)
        self.check_code(result, 0)
        return [line.rsplit("/", 1)[1] for line in result.stdout.splitlines() if " -o " in line]

    def run_make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # Not those of a make that runs the tests.
        env = {
            k: v for k, v in environment().items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
        }
        compiler = os.environ.get("HAKMEM_TEST_CC", "cc")
        return execute(
            ["make", "-C", str(ROOT), "bench-build", f"BENCH_OUT={self.out}",
             f"BENCH_CC={compiler}", *arguments],
            env=env,
        )  # fmt: skip

    def test_incremental(self) -> None:
        self.assertEqual(sorted(self.make("BENCH_CFLAGS=-O0")), sorted(sources()))
        self.assertEqual(self.make("BENCH_CFLAGS=-O0"), [])
        (self.out / "tree").unlink()
        self.assertEqual(self.make("BENCH_CFLAGS=-O0"), ["tree"])
        # Other flags, other programs.
        self.assertEqual(sorted(self.make("-n", "BENCH_CFLAGS=-O0 -g")), sorted(sources()))
        result = execute([str(self.out / "tree"), "1", "1000"])
        self.check_code(result, 0)


if __name__ == "__main__":
    unittest.main()
