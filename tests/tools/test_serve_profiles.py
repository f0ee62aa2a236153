"""hakmem serve: profiles over HTTP, as pprof fetches them."""

import errno
import gzip
import resource
import select
import time

from common import *
from serving import ServeCase
from test_stats import HELD


@unittest.skipIf(os.environ.get("HAKMEM_TEST_PPROF") != "1", "libprotobuf-c-dev, protobuf-c-compiler or zlib1g-dev is not installed")
class Profiles(ServeCase):
    PATH = "/debug/pprof/heap"

    def setUp(self):
        super().setUp()
        [(self.pid, _)] = self.start(HELD, "threads", HAKMEM_PROF_RATE="65536")

    def test_profile(self):
        server = self.serve(self.pid)
        for path in (self.PATH, f"{self.PATH}?pid={self.pid}", f"{self.PATH}?seconds=1"):
            with server.get(path) as response:
                self.assertEqual(response.getheader("content-type"), "application/octet-stream")
                profile = gzip.decompress(response.read())
            for name in (b"inuse_space", b"alloc_objects", b"held (%d), hakmem " % self.pid):
                self.assertIn(name, profile, path)
        # Go's profiles differ alike: in what is shown unless one asks.
        with server.get("/debug/pprof/allocs") as response:
            self.assertNotEqual(gzip.decompress(response.read()), profile)
        self.assertIn(f'href="{self.PATH}?pid={self.pid}"', server.ask("/").text)

    def wait_for_children(self, server, waiting):
        """Until each of them has one. One that has an answer instead never gets one."""
        while len(server.children()) < len(waiting):
            ready, _, _ = select.select([connection.sock for connection in waiting], [], [], 0.01)
            for connection in waiting:
                if connection.sock in ready:
                    response = connection.getresponse()
                    self.fail(f"a profile of 3000 seconds has ended: {response.status} {response.read()!r}")

    def test_refusals(self):
        [(other, _)] = self.start(HELD, "fresh")
        server = self.serve(self.pid, other)
        for query, status, says in (
            ("", 400, "of which process?"),
            (f"?pid={os.getpid()}", 404, f"process {os.getpid()} is not served"),
            ("?pid=x", 400, "accepted: pid=NUMBER or name=PROGRAM, seconds=1..3600"),
            (f"?pid={self.pid}&seconds=0", 400, "seconds=1..3600"),
        ):
            response = server.ask(self.PATH + query)
            self.assertEqual((response.status, response.getheader("content-type")), (status, "text/plain; charset=utf-8"))
            self.assertIn(says, response.text)

    def test_others_are_answered_while_one_is_made(self):
        server = self.serve(self.pid)
        waiting = [server.connect() for _ in range(9)]
        for connection in waiting:
            self.addCleanup(connection.close)
            connection.request("GET", self.PATH + "?seconds=3000")
        # More than eight are not made at once; all others wait.
        ready, _, _ = select.select([connection.sock for connection in waiting], [], [], 30)
        self.assertEqual(len(ready), 1)
        refused = next(connection for connection in waiting if connection.sock in ready).getresponse()
        self.assertEqual((refused.status, refused.read()), (503, b"too many profiles at once\n"))
        self.assertEqual(server.ask("/metrics").status, 200)
        children = server.children()
        self.assertEqual(len(children), 8)
        self.assertEqual(server.end(), 0)
        self.assertEqual([child for child in children if os.path.exists(f"/proc/{child}")], [])

    def test_too_many_are_told_also_beside_a_process_without_hakmem(self):
        name = "held" + os.path.basename(self.directory)[-7:]
        program = self.copy(HELD, name)
        self.start(program, "threads")
        self.start(program, "small", preload=None)
        server = self.serve("--name", name)
        waiting = [server.connect() for _ in range(8)]
        for connection in waiting:
            self.addCleanup(connection.close)
            connection.request("GET", self.PATH + "?seconds=3000")
        self.wait_for_children(server, waiting)
        refused = server.ask(self.PATH)
        self.assertEqual((refused.status, refused.text), (503, "too many profiles at once\n"))

    def test_why_no_child_can_be_had_for_it(self):
        # Root may have any number of processes.
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        os.chmod(self.directory, 0o755)
        held, tool = self.copy(HELD, "held"), self.copy(TOOL, "hakmem")
        [(pid, _)] = self.start(held, "small", preload=self.copy(LIBRARY, "libhakmem.so"), options=nobody)
        alone = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))}
        server = self.serve(pid, tool=tool, options=nobody | alone)
        refused = server.ask(self.PATH)
        self.assertEqual((refused.status, refused.text), (503, f"no profile can be started: {os.strerror(errno.EAGAIN)}\n"))
        self.assertEqual(server.ask("/metrics").status, 200)

    def test_clients_that_have_gone_make_room(self):
        server = self.serve(self.pid)
        gone = [server.connect() for _ in range(8)]
        for connection in gone:
            connection.request("GET", self.PATH + "?seconds=3000")
        self.wait_for_children(server, gone)
        for connection in gone:
            connection.close()
        while server.children():
            time.sleep(0.1)
        with server.get(self.PATH) as response:
            self.assertEqual(response.status, 200)

    def test_process_that_ends_meanwhile(self):
        [(other, _)] = self.start(HELD, "threads")
        server = self.serve(self.pid, other)
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.request("GET", f"{self.PATH}?pid={other}&seconds=1")
        while not server.children():
            time.sleep(0.01)
        os.kill(other, signal.SIGKILL)
        response = connection.getresponse()
        self.assertEqual((response.status, response.read()), (503, b"process %d (held) has ended meanwhile\n" % other))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
