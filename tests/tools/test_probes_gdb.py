"""Static probes in the library: what gdb is told at them."""

import re

from common import *
from test_probes import PROBES, SITES, ProbesCase


class Gdb(ProbesCase):
    def test_what_the_arguments_are(self):
        if shutil.which("gdb") is None:
            self.skipTest("gdb is not installed")
        script = f"set exec-wrapper env LD_PRELOAD={LIBRARY} HAKMEM_PROF_RATE=1048576 HAKMEM_BACKGROUND=0\nbreak main\nrun\n"
        for name, count in PROBES.items():
            values = ", ".join(f"(unsigned long)$_probe_arg{i}" for i in range(count))
            script += f"break -probe-stap {name}\ncommands\nsilent\nprintf \"{name}{' %lu' * count}\\n\", {values}\ncontinue\nend\n"
        result = execute(["gdb", "-nx", "-q", "-batch", "-x", self.write("script", script + "continue\n"), SITES])
        if "Could not trace the inferior" in result.err or "ptrace: Operation not permitted" in result.err:
            self.skipTest(f"gdb may not trace here: {result.err}")
        events = [(words[0], [int(word) for word in words[1:]])
                  for words in map(str.split, result.out.splitlines()) if words and words[0] in PROBES]  # fmt: skip
        live, allocated = {}, 0
        for name, values in events:
            if name == "otel_memory:alloc":
                self.assertNotIn(values[0], live)
                self.assertGreaterEqual(values[2], max(values[1], 1048576))
                live[values[0]] = values[2]
                allocated += values[2]
            elif name == "otel_memory:free":
                del live[values[0]]
        truth = int(re.search(r"^ready \d+ (\d+)$", result.out, re.MULTILINE)[1])
        # By 80 and 270 samples: five standard deviations.
        self.assertLess(abs(sum(live.values()) / truth - 1), 0.6)
        self.assertLess(abs(allocated / (truth + 200e6) - 1), 0.35)
        maps = [values for name, values in events if name == "hakmem:map"]
        self.assertGreater(sum(size for _, size in maps), truth)
        self.assertTrue(all(address % 4096 == 0 and size % 4096 == 0 for address, size in maps))
        refills = [values for name, values in events if name == "hakmem:refill"]
        self.assertGreater(sum(size * blocks for _, size, blocks in refills), 60e6)
        self.assertEqual(len({heap for heap, _, _ in refills}), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
