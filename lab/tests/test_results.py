"""The result file: written and read it is the same; a bad one gives a clear message."""

import copy
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from command_line import in_this_process

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.instructions import InstructionCount
from hakmem_lab.run.machine import describe_machine
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult, read_result, schema, write_result


def make_result() -> Result:
    row = RowResult("r", "single", "idea", "throughput", 0.95, ["p", "1"], {"A": "b"})
    row.runs = [
        Run("glibc", 1, 1, 1.5, 1.0, 0.25, 2048, 100, 1, 2, 3, throughput_per_s=1e6),
        Run("x", 1, 2, failure="SIGSEGV: oh"),
    ]
    row.system_calls = {"glibc": {"mmap": 7}}
    return Result(
        "suite",
        ["hakmem-lab", "suite"],
        {"rounds": 1, "peers": ["glibc"]},
        describe_machine(),
        [
            Allocator("glibc", "2.36", "s"),
            Allocator("x", "1", "s", "/x.so", {"A": "1"}),
            Allocator("y", "2", "s", missing="no compiler"),
        ],
        [row, RowResult("away", "large", "", "cpu", 1.0, ["q"], {}, missing="not built")],
        [InstructionCount("glibc", 10, 95.0, 28.5, functions={"libc: malloc": 20.0})],
    )


def test_round_trip(tmp_path: Path) -> None:
    result = make_result()
    file = tmp_path / "new" / "result.json"
    write_result(result, file)
    assert read_result(file) == result
    assert list(file.parent.iterdir()) == [file]


def test_the_schema_names_every_field() -> None:
    found = schema()
    assert found["properties"].keys() == asdict(make_result()).keys()
    assert found["$defs"]["Run"]["properties"].keys() == asdict(Run("a", 1, 1)).keys()
    assert found["$defs"]["Run"]["properties"]["round"]["minimum"] == 1
    assert found["additionalProperties"] is False


def test_the_schema_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = in_this_process(monkeypatch, capsys, "schema")
    assert code == 0 and json.loads(out) == schema()


def test_figures_may_be_absent_as_in_older_files(tmp_path: Path) -> None:
    file, result = tmp_path / "result.json", make_result()
    write_result(result, file)
    content = json.loads(file.read_text())
    for run in content["rows"][0]["runs"]:
        del run["figures"]
    file.write_text(json.dumps(content))
    assert read_result(file) == result


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine["cpus"] >= 1 and machine["memory_mib"] > 0
    assert machine["transparent_huge_pages"] in ("always", "madvise", "never", "unknown")


Damage = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda c: c.update(schema_version=7), "schema_version 7; this hakmem-lab reads 1"),
        (lambda c: c.pop("schema_version"), "it has no schema_version"),
        (lambda c: c.pop("machine"), "the whole: machine is missing"),
        (lambda c: c.update(kind="poem"), "kind: 'poem'; accepted: 'suite', 'programs'"),
        (lambda c: c.update(extra=1), "the whole: unknown: extra"),
        (
            lambda c: c["rows"][0]["runs"][1].update(wall_s="long"),
            r"rows\[0\]\.runs\[1\]\.wall_s: wanted is a number, not 'long'",
        ),
        (
            lambda c: c["rows"][0]["runs"][0].update(peak_rss_kb=-1),
            "peak_rss_kb: wanted is 0 or more, not -1",
        ),
        (lambda c: c["rows"][0]["runs"][0].pop("round"), r"rows\[0\]\.runs\[0\]: round is missing"),
        (
            lambda c: c["rows"][0]["runs"][0].update(allocator="z"),
            r"rows\[0\]\.runs\[0\]: 'z' is not among the file's allocators",
        ),
        (
            lambda c: c["allocators"][0].update(name=""),
            r"allocators\[0\]\.name: wanted is a",
        ),
        (lambda c: c["allocators"][0].pop("library"), r"allocators\[0\]: library is missing"),
        (
            lambda c: c["rows"][0].update(measure="speed"),
            "measure: 'speed'; accepted: 'thr",
        ),
        (lambda c: c["rows"][0].update(bar=0), "bar: wanted is a number above 0, not 0"),
        (
            lambda c: c["machine"].update(cpus="2"),
            "cpus: wanted is a whole number, not '2'",
        ),
        (lambda c: c["machine"].pop("kernel"), "machine: kernel is missing"),
        (lambda c: c.update(interrupted=1), "interrupted: wanted is true or false, not 1"),
        (lambda c: c.update(rows={}), "rows: wanted is a list, not {}"),
        (lambda c: c.update(rows=[3]), r"rows\[0\]: wanted is a table, not 3"),
        (
            lambda c: c["rows"][0]["system_calls"]["glibc"].update(mmap=1.5),
            "mmap: wanted is a whole number, not 1.5",
        ),
    ],
)
def test_a_bad_file_says_what_and_where(tmp_path: Path, damage: Damage, problem: str) -> None:
    file = tmp_path / "result.json"
    write_result(make_result(), file)
    content = copy.deepcopy(json.loads(file.read_text()))
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(LabError, match=problem) as caught:
        read_result(file)
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not JSON, or cut off"),
        (b'{"schema_version": 1,', "not JSON, or cut off"),
        (b"[]", "not a result of hakmem-lab"),
        (b"3", "not a result of hakmem-lab"),
        (b"\xff\xfe\x00\x01", "not text"),
    ],
)
def test_what_is_no_result(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(content)
    with pytest.raises(LabError, match=problem):
        read_result(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="No such file"):
        read_result(tmp_path / "none.json")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_result(make_result(), file)
    text = file.read_text().rstrip()
    for end in range(0, len(text), 97):
        file.write_text(text[:end])
        with pytest.raises(LabError):
            read_result(file)


def test_a_compressed_result_is_read_as_the_other(tmp_path: Path) -> None:
    plain, packed = tmp_path / "r.json", tmp_path / "r.json.zst"
    write_result(make_result(), plain)
    write_result(make_result(), packed)
    assert read_result(packed) == read_result(plain)
    assert packed.stat().st_size < plain.stat().st_size


def test_a_compressed_result_that_is_cut_off_is_an_error_of_one_line(tmp_path: Path) -> None:
    packed = tmp_path / "r.json.zst"
    write_result(make_result(), packed)
    packed.write_bytes(packed.read_bytes()[:-40])
    with pytest.raises(LabError, match=r"r\.json\.zst: (compressed, and cut off|not JSON, or cut)"):
        read_result(packed)
