"""Small programs and allocators to measure, and a repository made of them."""

import ctypes
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Refuse, inside, words_of

from hakmem_lab.analysis import statistics
from hakmem_lab.base.paths import Paths, available_cpus
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher
from hakmem_lab.run.rows import Row

pytest_plugins = ("scorecard_samples",)
LAB = Path(__file__).resolve().parent.parent
# Tests measure nothing that counts: little is touched before each run.
os.environ["HAKMEM_LAB_WARM_MIB"] = "8"
# What a user's shell or a CI says about colours, widths and allocators is not for the tests.
OF_THE_USER = re.compile(
    r"FORCE_COLOR|NO_COLOR|TTY_(COMPATIBLE|INTERACTIVE)|COLUMNS|LINES|LD_PRELOAD|GLIBC_TUNABLES"
    r"|(MALLOC|MIMALLOC)_.*|HAKMEM_(?!TEST_|LAB_).*"
)
# Peaks of memory are in pages that were touched, also where the kernel would make them huge.
PR_SET_THP_DISABLE = 41  # linux/prctl.h; handed down to everything that is started
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
PAGE = os.sysconf("SC_PAGE_SIZE")
# What peaks may be off by, in KiB: the kernel counts pages of two kinds in a batch a CPU, which
# since Linux 6.2 grows with the number of CPUs; four CPUs that a process moved over.
PEAK_SLACK_KB = max(512, 4 * 2 * max(32, 2 * (os.cpu_count() or 1)) * PAGE // 1024)
for name in [name for name in os.environ if OF_THE_USER.fullmatch(name)]:
    del os.environ[name]
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Werror"]

PROGRAMS = {
    # touch MIB [free]: writes to every page of MIB mebibytes.
    "touch": """
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        int main(int count, char **words) {
          size_t size = (size_t)atol(words[1]) << 20;
          int mode = PROT_READ | PROT_WRITE;
          char *block = mmap(NULL, size, mode, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          madvise(block, size, MADV_NOHUGEPAGE);
          memset(block, 1, size);
          if (count > 2) munmap(block, size);
          return 0;
        }""",
    # ops N: N pairs of malloc and free, and how fast; prints two throughputs, the last one counts.
    "ops": """
        #include <stdio.h>
        #include <stdlib.h>
        #include <time.h>
        static void *volatile block;
        int main(int count, char **words) {
          struct timespec a, b;
          long pairs = count > 1 ? atol(words[1]) : 1000;
          clock_gettime(CLOCK_MONOTONIC, &a);
          for (long i = 0; i < pairs; i++) { block = malloc(100); free(block); }
          clock_gettime(CLOCK_MONOTONIC, &b);
          double s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
          printf("Throughput = 1 ops/s\\nThroughput = %.0f ops/s\\n", (double)pairs / s + 1);
          return 0;
        }""",
    # environment: prints it, and the CPUs it runs on.
    "environment": """
        #define _GNU_SOURCE
        #include <sched.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
          cpu_set_t cpus;
          for (char **at = environ; *at; at++) puts(*at);
          sched_getaffinity(0, sizeof cpus, &cpus);
          printf("cpus=%d\\n", CPU_COUNT(&cpus));
          return 0;
        }""",
    # wait: leaves a child behind in its process group and its number in the file words[1].
    "wait": """
        #include <stdio.h>
        #include <unistd.h>
        int main(int count, char **words) {
          pid_t child = fork();
          if (child == 0) { for (;;) pause(); }
          FILE *file = fopen(words[1], "w");
          fprintf(file, "%d\\n", child);
          fclose(file);
          if (count > 2) sleep(60);
          return 0;
        }""",
    # serve PORT [die|deaf|stubborn|leave]: answers each connection with a line that malloc holds.
    # The others: abort under the load, never listen, go on after SIGTERM, end well under the load.
    "serve": """
        #define _GNU_SOURCE
        #include <arpa/inet.h>
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int count, char **words) {
          const char *mode = count > 2 ? words[2] : "";
          struct sockaddr_in at = {.sin_family = AF_INET};
          at.sin_port = htons((uint16_t)atoi(words[1]));
          at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          int yes = 1, on = socket(AF_INET, SOCK_STREAM, 0);
          if (strcmp(mode, "stubborn") == 0) signal(SIGTERM, SIG_IGN);
          fprintf(stderr, "serve: up\\n");
          if (strcmp(mode, "deaf") == 0) pause();
          setsockopt(on, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
          if (bind(on, (struct sockaddr *)&at, sizeof at) != 0 || listen(on, 9) != 0) {
            fprintf(stderr, "serve: no port\\n");
            return 4;
          }
          for (int number = 0;; number++) {
            int connection = accept(on, NULL, NULL);
            if (number >= 2 && strcmp(mode, "die") == 0) abort();
            if (number >= 2 && strcmp(mode, "leave") == 0) return 0;
            char *line = malloc(6);
            memcpy(line, "pong\\n", 6);
            if (write(connection, line, 5) < 0) free(line);
            else free(line);
            close(connection);
          }
        }""",
    # says WORD: prints it, and writes it to a file `out` where it runs.
    "says": """
        #include <stdio.h>
        int main(int count, char **words) {
          FILE *file = fopen("out", "w");
          fputs(words[count - 1], file);
          fclose(file);
          puts(words[count - 1]);
          return 0;
        }""",
}

LIBRARIES = {
    # Aborts on the first malloc, with a message.
    "abort": """
        #include <stddef.h>
        #include <stdlib.h>
        #include <unistd.h>
        void *malloc(size_t size) {
          static const char text[] = "broken: no malloc today\\n";
          if (write(2, text, sizeof text - 1) < 0 || size != (size_t)-1) abort();
          return NULL;
        }
        void free(void *block) { (void)block; }""",
    # Hands out memory and never takes it back.
    "bump": """
        #include <stddef.h>
        #include <string.h>
        #include <sys/mman.h>
        static char *at, *end;
        void *malloc(size_t size) {
          size = (size + 31) & ~(size_t)15;
          if (size > (size_t)(end - at)) {
            size_t chunk = size > (1 << 20) ? size : 1 << 20;
            at = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            end = at + chunk;
          }
          *(size_t *)at = size - 16;
          at += size;
          return at - size + 16;
        }
        void free(void *block) { (void)block; }
        void *calloc(size_t count, size_t size) { return malloc(count * size); }
        void *realloc(void *old, size_t size) {
          void *block = malloc(size);
          if (old) memcpy(block, old, size < ((size_t *)old)[-2] ? size : ((size_t *)old)[-2]);
          return block;
        }""",
    # A library that leaves malloc alone.
    "bystander": "int bystander(void); int bystander(void) { return 1; }",
}


def compile_c(source: str, out: Path, *flags: str) -> Path:
    command = [os.environ.get("CC", "cc"), *WARNINGS, "-O1", "-x", "c", "-", "-o", str(out), *flags]
    done = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the programs, lib<name>.so for the libraries, and the launcher."""
    directory = tmp_path_factory.mktemp("built")
    for name, source in PROGRAMS.items():
        compile_c(source, directory / name)
    compile_c(PROGRAMS["ops"], directory / "static", "-static")
    for name, source in LIBRARIES.items():
        flags = ["-shared", "-fPIC", "-fno-builtin", "-ftls-model=initial-exec"]
        compile_c(source, directory / f"lib{name}.so", *flags)
    compile_c((LAB / "launch.c").read_text(), directory / "launch", "-static")
    return directory


@pytest.fixture(scope="module")
def few_resamples() -> Iterator[None]:
    """For tests of what a page shows and not of how well its intervals are known: a report of all kept results draws 65 million times."""
    exact = statistics.percentile_interval

    def roughly(samples: Any, statistic: Any, confidence: float, resamples: int) -> tuple[float, float]:
        return exact(samples, statistic, confidence, min(resamples, 300))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "percentile_interval", roughly)
        yield


@pytest.fixture
def launcher(built: Path) -> Launcher:
    return Launcher(built / "launch", available_cpus(), timeout=30)


@pytest.fixture
def make_row(built: Path) -> Callable[..., Row]:
    def make(program: str, *arguments: str, **changes: object) -> Row:
        fields = {"name": program, "measure": "wall", "group": "single", **changes}
        return Row(command=(str(built / program), *arguments), **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def library(built: Path) -> Callable[[str], Allocator]:
    def make(name: str) -> Allocator:
        return Allocator(name, "1", "test", str(built / f"lib{name}.so"))

    return make


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refuse:
    def refused(
        paths: Paths,
        kind: str,
        words: list[str],
        problem: str,
        options: tuple[str, ...] | None = None,
    ) -> None:
        code, out, err = inside(paths, kind, words, monkeypatch, capsys, options)
        assert (code, out) == (2, ""), err
        assert problem in words_of(err)
        assert "Traceback" not in err
        assert not (paths.root / "out.json").exists()

    return refused


GLIBC = Allocator("glibc", "test", "test")

SUITE = """
[[row]]
name = "small"
program = "ops"
arguments = ["200000"]
measure = "throughput"
group = "single"
idea = "pairs"
quick = ["1000"]

[[row]]
name = "absent"
program = "absent"
measure = "wall"
group = "threads"
"""

PROGRAMS_TOML = """
[[program]]
name = "same"
kind = "test"
command = ["{built}/says", "hello"]

[[program]]
name = "differs"
kind = "test"
command = ["sh", "-c", "printf %s \\"$LD_PRELOAD\\""]

[[program]]
name = "absent"
kind = "test"
command = ["no-such-program"]
needs = ["no-such-program"]

[[program]]
name = "prepared"
kind = "test"
prepare = [["sh", "-c", "echo once >> {{inputs}}/file"]]
command = ["cat", "{{inputs}}/file"]
"""


@pytest.fixture
def repository(tmp_path: Path, built: Path) -> Paths:
    """A repository whose hakmem is the library `bump`, with `broken` and `away` as peers."""
    root = tmp_path / "repository"
    for directory in ("include", "bench", "build/lab", "build/bench", "build/standard"):
        (root / directory).mkdir(parents=True)
    (root / "build/peers").mkdir()
    (root / "include/hakmem.h").write_text('#define HAKMEM_VERSION_STRING "9.8.7"\n')
    (root / "build/lab/launch").symlink_to(built / "launch")
    (root / "build/bench/ops").symlink_to(built / "ops")
    (root / "build/standard/libhakmem.so").symlink_to(built / "libbump.so")
    (root / "build/peers/peers.json").write_text(
        f'[{{"name": "broken", "version": "1", "source": "s", "library": "{built}/libabort.so"}},'
        ' {"name": "away", "version": "2", "source": "s", "missing": "no compiler"}]'
    )
    (root / "bench/suite.toml").write_text(SUITE)
    (root / "bench/programs.toml").write_text(PROGRAMS_TOML.format(built=built))
    return Paths(root)
