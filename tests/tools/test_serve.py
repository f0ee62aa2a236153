"""hakmem serve: figures of running processes over HTTP."""

import contextlib
import errno
import glob
import gzip
import http.client
import re
import resource
import select
import socket
import threading
import time

import metrics
from common import *
from test_stats import HELD, PARTS, StatsCase

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
# What Prometheus 2.42 sends.
ACCEPT = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Server:
    """A hakmem serve that has said where it is."""

    def __init__(self, case, *arguments, at=("--port=0",), tool=TOOL, options=None):
        self.process = subprocess.Popen([tool, "serve", *at, *map(str, arguments)], env=environment(), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **(options or {}))  # fmt: skip
        case.addCleanup(self.close)
        self.line = self.process.stdout.readline()
        case.assertRegex(self.line, r"^serving .* at \S+\n$")
        self.address = self.line.split()[-1]
        found = re.fullmatch(r"http://(.*):(\d+)/metrics", self.address)
        self.host, self.port = (found[1].strip("[]"), int(found[2])) if found else (None, 0)

    def connect(self):
        if self.host is None:
            return UnixConnection(self.address.removeprefix("unix:"))
        return http.client.HTTPConnection(self.host, self.port, timeout=30)

    @contextlib.contextmanager
    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    def ask(self, path, method="GET", body=None, **headers):
        connection = self.connect()
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        response.text = response.read().decode(errors="replace")
        connection.close()
        return response

    def children(self):
        found = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[1] == str(self.process.pid):
                    found.append(int(path.split("/")[2]))
        return found

    def families(self):
        response = self.ask("/metrics", accept=ACCEPT)
        assert response.status == 200, response.text
        return metrics.parse(response.text)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class ServeCase(StatsCase):
    def serve(self, *arguments, **options):
        return Server(self, *arguments, **options)


class Answers(ServeCase):
    def test_openmetrics(self):
        [(pid, _)] = self.start(HELD, "threads")
        server = self.serve(pid)
        self.assertRegex(server.line, rf"^serving held \({pid}\) at http://127\.0\.0\.1:\d+/metrics\n$")
        response = server.ask("/metrics", accept=ACCEPT)
        self.assertEqual((response.status, response.getheader("content-type")), (200, OPEN))
        families = metrics.parse(response.text)
        total = families["hakmem_resident_bytes"]["samples"][0][2]
        parts = metrics.values(families, "hakmem_memory_bytes", "part")
        self.assertEqual(set(parts), set(PARTS))
        self.assertLessEqual(abs(sum(parts.values()) - total), total / 100)
        self.assertEqual(families["hakmem_processes"]["samples"][0][2], 1)

    def test_text_for_those_who_do_not_take_openmetrics(self):
        [(pid, _)] = self.start(HELD, "small")
        server = self.serve(pid)
        for accept in ("*/*", "text/html", "text/plain", "application/openmetrics-text;q=0, text/plain;q=1.0"):
            response = server.ask("/metrics", accept=accept)
            self.assertEqual((response.status, response.getheader("content-type")), (200, PLAIN), accept)
            types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", response.text, re.MULTILINE))
            self.assertEqual(types["hakmem_system_calls_total"], "counter")
            self.assertEqual(types["hakmem_info"], "gauge")
            # Each sample stands behind the line of its own name.
            name = ""
            for line in response.text.splitlines():
                if line.startswith("# TYPE "):
                    name = line.split()[2]
                elif not line.startswith("#"):
                    self.assertEqual(re.match(r"\w+", line)[0], name)

    def test_every_metric_is_documented(self):
        [(pid, _)] = self.start(HELD, "threads")
        there = set(re.findall(r"^# TYPE (\w+)", self.serve(pid).ask("/metrics").text, re.MULTILINE))
        with open(os.path.join(SOURCE, "docs/looking-inside.md"), encoding="utf-8") as file:
            rows = [line for line in file if line.startswith("| `hakmem_")]
        self.assertEqual({name for row in rows for name in re.findall(r"`(hakmem_\w+)", row.split("|")[1])}, there)

    def test_index_head_and_mistakes(self):
        [(pid, _)] = self.start(HELD, "small")
        server = self.serve(pid)
        index = server.ask("/")
        self.assertEqual((index.status, index.getheader("content-type")), (200, "text/html; charset=utf-8"))
        for link in re.findall(r'href="([^"]*)"', index.text):
            self.assertEqual(server.ask(link).status, 200, link)
        self.assertIn("/metrics", index.text)
        head = server.ask("/metrics", "HEAD")
        self.assertEqual((head.status, head.text, head.getheader("content-type")), (200, "", PLAIN))
        self.assertGreater(int(head.getheader("content-length")), 1000)
        for path in ("/metric", "/metrics/", "//metrics", "/debug", "/..%2f"):
            self.assertEqual(server.ask(path).status, 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            refused = server.ask("/metrics", method, body="x" * 100000)
            self.assertEqual((refused.status, refused.getheader("allow")), (405, "GET, HEAD"), method)
        self.assertEqual(server.ask("/metrics?x=1").status, 200)

    def test_many_at_once(self):
        [(pid, _)] = self.start(HELD, "churn")
        server = self.serve(pid)
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(server.ask("/metrics").status)) for _ in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * 32)

    def test_clients_that_do_not_read_or_ask(self):
        [(pid, _)] = self.start(HELD, "threads")
        server = self.serve(pid)
        deaf = [socket.create_connection((server.host, server.port)) for _ in range(8)]
        for i, client in enumerate(deaf):
            self.addCleanup(client.close)
            client.setblocking(False)
            try:  # as much as it takes: its answers fill what the kernel keeps
                for _ in range(200):
                    client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * i)
            except BlockingIOError:
                pass
        for _ in range(3):
            self.assertEqual(server.ask("/metrics").status, 200)
        self.assertEqual(server.end(), 0)

    def test_connection_that_is_kept(self):
        [(pid, _)] = self.start(HELD, "small")
        connection = self.serve(pid).connect()
        self.addCleanup(connection.close)
        for _ in range(5):
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            self.assertGreater(len(response.read()), 1000)
            self.assertIsNotNone(connection.sock)


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
        while len(server.children()) < 8:
            time.sleep(0.01)
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
        while len(server.children()) < 8:
            time.sleep(0.01)
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


