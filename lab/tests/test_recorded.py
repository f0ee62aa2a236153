"""What the recorder writes, the reader reads: a program whose every event is known."""

import subprocess
from pathlib import Path

import pytest
from conftest import LAB, compile_c

from hakmem_lab.trace.htrace import (
    ALIGNED,
    CALLOC,
    FREE,
    MALLOC,
    REALLOC_OF,
    REALLOC_TO,
    THREAD_END,
    read_trace,
)
from hakmem_lab.trace.match import match
from hakmem_lab.trace.replay_plan import make_plan

RECORDER = LAB.parent / "build/standard/hakmem"

# Sizes that nobody else asks for say what is the program's. The second thread frees what the first
# one made; the fourth block is never freed.
PROGRAM = """
    #include <pthread.h>
    #include <stdlib.h>
    #include <string.h>

    static void *volatile first, *volatile fourth;

    static void *other(void *unused) {
      (void)unused;
      free(first);
      for (int i = 0; i < 5000; i++) {
        void *volatile block = malloc(40001);
        free(block);
      }
      return NULL;
    }

    int main(void) {
      pthread_t thread;
      void *aligned;
      first = malloc(40003);
      void *volatile second = calloc(7, 5801);
      second = realloc(second, 50021);
      free(second);
      if (posix_memalign(&aligned, 4096, 40009) != 0) return 1;
      free(aligned);
      fourth = malloc(1000003);
      memset(fourth, 1, 1000003);
      if (pthread_create(&thread, NULL, other, NULL) != 0) return 1;
      return pthread_join(thread, NULL);
    }
"""
SIZES = {40001, 40003, 7 * 5801, 50021, 40009, 1000003}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    helped = RECORDER.is_file() and subprocess.run(
        [str(RECORDER), "trace", "record", "--help"], capture_output=True, check=False
    )
    if not helped or helped.returncode != 0:
        pytest.skip(f"{RECORDER} with `trace record` is not built: needs cmake and libzstd")
    place = tmp_path_factory.mktemp("recorded")
    program = compile_c(PROGRAM, place / "known", "-pthread", "-O0")
    trace = place / "known.htrace"
    command = [str(RECORDER), "trace", "record", "-o", str(trace), "--", str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return trace


def test_known_events(recording: Path) -> None:
    trace = read_trace(recording)
    assert trace.warnings == []
    assert trace.information["command"] == [str(recording.parent / "known")]
    assert trace.end["status"] == 0 and trace.end["events"] == len(trace.stamp)
    objects = match(trace)
    assert not objects.anomalies.any()
    mine = [i for i, size in enumerate(objects.size.tolist()) if size in SIZES]
    made = [
        (
            int(trace.operation[objects.birth[i]]),
            int(objects.size[i]),
            int(trace.alignment[objects.birth[i]]),
        )
        for i in mine
    ]
    assert made[:5] == [
        (MALLOC, 40003, 0),
        (CALLOC, 7 * 5801, 0),
        (REALLOC_TO, 50021, 0),
        (ALIGNED, 40009, 12),
        (MALLOC, 1000003, 0),
    ]
    assert made[5:] == [(MALLOC, 40001, 0)] * 5000
    deaths = [objects.death[i] for i in mine]
    ended = [int(trace.operation[death]) for death in deaths if death < len(trace.stamp)]
    assert ended == [FREE, REALLOC_OF, *[FREE] * 5002]
    assert not objects.died()[mine[4]]
    threads = [int(objects.thread[objects.birth[i]]) for i in mine]
    assert threads == [threads[0]] * 5 + [threads[5]] * 5000 and threads[0] != threads[5]
    assert int(objects.thread[deaths[0]]) == threads[5]
    last = trace.operation[trace.bounds[threads[5] + 1] - 1]
    assert last == THREAD_END


def test_cut_off(recording: Path, tmp_path: Path) -> None:
    """A recorder that was killed leaves the frames before."""
    whole = read_trace(recording)
    cut = tmp_path / "cut.htrace"
    cut.write_bytes(recording.read_bytes()[: recording.stat().st_size * 2 // 3])
    trace = read_trace(cut)
    (warning,) = trace.warnings
    assert f"{cut}: offset " in warning and "the file ends in" in warning
    assert 0 < len(trace.stamp) < len(whole.stamp)


FORKING = """
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>

    int main(void) {
      void *volatile before = malloc(40003);
      void *volatile grows = malloc(40009);
      if (fork() == 0) {
        free(before);
        grows = realloc(grows, 50021);
        for (int i = 0; i < 1000; i++) {
          void *volatile block = malloc(40001);
          free(block);
        }
        _exit(0);
      }
      return wait(NULL) < 0;
    }
"""


def test_child_of_a_fork(recording: Path, tmp_path: Path) -> None:
    """It has no allocations of what its parent had allocated; the rest can be replayed."""
    program = compile_c(FORKING, tmp_path / "forking", "-O0")
    first = tmp_path / "it.htrace"
    command = [str(RECORDER), "trace", "record", "--follow", "-o", str(first), "--", str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (child,) = (path for path in tmp_path.glob("it.*.htrace"))
    trace = read_trace(child)
    assert trace.warnings == []
    assert trace.information["forked"] is True
    objects = match(trace)
    assert (objects.anomalies.free_unknown, objects.anomalies.realloc_unknown) == (1, 1)
    assert objects.size.tolist().count(40001) == 1000
    plan = make_plan(objects)
    plan.write(tmp_path / "plan")
    assert (tmp_path / "plan").stat().st_size > 0
