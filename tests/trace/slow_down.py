#!/usr/bin/env python3
"""How much recording slows programs down, and how large traces and the recorder get.

Usage: tests/trace/slow_down.py [--pairs N] [--hakmem build/standard/hakmem] [NAME...]

Each program runs on hakmem and, right after, recorded; ratios are taken within such a pair. CPU time is that of the
program and the recorder together. redis: time of redis-benchmark, CPU time of the server.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

SQL = """create table t(a integer primary key, b text, c real);
insert into t with recursive n(i) as (select 1 union all select i+1 from n where i<600000)
  select i, hex(randomblob(20)), i*1.5 from n;
create index tb on t(b);
select count(*), sum(length(b)) from t where b like 'A%';
select substr(b,1,2) k, count(*), avg(c) from t group by k order by 2 desc limit 3;
"""
PYTHON = """import json
d = [{'a': i, 'b': str(i) * 3, 'c': [str(j) for j in range(i % 20)]} for i in range(150000)]
e = json.loads(json.dumps(d)); print(len(e), len(set(map(str, e))))
"""
PORT = "7713"
LOAD = f"redis-benchmark -p {PORT} -n 60000 -q -t set,get,lpush,hset -d 100 -r 20000".split()


@dataclass
class Program:
    command: list
    stdin: str = ""
    env: dict = field(default_factory=dict)
    server: bool = False


PROGRAMS = {
    "sqlite3": Program(["sqlite3", ":memory:"], stdin=SQL),
    "python3": Program(["/usr/bin/python3", "-c", PYTHON]),
    "python3, PYTHONMALLOC=malloc": Program(["/usr/bin/python3", "-c", PYTHON], env={"PYTHONMALLOC": "malloc"}),
    "redis": Program(["redis-server", "--port", PORT, "--save", "", "--appendonly", "no"], server=True),
    "random_mixed": Program(["build/bench/random_mixed", "20000000", "400", "1"]),
}


def watch_peak(pid, peak):
    """The most resident KiB of a process so far, until it has ended."""
    while True:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                lines = [line for line in file if line.startswith("VmHWM:")]
        except OSError:
            return
        if not lines:
            return
        peak[0] = int(lines[0].split()[1])
        time.sleep(0.005)


def put_load(process):
    """Seconds that the benchmark takes on a server, which ends then."""
    ping = ["redis-cli", "-p", PORT, "ping"]
    while subprocess.run(ping, capture_output=True, check=False).stdout != b"PONG\n":
        if process.poll() is not None:
            sys.exit("the server ended before its load")
        time.sleep(0.05)
    start = time.monotonic()
    subprocess.run(LOAD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - start
    subprocess.run([*ping[:-1], "shutdown", "nosave"], capture_output=True, check=False)
    return seconds


def run(prefix, program, watch):
    """Seconds, CPU seconds, peak KiB of the process started, what it said."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(program.stdin.encode())
        given.seek(0)
        start = time.monotonic()
        process = subprocess.Popen(
            [*prefix, *program.command], env={**os.environ, **program.env}, stdin=given,
            stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
        peak = [0]
        if watch:
            threading.Thread(target=watch_peak, args=(process.pid, peak), daemon=True).start()
        loaded = put_load(process) if program.server else 0.0
        _, status, usage = os.wait4(process.pid, 0)
        seconds = loaded or time.monotonic() - start
        process.returncode = status
        said.seek(0)
        text = said.read().decode(errors="replace")
    if status != 0:
        sys.exit(f"{program.command[0]} failed:\n{text}")
    return seconds, usage.ru_utime + usage.ru_stime, peak[0], text


def ratio(plain, recorded):
    each = [b / a for a, b in zip(plain, recorded, strict=True)]
    return f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})"


def measure(name, program, hakmem, pairs, trace):
    plain, recorded, peak, events, size = [], [], 0, 0, 0
    for _ in range(pairs):
        plain.append(run([hakmem, "run", "--"], program, False)[:2])
        *times, kib, text = run([hakmem, "trace", "record", "-f", "-o", trace, "--"], program, True)
        recorded.append(times)
        peak = max(peak, kib)
        events = int(text.split(" events of ")[0].split()[-1])
        size = os.path.getsize(trace)
    wall, cpu = (ratio(a, b) for a, b in zip(zip(*plain), zip(*recorded), strict=True))  # fmt: skip
    seconds = statistics.median(time for time, _ in plain)
    print(f"| {name} | {seconds:.2f} s | {wall} | {cpu} | {events / 1e6:.2f} | {size / events:.1f} | "
          f"{peak / 1024:.1f} MiB |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--hakmem", default="build/standard/hakmem")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {'; '.join(PROGRAMS)}")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in PROGRAMS]
    if unknown or arguments.pairs < 1:
        parser.error(f"{unknown[0]}: unknown" if unknown else "--pairs: at least 1")
    print(f"| program | alone | wall, {arguments.pairs} pairs | CPU | million events | bytes an event | recorder |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="hakmem-trace-") as directory:
        for name in arguments.names or PROGRAMS:
            program = PROGRAMS[name]
            if shutil.which(program.command[0]) is None:
                print(f"{name}: {program.command[0]} is not there", file=sys.stderr)
                continue
            measure(name, program, arguments.hakmem, arguments.pairs, os.path.join(directory, "trace"))


if __name__ == "__main__":
    main()
