#!/usr/bin/env python3
"""What `hakmem serve --all` costs a machine and a process, with so many processes on hakmem.

Usage: bench/fleet.py [--processes 1,100,1000] [--scrapes 10] [--build build/standard]
Each process is a `sleep`, or what --command says; it begins when the first of them rests. Processor time is that of the server and its
children, per scrape. Memory is resident, of the child the most that was seen. Figures of the process are those of the first one, before and
after all scrapes. It ends with 1 where an answer has not all of them.
"""

import argparse
import glob
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TOKEN = "a token for this measurement"
INTERVAL = 15  # seconds between two scrapes, as contrib/prometheus/machines.yml has it


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def fields(pid):
    """Of /proc/PID/stat, behind the name."""
    return [int(word) for word in read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[1:]]


def processor(pid):
    return sum(fields(pid)[10:14]) / os.sysconf("SC_CLK_TCK")


def resident(pid, name="VmRSS"):
    found = re.search(name + r":\s+(\d+)", read(f"/proc/{pid}/status"))
    return int(found[1]) * 1024 if found else 0


def of_process(pid):
    """Page faults, processor time in ticks, resident memory."""
    stat = fields(pid)
    return stat[6], stat[10] + stat[11], resident(pid)


class Watch(threading.Thread):
    """The most that a child of the server has had, by looks."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.ended = pid, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.002):
            for child in read(f"/proc/{self.pid}/task/{self.pid}/children").split():
                try:
                    self.most = max(self.most, resident(child, "VmHWM"))
                except OSError:
                    pass


def measure(count, arguments, folder):
    tool = os.path.join(arguments.build, "hakmem")
    library = os.path.join(arguments.build, "libhakmem.so.0")
    token = os.path.join(folder, "token")
    with open(token, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(TOKEN)
    env = dict(os.environ, LD_PRELOAD=os.path.realpath(library))
    processes = [subprocess.Popen(shlex.split(arguments.command), env=env) for _ in range(count)]
    server = subprocess.Popen([tool, "serve", "--all", "--port=0", f"--most={count + 1000}", f"--deadline={arguments.deadline}", "--token-file", token],
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        address = server.stdout.readline().split()[-1]
        request = urllib.request.Request(address, headers={"Authorization": "Bearer " + TOKEN})

        def ask():
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.read().decode()

        def has_all(answer):
            return int(re.search(r"^hakmem_processes (\d+)", answer, re.MULTILINE)[1]) >= count

        before, earlier = of_process(processes[0].pid), None
        while before != earlier or not has_all(ask()):
            time.sleep(1)
            before, earlier = of_process(processes[0].pid), before
        watch = Watch(server.pid)
        watch.start()
        spent, times = processor(server.pid), []
        for _ in range(arguments.scrapes):
            started = time.monotonic()
            answer = ask()
            times.append(time.monotonic() - started)
            if not has_all(answer):
                sys.exit(f"fleet: an answer has not all {count} processes: a larger --deadline")
        spent = (processor(server.pid) - spent) / arguments.scrapes
        watch.ended.set()
        watch.join()
        after = of_process(processes[0].pid)
        series = sum(1 for line in answer.splitlines() if not line.startswith("#"))
        print(f"{count:9} {min(times):9.3f} {1000 * spent:12.1f} {100 * spent / INTERVAL:8.2f}% {resident(server.pid) / 2**20:8.1f} "
              f"{watch.most / 2**20:8.1f} {series:8} {len(answer) / 1024:8.0f}   {after[0] - before[0]}, {after[1] - before[1]}, {after[2] - before[2]}")  # fmt: skip
        sys.stdout.flush()
    finally:
        server.terminate()
        server.wait()
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,100,1000")
    parser.add_argument("--scrapes", type=int, default=10)
    parser.add_argument("--build", default="build/standard")
    parser.add_argument("--command", default="sleep 3600")
    parser.add_argument("--deadline", default="10")
    arguments = parser.parse_args()
    if not glob.glob(os.path.join(arguments.build, "hakmem")):
        sys.exit(f"fleet: no tool in {arguments.build}: make")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    print("processes    answer    processor   one in   server    child   series    bytes   one process: page faults,")
    print("                  s    ms/scrape     15 s      MiB      MiB               KiB   ticks, resident bytes more")
    with tempfile.TemporaryDirectory() as folder:
        for count in arguments.processes.split(","):
            measure(int(count), arguments, folder)


if __name__ == "__main__":
    main()
