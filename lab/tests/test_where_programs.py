"""`where` on real programs and servers, with hakmem, glibc and a peer; and on bad input."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import good, inside, lab
from conftest import compile_c
from htrace_writer import MALLOC, write_trace
from trace_programs import NANOSECONDS

from hakmem_lab.analysis.where import compose, moments
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.composition import LookError
from hakmem_lab.run.measure import Launcher
from hakmem_lab.run.results import Result
from hakmem_lab.run.rows import Row
from hakmem_lab.run.where import watched

pytestmark = pytest.mark.slow
Monkey = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def real(repository: Paths) -> Paths:
    """A repository with the hakmem that is built, and `bump` as a peer."""
    library = os.environ.get("HAKMEM_TEST_LIBRARY")
    built = Path(library).parent if library else ROOT / "build/standard"
    if not (built / "hakmem").is_file() or not (built / "libhakmem.so").is_file():
        pytest.skip("hakmem is not built")
    place = repository.hakmem.parent
    bump = repository.hakmem.resolve()
    shutil.rmtree(place)
    place.symlink_to(built)
    peers = f'[{{"name": "peer", "version": "1", "source": "s", "library": "{bump}"}}]'
    repository.peers.write_text(peers)
    return repository


def parts_of(result: Result, name: str) -> dict[str, float]:
    """MiB."""
    one = compose(result, result.rows[0], name)
    assert one is not None
    assert sum(one.parts.values()) == pytest.approx(one.resident, rel=0.02)
    peak = max(run.peak_rss_kb for run in result.rows[0].good_runs(name))
    assert 0.9 * peak < one.resident < 1.1 * peak
    return {part: kib / 1024 for part, kib in one.parts.items()}


HOLDS = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  static char *blocks[200000];
  for (int i = 0; i < 200000; i++) {
    blocks[i] = malloc(200);
    memset(blocks[i], 1, 200);
  }
  for (int i = 0; i < 200000; i += 2) free(blocks[i]);
  char *large = malloc(20 << 20);
  memset(large, 1, 20 << 20);
  usleep(300000);
  for (int i = 1; i < 200000; i += 2) free(blocks[i]);
  free(large);
  return 0;
}
"""


@pytest.fixture
def holds(tmp_path: Path) -> Path:
    return compile_c(HOLDS, tmp_path / "holds", "-Wno-unused-result")


def test_a_program_that_holds_what_is_known(real: Paths, holds: Path) -> None:
    """19.1 MiB and 20 MiB live at the peak; as much as the first is free, beside live blocks."""
    words = ("--allocators", "glibc,hakmem,peer", "--", str(holds))
    text, result = good(real, "where", *words)
    asked = result.settings["asked"]["holds"]
    assert asked["blocks"] == pytest.approx(100_000, abs=100)
    assert asked["touched"] / 2**20 == pytest.approx(39.1, abs=0.5)
    ours, theirs = parts_of(result, "hakmem"), parts_of(result, "glibc")
    assert ours["asked_kb"] == pytest.approx(39.1, rel=0.05)
    assert ours["rounding_kb"] < 4
    assert ours["free_kb"] + ours["bins_kb"] == pytest.approx(20, rel=0.15)
    assert theirs["asked_kb"] == pytest.approx(39.1, rel=0.05)
    assert theirs["rounding_kb"] == pytest.approx(100_000 * 8 / 2**20, rel=0.2)
    assert theirs["kept_kb"] == pytest.approx(20, rel=0.15)
    assert parts_of(result, "peer")["kept_kb"] == pytest.approx(24, rel=0.15)
    for expected in ("free blocks in slabs", "holds: the trace:", "holds at the peak: hakmem"):
        assert expected in text
    assert "peer: its usable sizes cannot be asked" in lab(real, "where", *words).stderr


@pytest.mark.parametrize(
    "command",
    [
        ("sort", "-n", "{input}"),
        # Its peak lasts: on a busy machine nobody looks for a fraction of a second.
        ("python3", "-c", "x=[str(i)*3 for i in range(300000)]; y=''.join(x); import time; time.sleep(1)"),
    ],
)
def test_real_programs(real: Paths, tmp_path: Path, command: tuple[str, ...]) -> None:
    numbers = tmp_path / "numbers"
    numbers.write_text("\n".join(str(i * 7919 % 600_011) for i in range(600_000)))
    filled = [word.replace("{input}", str(numbers)) for word in command]
    table = tmp_path / "table.csv"
    words = ["--allocators", "glibc,hakmem,peer", "--env", "PYTHONMALLOC=malloc"]
    _, result = good(
        real, "where", *words, "--export-csv", str(table), "--rounds", "2", "--", *filled
    )
    for name in ("glibc", "hakmem", "peer"):
        parts = parts_of(result, name)
        assert parts["asked_kb"] > 5
    asked = [parts_of(result, name)["asked_kb"] for name in ("glibc", "hakmem")]
    # The peak of what is resident may come when less lives than at the trace's; a poll may find glibc's a little early.
    assert 0.6 * asked[0] < asked[1] < 1.05 * asked[0]
    assert "hakmem,asked," in table.read_text()


