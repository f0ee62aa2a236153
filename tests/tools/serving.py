"""What the tests of hakmem serve share: a server, and requests to it."""

import contextlib
import glob
import http.client
import re
import socket
import time

import metrics
from common import *
from test_stats import StatsCase

TOKEN = "a token of some 30 characters"
# What Prometheus 2.42 sends.
ACCEPT = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
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
        return http.client.HTTPConnection(self.host, self.port, timeout=120)

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


class AllCase(StatsCase):
    def setUp(self):
        super().setUp()
        self.token = self.write("token", TOKEN + "\n", 0o600)

    def serve(self, *arguments, at=("--port=0",), **options):
        """With a deadline that a busy machine keeps, where none is given: 5 s for each process."""
        if not any(str(argument).startswith("--deadline") for argument in arguments):
            arguments = ("--deadline=20", *arguments)
        return Server(self, "--all", "--token-file", self.token, *arguments, at=at, **options)

    def ask(self, server, path, **headers):
        return server.ask(path, authorization="Bearer " + TOKEN, **headers)

    def families(self, server):
        response = self.ask(server, "/metrics", accept=ACCEPT)
        self.assertEqual(response.status, 200, response.text)
        return metrics.parse(response.text)

    def pids(self, families):
        return {int(labels["pid"]) for _, labels, _ in families["hakmem_resident_bytes"]["samples"]}

    def left_out(self, families):
        return metrics.values(families, "hakmem_processes_left_out", "reason")

    def wait(self, what, seconds=240):
        end = time.monotonic() + seconds
        while not (value := what()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        return value


__all__ = ["ACCEPT", "TOKEN", "AllCase", "ServeCase", "Server"]
