"""Replays: bench/replay does what the plan says, notices broken allocators, and the command."""

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import htrace_writer as writer
import pytest
from conftest import LAB, PEAK_SLACK_KB, WARNINGS, compile_c
from htrace_writer import (
    ALIGNED,
    CALLOC,
    FREE,
    MALLOC,
    REALLOC_OF,
    REALLOC_TO,
    THREAD_END,
    TOUCHED,
    Event,
    write_trace,
)
from trace_programs import NANOSECONDS, make_program

from hakmem_lab.base.paths import Paths
from hakmem_lab.run.results import read_result
from hakmem_lab.trace.htrace import read_trace
from hakmem_lab.trace.match import match
from hakmem_lab.trace.replay_plan import make_plan

pytestmark = pytest.mark.slow
BENCH = LAB.parent / "bench"
MIB = 1 << 20

# Writes on stderr at the end what was called: operation, size, alignment, thread (from 0, as
# they come).
TATTLE = """
    #define _GNU_SOURCE
    #include <errno.h>
    #include <malloc.h>
    #include <stdatomic.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>
    void *__libc_malloc(size_t size);
    void *__libc_calloc(size_t count, size_t size);
    void *__libc_memalign(size_t alignment, size_t size);
    void *__libc_realloc(void *block, size_t size);
    void __libc_free(void *block);
    #define LEAST 100000
    #define MOST 10000
    static struct { char operation; size_t size, alignment; int thread; } calls[MOST];
    static atomic_int count, threads;
    static _Thread_local int thread = -1;
    static void tell(char operation, size_t size, size_t alignment) {
      if (size < LEAST) return;
      if (thread < 0) thread = threads++;
      int at = count++;
      if (at >= MOST) return;
      calls[at].operation = operation;
      calls[at].size = size;
      calls[at].alignment = alignment;
      calls[at].thread = thread;
    }
    void *malloc(size_t size) { tell('m', size, 0); return __libc_malloc(size); }
    void *calloc(size_t n, size_t size) { tell('c', n * size, 0); return __libc_calloc(n, size); }
    int posix_memalign(void **block, size_t alignment, size_t size) {
      tell('a', size, alignment);
      *block = __libc_memalign(alignment, size);
      return *block ? 0 : ENOMEM;
    }
    void *realloc(void *old, size_t size) {
      tell('r', size, 0);
      return __libc_realloc(old, size);
    }
    void free(void *block) {
      if (block != NULL) tell('f', malloc_usable_size(block), 0);
      __libc_free(block);
    }
    __attribute__((destructor)) static void print(void) {
      char line[100];
      for (int i = 0; i < count; i++) {
        int length = snprintf(line, sizeof line, "%c %zu %zu %d\\n", calls[i].operation,
                              calls[i].size, calls[i].alignment, calls[i].thread);
        if (write(2, line, (size_t)length) < 0) return;
      }
    }
"""

# Does one thing wrong, of the blocks that only a plan has.
BROKEN = """
    #include <errno.h>
    #include <stdlib.h>
    #include <string.h>
    void *__libc_malloc(size_t size);
    void *__libc_memalign(size_t alignment, size_t size);
    #define SIZE 4000
    static char twice[2 * SIZE];
    static char is(const char *what) {
      const char *set = getenv("BROKEN");
      return set && !strcmp(set, what);
    }
    void *malloc(size_t size) {
      static unsigned turn;
      if (size == SIZE && is("malloc")) return twice + turn++ % 2 * 4;
      return size == SIZE && is("memory") ? NULL : __libc_malloc(size);
    }
    void free(void *block) { (void)block; }
    void *calloc(size_t count, size_t size) {
      char *block = __libc_malloc(count * size);
      memset(block, 0, count * size);
      if (size == SIZE && is("calloc")) block[0] = 1;
      return block;
    }
    int posix_memalign(void **block, size_t alignment, size_t size) {
      *block = (char *)__libc_memalign(alignment, size + 8) + (is("alignment") ? 8 : 0);
      return 0;
    }
    void *realloc(void *old, size_t size) {
      char *block = calloc(1, size);
      if (old && !is("realloc")) memcpy(block, old, size < SIZE ? size : SIZE);
      return block;
    }
"""


