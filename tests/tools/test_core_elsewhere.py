"""Cores that were not made beside the tool: of a process in a container, and as the real systemd-coredump stores them."""

import re

from common import *
from cores import *

HANDLER = "/lib/systemd/systemd-coredump"
LIVE = 60000000  # bytes that fallen.c leaks


def libraries_of(*programs):
    found = set()
    for program in programs:
        found |= set(re.findall(r"(/\S+) \(0x", execute(["ldd", program]).out))
    return found - {LIBRARY}


class Container(CoreCase):
    """A root of its own, with the files that the program needs, in places that this machine's root has not."""

    def setUp(self):
        super().setUp()
        self.root = self.path("root")
        for source, path in [(FALLEN, "/srv-app/app"), (LIBRARY, "/srv-app/libhakmem.so")] + [
            (path, path) for path in libraries_of(FALLEN, LIBRARY)
        ]:
            os.makedirs(self.root + os.path.dirname(path), exist_ok=True)
            shutil.copy(os.path.realpath(source), self.root + path)
        for folder in ("proc", "dev", "tmp"):
            os.makedirs(os.path.join(self.root, folder), exist_ok=True)

    def command(self, how):
        """In namespaces of mounts and of processes; as Docker, by a root that is no part of the other one's."""
        if shutil.which("bwrap") is not None:
            return ["bwrap", "--bind", self.root, "/", "--unshare-pid", "--proc", "/proc", "--dev", "/dev",
                    "--setenv", "LD_PRELOAD", "/srv-app/libhakmem.so", "--setenv", "HAKMEM_PROF_RATE", "65536",
                    "/srv-app/app", how]  # fmt: skip
        start = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        start += ["--user", "--map-root-user"] if os.geteuid() != 0 else []
        # The variable is for the program alone: the others do not find that file.
        return [*start, "chroot", self.root, "/srv-app/app", how]

    def run_inside(self, how, **options):
        env = environment(LD_PRELOAD="/srv-app/libhakmem.so" if shutil.which("bwrap") is None else None, HAKMEM_PROF_RATE="65536")
        return subprocess.Popen(self.command(how), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **options)  # fmt: skip

    def assert_explained(self, core):
        refused = hakmem("stats", core)
        self.assert_code(refused, 126)
        self.assertIn("hakmem may be in /srv-app/libhakmem.so, of which this machine has no file of the same build", refused.err)
        figures = self.figures(core, "--root", self.root)
        self.assertEqual(figures["program"], "app")
        self.assertGreater(figures["equation"]["live"], LIVE)
        if NAMES:
            calls = self.prof(core, "--root", self.root).splitlines()
            self.assertIn("forget_to_free (fallen.c:", calls[4])

    def test_the_kernels_core(self):
        if not pattern().startswith("core") or "/" in pattern():
            self.skipTest(f"the kernel gives cores to '{pattern()}' here")
        process = self.run_inside(
            "segv", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
        )
        out, err = process.communicate(timeout=60)
        if not out.startswith("ready"):
            self.skipTest(f"no namespaces can be made here: {err}")
        number = int(out.split()[1])
        self.assertLess(number, 10)  # as the container has it
        made = [name for name in os.listdir(self.root) if name.startswith("core")]
        if not made:
            self.skipTest("the kernel has made no core")
        core = os.path.join(self.root, made[0])
        self.assert_explained(core)
        told = hakmem("core", "--root", self.root, core).out
        self.assertIn(f"app ({number}) was ended by SIGSEGV at ", told)
        if NAMES:
            self.assertIn("serve (fallen.c:" if "serve" in told else "main (fallen.c:", told)

    def test_gcores_from_outside(self):
        process = self.run_inside("wait")
        self.addCleanup(process.communicate, timeout=60)
        line = process.stdout.readline()
        if not line.startswith("ready"):
            self.skipTest(f"no namespaces can be made here: {process.stderr.read()}")
        [pid] = [name for name in os.listdir("/proc") if name.isdigit() and self.is_app(name)]
        core = self.gcore(pid)
        live = json.loads(hakmem("stats", "--format=json", pid).out)["equation"]["live"]
        figures = self.figures(core, "--root", self.root)
        self.assertEqual(figures["pid"], int(pid))
        self.assertLess(abs(figures["equation"]["live"] / live - 1), 0.08)
        # While it lives, its root is at hand.
        self.assertEqual(self.figures(core, "--root", f"/proc/{pid}/root")["equation"], figures["equation"])

    def is_app(self, pid):
        try:
            return os.path.samefile(f"/proc/{pid}/exe", self.root + "/srv-app/app")
        except OSError:
            return False


FEED = r"""
import os, socket, subprocess, sys
handler, core, pid = sys.argv[1:]
os.makedirs("/run/systemd", exist_ok=True)
listen = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listen.bind("/run/systemd/coredump")
listen.listen(1)
listen.settimeout(30)
env = {"SYSTEMD_LOG_TARGET": "console"}
words = [handler, pid, "0", "0", "11", "1700000000", "18446744073709551615", "host", "1"]
kernel = subprocess.Popen(words, stdin=open(core, "rb"), env=env)
connection, _ = listen.accept()
number = connection.fileno()
service = f"LISTEN_PID=$$ LISTEN_FDS=1 exec {handler} 3<&{number}"
service = subprocess.Popen(["/bin/sh", "-c", service], pass_fds=[number], env=env)
connection.close()
sys.exit(kernel.wait(timeout=50) or service.wait(timeout=50))
"""


class Systemd(CoreCase):
    """The handler that the kernel starts, and the service that it sends the core to: both are started by hand, in a namespace of mounts
    where their folders are the test's."""

    def test_what_it_stores(self):
        if not os.access(HANDLER, os.X_OK):
            self.skipTest("systemd-coredump is not installed")
        if os.geteuid() != 0:
            self.skipTest("systemd-coredump stores cores for root only here")
        core, done = self.fall("segv")
        whole = self.figures(core)
        stored, run = self.path("stored"), self.path("run")
        os.mkdir(stored)
        os.mkdir(run)
        os.makedirs("/var/lib/systemd/coredump", exist_ok=True)
        # It asks /proc who the process was: one that lives stands in for it.
        stand_in = subprocess.Popen(["sleep", "60"])
        self.addCleanup(stand_in.wait)
        self.addCleanup(stand_in.kill)
        inside = f"mount --bind {stored} /var/lib/systemd/coredump && mount --bind {run} /run && exec \"$@\""
        fed = execute(["unshare", "--mount", "sh", "-c", inside, "sh", sys.executable, "-c", FEED, HANDLER, core, str(stand_in.pid)])
        if "unshare" in fed.err:
            self.skipTest(f"no namespaces of mounts can be made here: {fed.err}")
        self.assert_code(fed, 0)
        [name] = os.listdir(stored)
        self.assertRegex(name, r"^core\.sleep\.0\.[0-9a-f]{32}\.\d+\.\d+(\.zst)?$", fed)
        path = os.path.join(stored, name)
        if "without libzstd" in hakmem("stats", path).err:
            self.skipTest("the tool was built without libzstd")
        self.assertEqual(self.figures(path)["equation"], whole["equation"])
        told = hakmem("core", path)
        self.assert_code(told, 0)
        self.assertIn("was ended by SIGSEGV", told.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
