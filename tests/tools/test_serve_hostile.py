"""hakmem serve --all among processes and clients that wish it ill."""

import os
import socket
import threading

from common import *
from serving import TOKEN, AllCase
from test_stats import HELD

LYING = os.environ.get("HAKMEM_TEST_LYING", "")

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


class Hostile(AllCase):
    def test_processes_that_lie(self):
        [(other, _)] = self.start(HELD, "small")
        for lie in ("slices", "units", "stacks", "name", "heaps", "bins"):
            self.start(LYING, lie, preload=None)
        server = self.serve()
        for _ in range(3):
            families = self.families(server)
            self.assertIn(other, self.pids(families))
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
        for _ in range(3):
            self.assertEqual(self.left_out(self.families(server))["late"], 1)
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


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
