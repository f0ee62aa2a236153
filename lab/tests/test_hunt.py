"""hunt: the generator, the search on allocators with a known weakness, and the command."""

import re
import subprocess
from pathlib import Path
from random import Random

import pytest
from command_line import Refuse, good
from conftest import LAB, WARNINGS, compile_c

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.hunt import PARAMETERS, avoid, draw, parse_without, parse_words
from hakmem_lab.run.results import read_result

pytestmark = pytest.mark.slow
BENCH = LAB.parent / "bench"
# Sleeps on every malloc from 2000 to 200000 bytes.
SLOW = """
    #define _GNU_SOURCE
    #include <stddef.h>
    #include <time.h>
    void *__libc_malloc(size_t size);
    void *malloc(size_t size) {
      struct timespec nap = {0, 50000};
      if (size >= 2000 && size <= 200000) nanosleep(&nap, NULL);
      return __libc_malloc(size);
    }"""


@pytest.fixture(scope="session")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hunt")
    program = directory / "hunt"
    sources = [str(BENCH / "hunt.c"), str(BENCH / "allocator.c")]
    build = ["cc", *WARNINGS, "-O2", *sources, "-pthread", "-o", str(program)]
    subprocess.run(build, check=True)
    compile_c(SLOW, directory / "libslow.so", "-shared", "-fPIC", "-fno-builtin")
    return program


@pytest.fixture
def ready(repository: Paths, hunt: Path) -> Paths:
    (repository.bench / "hunt").symlink_to(hunt)
    return repository


def checksum(hunt: Path, words: str) -> str:
    done = subprocess.run([hunt, *words.split()], capture_output=True, text=True, check=True)
    return re.findall(r"^hunt: (operations=\d+) ", done.stdout, re.M)[0] + re.findall(
        r"^checksum=(\w+)$", done.stdout, re.M
    )[0]


def test_the_seed_decides(hunt: Path) -> None:
    words = "--threads 3 --handover 50 --calloc 20 --realloc 20 --operations 5000 --rest-ms 0"
    for more in ("", " --burst yes --lifetime lifo", " --lifetime fifo --keep 10 --alignment 64"):
        sums = [checksum(hunt, f"{words}{more} --seed {seed}") for seed in (1, 1, 2)]
        assert sums[0] == sums[1] != sums[2]


def test_defaults_are_the_programs(hunt: Path) -> None:
    said = subprocess.run([hunt, "--help"], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^  --(\S+) .*; default (\w+)$", said, re.M))
    del found["limit-mb"]
    assert found == {p.name: str(p.otherwise) for p in PARAMETERS}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--x 1", "unknown: '--x'"),
        ("--threads", "--threads: its value is missing"),
        ("--threads 0", "--threads: out of range: 0"),
        ("--size-min 5 --size-max 4", "--size-min is above --size-max"),
        ("--alignment 24", "--alignment: not 0 and no power of 2"),
        ("--handover 5", "--handover: there is no other thread"),
        ("--live 1000000 --size-max 100000", "--limit-mb allows 2048"),
    ],
)
def test_the_program_refuses(hunt: Path, words: str, problem: str) -> None:
    done = subprocess.run([hunt, *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and problem in done.stderr and done.stdout == ""


WORK = ["--operations", "2000", "--rest-ms", "0", "--size-min"]


def test_given_parameters_are_confirmed(ready: Paths, hunt: Path) -> None:
    words = ["--allocators", f"glibc,bad={hunt.parent}/libslow.so", "--subject", "bad"]
    words += ["--metric", "time", "--seconds", "40", "--"]
    out, result = good(ready, "hunt", *words, *WORK, "4000", "--size-max", "8000", "--calloc", "5")
    assert result.settings["finds"], out
    find = result.settings["finds"][0]
    (row,) = [row for row in result.rows if row.name == find["row"]]
    assert find["metric"] == "time" and "To see them again" in out
    assert int(parse_words(row.command[1:])["size-max"]) >= 2000


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--metric", "speed"], "--metric speed: accepted: time, peak, rest, all"),
        (["--against", "worst"], "--against worst: accepted: best, median"),
        (["--subject", "nobody"], "--subject nobody: not among --allocators"),
        (["--allocators", "glibc", "--subject", "glibc"], "at least one besides the subject"),
        (["--", "--size", "3"], "--size: unknown; there are: --threads"),
        (["--", "--live", "x"], "--live x: wanted is a whole number"),
    ],
)
def test_bad_arguments(ready: Paths, refuse: Refuse, words: list[str], problem: str) -> None:
    refuse(ready, "hunt", words, problem)


def test_words() -> None:
    assert parse_words(["--live", "7"])["live"] == 7
    with pytest.raises(LabError, match="its value is missing"):
        parse_words(["--live"])


def test_what_is_left_out_is_drawn_again() -> None:
    without = parse_without(["touch=none", "calloc=100", "calloc=10"])
    assert without == (("touch", "none"), ("calloc", 100), ("calloc", 10))
    kept = set()
    for seed in range(200):
        values = avoid(draw(Random(seed)), without, Random(seed))
        kept.add((values["touch"], values["calloc"]))
    assert kept == {("ends", 0), ("all", 0)}
    values = draw(Random(1))
    assert avoid(values, (), Random(1)) == values


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("colour=red", "--colour: unknown"),
        ("touch", "wanted is NAME=VALUE"),
        ("touch=blue", "accepted: all, ends, none"),
        ("calloc=x", "wanted is a whole number"),
        ("seed=1", "nothing is left that it could be"),
    ],
)
def test_what_cannot_be_left_out_is_refused(item: str, said: str) -> None:
    with pytest.raises(LabError, match=said):
        parse_without([item])
