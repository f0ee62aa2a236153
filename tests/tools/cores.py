"""What the tests of core files share: a program that ends as it is told, and cores of it of each kind."""

import glob
import json
import resource
import struct

from common import *
from profiles import ProfCase

FALLEN = os.environ.get("HAKMEM_TEST_FALLEN", "")
PT_LOAD, PT_NOTE, NT_FILE = 1, 4, 0x46494C45
ALL_BUT_FILES = "0x23"  # of coredump_filter: no first pages of files, too


def pattern():
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        return file.read().strip()


class CoreCase(ProfCase):
    def gcore(self, pid):
        if shutil.which("gcore") is None:
            self.skipTest("gdb is not installed")
        made = execute(["gcore", "-o", self.path("gcore"), str(pid)])
        path = self.path(f"gcore.{pid}")
        if not os.path.exists(path) and "ptrace" in made.out + made.err:
            self.skipTest(f"gdb may not trace here: {made.err}")
        self.assertTrue(os.path.exists(path), made)
        return path

    def fall(self, how, coredump_filter=None, most=resource.RLIM_INFINITY, program=None, **changes):
        """A core that the kernel has made of the program; and what it has printed."""
        if not pattern().startswith("core") or "/" in pattern():
            self.skipTest(f"the kernel gives cores to '{pattern()}' here")
        if resource.getrlimit(resource.RLIMIT_CORE)[1] not in (most, resource.RLIM_INFINITY):
            self.skipTest("the limit of cores (ulimit -H -c) does not allow one")
        for old in glob.glob(self.path("core*")):
            os.unlink(old)

        def prepare():
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (most, hard))
            if coredump_filter is not None:
                with open("/proc/self/coredump_filter", "w", encoding="utf-8") as file:
                    file.write(coredump_filter)

        env = environment(**{"LD_PRELOAD": LIBRARY, "HAKMEM_PROF_RATE": "65536"} | changes)
        done = execute([program or FALLEN, how], env=env, cwd=self.directory, preexec_fn=prepare)
        self.assertLess(done.code, 0, done)
        made = glob.glob(self.path("core*"))
        if not made:
            self.skipTest("the kernel has made no core")
        return made[0], done

    def figures(self, core, *arguments):
        result = hakmem("stats", "--format=json", core, *arguments)
        self.assert_code(result, 0)
        return json.loads(result.out)

    # --- what is in a core ---

    def headers(self, path):
        """Type, place in the file, address, bytes in the file and in memory of each piece."""
        with open(path, "rb") as file:
            head = file.read(64)
            start, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
            file.seek(start)
            rows = [struct.unpack("<IIQQQQQQ", file.read(56)) for _ in range(count)]
        return [(row[0], row[2], row[3], row[5], row[6]) for row in rows]


__all__ = ["ALL_BUT_FILES", "FALLEN", "PT_LOAD", "PT_NOTE", "CoreCase", "json", "pattern", "resource", "struct"]
