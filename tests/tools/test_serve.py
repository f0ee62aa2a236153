"""hakmem serve: figures of running processes over HTTP."""

import re
import socket
import threading
import time

import metrics
from common import *
from serving import ACCEPT, ServeCase
from test_stats import HELD, PARTS

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"


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
            (["--port=1"], "by their numbers or by --name=PROGRAM, or use --all"),
            (["1", "--name=x", "--port=1"], "by their numbers or by --name=PROGRAM, or use --all"),
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