@pytest.fixture(scope="session")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bench/replay as `make bench-build` makes it, and the libraries above beside it."""
    directory = tmp_path_factory.mktemp("replay")
    sources = [str(BENCH / "replay.c"), str(BENCH / "allocator.c")]
    program = directory / "replay"
    done = subprocess.run(
        ["cc", *WARNINGS, "-O2", *sources, "-pthread", "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    flags = ["-shared", "-fPIC", "-fno-builtin", "-ftls-model=initial-exec"]
    compile_c(TATTLE, directory / "libtattle.so", *flags)
    compile_c(BROKEN, directory / "libbroken.so", *flags)
    return program


Play = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def play(replay: Path, tmp_path: Path) -> Play:
    """Plans a trace and replays it, preloading a library of those above, or a path."""

    def run(
        events: dict[int, list[Event]], library: str = "", *words: str, window: int = 64, **env: str
    ) -> subprocess.CompletedProcess[str]:
        trace = read_trace(write_trace(tmp_path / "t", events, information=NANOSECONDS))
        make_plan(match(trace), window).write(tmp_path / "plan")
        if library and "/" not in library:
            library = str(replay.parent / f"lib{library}.so")
        return subprocess.run(
            [str(replay), str(tmp_path / "plan"), *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"LD_PRELOAD": library, **env} if library else env,
        )

    return run


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"Throughput = [1-9]\d* ops/s", done.stdout.splitlines()[-1]), done.stdout
    return done.stdout


def figure(text: str, name: str) -> str:
    found = re.search(rf"{name}=(\w+)", text)
    assert found is not None, text
    return found.group(1)


@pytest.mark.parametrize("seed", range(8))
def test_programs(play: Play, seed: int, hakmem_library: str) -> None:
    """Every block is where it has to be and holds what it has to, in any order that the threads
    happen to run; the checksum says that the same blocks were given up."""
    events = make_program(seed, threads=1 + seed, events=3000).events
    sums = set()
    for library in ("", hakmem_library):
        for window in (1, 64, 100_000):
            text = good(play(events, library, window=window))
            assert ("(preloaded)" in text) == bool(library)
            sums.add((window, figure(text, "checksum")))
        sums.add((64, figure(good(play(events, library, "--dry")), "checksum")))
    assert len(sums) == 3, sums


@pytest.fixture(scope="session")
def hakmem_library() -> str:
    """The library under test, where it is built; else this process's libc once more."""
    import os

    library = Path(
        os.environ.get("HAKMEM_TEST_LIBRARY", LAB.parent / "build/standard/libhakmem.so")
    )
    if not library.is_file():
        pytest.skip(f"{library} is not built")
    return str(library)


