"""What is read from other programs and from files, whole and damaged."""

from pathlib import Path

import pytest

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths, available_cpus, find_paths, parse_cpus
from hakmem_lab.run import mimalloc_bench
from hakmem_lab.run.allocators import (
    Allocator,
    is_foreign,
    known_allocators,
    parse_contender,
    read_peers,
    select_allocators,
)
from hakmem_lab.run.callgrind import Function, parse_callgrind
from hakmem_lab.run.instructions import split, subtract
from hakmem_lab.run.measure import parse_throughput
from hakmem_lab.run.programs import read_programs
from hakmem_lab.run.rows import THROUGHPUT, read_suite, select_rows
from hakmem_lab.run.syscalls import parse_strace

# --- throughput ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Throughput = 1200 ops/s\n", 1200.0),
        ("Throughput = 1 ops/s\nmore\nThroughput = 77 ops/s\n", 77.0),
        ("Throughput = 12", None),
        ("Throughput = -5 ops/s", None),
        ("Throughput = 0 ops/s", None),
        ("Throughput = nan ops/s", None),
        ("xThroughput = 5 ops/s", None),
        ("", None),
        ("\x00\xff garbage", None),
    ],
)
def test_throughput(text: str, expected: float | None) -> None:
    assert parse_throughput(text, THROUGHPUT) == expected


def test_throughput_of_mimalloc_bench() -> None:
    larson = "Throughput =  8609277 operations per second, relative time: 116.154s.\nDone.\n"
    assert parse_throughput(larson, mimalloc_bench.LARSON) == 8609277
    xmalloc = "rtime: 7.598, free/sec: 13.161 M\n"
    assert parse_throughput(xmalloc, mimalloc_bench.XMALLOC, 1e6) == pytest.approx(13.161e6)
    assert parse_throughput("rtime: 7.598, free/sec: 1.2.3 M", mimalloc_bench.XMALLOC) is None


# --- strace --------------------------------------------------------------------------------------

STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.12    0.000312           4        17           mmap
 20.00    0.000100           1         1         1 access
  0.00    0.000000           0         4         3 newfstatat
------ ----------- ----------- --------- --------- ----------------
100.00    0.000412           2        22         4 total
"""


def test_strace_table() -> None:
    assert parse_strace(STRACE) == {"mmap": 17, "access": 1, "newfstatat": 4}


@pytest.mark.parametrize("text", ["", "strace: attach: ptrace(PTRACE_SEIZE): no\n", STRACE[:150]])
def test_strace_without_a_table(text: str) -> None:
    assert parse_strace(text) == {}


def test_strace_cut_off_keeps_whole_lines() -> None:
    assert parse_strace(STRACE[: STRACE.index("newfstatat") - 5]) == {"mmap": 17, "access": 1}


# --- callgrind -----------------------------------------------------------------------------------

CALLGRIND = """\
# callgrind format
version: 1
positions: line
events: Ir
summary: 1000

ob=(1) /bin/prog
fl=(1) prog.c
fn=(1) churn
10 100
+2 200
cob=(2) /lib/alloc.so
cfi=(2) alloc.c
cfn=(2) malloc
calls=10 -3
* 400
cob=(2)
cfn=(3) free
calls=10 5
* 180
cob=(3) ???
cfn=(4) 0x0000000000001040
calls=1 0
+1 20

ob=(3)
fn=(4)
0 20
cob=(2)
cfn=(3)
calls=1 5
0 100

ob=(2)
fl=(2)
fn=(2)
5 150
cfn=(5) refill
calls=2 9
5 250

fn=(5)
9 250

fn=(3)
3 280