class Places(ServeCase):
    def test_socket(self):
        path = self.path("metrics.sock")
        [(pid, _)] = self.start(HELD, "small")
        first = self.serve(pid, at=("--socket", path))
        self.assertEqual(first.address, "unix:" + path)
        self.assertIn("hakmem_resident_bytes", first.families())
        second = hakmem("serve", "--socket", path, str(pid))
        self.assert_code(second, 1)
        self.assertIn("Address already in use", second.err)
        self.assertEqual(first.ask("/").status, 200)
        first.close()  # killed: its socket stays
        self.assertTrue(os.path.exists(path))
        third = self.serve(pid, at=("--socket", path))
        self.assertEqual(third.ask("/metrics").status, 200)
        self.assertEqual(third.end(), 0)
        self.assertFalse(os.path.exists(path))

    def test_file_in_place_of_the_socket_stays(self):
        path = self.write("metrics.sock", "kept")
        [(pid, _)] = self.start(HELD, "small")
        self.assert_code(hakmem("serve", "--socket", path, str(pid)), 1)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "kept")

    def test_host_and_port(self):
        [(pid, _)] = self.start(HELD, "small")
        server = self.serve(pid, at=("--host=127.0.0.2", "--port", "0"))
        self.assertEqual(server.host, "127.0.0.2")
        self.assertEqual(server.ask("/metrics").status, 200)
        taken = hakmem("serve", "--host=127.0.0.2", f"--port={server.port}", str(pid))
        self.assert_code(taken, 1)
        self.assertIn("Address already in use", taken.err)

    def test_address_of_version_6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("no IPv6 here")
        [(pid, _)] = self.start(HELD, "small")
        server = self.serve(pid, at=("--host=::1", "--port=0"))
        self.assertTrue(server.address.startswith("http://[::1]:"), server.address)
        self.assertEqual(server.ask("/metrics").status, 200)

    def test_ends_cleanly(self):
        [(pid, _)] = self.start(HELD, "small")
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve(pid)
            idle = socket.create_connection((server.host, server.port))
            self.addCleanup(idle.close)
            self.assertEqual(server.end(number), 0)
            self.assertEqual(server.process.stderr.read(), "")

    def test_arguments(self):
        for arguments, says in (
            ([], "by --port=PORT or by --socket=PATH"),
            (["1"], "by --port=PORT or by --socket=PATH"),
            (["1", "--port=1", "--socket=x"], "by --port=PORT or by --socket=PATH"),
            (["1", "--host=::1", "--socket=x"], "--host goes with --port"),
            (["--port=1"], "by their numbers or by --name=PROGRAM, or take --all"),
            (["1", "--name=x", "--port=1"], "by their numbers or by --name=PROGRAM, or take --all"),
            (["1", "--port=65536"], "accepted: 0..65535"),
            (["1", "--port=-1"], "accepted: 0..65535"),
            (["1", "--port="], "accepted: 0..65535"),
            (["1x", "--port=0"], "is not the number of a process"),
        ):
            result = hakmem("serve", *arguments)
            self.assert_code(result, 2)
            self.assertIn(says, result.err)
        [(pid, _)] = self.start(HELD, "small")
        self.assert_code(hakmem("serve", str(pid), "--port=0", "--host=256.0.0.1"), 1)
        for arguments, says in ((["--socket=" + "x" * 200], "1 to 107 bytes"), (["--port=0", "--host=0.0.0.0"], "--allow-remote"),
                                (["--port=0", "--mode=600"], "--mode goes with --socket")):  # fmt: skip
            result = hakmem("serve", str(pid), *arguments)
            self.assert_code(result, 2)
            self.assertIn(says, result.err)