def test_the_calls_are_those_of_the_recording(play: Play) -> None:
    """Each thread's calls in its order, with sizes and alignments; threads are different ones."""
    events: dict[int, list[Event]] = {
        0: [(1, MALLOC, MIB, 200_000), (4, REALLOC_OF, MIB, 0), (5, REALLOC_TO, MIB, 300_000),
            (6, writer.FAILED, 0, 1 << 60), (7, CALLOC, 2 * MIB, 400_000)],
        1: [(2, ALIGNED, 4 * MIB, 500_000, 12), (8, FREE, 2 * MIB, 0), (9, THREAD_END, 0, 0)],
        2: [(3, MALLOC, 8 * MIB, 600_000), (10, FREE, 4 * MIB, 0), (11, FREE, MIB, 0)],
    }  # fmt: skip
    done = play(events, "tattle")
    good(done)
    calls: dict[int, list[tuple[str, int]]] = {}
    for line in done.stderr.splitlines():
        operation, size, alignment, thread = line.split()
        kept = (int(size) // 100_000) * 100_000  # usable sizes are a little larger
        calls.setdefault(int(thread), []).append((operation, kept))
        assert alignment == ("4096" if operation == "a" else "0")
    assert sorted(calls.values()) == sorted(
        [
            [("m", 200_000), ("r", 300_000), ("c", 400_000)],
            [("a", 500_000), ("f", 400_000)],
            [("m", 600_000), ("f", 500_000), ("f", 300_000)],
        ]
    )
    assert len(play(events, "tattle", "--dry").stderr) == 0


def peak_kb(done: subprocess.CompletedProcess[str]) -> int:
    return int(figure(good(done), "peak_rss_kb"))


def near(kib: int) -> object:
    """The kernel counts pages in batches."""
    return pytest.approx(kib, abs=PEAK_SLACK_KB)


def test_touched_pages_are_resident(play: Play) -> None:
    """As many as the recording touched: of large blocks those that it says, all of small ones, and
    of calloc's too."""
    large: list[Event] = [(1, MALLOC, MIB, 64 * MIB), (2, TOUCHED, MIB, 4096), (3, FREE, MIB, 0)]
    none: list[Event] = [(1, MALLOC, MIB, 64 * MIB), (2, TOUCHED, MIB, 0), (3, FREE, MIB, 0)]
    base = peak_kb(play({0: none}))
    assert peak_kb(play({0: large})) - base == near(16 * 1024)
    kept = [(1, MALLOC, MIB, 64 * MIB)]
    assert peak_kb(play({0: kept})) - base == near(64 * 1024)
    zeroed = [(1, CALLOC, MIB, 64 * MIB), *large[1:]]
    assert peak_kb(play({0: zeroed})) - base == near(16 * 1024)
    small = [(at, MALLOC, at * MIB, 60_000) for at in range(1, 1001)]
    assert peak_kb(play({0: small})) - base == near(60_016 * 1000 // 1024)
    grown = [(1, MALLOC, MIB, 32 * MIB), (2, REALLOC_OF, MIB, 0), (3, REALLOC_TO, MIB, 64 * MIB)]
    assert peak_kb(play({0: grown})) - base == near(64 * 1024)
    assert peak_kb(play({0: large}, "", "--dry")) <= base + PEAK_SLACK_KB


@pytest.mark.parametrize(
    "what, words",
    [
        ("malloc", "the block of 4000 bytes in slot 0 does not hold what was written into it"),
        ("memory", "out of memory: no block of 4000 bytes"),
        ("calloc", "in slot 2 is from calloc and not 0"),
        ("alignment", "in slot 3 is not aligned"),
        ("realloc", "lost its content in realloc"),
    ],
)
def test_broken_allocators(play: Play, what: str, words: str) -> None:
    events: dict[int, list[Event]] = {
        0: [(1, MALLOC, 1 << 12, 4000), (2, MALLOC, 2 << 12, 4000), (3, CALLOC, 3 << 12, 4000),
            (4, ALIGNED, 4 << 12, 4000, 6), (5, REALLOC_OF, 3 << 12, 0),
            (6, REALLOC_TO, 5 << 12, 5000), (7, FREE, 1 << 12, 0), (8, FREE, 2 << 12, 0)]
    }  # fmt: skip
    good(play(events, "broken"))
    done = play(events, "broken", BROKEN=what)
    assert done.returncode == 1, done.stdout + done.stderr
    assert words in done.stderr and len(done.stderr.splitlines()) == 1


def test_many_threads_come_and_go(play: Play, hakmem_library: str) -> None:
    """A thousand, a few at a time; each leaves a block to the next one."""
    events: dict[int, list[Event]] = {0: [(1, MALLOC, MIB, 100)]}
    for thread in range(1, 1001):
        at = thread * 10
        events[thread] = [
            (at, MALLOC, (thread + 1) * MIB, 100),
            (at + 1, FREE, thread * MIB, 0),
            (at + 2, THREAD_END, 0, 0),
        ]
    for library in ("", hakmem_library):
        for window in (1, 30, 10_000):
            good(play(events, library, window=window))


def test_empty_blocks(play: Play) -> None:
    events: dict[int, list[Event]] = {
        0: [(1, MALLOC, 4096, 0), (2, CALLOC, 8192, 0), (3, ALIGNED, 12288, 0, 4),
            (4, REALLOC_OF, 4096, 0), (5, REALLOC_TO, 4096, 0), (6, FREE, 4096, 0),
            (7, FREE, 8192, 0), (8, FREE, 12288, 0), (9, MALLOC, 4096, 7), (10, FREE, 4096, 0)]
    }  # fmt: skip
    for library in ("", "broken"):
        good(play(events, library))


def test_wrong_plans(play: Play, replay: Path, tmp_path: Path) -> None:
    good(play(make_program(1).events))
    content = (tmp_path / "plan").read_bytes()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(replay), *words], capture_output=True, text=True, timeout=60, check=False
        )

    for changed, words in (
        (b"", "damaged plan: it is cut off"),
        (content[:100], "damaged plan: its size is not what it says"),
        (content[:-16], "damaged plan: its size is not what it says"),
        (b"X" + content[1:], "not a plan; hakmem-lab replay makes one"),
        (content[:8] + b"\1" + content[9:], "damaged plan: page size"),
        (content[:12] + bytes(4) + content[16:], "damaged plan"),
        (content[:-16] + b"\xff" * 16, "damaged plan: operations"),
        (content[:-16] + b"\1" + b"\xff" * 15, "damaged plan: slots"),
        (content[:-16] + b"\7" + b"\0" * 7 + b"\xff" * 8, "damaged plan: threads"),
        (content[:-16] + b"\x08" + b"\0" * 15, "damaged plan: windows out of order"),
    ):
        (tmp_path / "plan").write_bytes(changed)
        done = run(str(tmp_path / "plan"))
        assert (done.returncode, done.stdout) == (2, ""), changed[:20]
        assert words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    for arguments, words in (
        ([], "0 arguments given, 1 to 2 accepted"),
        (["a", "b", "c"], "3 arguments given"),
        (["a", "--wet"], "unknown: '--wet'; accepted: --dry"),
        ([str(tmp_path / "absent")], "No such file"),
    ):
        done = run(*arguments)
        assert done.returncode == 2 and words in done.stderr
    assert run("--help").stdout.startswith("usage: replay PLAN [--dry]")
    assert run("--version").stdout.startswith("allocator: ")


