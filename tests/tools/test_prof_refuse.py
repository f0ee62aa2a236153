"""hakmem prof where there is no profile: what is wrong, and what to do."""

import time

from common import *
from profiles import *

HELD = os.environ.get("HAKMEM_TEST_HELD", "")


class Refused(ProfCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

    def held(self, what, preload=LIBRARY, options=None, **changes):
        """A program that rests with memory of some kind, until its standard input ends."""
        process = subprocess.Popen([self.copy(HELD, "held"), what], env=environment(LD_PRELOAD=preload, **changes),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   **(options or {}))  # fmt: skip
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline().split()[0], "ready")
        return process

    def end(self, process):
        process.kill()
        super().end(process)

    def refused(self, process, *words, code=126, arguments=(), **options):
        result = hakmem("prof", *arguments, str(process.pid), **options)
        self.assert_code(result, code)
        self.assertEqual(result.out, "")
        self.assertEqual(len(result.err.splitlines()), 1, result)
        for word in words:
            self.assertIn(word, result.err)

    def test_another_user(self):
        tool = self.copy(TOOL, "hakmem")
        if os.geteuid() == 0:
            process = self.held("fresh")
            for arguments in ([], ["--leaks"], ["--rate=0"], ["--format=html"]):
                self.refused(process, "belongs to user 0: call hakmem as that user, or as root", tool=tool,
                             arguments=arguments, **self.nobody)  # fmt: skip

    def test_a_process_that_may_not_be_read(self):
        tool, library = self.copy(TOOL, "hakmem"), self.copy(LIBRARY, "libhakmem.so")
        process = self.held("private", preload=library, options=self.nobody)
        self.refused(process, "cannot be read", "PR_SET_DUMPABLE", tool=tool, **self.nobody)

    def test_the_page_that_it_keeps_has_no_samples(self):
        tool, library = self.copy(TOOL, "hakmem"), self.copy(LIBRARY, "libhakmem.so")
        process = self.held("private", preload=library, options=self.nobody, HAKMEM_SHM="1")
        page = f"/dev/shm/hakmem-{process.pid}"
        self.addCleanup(lambda: os.path.exists(page) and os.unlink(page))
        self.assert_code(hakmem("stats", str(process.pid), tool=tool, **self.nobody), 0)
        for arguments in ([], ["--rate=65536"]):
            self.refused(process, "cannot be read", "for hakmem stats and top", tool=tool, arguments=arguments,
                         **self.nobody)  # fmt: skip

    def test_an_older_library(self):
        older = self.build("libhakmem.so.0", "int hak_version;", "-shared", "-fPIC")
        self.refused(self.held("fresh", preload=older), "runs on an older hakmem", "start it again on this one")

    def test_a_library_that_is_not_used(self):
        self.refused(self.held("small", HAKMEM_FORCE_LIBC_ALLOC="1"), "HAKMEM_FORCE_LIBC_ALLOC=1 is set")

    def test_another_allocator(self):
        process = self.held("fresh", preload=None)
        self.refused(process, "does not run on hakmem but on", "hakmem run -- held")

    def test_no_process(self):
        process = subprocess.Popen(["true"])
        process.wait()
        self.refused(process, "there is no process", code=127)

    def while_it_waits(self, what, change):
        """Its complaint, when the process changes between the two looks of --growth."""
        for wait in (0.5, 1, 2, 4, 8):
            process = self.held(what)
            tool = subprocess.Popen([TOOL, "prof", f"--growth={int(2 * wait + 1)}", str(process.pid)],
                                    env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
            time.sleep(wait)
            change(process)
            out, err = tool.communicate(timeout=60)
            self.assertEqual(out, "")
            self.assertEqual(len(err.splitlines()), 1, err)
            if tool.returncode == 1:
                return err
            # The first look came too late.
        self.fail(err)

    def test_it_ends_meanwhile(self):
        def end(process):
            process.stdin.close()
            process.wait(timeout=60)

        self.assertRegex(self.while_it_waits("small", end), r"process \d+ \(held\) has ended meanwhile\n$")

    def test_it_becomes_another_program_meanwhile(self):
        def go_on(process):
            process.stdin.write("\n")
            process.stdin.flush()

        said = self.while_it_waits("exec", go_on)
        self.assertRegex(said, r"\(held\) runs another program meanwhile .*: call hakmem again\n$")


class Off(ProfCase):
    def test_no_samples(self):
        pid, _ = self.start(HAKMEM_PROF_RATE="0")
        result = hakmem("prof", str(pid))
        self.assert_code(result, 0)
        self.assertRegex(result.out, r"^covers 0 B of .* by 0 samples \(off\)\n")
        self.assertIn(f": hakmem prof --rate=2097152 {pid} turns them on", result.err)
        self.assertEqual(self.rows(result.out), [])
        # That it does; and who turns them off knows of it.
        self.assertIn("(one in 2.0 MiB)", self.prof(pid, "--rate=2097152"))
        self.assertIn("by 0 samples (off)", self.prof(pid, "--rate=0"))
        self.assertIn("turns them on", hakmem("prof", str(pid), "--leaks").err)

    def test_none_so_far(self):
        """A small process, looked at for the first time: an empty table says nothing."""
        # It has 82 MiB: in one process of thirteen a block is sampled even so.
        for _ in range(8):
            pid, _ = self.start(HAKMEM_PROF_RATE="1G")
            result = hakmem("prof", str(pid))
            self.assert_code(result, 0)
            if " by 0 samples" in result.out:
                break
        self.assertRegex(result.out, r"^covers 0 B of .* by 0 samples \(one in 1.0 GiB\)\n")
        self.assertRegex(result.err, rf"note: nothing that lives was sampled, one in 1\.0 GiB: hakmem prof --rate=65536 {pid} samples more .*\n$")
        self.assertEqual(hakmem("prof", str(pid), "--rate=65536").err, "")

    def test_of_a_program(self):
        result = hakmem("prof", "--", "sh", "-c", ":", env=environment(HAKMEM_PROF_RATE="0"))
        self.assert_code(result, 0)
        self.assertIn("samples are off (HAKMEM_PROF_RATE=0)", result.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
