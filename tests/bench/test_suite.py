"""Every row of bench/suite.toml runs, and does the same work on libc's malloc and on the library."""

import re
import unittest
from typing import Any

from common import APART, LIBRARY, TestCase, bench, sources, suite

KEYS = {"name", "program", "arguments", "measure", "group", "bar", "idea", "quick"}
GROUPS = {"single", "threads", "large", "touch", "many-threads", "crowds"}


class Suite(TestCase):
    def test_rows_are_complete(self) -> None:
        rows = suite()
        names = [row["name"] for row in rows]
        self.assertEqual(len(names), len(set(names)), "names are unique")
        for row in rows:
            with self.subTest(row=row.get("name")):
                self.assertEqual(set(row) - {"environment"}, KEYS)
                self.assertRegex(row["name"], r"^[a-z0-9][A-Za-z0-9-]*$")
                self.assertIn(row["measure"], {"throughput", "cpu", "wall"})
                self.assertIn(row["group"], GROUPS)
                self.assertIn(row["program"], sources())
                self.assertEqual(len(row["idea"].splitlines()), 1)
                values = [*row["arguments"], *row["quick"], *row.get("environment", {}).values()]
                self.assertTrue(all(isinstance(value, str) for value in values))
                self.assertEqual(len(row["arguments"]), len(row["quick"]))

    def test_every_program_has_a_row(self) -> None:
        benchmarks = sources() - {"replay", "hunt"}  # lab/tests/test_replay.py, lab/tests/test_hunt.py
        self.assertEqual({row["program"] for row in suite()}, benchmarks - set(APART))
        self.assertEqual({row["group"] for row in suite()}, GROUPS)

    def test_rows_of_the_field(self) -> None:
        """Rows whose figures are compared with other people's have their arguments."""
        rows = {row["name"]: row for row in suite()}
        for name, arguments, low, high in (
            ("mixed400", "20000000 400 1", None, None),
            ("mixed-big", "10000000 200000 1", None, None),
            ("mixed-mid", "3000000 400 1", "8192", "32768"),
            ("mixed-large", "300000 100 1", "65536", "1048576"),
            ("mixed-2T", "10000000 4000 1 2", None, "2048"),
        ):
            row = rows[name]
            self.assertEqual(row["program"], "random_mixed")
            self.assertEqual(row["arguments"], arguments.split())
            changed = row.get("environment", {})
            self.assertEqual(changed.get("HAKMEM_BENCH_MIN_SIZE"), low)
            self.assertEqual(changed.get("HAKMEM_BENCH_MAX_SIZE"), high)
            self.assertNotIn("HAKMEM_BENCH_TOUCH", changed)

    def test_touch_rows_repeat_others(self) -> None:
        rows = {row["name"]: row for row in suite()}
        touching = [row for row in suite() if row["group"] == "touch"]
        for row in touching:
            other = rows[row["name"].removesuffix("-touch")]
            self.assertEqual(row["arguments"], other["arguments"])
            self.assertEqual(
                row["environment"], other["environment"] | {"HAKMEM_BENCH_TOUCH": "all"}
            )
        self.assertEqual(
            {row["name"] for row in touching}, {"mixed-mid-touch", "mixed-large-touch"}
        )

    def test_crowds(self) -> None:
        rows = {row["name"]: row for row in suite() if row["group"] == "crowds"}
        threads = {
            name: sum(map(int, row["arguments"][:2]))
            if row["program"] == "handoff"
            else int(row["arguments"][3 if row["program"] == "random_mixed" else 0])
            for name, row in rows.items()
        }
        self.assertLessEqual({256, 1024}, set(threads.values()))
        for name, count in threads.items():
            hands_over = rows[name]["program"] in ("handoff", "asymmetric")
            self.assertIn(count, (16, 32, 64, 128, 256) if hands_over else (256, 1024), name)

    def test_hand_over_grows_by_twos(self) -> None:
        rows = {row["name"]: row for row in suite()}
        for half in (4, 8, 16, 32, 64):
            self.assertEqual(
                rows[f"handoff-{half}-{half}"]["arguments"],
                [str(half), str(half), *rows["handoff-1-1"]["arguments"][2:]],
            )

    def test_many_threads_do_the_work_of_two(self) -> None:
        rows = {row["name"]: row for row in suite()}
        for threads in (8, 64):
            few, many = rows["mixed-2T"], rows[f"mixed-{threads}T"]
            for argument in (0, 1):  # ITERS and WS are those of each thread
                self.assertEqual(
                    int(many["arguments"][argument]) * threads, int(few["arguments"][argument]) * 2
                )
            self.assertEqual(many["arguments"][3], str(threads))
            for name in ("larson", "stress-mix"):
                few, many = rows[name], rows[f"{name}-{threads}T"]
                self.assertEqual((few["arguments"][0], many["arguments"][0]), ("2", str(threads)))
                operations = 1 if name == "larson" else 2
                self.assertEqual(few["arguments"][operations], many["arguments"][operations])
            half = str(threads // 2)
            self.assertEqual(rows[f"handoff-{half}-{half}"]["arguments"][:2], [half, half])
            self.assertEqual(
                rows[f"handoff-{half}-{half}"]["arguments"][2:],
                rows["handoff-1-1"]["arguments"][2:],
            )


class Rows(TestCase):
    def run_row(self, row: dict[str, Any], preload: str) -> dict[str, str]:
        """The report of a short run, by key."""
        changes = dict(row.get("environment", {}))
        if preload:
            changes["LD_PRELOAD"] = preload
        result = bench(row["program"], *row["quick"], **changes)
        self.check_code(result, 0)
        self.assertEqual(result.stderr, "")
        lines = result.stdout.splitlines()
        self.assertRegex(lines[-1], r"^Throughput = [1-9]\d* ops/s$")
        self.assertRegex(lines[-2], r"^cpu_ns_per_op=\d+\.\d{3}$")
        self.assertRegex(lines[-3], r"^peak_rss_kb=[1-9]\d* minor_faults=[1-9]\d* operations=[1-9]\d*$")
        allocators = [line for line in lines if line.startswith("allocator: ")]
        self.assertEqual(len(allocators), 1)
        if preload:
            self.assertEqual(allocators[0], f"allocator: {preload} (preloaded)")
        else:
            self.assertRegex(allocators[0], r"^allocator: libc")
        return dict(re.findall(r"^(\w+)=(\S+)", result.stdout, re.M))

    def test_every_row_on_both(self) -> None:
        for row in suite():
            with self.subTest(row=row["name"]):
                libc = self.run_row(row, "")
                ours = self.run_row(row, LIBRARY)
                # random_mixed reads nothing back: its loop has to stay as short as it is.
                self.assertEqual("checksum" in libc, row["program"] != "random_mixed")
                self.assertEqual(libc.get("checksum"), ours.get("checksum"))

    def test_threads_are_joined_after_much_was_freed(self) -> None:
        """glibc's loader then frees under the lock that starting a helper thread takes."""
        words = ["32", "32", "150000", "16", "64", "64", "no", "4096"]
        for _ in range(10):
            self.check_code(bench("handoff", *words, LD_PRELOAD=LIBRARY), 0)
            self.check_code(bench("handoff-static", *words), 0)


if __name__ == "__main__":
    unittest.main()