# --- the command ---------------------------------------------------------------------------------


def lab(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = "from hakmem_lab.start import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def ready(repository: Paths, replay: Path) -> Paths:
    (repository.bench / "replay").symlink_to(replay)
    # One that threads may use; it says nothing about small blocks.
    repository.hakmem.unlink()
    repository.hakmem.symlink_to(replay.parent / "libtattle.so")
    return repository


def test_command(ready: Paths, tmp_path: Path) -> None:
    program = make_program(3, threads=3)
    trace = program.write(tmp_path / "app.htrace")
    kept = tmp_path / "result.json"
    done = lab("replay", trace, "--root", ready.root, "--rounds", "3", "-o", kept)
    assert done.returncode == 0, done.stderr
    result = read_result(kept)
    (row,) = result.rows
    assert (result.kind, row.name, row.measure) == ("replay", "app", "throughput")
    assert len(row.good_runs("glibc")) == len(row.good_runs("hakmem")) == 3
    assert row.failure("broken") == "SIGABRT: broken: no malloc today"
    settings = result.settings
    assert settings["calls"] == len(program.pairs) + sum(
        event[1] == FREE for own in program.events.values() for event in own
    )
    assert settings["peak_live_kb"] == program.most_bytes // 1024
    assert len(settings["dry"]["ns"]) == 3 and settings["threads"] == 3
    for words in (
        "app replayed",
        "time / glibc",
        "without the replay's own",
        "(3 runs without calls)",
        "app on broken",
    ):
        assert words in done.stdout
    assert r"\n" not in done.stdout  # a line's end that was printed as an escape
    # The table's memory is without the replay's own.
    own = statistics.median(settings["dry"]["peak_rss_kb"])
    peak = statistics.median(run.peak_rss_kb for run in row.good_runs("glibc"))
    (line,) = (
        line for line in done.stdout.splitlines() if re.match(r"^ ?glibc +[\d. ]+ 1.00", line)
    )
    assert f" {peak / 1024:.1f} " in line and f" {max(0, peak - own) / 1024:.1f} " in line
    shown = lab("show", kept)
    assert done.stdout.strip() == f"{shown.stdout.strip()}\nresult: {kept}"
    # The plan went to a directory that is gone.
    assert not Path(row.command[1]).exists()


def test_plan_is_kept(ready: Paths, tmp_path: Path, replay: Path) -> None:
    trace = make_program(5).write(tmp_path / "app.htrace")
    plan = tmp_path / "kept.plan"
    words: list[str | Path] = [
        "--root",
        ready.root,
        "--rounds",
        "1",
        "--allocators",
        "glibc",
        "--plan",
        plan,
    ]
    done = lab("replay", trace, *words)
    assert done.returncode == 0, done.stderr
    again = subprocess.run([str(replay), str(plan)], capture_output=True, text=True, check=True)
    assert again.stdout.splitlines()[-1].startswith("Throughput = ")


def test_damage_is_said(ready: Paths, tmp_path: Path) -> None:
    trace = make_program(5).write(tmp_path / "app.htrace", size=50)
    content = bytearray(trace.read_bytes())
    content[len(content) // 2] ^= 1
    trace.write_bytes(content)
    for command in (["trace-info"], ["replay", "--root", ready.root, "--rounds", "1"]):
        done = lab(*command, trace)
        assert done.returncode == 2 and done.stdout == ""
        assert re.search(r"hakmem-lab: .*: offset \d+: .* events of .*--damaged", done.stderr)
        done = lab(*command, trace, "--damaged")
        assert done.returncode == 0, done.stderr
        assert re.search(r"warning: .*: offset \d+: ", done.stdout + done.stderr)


def test_first_events(ready: Paths, tmp_path: Path) -> None:
    trace = make_program(5).write(tmp_path / "app.htrace", size=50)
    total = len(read_trace(trace).stamp)
    for command in (["trace-info"], ["replay", "--root", ready.root, "--rounds", "1"]):
        done = lab(*command, trace, "--events", "100")
        assert done.returncode == 0, done.stderr
        said = done.stdout if command == ["trace-info"] else done.stderr
        assert re.search(rf"warning: .*: the first \d+ of {total} events are used", said)
    done = lab("trace-info", trace, "--events", "100", "--json")
    assert "warning: " in done.stderr and json.loads(done.stdout)["events"]["total"] < total


def test_mistakes(repository: Paths, tmp_path: Path) -> None:
    trace = make_program(5).write(tmp_path / "app.htrace")
    done = lab("replay", trace, "--root", repository.root)
    assert (
        done.returncode == 2
        and "build/bench/replay is not built: run make bench-build" in done.stderr
    )
    for words in (("trace-info", tmp_path / "absent"), ("trace-info", LAB / "README.md")):
        done = lab(*words)
        assert done.returncode == 2 and done.stderr.startswith("hakmem-lab: "), done.stderr


def test_commands_that_cannot_be_printed(tmp_path: Path) -> None:
    """A name that is no UTF-8, and a script of several lines."""
    information = {"command": ["a\udcff", "one\ntwo"], "machine": "m\udc80", "started": "s\udc80"}
    trace = make_program(5).write(tmp_path / "app.htrace", information=information)
    done = lab("trace-info", trace)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{trace}: 'a\\udcff' 'one ..."
    assert json.loads(lab("trace-info", trace, "--json").stdout)["information"] == information


def test_info_as_json(tmp_path: Path) -> None:
    trace = make_program(5).write(tmp_path / "app.htrace")
    figures = json.loads(lab("trace-info", trace, "--json").stdout)
    assert figures["events"]["total"] == len(read_trace(trace).stamp)
    text = lab("trace-info", trace).stdout
    for words in (
        "Peaks",
        "Sizes",
        "Lifetimes",
        "Handed to another thread",
        "Alignments",
        "realloc",
    ):
        assert words in text
