"""hakmem core and where of the hardened library: of a process, gcore's core and the kernel's. Its free blocks lie in no list but in a table."""

from cores import *

from common import *

MODES = ("light", "full")
BOXED = os.environ.get("HAKMEM_TEST_BOXED", "")


class Hardened(CoreCase):
    def assert_where(self, target, words):
        """`words`: what the program has printed; both sides of a block say which it is."""
        freed, beside = words[3:5]
        told = hakmem("where", "--format=json", target, freed, beside)
        self.assert_code(told, 0)
        first, second = json.loads(told.out)
        self.assertEqual((first["kind"], first["block"]["live"]), ("block", False), told)
        self.assertEqual((second["kind"], second["block"]["live"]), ("block", True), told)
        # Blocks of 40 bytes: in full what is behind a block is 16 bytes of its own.
        self.assertIn(first["slab"]["size"], (48, 64), told)
        self.assertEqual((first["before"]["live"], first["behind"]["live"]), (True, True), told)

    def test_a_process_and_gcores_core(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                process = self.launch("wait", program=FALLEN, HAKMEM_GUARD=mode)
                self.assert_where(process.words[1], process.words)
                core = self.gcore(process.words[1])
                self.end(process)
                result = hakmem("core", core)
                self.assertIn(" lived: a debugger made this core\n", result.out)
                # gdb before 16 writes zeros for what lies between pages that full marks as guards, and then that is said.
                live, leaked = self.figures(core)["equation"]["live"], int(process.words[2])
                note = r"note: [\d.]+ of [\d.]+ MiB in live blocks are zeros in the core"
                (self.assertRegex if live < leaked / 2 else self.assertNotRegex)(result.err, note)
                if mode == "light":
                    self.assert_code(result, 0)
                    self.assert_where(core, process.words)
                    self.assertFalse(self.figures(core)["partial"])

    def test_the_kernels(self):
        for mode in MODES:
            for how, signal_name, words in (("segv", "SIGSEGV", ""), ("twice", "SIGABRT", "double free")):
                with self.subTest(mode=mode, how=how):
                    core, done = self.fall(how, HAKMEM_GUARD=mode)
                    self.assert_where(core, done.out.split())
                    result = hakmem("core", core)
                    self.assert_code(result, 0)
                    self.assertIn(f" was ended by {signal_name}", result.out)
                    if words:
                        said = [line for line in done.err.splitlines() if words in line]
                        self.assertEqual(len(said), 1, done)
                        self.assertIn(f"what hakmem said last\n  {said[0]}\n", result.out)
                        # Which block it was.
                        freed = done.out.split()[3]
                        self.assertRegex(result.out, rf"(?m)^{freed}: .*, which is free$")
                    dead = self.figures(core)
                    self.assertEqual((dead["variant"], dead["partial"]), ("hardened", False))
                    self.assertGreater(dead["equation"]["live"], int(done.out.split()[2]))
                    if NAMES:
                        self.assertIn("forget_to_free (fallen.c:", self.prof(core))

    def test_a_box_has_all_tables_of_400_megabytes(self):
        """It has no byte for each block, with which tables had no room from 250 MB on."""
        boxes = self.path("boxes")
        for mode in MODES:
            with self.subTest(mode=mode):
                os.makedirs(boxes, exist_ok=True)
                env = environment(LD_PRELOAD=LIBRARY, HAKMEM_GUARD=mode, HAKMEM_BLACKBOX=boxes, HAKMEM_BLACKBOX_MB="400")
                done = execute([BOXED, "leak", "380"], env=env, cwd=self.directory)
                self.assertEqual((done.code, done.err), (0, ""), done)
                listed = hakmem("blackbox", "--format=json", boxes)
                self.assert_code(listed, 0)
                listed = json.loads(listed.out)["boxes"]
                self.assertGreater(len(listed), 0)
                for box in listed:
                    self.assertEqual((box["reason"], box["cut"]), ("at", 0))
                    self.assertLess(box["size"], box["resident"] / 50)
                    figures = self.figures(os.path.join(boxes, box["file"]))
                    self.assertFalse(figures["partial"])
                    self.assertGreater(figures["equation"]["live"], 0.8 * box["resident"])
                    os.unlink(os.path.join(boxes, box["file"]))

    def test_a_message_leaves_a_box(self):
        boxes = self.path("boxes")
        for mode in MODES:
            with self.subTest(mode=mode):
                os.makedirs(boxes, exist_ok=True)
                env = environment(LD_PRELOAD=LIBRARY, HAKMEM_GUARD=mode, HAKMEM_BLACKBOX=boxes)
                done = execute([FALLEN, "twice"], env=env, cwd=self.directory)
                self.assertEqual(done.code, -signal.SIGABRT, done)
                listed = hakmem("blackbox", "--format=json", boxes)
                self.assert_code(listed, 0)
                (box,) = json.loads(listed.out)["boxes"]
                self.assertEqual(box["reason"], "message")
                self.assertIn("double free", box["said"])
                self.assertIn(box["said"], done.err)
                path = os.path.join(boxes, box["file"])
                self.assertGreater(self.figures(path)["equation"]["live"], int(done.out.split()[2]))
                if NAMES:
                    self.assertIn("forget_to_free (fallen.c:", self.prof(path))
                os.unlink(path)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
