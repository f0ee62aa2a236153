"""hakmem stats, prof and explain of core files: the same answers as of the process that lived."""

import random
import time

from common import *
from cores import *

LYING = os.environ.get("HAKMEM_TEST_LYING", "")
HELD = os.environ.get("HAKMEM_TEST_HELD", "")
HELD_STATIC = os.environ.get("HAKMEM_TEST_HELD_STATIC", "")


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
        self.assertIn(" lived: a debugger made this core\n", hakmem("core", core).out)
        self.assert_code(hakmem("explain", "--trim", core), 2)
        self.assert_code(hakmem("prof", "--growth=1", core), 2)
        self.assert_code(hakmem("stats", "--format=openmetrics", core), 2)
        self.assert_code(hakmem("prof", "--rate=65536", core), 2)

    def test_explain_does_not_speak_of_what_comes(self):
        process = self.launch("small", program=HELD, HAKMEM_BACKGROUND="0")
        live = hakmem("explain", str(process.pid)).out
        core = self.gcore(process.pid)
        self.end(process)
        says = r"\n     (it |only |the next )|a trim|what would help\n| are resident the program holds "
        self.assertRegex(live, says)
        dead = hakmem("explain", core).out
        self.assertNotRegex(dead, says)
        self.assertRegex(dead, r"\nOf [\d.]+ MiB that were resident the program held [\d.]+ MiB in blocks; ")
        self.assertIn("\n 1. ", dead)
        told = json.loads(hakmem("explain", "--format=json", core).out)
        self.assertTrue(told["reasons"] and not any("when" in reason for reason in told["reasons"]), told)
        self.assertNotIn("trim", told)

    def test_a_static_program_without_symbols(self):
        process = self.launch("small", program=HELD_STATIC, LD_PRELOAD=None)
        core = self.gcore(process.pid)
        live = json.loads(hakmem("stats", "--format=json", str(process.pid)).out)
        self.end(process)
        dead = self.figures(core)
        self.assertEqual(dead["memory"]["live"], live["memory"]["live"])

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
        self.assertIn(f"{freed}: 0 bytes into a block of 48 bytes at {freed}, which is free\n  in the bin of ", result.out)
        self.assertIn(", number 1 of ", result.out)
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

    def test_what_hakmem_said(self):
        """A guarded sample: who allocated and freed it, also of addresses beside the first."""
        text = r"""
            #include <stdio.h>
            #include <stdlib.h>
            static __attribute__((noinline)) char *take(void) { char *p = malloc(40); *(volatile char *)p = 1; return p; }
            static __attribute__((noinline)) void give(char *p) { free(p); *(volatile int *)stdout; }
            int main(void) {
              for (int i = 0; i < 100000; i++) {
                char *p = take();
                give(p);
                *(volatile char *)(p + 8) = 1;
              }
              return 0;
            }
            """
        program = self.build("guarded", text, "-g", "-O1")
        core, done = self.fall("", program=program, HAKMEM_GUARD_SAMPLE="1", HAKMEM_PROF_RATE="1000")
        first = [line for line in done.err.splitlines() if "use after free" in line][0]
        result = hakmem("core", core)
        self.assert_code(result, 0)
        self.assertIn(f"what hakmem said last\n  {first}\n", result.out)
        self.assertIn("8 bytes into a guarded sample of 40 bytes at ", result.out)
        if NAMES:
            self.assertRegex(result.out, r"  allocated by thread \d+: take \(guarded\.c:\d+\) < main")
            self.assertRegex(result.out, r"  freed by thread \d+: give \(guarded\.c:\d+\) < main")

    def test_a_freed_sample(self):
        """Until its record is used again, it is known who allocated it."""
        text = r"""
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            static __attribute__((noinline)) char *take(void) { char *p = malloc(3000); return memset(p, 1, 3000); }
            int main(void) {
              char *volatile all[200];
              for (int i = 0; i < 200; i++) all[i] = take();
              printf("ready");
              for (int i = 0; i < 200; i++) printf(" %p", (void *)all[i]);
              printf("\n");
              fflush(stdout);
              for (int i = 0; i < 200; i += 2) free(all[i]);
              abort();
            }
            """
        program = self.build("sampled", text, "-g", "-O1")
        core, done = self.fall("", program=program, HAKMEM_PROF_RATE="1")
        blocks = done.out.split()[1:]
        told = json.loads(hakmem("where", "--format=json", core, *blocks[20:40]).out)
        freed = [block["sample"] for block in told if block["sample"]["freed"]]
        self.assertEqual(len(freed), 10, told)
        self.assertEqual({block["sample"]["size"] for block in told}, {3000})
        self.assertEqual([block["block"]["live"] for block in told], 10 * [False, True])
        if NAMES:
            self.assertTrue(all(sample["allocated_by"].startswith("take (sampled.c:") for sample in freed), told)

    def test_a_list_that_was_written_to(self):
        text = r"""
            #include <stdio.h>
            #include <stdlib.h>
            int main(void) {
              void *volatile all[100];
              for (int i = 0; i < 100; i++) all[i] = malloc(100);
              for (int i = 0; i < 100; i += 10) free(all[i]);
              printf("ready %p %p\n", all[50], all[51]);
              fflush(stdout);
              *(void *volatile *)all[50] = (void *)0x4141414141414140;
              abort();
            }
            """
        program = self.build("written", text, "-O1")
        core, done = self.fall("", program=program, HAKMEM_PROF_RATE="0")
        block, beside = done.out.split()[1:]
        result = hakmem("where", core, beside)
        self.assert_code(result, 0)
        self.assertIn(f"the list of free blocks is broken at {block}: the program has written to a block", result.out)

    def test_what_is_no_block(self):
        core, done = self.fall("segv")
        maps = [row for row in self.headers(core) if row[0] == PT_LOAD]
        stack = max(row[2] + row[4] for row in maps if row[2] < 1 << 47 and row[4] > 3 * 4096)
        result = hakmem("where", core, hex(stack - 16), "0xffff800000000000", "0x10")
        self.assert_code(result, 0)
        self.assertIn(f"in the stack of thread {done.out.split()[1]}", result.out)
        self.assertIn("0xffff800000000000: nothing is mapped there\n", result.out)

    def test_of_a_process_that_lives(self):
        process = self.launch("wait", program=FALLEN)
        freed, beside = process.words[3:5]
        result = hakmem("where", process.words[1], freed, beside)
        self.assert_code(result, 0)
        self.assertIn(f"{freed}: 0 bytes into a block of 48 bytes at {freed}, which is free", result.out)
        self.assertIn(f"{beside}: 0 bytes into a block of 48 bytes at {beside}, which is live", result.out)
        for arguments in ([process.words[1]], [freed], [process.words[1], "0xz"], [process.words[1], freed, "12"]):
            self.assert_code(hakmem("where", *arguments), 2)

    def test_of_a_process_that_lies(self):
        for what in ("stacks", "slices", "units", "name", "heaps", "bins"):
            process = self.launch(what, program=LYING, LD_PRELOAD=None)
            with open(f"/proc/{process.pid}/maps", encoding="ascii") as file:
                starts = [int(line.split("-")[0], 16) for line in file if " rw-p " in line]
            addresses = [hex(start + add) for start in starts[:12] for add in (0, 0x10040, 0x1f0000)]
            result = hakmem("where", str(process.pid), *addresses)
            self.assertIn(result.code, (0, 126), (what, result))
            self.end(process)

    # --- files -----------------------------------------------------------------------------------------------

    def test_compressed(self):
        if shutil.which("zstd") is None:
            self.skipTest("zstd is not installed")
        core, done = self.fall("segv")
        whole = self.figures(core)
        self.assert_code(execute(["zstd", "-q", core, "-o", self.path("packed.zst")]), 0)
        packed = hakmem("stats", "--format=json", self.path("packed.zst"))
        if "without libzstd" in packed.err:
            self.skipTest("the tool was built without libzstd")
        self.assertEqual(json.loads(packed.out)["equation"], whole["equation"])
        # One that is cut is told as far as it goes.
        with open(self.path("packed.zst"), "rb") as file:
            half = file.read()[: os.path.getsize(self.path("packed.zst")) // 2]
        result = hakmem("core", self.write("half.zst", half))
        self.assertIn(result.code, (0, 126), result)
        self.assertIn("was ended by SIGSEGV", result.out)
        self.assertIn("is cut", result.err)

    def test_other_compressions(self):
        for name, begins in (("xz", b"\xfd7zXZ\0"), ("lz4", b"\x04\x22\x4d\x18"), ("gzip", b"\x1f\x8b\x08")):
            result = hakmem("stats", self.write("packed", begins + bytes(100)))
            self.assert_code(result, 126)
            self.assertIn(f"is compressed by {name}, which hakmem does not read; unpack it first: ", result.err)

    def test_on_another_machine(self):
        """Neither the program nor the library are where they were."""
        program, library = self.copy(FALLEN, "moved"), self.copy(LIBRARY, "libhakmem.so")
        core, done = self.fall("segv", program=program, LD_PRELOAD=library)
        whole = self.figures(core)["equation"]
        root = self.path("root") + self.directory
        os.makedirs(root)
        for path in (program, library):
            os.rename(path, os.path.join(root, os.path.basename(path)))
        result = hakmem("stats", core)
        self.assert_code(result, 126)
        self.assertIn(f"hakmem may be in {library}, of which this machine has no file of the same build", result.err)
        # What ended it is told all the same.
        result = hakmem("core", core)
        self.assert_code(result, 126)
        self.assertIn("was ended by SIGSEGV", result.out)
        self.assertEqual(self.figures(core, "--root", self.path("root"))["equation"], whole)
        self.assertEqual(self.figures(core, "--debug-dir", root)["equation"], whole)
        if NAMES:
            for places in (("--root", self.path("root")), ("--debug-dir", root)):
                self.assertIn("forget_to_free (fallen.c:", self.prof(core, *places))
        # Another build of that name is none.
        shutil.copy(FALLEN, os.path.join(root, "libhakmem.so"))
        self.assert_code(hakmem("stats", core, "--root", self.path("root")), 126)

    # --- what is no core, or not all of one ------------------------------------------------------------------

    def assert_refused_core(self, path, words, command="stats"):
        result = hakmem(command, path)
        self.assert_code(result, 126)
        self.assertEqual(result.out, "")
        self.assertIn(words, result.err)

    def test_what_is_no_core(self):
        self.assert_refused_core(self.write("empty", ""), "is empty")
        self.assert_refused_core(self.write("text", "some text that is long enough for a header\n" * 4), "is no core file")
        self.assert_refused_core(FALLEN, "is a program or a library, no core file")
        self.assert_refused_core(self.directory, "is no regular file")
        head = bytearray(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 4, 62) + bytes(44))
        self.assert_refused_core(self.write("cut", bytes(head[:40])), "is cut within its")
        self.assert_refused_core(self.write("none", bytes(head)), "is cut within its headers")
        head[18:20] = struct.pack("<H", 243 if os.uname().machine != "riscv64" else 62)
        self.assert_refused_core(self.write("other", bytes(head)), "is of a program for ")
        self.assert_code(hakmem("stats", self.path("missing")), 127)
        self.assert_code(hakmem("core"), 2)
        for command in ("stats", "prof", "explain"):
            self.assert_code(hakmem(command, "--core", FALLEN, "1"), 2)
            self.assert_code(hakmem(command, "--root", "/", "1"), 2)

    def test_a_process_of_another_allocator(self):
        core, done = self.fall("segv", LD_PRELOAD=None)
        self.assert_refused_core(core, "does not run on hakmem but on")
        result = hakmem("core", core)
        self.assert_code(result, 126)
        self.assertIn("was ended by SIGSEGV at 0x10", result.out)

    def test_cut_by_the_limit(self):
        for most in (20000, 1 << 20, 40 << 20):
            core, done = self.fall("segv", most=most)
            result = hakmem("core", core)
            self.assertIn(result.code, (0, 126), result)
            self.assertIn("was ended by SIGSEGV", result.out)
            self.assertIn("cut", result.err)
            self.assertGreater(json.loads(hakmem("core", "--format=json", core).out)["missing"], 1 << 20)

    def test_cut_anywhere(self):
        core, done = self.fall("segv")
        size = os.path.getsize(core)
        rows = [row for row in self.headers(core) if row[3] > 0]
        places = {1, 63, 64, 65, 100, 5000, size // 3, size - 1, size - 4096, size - 300000}
        places |= {row[1] + row[3] // 2 for row in rows[:6] + rows[-12:]} | {row[1] + 1 for row in rows[-12:]}
        live = self.figures(core)["equation"]["live"]
        for place in sorted(places, reverse=True):
            os.truncate(core, place)
            for command in ("core", "stats"):
                result = hakmem(command, core)
                self.assertIn(result.code, (0, 126), (place, result))
                self.assertNotEqual(result.err, "", place)
            told = hakmem("stats", "--format=json", core)
            if told.code == 0:
                self.assertLessEqual(json.loads(told.out)["equation"]["live"], live)

    def test_damaged(self):
        """Whatever is written over headers, notes and tables: no crash, no hang, little memory. Each damage has a number, by which it can
        be made again: HAKMEM_TEST_DAMAGES=71-71, or more of them: 0-999. On a busy machine the last ones are left out."""
        first, last = map(int, os.environ.get("HAKMEM_TEST_DAMAGES", "0-59").split("-"))
        core, done = self.fall("segv")
        end = time.monotonic() + 60
        for number in range(first, last + 1):
            if number >= first + 10 and time.monotonic() > end and "HAKMEM_TEST_DAMAGES" not in os.environ:
                print(f"a busy machine: damages {first} to {number - 1} only")
                break
            with self.subTest(damage=number):
                self.damage(core, random.Random(number))

    def damage(self, core, chance):
        rows = self.headers(core)
        notes = [row for row in rows if row[0] == PT_NOTE][0]
        tables = [row for row in rows if row[0] == PT_LOAD and 0 < row[3] <= 2 << 20]
        places = [(0, 64), (64, 56 * len(rows)), (notes[1], notes[3])] + [(row[1], row[3]) for row in tables]
        start, length = chance.choice(places)
        limit = (3 << 30, 3 << 30)
        kept = []
        with open(core, "r+b") as file:
            for _ in range(chance.choice((1, 4, 64))):
                place = start + chance.randrange(max(1, length - 8))
                file.seek(place)
                kept.append((place, file.read(8)))
                file.seek(place)
                file.write(chance.choice((chance.randbytes(8), b"\xff" * 8, bytes(8), struct.pack("<Q", chance.randrange(1 << 40)))))
            file.flush()
            try:
                command = chance.choice(("core", "stats", "explain", "prof"))
                result = hakmem(command, core, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
                self.assertIn(result.code, (0, 1, 126), (command, result))
            finally:
                for place, bytes_before in reversed(kept):
                    file.seek(place)
                    file.write(bytes_before)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
