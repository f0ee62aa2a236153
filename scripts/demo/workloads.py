"""What the demo runs: each program once, with the same input every time."""

import dataclasses
import pathlib
import shutil
import socket
import subprocess
import time

import measure

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent.parent / "tests" / "programs" / "inputs"
LIBC = "libc.so.6"


@dataclasses.dataclass
class Workload:
    """A command, run in a folder of its own with the inputs in `data`."""

    title: str
    program: str  # looked for on measure.SEARCH_PATH
    arguments: list
    seconds: float  # a first guess, for the time left
    outputs: tuple = ()  # files compared, beside standard output
    env: dict = dataclasses.field(default_factory=dict)

    def missing(self):
        return [] if shutil.which(self.program, path=measure.SEARCH_PATH) else [self.program]

    def run(self, folder, data, library, session):
        command = [shutil.which(self.program, path=measure.SEARCH_PATH)]
        command += [part.format(data=data, here=HERE) for part in self.arguments]
        env = measure.environment(folder, library, self.env)
        return session.run(command, folder, env, library, self.outputs)


class Redis:
    """A server on the allocator, driven by redis-benchmark, which is on glibc on both sides. Debian links
    the server with jemalloc; for the glibc side libc itself is preloaded, which puts it first."""

    title = "redis-server, benchmark"
    program = "redis-check-rdb"  # the same file as redis-server, told apart by the name it is started with
    seconds = 6.0
    # 50 requests to a key: its random numbers hit every key, so the data are the same each time.
    load = ["-n", "400000", "-r", "8000", "-d", "200", "-c", "40", "-P", "16", "-t", "set,get,lpush,hset,sadd", "-q"]

    def missing(self):
        needs = [self.program, "redis-cli", "redis-benchmark"]
        return [name for name in needs if not shutil.which(name, path=measure.SEARCH_PATH)]

    @staticmethod
    def ask(port, *words):
        command = ["redis-cli", "-p", str(port), *words]
        done = subprocess.run(command, capture_output=True, env={"PATH": measure.SEARCH_PATH}, timeout=60)
        return done.stdout

    def run(self, folder, data, library, session):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        name = "redis-server"
        (folder / name).symlink_to(shutil.which(self.program, path=measure.SEARCH_PATH))
        command = [str(folder / name), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--enable-debug-command", "local"]
        env = measure.environment(folder, library or LIBC, {})
        with session.server(command, folder, env, library) as server:
            deadline = time.monotonic() + 20
            while self.ask(port, "ping").strip() != b"PONG":
                server.check_alive()
                if time.monotonic() > deadline:
                    raise measure.Failed("redis-server does not answer")
                time.sleep(0.02)
            server.check_alive()
            benchmark = ["redis-benchmark", "-p", str(port), *self.load]
            start = time.monotonic()
            done = session.helper(benchmark, folder)
            seconds = time.monotonic() - start
            if done.returncode:
                raise measure.Failed(f"redis-benchmark: {done.stderr.decode(errors='replace')[-300:]}")
            digest = self.ask(port, "debug", "digest") + self.ask(port, "dbsize")
            self.ask(port, "shutdown", "nosave")
            run = server.finish()
        return dataclasses.replace(run, seconds=seconds, digest=digest.decode().strip())


def all_workloads():
    return [
        Workload(
            "python3, JSON 32 MB", "python3", ["{here}/reserialise.py", "{data}/people.json"], 3.5, ("out.json",)
        ),
        # Without Python's own arenas every object is malloc's.
        Workload(
            "python3, PYTHONMALLOC=malloc",
            "python3",
            ["{here}/reserialise.py", "{data}/few_people.json"],
            2.0,
            ("out.json",),
            {"PYTHONMALLOC": "malloc"},
        ),
        Workload(
            "sqlite3, 10^6 rows",
            "sqlite3",
            [
                "rows.db",
                "PRAGMA cache_size = -200000; PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;",
                "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, grp INT, v INT)",
                ".import --csv {data}/rows.csv t",
                ".read {here}/query.sql",
            ],
            6.0,
            ("rows.db",),
        ),
        Redis(),
        Workload(
            "g++, a large C++ file",
            "g++",
            ["-std=c++17", "-O1", "-c", "{data}/large.cc", "-o", "out.o"],
            4.5,
            ("out.o",),
        ),
        Workload("perl, word pairs", "perl", ["{here}/words.pl", "{data}/lines.txt"], 2.5),
        Workload("ruby, JSON 10 MB", "ruby", ["{here}/people.rb", "{data}/few_people.json"], 1.5),
        Workload("lua, trees and strings", "lua5.4", ["{here}/trees.lua"], 2.5),
        Workload("sort, 600,000 lines", "sort", ["--parallel=2", "-S", "200M", "-k2,2", "-k1,1n", "{data}/lines.txt"], 2.0),
    ]


def make_inputs(data, session):
    for command in (
        ["python3", "-B", str(HERE / "make_input.py")],
        ["sh", "-c", f"python3 -B '{TESTS}/make_data.py' cxx 9 > large.cc"],
    ):
        done = session.helper(command, data)
        if done.returncode:
            raise measure.Failed(done.stderr.decode(errors="replace"))