totals: 1000
"""


def test_callgrind_costs_of_functions_and_calls() -> None:
    profile = parse_callgrind(CALLGRIND)
    churn = Function("/bin/prog", "churn")
    malloc = Function("/lib/alloc.so", "malloc")
    refill = Function("/lib/alloc.so", "refill")
    assert profile.own[churn] == 300
    assert profile.own[malloc] == 150
    assert profile.calls[churn, malloc] == 400
    assert profile.calls[malloc, refill] == 250
    assert profile.total() == 1000
    assert profile.counts[churn, malloc] == 10
    assert profile.counts[malloc, refill] == 2


def test_instructions_are_split_by_who_spends_them() -> None:
    count = split(parse_callgrind(CALLGRIND), "/bin/prog", "x", 10)
    assert count.failure is None
    assert count.total == 100
    assert count.harness == 32  # churn and the stub through which it calls free
    assert (count.malloc, count.malloc_slow) == (15, 25)
    assert (count.free, count.free_slow) == (28, 0)
    assert count.other == pytest.approx(0)
    assert count.pair == 136
    assert count.functions["prog: churn"] == 30


def test_start_up_cancels() -> None:
    profile = parse_callgrind(CALLGRIND)
    assert subtract(profile, profile).total() == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cut off"),
        (CALLGRIND[:120], "cut off"),
        (CALLGRIND.replace("totals: 1000\n", ""), "cut off"),
        (CALLGRIND.replace("9 250\n", ""), "add up to 750, not to its total of 1000"),
        (CALLGRIND.replace("+2 200", "+2 what"), r"line 11: not understood: '\+2 what'"),
        (CALLGRIND.replace("fn=(2) malloc", "fn=(2)"), r"\(2\) was never given a name"),
        ("5 100\n" + CALLGRIND, "line 1: not understood"),
    ],
)
def test_damaged_callgrind(text: str, problem: str) -> None:
    with pytest.raises(LabError, match=problem):
        parse_callgrind(text)


# --- suite and programs --------------------------------------------------------------------------


def test_suite(repository: Paths) -> None:
    small, absent = read_suite(repository, repository.suite)
    assert small.command == (str(repository.bench / "ops"), "200000")
    assert small.shortened().command == (str(repository.bench / "ops"), "1000")
    assert small.missing is None
    assert absent.missing == "build/bench/absent is not built"
    assert absent.shortened().missing == "build/bench/absent is not built"


GOOD_ROW = '[[row]]\nname = "a"\nprogram = "p"\nmeasure = "cpu"\ngroup = "single"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[row", "not TOML"),
        ("", r"no \[\[row\]\]"),
        ("row = 3", r"no \[\[row\]\]"),
        ('[[row]]\nprogram = "p"', r"row \(without name\): the whole: name is missing"),
        (
            GOOD_ROW.replace('"cpu"', '"speed"'),
            "row 'a': measure: 'speed'; accepted: 'throughput', 'cpu' or 'wall'",
        ),
        (GOOD_ROW.replace('"single"', '"solo"'), "group: 'solo'; accepted: 'single', 'threads'"),
        (GOOD_ROW + "arguments = [1]", r"arguments\[0\]: wanted is a string, not 1"),
        (GOOD_ROW + "environment = { A = 1 }", "environment.A: wanted is a string, not 1"),
        (GOOD_ROW + "cpus = 0", "cpus: wanted is 1 or more, not 0"),
        (GOOD_ROW + "sizes = 3", "unknown: sizes"),
        (GOOD_ROW + GOOD_ROW, "two rows are called 'a'"),
    ],
)
def test_damaged_suite(repository: Paths, text: str, problem: str) -> None:
    file = repository.root / "bad.toml"
    file.write_text(text)
    with pytest.raises(LabError, match=problem):
        read_suite(repository, file)


def test_suite_that_is_not_there_or_not_text(repository: Paths) -> None:
    with pytest.raises(LabError, match="No such file"):
        read_suite(repository, repository.root / "none.toml")
    binary = repository.root / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LabError, match="not TOML"):
        read_suite(repository, binary)


def test_rows_are_selected_by_name_and_group(repository: Paths) -> None:
    rows = read_suite(repository, repository.suite)
    assert [row.name for row in select_rows(rows, "small", None)] == ["small"]
    assert [row.name for row in select_rows(rows, None, "threads")] == ["absent"]
    for names, groups in (("nix", None), (None, "nix"), ("small", "threads")):
        with pytest.raises(LabError, match=r"unknown; there are|no row is left"):
            select_rows(rows, names, groups)


def test_one_cpu_for_one_thread(repository: Paths) -> None:
    small, absent = read_suite(repository, repository.suite)
    assert small.pinned_to([0, 1, 2]) == [2]
    assert absent.pinned_to([0, 1, 2]) == [0, 1, 2]


def test_programs(repository: Paths) -> None:
    same, differs, absent, prepared = read_programs(repository, repository.programs)
    assert same.row.command[1] == "hello" and same.row.checksum
    assert "LD_PRELOAD" in differs.row.command[2]
    assert absent.row.missing == "not installed: no-such-program"
    assert prepared.prepare == (("sh", "-c", f"echo once >> {repository.bench}/inputs/file"),)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('command = ["a", "{nowhere}"]', "'nowhere' in braces; accepted: {inputs}, {work}"),
        ('command = ["a", "{"]', "in braces"),
        ('command = "a"', "command: wanted is a list, not 'a'"),
        ("command = []", "command: wanted is a list that is not empty"),
        ('command = ["a"]\nprepare = ["a", "b"]', r"prepare\[0\]: wanted is a list, not 'a'"),
        ('command = ["a"]\nprepare = [[]]', r"prepare\[0\]: wanted is a list that is not"),
    ],
)
def test_damaged_programs(repository: Paths, line: str, problem: str) -> None:
    file = repository.root / "bad.toml"
    file.write_text(f'[[program]]\nname = "a"\nkind = "k"\n{line}\n')
    with pytest.raises(LabError, match=problem):
        read_programs(repository, file)


def test_mimalloc_bench_names_what_is_absent(tmp_path: Path) -> None:
    programs = tmp_path / "out"
    programs.mkdir()
    with pytest.raises(LabError, match="none of the suite's programs"):
        mimalloc_bench.mimalloc_bench_rows(programs)
    with pytest.raises(LabError, match="not a directory"):
        mimalloc_bench.mimalloc_bench_rows(tmp_path / "none")
    (programs / "larson").touch()
    (programs / "espresso").touch()
    rows = {row.name: row for row in mimalloc_bench.mimalloc_bench_rows(programs)}
    assert rows["mb-larson"].missing is None
    assert rows["mb-larson"].command[1:] == ("2", "8", "1000", "5000", "100", "4141", "2")
    assert "bench/espresso/largest.espresso" in (rows["mb-espresso"].missing or "")
    assert rows["mb-cfrac"].missing == f"not there: {programs}/cfrac"
    (tmp_path / "bench" / "barnes").mkdir(parents=True)
    (tmp_path / "bench" / "barnes" / "input").touch()
    (programs / "barnes").touch()
    barnes = {row.name: row for row in mimalloc_bench.mimalloc_bench_rows(programs)}["mb-barnes"]
    assert barnes.missing is None and barnes.stdin == tmp_path / "bench/barnes/input"


# --- allocators ----------------------------------------------------------------------------------


def test_allocators(repository: Paths) -> None:
    names = {allocator.name: allocator for allocator in known_allocators(repository)}
    assert list(names) == ["glibc", "hakmem", "broken", "away"]
    assert names["hakmem"].version == "9.8.7"
    assert names["hakmem"].source.startswith("sha256 ")
    assert names["away"].missing == "no compiler"
    assert names["glibc"].library == ""


def test_peers_whose_library_is_gone_are_missing(repository: Paths) -> None:
    repository.peers.write_text(
        '[{"name": "x", "version": "1", "source": "s", "library": "build/peers/none.so"}]'
    )
    assert read_peers(repository)[0].missing == "build/peers/none.so is not there: run make peers"
    repository.peers.unlink()
    assert read_peers(repository) == []


@pytest.mark.parametrize(
    "text",
    [
        "[{",
        "{}",
        "[3]",
        '[{"version": "1"}]',
        '[{"name": "x"}]',
        '[{"name": "x", "library": "a", "missing": "b"}]',
        '[{"name": 3, "library": "a"}]',
        '[{"name": "x", "library": "a", "colour": "b"}]',
    ],
)
def test_damaged_peers(repository: Paths, text: str) -> None:
    repository.peers.write_text(text)
    with pytest.raises(LabError, match="`make peers` writes it anew"):
        read_peers(repository)


def test_contenders(repository: Paths, built: Path) -> None:
    library = str(built / "libbump.so")
    lean = parse_contender(repository, "lean", "HAKMEM_PROFILE=lean A='b c'")
    assert lean.library == str(repository.hakmem)
    assert lean.environment == {"HAKMEM_PROFILE": "lean", "A": "b c"}
    assert parse_contender(repository, "b", library).library == library
    both = parse_contender(repository, "b", f"{library} A=1")
    assert (both.library, both.environment) == (library, {"A": "1"})
    older = repository.root / "older.so"
    older.write_bytes(b"\0HAKMEM_PROFILE\0")
    foreign = [library, "glibc", "hakmem", str(older)]
    judged = [is_foreign(parse_contender(repository, "b", words)) for words in foreign]
    assert judged == [True, False, False, False]
    assert parse_contender(repository, "b", "glibc").library == ""
    for text, problem in (
        ("/no/such.so", "neither NAME=VALUE"),
        (f"{library} glibc", "one library at most"),
        ("away", "no compiler"),
        ("'", "No closing quotation"),
    ):
        with pytest.raises(LabError, match=problem):
            parse_contender(repository, "b", text)


def test_selection_of_allocators(repository: Paths) -> None:
    def select(text: str | None, quick: bool = False) -> list[Allocator]:
        return select_allocators(repository, text, quick)

    assert [a.name for a in select(None)] == ["glibc", "hakmem", "broken", "away"]
    assert [a.name for a in select(None, quick=True)] == ["glibc", "hakmem"]
    chosen = select("hakmem, lean=HAKMEM_PROFILE=lean")
    assert [a.name for a in chosen] == ["hakmem", "lean"]
    assert [a.name for a in select("all")] == ["glibc", "hakmem", "broken", "away"]
    chosen = select("all,lean=HAKMEM_PROFILE=lean")
    assert [a.name for a in chosen] == ["glibc", "hakmem", "broken", "away", "lean"]
    for text in ("nix", "glibc,glibc", "all,glibc", ","):
        with pytest.raises(LabError, match="--allocators"):
            select(text)


# --- places --------------------------------------------------------------------------------------


def test_cpus() -> None:
    allowed = available_cpus()
    assert parse_cpus(None) == allowed
    assert parse_cpus(f"{allowed[0]}") == allowed[:1]
    assert parse_cpus(f"{allowed[0]}-{allowed[0]}") == allowed[:1]
    for text in ("", "a", "100000", "1-", "3-1", "-1"):
        with pytest.raises(LabError, match="--cpus"):
            parse_cpus(text)


def test_the_repository_is_found_from_below(
    repository: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.bench)
    assert find_paths().root == repository.root
    with pytest.raises(LabError, match="not a hakmem repository"):
        find_paths(repository.root / "build")