class Processes(ServeCase):
    def processes(self, families):
        return {labels["pid"] for _, labels, _ in families["hakmem_resident_bytes"]["samples"]}

    def test_several(self):
        [(first, _)] = self.start(HELD, "small")
        [(second, _)] = self.start(HELD, "threads")
        families = self.serve(first, second, first).families()
        self.assertEqual(families["hakmem_processes"]["samples"][0][2], 2)
        for family in families.values():
            if family["samples"] and "pid" in family["samples"][0][1]:
                self.assertEqual({labels["pid"] for _, labels, _ in family["samples"]}, {str(first), str(second)})

    def test_ends_with_the_last_process(self):
        [(first, _)] = self.start(HELD, "small")
        [(second, _)] = self.start(HELD, "small")
        server = self.serve(first, second)
        os.kill(first, signal.SIGKILL)
        while self.processes(server.families()) != {str(second)}:
            time.sleep(0.05)
        os.kill(second, signal.SIGKILL)
        self.assertEqual(server.process.wait(timeout=30), 1)
        said = server.process.stderr.read()
        for pid in (first, second):
            self.assertIn(f"process {pid} (held) has ended", said)

    def test_first_thread_that_ends_while_others_live(self):
        [(pid, _)] = self.start(HELD, "leave", HAKMEM_PROF_RATE="65536")
        server = self.serve(pid)
        self.assertEqual(self.processes(server.families()), {str(pid)})
        connection = server.connect()
        self.addCleanup(connection.close)
        if os.environ.get("HAKMEM_TEST_PPROF") == "1":
            connection.request("GET", "/debug/pprof/heap?seconds=2")
            while not server.children():
                time.sleep(0.01)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.readline().split()[:2], ["ready", str(pid)])
        time.sleep(2.5)  # it looks whether the process is there
        families = server.families()
        self.assertEqual(self.processes(families), {str(pid)})
        self.assertGreater(families["hakmem_in_use_bytes"]["samples"][0][2], 5 << 20)
        if os.environ.get("HAKMEM_TEST_PPROF") == "1":
            self.assertEqual(connection.getresponse().status, 200)
        self.assertIsNone(server.process.poll())

    def test_one_that_becomes_another_program(self):
        script = """if True:
            import os, sys
            print("ready", os.getpid(), 0, flush=True)
            sys.stdin.readline()
            os.execve("/bin/sleep", ["sleep", "60"], {})"""
        [(pid, _)] = self.start("/usr/bin/python3", "-c", script)
        server = self.serve(pid)
        self.assertEqual(server.ask("/metrics").status, 200)
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            while file.read() != "sleep\n":
                file.seek(0)
        self.addCleanup(self.process.kill)
        while "does not run on hakmem" not in (response := server.ask("/metrics")).text:
            time.sleep(0.05)
        self.assertEqual(response.status, 503)
        self.assertIsNone(server.process.poll())

    def test_by_name(self):
        name = "held" + os.path.basename(self.directory)[-7:]
        program = self.copy(HELD, name)
        server = self.serve("--name", name)
        self.assertIn("serving nobody so far at", server.line)
        families = server.families()
        self.assertEqual((self.processes(families), families["hakmem_processes"]["samples"][0][2]), (set(), 0))
        [(first, _)] = self.start(program, "small")
        [(second, _)] = self.start(program, "small")
        self.assertEqual(self.processes(server.families()), {str(first), str(second)})
        os.kill(first, signal.SIGKILL)
        while self.processes(server.families()) != {str(second)}:
            time.sleep(0.05)
        [(third, _)] = self.start(program, "small", preload=None)
        self.assertEqual(self.processes(server.families()), {str(second)})
        os.kill(second, signal.SIGKILL)
        while (response := server.ask("/metrics")).status == 200:
            time.sleep(0.05)
        self.assertEqual(response.status, 503)
        self.assertIn(f"process {third} ({name}) does not run on hakmem", response.text)
        self.assertEqual(server.end(), 0)

    def test_a_long_name_is_not_taken_for_another_that_begins_alike(self):
        beginning = "held-and-served" + os.path.basename(self.directory)[-7:]
        [(first, _)] = self.start(self.copy(HELD, beginning + "-one"), "small")
        self.start(self.copy(HELD, beginning + "-two"), "small")
        server = self.serve("--name", beginning + "-one")
        self.assertEqual(self.processes(server.families()), {str(first)})
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
