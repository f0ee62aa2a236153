"""hakmem serve --all: every process of the machine that is on hakmem, and who may ask."""

import os
import re
import resource
import socket
import stat
import threading
import time

import metrics
from common import *
from test_machine import ID
from test_serve import ACCEPT, Server
from test_stats import HELD, StatsCase

LYING = os.environ.get("HAKMEM_TEST_LYING", "")
TOKEN = "a token of some 30 characters"
MANY = 200

# A process whose tables are where nobody answers a page fault: a call of the kernel that reads them waits for ever.
HANGS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  free(malloc(100));
  char *directory = dlsym(RTLD_DEFAULT, "hakmem_directory"), *page = (char *)((unsigned long)directory & -4096ul);
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.range = {(unsigned long)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (directory == NULL || fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) {
    printf("cannot 0 0\n");
    fflush(stdout);
    return 0;
  }
  static char text[32];
  int length = snprintf(text, sizeof text, "ready %d 0\n", (int)getpid());
  if (mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page ||
      ioctl(fd, UFFDIO_REGISTER, &range) != 0)
    _exit(1);
  char end;
  if (write(1, text, (size_t)length) != length || read(0, &end, 1) < 0) _exit(1);
  _exit(0);
}
"""


class AllCase(StatsCase):
    def setUp(self):
        super().setUp()
        self.token = self.write("token", TOKEN + "\n", 0o600)

    def serve(self, *arguments, at=("--port=0",), **options):
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

    def wait(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not (value := what()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        return value


class All(AllCase):
    def test_all_are_found_anew_at_each_scrape(self):
        [(first, _)] = self.start(HELD, "small")
        server = self.serve()
        self.assertRegex(server.line, r"^serving all processes on hakmem at http://127\.0\.0\.1:\d+/metrics\n$")
        families = self.families(server)
        self.assertIn(first, self.pids(families))
        self.assertEqual(set(self.left_out(families)), {"late", "time", "number", "unreadable"})
        self.assertEqual(families["hakmem_class_bytes"]["samples"], [])
        [(second, _)] = self.start(HELD, "threads")
        self.start(HELD, "small", preload=None)
        self.wait(lambda: {first, second} <= self.pids(self.families(server)))
        self.process.kill()
        program = {labels["program"] for _, labels, _ in families["hakmem"]["samples"] if labels["pid"] == str(first)}
        self.assertEqual(program, {"held"})
        os.kill(second, signal.SIGKILL)
        self.wait(lambda: second not in self.pids(self.families(server)))
        self.assertEqual(server.end(), 0)
        self.assertEqual(server.process.stderr.read(), "")

    def test_one_that_becomes_another_program_and_back(self):
        script = """if True:
            import os, sys
            print("ready", os.getpid(), 0, flush=True)
            sys.stdin.readline()
            library = os.environ.pop("LD_PRELOAD", None)
            other = os.environ.pop("OTHER", None)
            if other:
                os.environ["LD_PRELOAD"] = other
            os.execve(sys.executable, [sys.executable, "-c", "import sys; sys.stdin.readline()"], os.environ)"""
        for preload, other, after in ((LIBRARY, None, False), (None, LIBRARY, True)):
            [(pid, _)] = self.start(sys.executable, "-c", script, preload=preload, OTHER=other)
            server = self.serve()
            self.wait(lambda: (pid in self.pids(self.families(server))) != after)
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            self.wait(lambda: (pid in self.pids(self.families(server))) == after)
            self.assertEqual(server.end(), 0)

    def test_classes_and_number(self):
        pids = {self.start(HELD, "small")[0][0] for _ in range(3)}
        families = self.families(self.serve("--classes"))
        self.assertLessEqual({str(pid) for pid in pids}, {labels["pid"] for _, labels, _ in families["hakmem_class_bytes"]["samples"]})
        families = self.families(self.serve("--most=2"))
        self.assertEqual(len(self.pids(families)), 2)
        self.assertGreater(self.left_out(families)["number"], 0)

    def test_no_time_is_said_and_all_have_their_turn(self):
        pids = {self.start(HELD, "threads")[0][0] for _ in range(8)}
        server = self.serve("--deadline=0.1")
        seen = set()

        def look():
            families = self.families(server)
            seen.update(self.pids(families))
            return pids <= seen

        self.wait(look)

    @unittest.skipIf(os.environ.get("HAKMEM_TEST_PPROF") != "1", "libprotobuf-c-dev, protobuf-c-compiler or zlib1g-dev is not installed")
    def test_profiles_by_number_and_name(self):
        name = "held" + os.path.basename(self.directory)[-7:]
        program = self.copy(HELD, name)
        [(pid, _)] = self.start(program, "threads", HAKMEM_PROF_RATE="65536")
        server = self.serve()
        for query in (f"?pid={pid}", f"?name={name}", f"?name={name}&seconds=1"):
            with self.subTest(query=query):
                response = self.ask(server, "/debug/pprof/heap" + query)
                self.assertEqual((response.status, response.getheader("content-type")), (200, "application/octet-stream"))
        [(other, _)] = self.start(program, "small")
        response = self.ask(server, f"/debug/pprof/heap?name={name}")
        self.assertEqual(response.status, 400)
        for words in (f"2 processes are called {name}: pid=NUMBER, of ", str(pid), str(other)):
            self.assertIn(words, response.text)
        for query, status in (("?pid=1", 404), ("?name=" + name + "x", 404), ("?name=", 400), ("?name=" + "x" * 300, 400), ("?pid=0", 400)):
            self.assertEqual(self.ask(server, "/debug/pprof/heap" + query).status, status, query)
        # Processes that are on no hakmem at all are not told of.
        other_server = self.serve()
        self.assertEqual(self.ask(other_server, f"/debug/pprof/heap?name={name}x").text, f"no process called {name}x is served\n")

    def test_containers_are_labels(self):
        top = next((d for d in ("/sys/fs/cgroup/name=systemd", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.access(d, os.W_OK)), None)
        pod = "12345678-9abc-def0-1234-56789abcdef0"
        outer = os.path.join(top or "", f"kubepods-pod{pod.replace('-', '_')}.slice")
        inner = os.path.join(outer, f"cri-containerd-{ID}.scope")
        [(pid, _)] = self.start(HELD, "fresh")
        try:
            os.makedirs(inner)
            with open(os.path.join(inner, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
        except OSError as error:
            self.skipTest(f"no cgroup can be made here: {error}")
        try:
            families = self.families(self.serve())
            labels = [labels for _, labels, _ in families["hakmem_resident_bytes"]["samples"] if labels["pid"] == str(pid)]
            self.assertEqual(labels, [{"pid": str(pid), "program": "held", "container_id": ID, "pod_uid": pod}])
        finally:
            self.process.stdin.close()
            self.process.wait(timeout=60)
            for path in (inner, outer):
                if os.path.isdir(path):
                    self.wait(lambda path=path: not os.path.isdir(path) or self.remove(path))

    @staticmethod
    def remove(path):
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True


class Limits(AllCase):
    def test_address_space(self):
        most = 1 << 30
        [(pid, _)] = self.start(HELD, "small", options={"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))})
        families = self.families(self.serve())

        def of(name):
            return {labels["limit"]: value for _, labels, value in families[name]["samples"] if labels["pid"] == str(pid)}

        self.assertEqual(of("hakmem_limit_bytes")["address_space"], most)
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        self.assertLess(abs(of("hakmem_limit_used_bytes")["address_space"] - size), 1 << 20)

    def test_container(self):
        top = next((d for d in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.isdir(d) and os.access(d, os.W_OK)), "")
        path = os.path.join(top, f"hakmem-{os.getpid()}")
        first = top.endswith("memory")
        most = 256 << 20
        [(pid, live)] = self.start("/bin/sh", "-c", f"read x; exec {HELD} small", lines=0) or [(0, 0)]
        pid = self.process.pid
        try:
            os.mkdir(path)
            with open(os.path.join(path, "memory.limit_in_bytes" if first else "memory.max"), "w", encoding="ascii") as file:
                file.write(str(most))
            with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
        except OSError as error:
            self.process.stdin.close()
            if os.path.isdir(path):
                os.rmdir(path)
            self.skipTest(f"no cgroup of memory can be made here: {error}")
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            _, pid, live = self.process.stdout.readline().split()
            families = self.families(self.serve())

            def of(name):
                return {labels["limit"]: value for _, labels, value in families[name]["samples"] if labels["pid"] == pid}

            self.assertEqual(of("hakmem_limit_bytes")["container"], most)
            used = of("hakmem_limit_used_bytes")["container"]
            self.assertTrue(int(live) < used < most, used)
        finally:
            self.process.stdin.close()
            self.process.wait(timeout=60)
            self.wait(lambda: All.remove(path))


class Access(AllCase):
    def test_without_the_token_nothing_is_told(self):
        server = self.serve()
        for path in ("/", "/metrics", "/debug/pprof/heap?pid=1", "/no-such-page"):
            for header in ({}, {"authorization": "Bearer x"}, {"authorization": "Bearer " + TOKEN + "x"}, {"authorization": "Bearer " + TOKEN[:-1]},
                           {"authorization": "Basic " + TOKEN}, {"authorization": TOKEN}, {"authorization": "Bearer"}, {"authorization": "Bearer "}):  # fmt: skip
                response = server.ask(path, **header)
                self.assertEqual((response.status, response.getheader("www-authenticate")), (401, "Bearer"), header)
                self.assertNotIn("hakmem_", response.text)
        self.assertEqual(self.ask(server, "/metrics").status, 200)
        self.assertEqual(server.ask("/metrics", authorization="bearer  " + TOKEN).status, 200)

    def test_token_that_changes(self):
        server = self.serve()
        self.assertEqual(self.ask(server, "/metrics").status, 200)
        self.write("token", "another one, as long as the first\n", 0o600)
        self.assertEqual(self.ask(server, "/metrics").status, 401)
        self.assertEqual(server.ask("/metrics", authorization="Bearer another one, as long as the first").status, 200)
        for content in ("", "\n", "short\n", "x" * 5000):
            self.write("token", content, 0o600)
            for told in (content.strip(), "", TOKEN):
                self.assertEqual(server.ask("/metrics", authorization="Bearer " + told[:4000]).status, 401, content[:10])
        os.unlink(self.token)
        self.assertEqual(self.ask(server, "/metrics").status, 401)
        self.write("token", TOKEN, 0o600)
        self.assertEqual(self.ask(server, "/metrics").status, 200)

    def test_token_that_others_may_read(self):
        nobody, others = os.geteuid() == 0 and 65534, "others than its owner may read it: chmod 600"
        server = self.serve()
        for owner, mode, granted in ((0, 0o644, False), (0, 0o640, True), (0, 0o400, True), (nobody, 0o640, False), (nobody, 0o600, True)):
            if owner is not False and os.geteuid() == 0:
                os.chown(self.token, owner, -1)
            elif mode & 0o77:  # it is our own
                granted = False
            os.chmod(self.token, mode)
            with self.subTest(owner=owner, mode=f"{mode:o}"):
                self.assertEqual(self.ask(server, "/metrics").status, 200 if granted else 401)
                if not granted:
                    refused = hakmem("serve", "--all", "--port=0", "--token-file", self.token)
                    self.assert_code(refused, 2)
                    self.assertIn(others, refused.err)
        self.assertEqual(server.end(), 0)
        self.assertIn(others, server.process.stderr.read())

    def test_refusals(self):
        short = self.write("short", "short\n", 0o600)
        for arguments, code, says in (
            (["--all", "--port=0"], 2, "--all at a port needs --token-file"),
            (["--all", "1", "--socket=x"], 2, "or take --all"),
            (["--all", "--name=x", "--socket=x"], 2, "or take --all"),
            (["1", "--port=0", "--allow-remote"], 2, "--allow-remote needs --token-file"),
            (["1", "--port=0", "--classes"], 2, "go with --all"),
            (["1", "--port=0", "--deadline=1"], 2, "go with --all"),
            (["--all", "--port=0", "--token-file", self.path("none")], 2, "No such file"),
            (["--all", "--port=0", "--token-file", short], 2, "its first line has 5 bytes"),
            (["--all", "--port=0", "--mode=660", "--token-file", self.token], 2, "--mode goes with --socket"),
            (["--all", "--port=0", "--mode=600", "--token-file", self.token], 2, "--mode goes with --socket"),
            (["--all", "--socket=" + "x" * 200], 2, "1 to 107 bytes"),
            (["--all", "--socket=x", "--mode=8"], 2, "octal"),
            (["--all", "--socket=x", "--mode=7777"], 2, "octal"),
            (["--all", "--socket=x", "--most=0"], 2, "1..100000"),
            (["--all", "--socket=x", "--deadline=0"], 2, "0.1..60"),
            (["--all", "--socket=x", "--deadline=nan"], 2, "0.1..60"),
            (["--all", "--port=0", "--host=0.0.0.0", "--token-file", self.token], 2, "--allow-remote"),
            (["--all", "--port=0", "--host=::", "--token-file", self.token], 2, "--allow-remote"),
        ):
            with self.subTest(arguments=arguments):
                result = hakmem("serve", *arguments)
                self.assert_code(result, code)
                self.assertIn(says, result.err)

    def test_remote_where_it_is_allowed(self):
        server = self.serve(at=("--host=0.0.0.0", "--port=0", "--allow-remote"))
        server.host = "127.0.0.1"
        self.assertEqual(server.ask("/metrics").status, 401)
        self.assertEqual(self.ask(server, "/metrics").status, 200)

    def test_socket_has_its_mode_and_needs_no_token(self):
        for mode in (None, 0o660, 0o600):
            path = self.path(f"socket-{mode}")
            more = () if mode is None else (f"--mode={mode:o}",)
            server = Server(self, "--all", *more, at=("--socket", path))
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode or 0o600)
            self.assertEqual(server.ask("/metrics").status, 200)
            self.assertEqual(server.end(), 0)


class Hostile(AllCase):
    def test_processes_that_lie(self):
        [(other, _)] = self.start(HELD, "small")
        for lie in ("slices", "units", "stacks", "name", "heaps", "bins"):
            self.start(LYING, lie, preload=None)
        server = self.serve()
        for _ in range(3):
            started = time.monotonic()
            families = self.families(server)
            self.assertIn(other, self.pids(families))
            self.assertLess(time.monotonic() - started, 20)
        self.assertGreater(self.left_out(families)["unreadable"] + self.left_out(families)["late"], 0)
        self.assertNotIn("\033", self.ask(server, "/metrics").text)

    def test_process_that_is_stopped(self):
        [(pid, _)] = self.start(HELD, "small")
        os.kill(pid, signal.SIGSTOP)
        self.assertIn(pid, self.pids(self.families(self.serve())))

    def test_process_that_lets_its_reader_hang(self):
        [(other, _)] = self.start(HELD, "small")
        program = self.build("hangs", HANGS, "-ldl")
        env = environment(LD_PRELOAD=LIBRARY, HAKMEM_BACKGROUND="0")
        hangs = subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, hangs)
        if hangs.stdout.readline().split()[0] != "ready":
            self.skipTest("userfaultfd is not allowed here")
        server = self.serve()
        families = self.families(server)
        self.assertIn(other, self.pids(families))
        self.assertNotIn(hangs.pid, self.pids(families))
        self.assertEqual(self.left_out(families)["late"], 1)
        # From then on it is let alone.
        started = time.monotonic()
        for _ in range(3):
            self.assertEqual(self.left_out(self.families(server))["late"], 1)
        self.assertLess(time.monotonic() - started, 10)
        self.assertEqual(server.children(), [])

    def test_processes_that_come_and_go(self):
        [(other, _)] = self.start(HELD, "small")
        server = self.serve()
        stop = threading.Event()

        def storm():
            while not stop.is_set():
                subprocess.run([os.environ["HAKMEM_TEST_SUBJECT"]], env=environment(LD_PRELOAD=LIBRARY), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)  # fmt: skip

        threads = [threading.Thread(target=storm) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                self.assertIn(other, self.pids(self.families(server)))
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def test_clients_that_are_many_and_silent(self):
        server = self.serve()
        silent = []
        for i in range(150):
            client = socket.create_connection((server.host, server.port))
            self.addCleanup(client.close)
            silent.append(client)
            if i % 10 == 0:
                self.assertEqual(self.ask(server, "/metrics").status, 200)

    def test_clients_that_ask_and_do_not_read(self):
        server = self.serve("--classes")
        for _ in range(3):
            self.start(HELD, "threads")
        for i in range(40):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((server.host, server.port))
            self.addCleanup(client.close)
            client.sendall(f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            if i % 8 == 0:
                self.assertEqual(self.ask(server, "/metrics").status, 200)

    def test_broken_requests(self):
        server = self.serve()
        for text in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 100000, b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", b"\x16\x03\x01\x02\x00\x01\x00",
                     b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"\xff" * 5000 + b"\r\n\r\n"):  # fmt: skip
            with socket.create_connection((server.host, server.port), timeout=30) as client:
                try:
                    client.sendall(text)
                    client.settimeout(0.5)  # some are waited for: there could come more
                    while client.recv(65536):
                        pass
                except OSError:
                    pass
            self.assertEqual(self.ask(server, "/metrics").status, 200, text[:50])

    def test_clients_of_one_page_share_it(self):
        [(pid, _)] = self.start(HELD, "threads")
        server = self.serve()
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(self.ask(server, "/metrics").status)) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * 40)
        self.assertIn(pid, self.pids(self.families(server)))


class Cost(AllCase):
    def cpu(self, pid):
        """Of the process and its children that have ended, in seconds."""
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15])) / os.sysconf("SC_CLK_TCK")

    def test_two_hundred_processes(self):
        sleepers = [subprocess.Popen(["/bin/sleep", "600"], env=environment(LD_PRELOAD=LIBRARY)) for _ in range(MANY)]
        try:
            server = self.serve()
            pids = {process.pid for process in sleepers}
            self.wait(lambda: pids <= self.pids(self.families(server)))
            times, before = [], self.cpu(server.process.pid)
            for _ in range(5):
                started = time.monotonic()
                response = self.ask(server, "/metrics", accept=ACCEPT)
                times.append(time.monotonic() - started)
                self.assertLessEqual({f'"{pid}"' for pid in pids}, set(re.findall(r'hakmem_resident_bytes\{pid=("\d+")', response.text)))
            spent = (self.cpu(server.process.pid) - before) / 5
            memory = resource_of(server.process.pid)
            print(f"{MANY} processes: {min(times):.3f} to {max(times):.3f} s, {spent:.3f} s of a processor, {memory >> 20} MiB with its child")
            self.assertLess(min(times), 1)
            self.assertLess(spent, 0.01 * 15 * 2)  # tests run beside it: twice the bar
            self.assertLess(memory, 50 << 20)
        finally:
            for process in sleepers:
                process.kill()
            for process in sleepers:
                process.wait()


def resource_of(pid):
    """The most that the server and one child of it ever had: that of a child is inherited by what it was forked from."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return 2 * int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
