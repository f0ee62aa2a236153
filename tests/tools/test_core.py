"""hakmem stats, prof and explain of core files: the same answers as of the process that lived."""

from common import *
from cores import *


class Core(CoreCase):
    def test_gcore_says_what_the_process_said(self):
        process = self.launch("wait", program=FALLEN, HAKMEM_PROF_RATE="65536")
        live = json.loads(hakmem("stats", "--format=json", process.words[1]).out)
        told = self.prof(process.words[1])
        core = self.gcore(process.words[1])
        self.end(process)
        dead = self.figures(core)
        self.assertEqual(dead["pid"], live["pid"])
        self.assertEqual(dead["program"], "fallen")
        self.assertFalse(dead["partial"], dead)
        for group, name in (("memory", "live"), ("memory", "bins"), ("totals", "bytes_slab"), ("totals", "superslabs_live")):
            self.assertEqual(dead[group][name], live[group][name], (group, name))
        # A page of zeros may have been there or not.
        self.assertLess(abs(dead["equation"]["live"] / live["equation"]["live"] - 1), 0.08)
        self.assertLess(abs(dead["equation"]["difference"]), 10)
        # Places, functions and lines are the same; ages are not known.
        strip = lambda out: [[row[0], row[1], row[2]] for row in self.rows(out)]
        self.assertEqual(strip(self.prof(core)), strip(told))
        if NAMES:
            self.assertIn("forget_to_free (fallen.c:", told)

    def test_explain(self):
        process = self.launch("wait", program=FALLEN)
        core = self.gcore(process.words[1])
        self.end(process)
        result = hakmem("explain", "--core", core)
        self.assert_code(result, 0)
        self.assertIn("the largest mappings", result.out)
        self.assert_code(hakmem("explain", "--trim", core), 2)
        self.assert_code(hakmem("prof", "--growth=1", core), 2)
        self.assert_code(hakmem("prof", "--rate=65536", core), 2)

    def test_the_kernels(self):
        core, done = self.fall("segv")
        leaked = int(done.out.split()[2])
        dead = self.figures(core)
        self.assertFalse(dead["partial"], dead)
        self.assertGreater(dead["equation"]["live"], leaked)
        self.assertLess(dead["equation"]["live"], 1.2 * leaked + 4e6)
        if NAMES:
            self.assertIn("forget_to_free (fallen.c:", self.prof(core))

    def test_without_what_is_in_files(self):
        core, done = self.fall("segv", coredump_filter=ALL_BUT_FILES)
        dead = self.figures(core)
        self.assertFalse(dead["partial"], dead)
        self.assertGreater(dead["equation"]["live"], int(done.out.split()[2]))

    def test_a_use_after_free_is_explained(self):
        core, done = self.fall("use", HAKMEM_BACKGROUND="0")
        freed, beside = done.out.split()[3:5]
        result = hakmem("where", core, freed, beside)
        self.assert_code(result, 0)
        self.assertIn(f"{freed}: 0 bytes into a block of 48 bytes at {freed}, which is free, in the bin of a thread", result.out)
        self.assertIn("number 1 of ", result.out)
        self.assertIn(f"{beside}: 0 bytes into a block of 48 bytes at {beside}, which is live", result.out)
        told = json.loads(hakmem("where", "--format=json", "--core", core, freed).out)[0]
        self.assertEqual((told["kind"], told["block"]["live"], told["slab"]["size"]), ("block", False, 48))
        self.assertEqual((told["before"]["live"], told["behind"]["live"]), (True, True))

    def test_what_ended_it(self):
        core, done = self.fall("segv")
        result = hakmem("core", core)
        self.assert_code(result, 0)
        self.assertIn(f"fallen ({done.out.split()[1]}) was ended by SIGSEGV at 0x10: nothing is mapped at the address\n", result.out)
        self.assertIn("\nresident ", result.out)
        self.assertIn("\n0x10: nothing is mapped there: a null pointer", result.out)
        if NAMES:
            self.assertIn("      main (fallen.c:", result.out)
            self.assertIn("      forget_to_free (fallen.c:", result.out)
        told = json.loads(hakmem("core", "--format=json", core).out)
        self.assertEqual((told["end"]["name"], told["end"]["address"], told["missing"]), ("SIGSEGV", 16, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
