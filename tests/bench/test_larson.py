"""scripts/larson.sh runs its profiles on the libraries it is told."""

import subprocess
import unittest

from common import LIBRARY, PROGRAMS, ROOT, TestCase, environment, execute

SCRIPT = str(ROOT / "scripts/larson.sh")


class Larson(TestCase):
    def run_script(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        defaults = {
            "BENCH_BIN": str(PROGRAMS / "larson"),
            "OPERATIONS": "20000",
            "LIBRARIES": f"system {LIBRARY}",
        }
        return execute([SCRIPT, *arguments], env=environment(**(defaults | changes)))

    def test_every_profile(self) -> None:
        listed = self.run_script("--list").stdout.splitlines()
        self.assertTrue(listed[0].startswith("profile "))
        profiles = [line.split()[0] for line in listed[1:]]
        self.assertIn("server", profiles)
        for profile in profiles:
            with self.subTest(profile=profile):
                result = self.run_script(profile, "3")
                self.check_code(result, 0)
                lines = result.stdout.splitlines()
                allocators = [line for line in lines if line.startswith("allocator: ")]
                self.assertRegex(allocators[0], r"^allocator: libc")
                self.assertEqual(allocators[1:], [f"allocator: {LIBRARY} (preloaded)"])
                sums = [line for line in lines if line.startswith("checksum=")]
                self.assertEqual((len(sums), len(set(sums))), (2, 1), sums)
                self.assertRegex(lines[-1], r"^Throughput = [1-9]\d* ops/s$")

    def test_mistakes(self) -> None:
        for arguments, changes, words in (
            (["fast"], {}, "unknown profile 'fast'; accepted: server "),
            (["server", "2", "3"], {}, "at most two arguments"),
            (["server", "none"], {}, "THREADS: not a number: 'none'"),
            ([], {"LIBRARIES": "/nowhere/lib.so"}, "no library at /nowhere/lib.so"),
            ([], {"BENCH_BIN": "/nowhere/larson"}, "no benchmark at /nowhere/larson"),
            ([], {"OPERATIONS": "0"}, "OPERATIONS: out of range: 0"),
        ):
            with self.subTest(words=words):
                result = self.run_script(*arguments, **changes)
                self.check_code(result, 2)
                self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