def test_a_trace_that_was_recorded_before(real: Paths, holds: Path, tmp_path: Path) -> None:
    events = {0: [(i, MALLOC, 0x1000 * i, 1000, 0) for i in range(1, 20_000)]}
    file = write_trace(tmp_path / "a.htrace", events, information=NANOSECONDS)
    words = ("--allocators", "hakmem", "--trace", str(file), "--", str(holds))
    _, result = good(real, "where", *words)
    assert result.settings["asked"]["holds"]["bytes"] == 19_999 * 1000
    _, result = good(real, "where", "--no-trace", "--allocators", "hakmem", "--", str(holds))
    assert "asked" not in result.settings
    assert parts_of(result, "hakmem")["live_kb"] == pytest.approx(40, rel=0.1)


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing": ((), "wanted is one of -- COMMAND..., --rows A,B and --servers A,B"),
    "two": (("--rows", "same", "--", "true"), "wanted is one of"),
    "program": (("--", "no-such-program"), "no-such-program: no such program"),
    "row": (("--rows", "nobody"), "'nobody' is unknown"),
    "row that is missing": (("--rows", "absent"), "not installed: no-such-program"),
    "allocator": (("--allocators", "nobody", "--", "true"), "'nobody' is unknown"),
    "allocator away": (("--allocators", "away", "--", "true"), "no allocator can be run: away"),
    "trace": (("--trace", "none.htrace", "--", "true"), "none.htrace: no such file; --no-trace"),
    "trace and none": (("--trace", "/dev/null", "--no-trace", "--", "true"), "no such file"),
    "option": (("--rows", "same", "--env", "A=1"), "go with a command"),
    "tool": (("--", "true"), "build/standard/hakmem is not built: run make"),
    "tool for a trace": (("--allocators", "glibc", "--", "true"), "--no-trace goes without it"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(repository: Paths, monkeypatch: Monkey, capsys: Captured, name: str) -> None:
    words, problem = BAD[name]
    code, out, err = inside(repository, "where", list(words), monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert problem in " ".join(err.split())


def test_no_trace_in_a_file(real: Paths, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("no trace")
    done = lab(real, "where", "--trace", str(file), "--allocators", "glibc", "--", "true")
    assert done.returncode == 2
    assert f"hakmem-lab: {file}: offset 0: not an allocation trace" in done.stderr


def test_a_program_that_ends_too_soon(
    launcher: Launcher, make_row: Callable[..., Row], tmp_path: Path
) -> None:
    """No poll sees half of what is said to be its peak."""
    glibc = Allocator("glibc", "1", "test")
    with pytest.raises(LookError, match=r"ended too soon to be inspected: half of its peak of 976"):
        watched(launcher, make_row("touch", "1"), glibc, tmp_path / "none", 1e6)
    figures = watched(launcher, make_row("touch", "40"), glibc, tmp_path / "none", 41_000)
    assert 20 * 1024 < figures["heap_kb"] < 45 * 1024


def test_a_program_that_is_not_on_hakmem(
    launcher: Launcher, make_row: Callable[..., Row], real: Paths
) -> None:
    no = Allocator("no", "1", "test", environment={"HAKMEM_PROFILE": "lean"})
    with pytest.raises(LookError, match=r"could not be inspected: .*does not run on hakmem"):
        # Long enough for the tool to come while it is there, on a busy machine, too.
        watched(launcher, make_row("touch", "800"), no, real.tool, 410_000)


def test_programs_that_fail(real: Paths) -> None:
    done = lab(real, "where", "--no-trace", "--allocators", "glibc", "--", "false")
    assert done.returncode == 1
    assert "false on glibc: exit code 1" in done.stdout
    done = lab(real, "where", "--allocators", "glibc", "--", "false")
    assert done.returncode == 2
    assert "false could not be recorded: exit code 1" in done.stderr


def test_a_real_server(real: Paths) -> None:
    """At its highest, and idle; what it consists of adds up."""
    programs = os.environ.get("HAKMEM_TEST_PROGRAMS")
    servers = Path(programs) / "servers" if programs else ROOT / "build/bench/servers"
    if not (servers / "rpc_server").is_file():
        pytest.skip(f"{servers}/rpc_server is not built: make bench-servers-build")
    (real.bench / "servers").symlink_to(servers)
    real.servers.write_text((ROOT / "bench/servers.toml").read_text())
    words = ("--servers", "rpc", "--seconds", "0.1", "--idle", "0.1")
    text, result = good(real, "where", *words, "--allocators", "glibc,hakmem")
    (row,) = result.rows
    assert [prefix for _, prefix in moments(row)] == ["", "idle_"]
    for prefix in ("", "idle_"):
        for name, part in (("glibc", "heap_kb"), ("hakmem", "live_kb")):
            one = compose(result, row, name, prefix)
            assert one is not None and one.parts[part] > 1024
            # hakmem's parts may be of several moments while it works.
            assert sum(one.parts.values()) == pytest.approx(one.resident, rel=0.1)
    assert "rpc at the peak: hakmem" in text and "rpc idle: hakmem" in text
    done = lab(real, "where", "--servers", "nobody", "--allocators", "glibc")
    assert done.returncode == 2 and "--servers: 'nobody' is unknown" in done.stderr
