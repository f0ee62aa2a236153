"""`compare` on several commands and parameters, what is done around runs, and the exports."""

import csv
import signal
import subprocess
import time
from pathlib import Path
from statistics import median

import pytest
from command_line import Refuse, command, good, lab

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.cli.variants import fill, parse_parameters, variants_of
from hakmem_lab.run.results import read_result

FEW = ("--runs", "2", "--allocators", "glibc,hakmem", "--no-system-calls")


def names(commands: list[list[str]], items: list[str], *others: str) -> list[str]:
    return [variant.name for variant in variants_of(commands, items, others)]


def test_parameters() -> None:
    assert parse_parameters(["N=1,2", "mode=a=b"]) == {"N": ["1", "2"], "mode": ["a=b"]}
    assert fill("{N} {M} {} {N}{", {"N": "{M}", "M": "2"}) == "{M} 2 {} {M}{"


@pytest.mark.parametrize("items", [["N"], ["=1"], ["N="], ["N=1,,2"], ["1=2"], ["N=1,1"]])
def test_bad_parameters(items: list[str]) -> None:
    with pytest.raises(LabError, match="--parameter"):
        parse_parameters(items)


def test_every_combination_of_the_parameters_that_a_command_has() -> None:
    commands = [["/bin/a", "{N}"], ["b", "{M}"], ["c"]]
    assert names(commands, ["N=1,2", "M=x"]) == ["a N=1", "a N=2", "b M=x", "c"]
    assert names([["a", "{N}{M}"]], ["N=1,2", "M=x,y"]) == [
        *("a N=1 M=x", "a N=1 M=y", "a N=2 M=x", "a N=2 M=y"),
    ]
    assert names([["c"]], ["N=1,2"], "make size={N}") == ["c N=1", "c N=2"]
    (first, _) = variants_of([["./a{N}", "{N}/x"]], ["N=1,2"], ())
    assert (first.words, first.values) == (("./a1", "1/x"), {"N": "1"})


def test_no_two_rows_of_one_name() -> None:
    assert names([["sort", "-n"], ["sort", "-g"]], []) == ["sort -n", "sort -g"]
    assert names([["a"], ["a"]], []) == ["a", "a (2)"]
    assert names([["old/a", "1"], ["new/a", "1"]], []) == ["old/a 1", "new/a 1"]
    long = "x" * 100
    assert len(set(names([["a", long, "1"], ["a", long, "2"]], []))) == 2


def test_a_parameter_that_nothing_has() -> None:
    with pytest.raises(LabError, match=r"--parameter N: nothing has \{N\} in it"):
        variants_of([["a", "{M}"]], ["N=1,2"], [])


def test_several_commands(repository: Paths, built: Path) -> None:
    ops = str(built / "ops")
    words = (*FEW, "--command", f"{ops} 1000", "--command", f"{ops} 300000")
    text, result = good(repository, "compare", *words)
    assert [row.command for row in result.rows] == [[ops, "1000"], [ops, "300000"]]
    assert all(len(row.good_runs("hakmem")) == 2 for row in result.rows)
    first, second = (row.name for row in result.rows)
    assert (first, second) == ("ops 1000", "ops 300000")
    for expected in (
        *(f"\n{first}: {ops} 1000\n", f"\n{second}: {ops} 300000\n"),
        f"Time to that of {first}",
        *(f"hakmem, {second}: ", "Commands on glibc:", f"\n  {second}: too few runs to tell"),
    ):
        assert expected in text
    verdicts = [line for line in text.splitlines() if line.startswith("  hakmem, ")]
    assert len(verdicts) == 2


def test_parameters_everywhere(repository: Paths, tmp_path: Path) -> None:
    """In the command, --env, --stdin, --prepare and --cleanup."""
    for size in ("1", "22"):
        (tmp_path / f"in{size}").write_text(size)
    script = 'read -r line || :; [ "$line$V" = "$1$1" ] && [ -e "$1" ] && echo "$line" '
    words = (
        *(*FEW, "--parameter", "N=1,22", "--env", "V={N}", "--stdin", str(tmp_path / "in{N}")),
        *("--prepare", "touch {N}", "--cleanup", "rm {N} && echo {N} >>gone"),
        *("--directory", str(tmp_path), "--same-output", "--", "/bin/sh", "-c", script, "-", "{N}"),
    )
    text, result = good(repository, "compare", *words)
    assert [row.name for row in result.rows] == ["sh N=1", "sh N=22"]
    assert all(run.failure is None for row in result.rows for run in row.runs)
    outputs = [{run.output for run in row.runs} for row in result.rows]
    assert [len(sums) for sums in outputs] == [1, 1] and outputs[0] != outputs[1]
    assert result.settings["parameters"] == {"sh N=1": {"N": "1"}, "sh N=22": {"N": "22"}}
    assert (tmp_path / "gone").read_text() == "1\n22\n"
    assert "sh N=22: /bin/sh -c " in text


def lines_of(file: Path) -> list[str]:
    return file.read_text().split()


def test_prepare_before_each_run_and_cleanup_after_the_last(
    repository: Paths, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    words = (
        *(*FEW, "--warmup", "1", "--prepare", f'echo "p$LD_PRELOAD" >>{log}'),
        *("--cleanup", f"echo c >>{log}", "--", "/bin/sh", "-c", f"echo r >>{log}"),
    )
    _, result = good(repository, "compare", *words)
    assert lines_of(log) == ["p", "r"] * 6 + ["c"]  # 2 allocators: 2 runs and 1 before them
    assert [run.round for run in result.rows[0].runs] == [1, 1, 2, 2]


def test_no_warm_up_at_all(repository: Paths, tmp_path: Path) -> None:
    log = tmp_path / "log"
    rest = ("--", "/bin/sh", "-c", f"echo r >>{log}")
    good(repository, "compare", *FEW, "--warmup", "0", *rest)
    assert len(lines_of(log)) == 4
    good(repository, "compare", *FEW, *rest)
    assert len(lines_of(log)) == 4 + 5  # one, so that files are in memory


def test_a_preparation_that_fails(repository: Paths, tmp_path: Path) -> None:
    words = ("--prepare", "echo no room >&2; exit 3", "--cleanup", "exit 4")
    done = lab(repository, "compare", *FEW, *words, "--", "true")
    assert done.returncode == 1
    assert "--prepare failed: exit code 3: no room" in done.stdout
    assert "true: --cleanup failed: exit code 4" in done.stderr
    result = read_result(repository.root / "out.json")
    assert [run.round for run in result.rows[0].runs] == [1, 1]  # it sits out the other round


def test_cleanup_after_ctrl_c(repository: Paths, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    words = ("--runs", "500", *FEW[2:], "--cleanup", f"touch {gone}", "--", "/bin/sleep", "0.05")
    process = subprocess.Popen(
        command(repository, "compare", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(600):
        if (repository.root / "out.json").exists():
            break
        time.sleep(0.1)
    assert not gone.exists()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert gone.exists()


def test_exports(repository: Paths, built: Path, tmp_path: Path) -> None:
    table, page = tmp_path / "new/a.csv", tmp_path / "a.md"
    words = (
        *("--runs", "6", "--no-system-calls", "--parameter", "N=1000,20000"),
        *("--export-csv", str(table), "--export-markdown", str(page)),
        *("--", str(built / "ops"), "{N}"),
    )
    _, result = good(repository, "compare", *words)
    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["name"], line["parameter_N"], line["allocator"]) for line in lines] == [
        (f"ops N={n}", n, name)
        for n in ("1000", "20000")
        for name in ("glibc", "hakmem", "broken", "away")
    ]
    glibc, hakmem, broken, away = lines[4:]
    assert all(set(line) == set(glibc) and None not in line.values() for line in lines)
    assert (glibc["wall_s_ratio"], glibc["runs"], hakmem["version"]) == ("1", "6", "9.8.7")
    middle = median(result.rows[1].costs("hakmem").values())
    assert float(hakmem["wall_s"]) == pytest.approx(middle)
    assert float(hakmem["wall_s_low"]) <= middle <= float(hakmem["wall_s_high"])
    assert hakmem["throughput_per_s"] == hakmem["system_calls"] == hakmem["failure"] == ""
    assert broken["failure"].startswith("SIGABRT") and broken["wall_s"] == ""
    assert (away["failure"], away["runs"]) == ("no compiler", "0")

    text = page.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.count(" | ") for line in rows}) == 1
    assert [line.split(" | ")[0] for line in rows] == ["| allocator", "| glibc", "| hakmem"] * 2
    assert rows[1].split(" | ")[2] == "1"
    assert "Verdicts:\n\n- hakmem, ops N=1000: " in text and "Commands on glibc:" in text


def test_markdown_of_a_command_with_bars_and_ticks(repository: Paths, tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    script = "echo a | cat; : '`'"
    good(repository, "compare", *FEW, "--export-markdown", str(page), "--", "sh", "-c", script)
    (head,) = [line for line in page.read_text().splitlines() if line.startswith("**")]
    assert head.startswith("**sh**: `sh -c ") and head.count("`") == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--parameter", "N=1", "--", "true"], "--parameter N: nothing has {N} in it"),
        (["--parameter", "N", "--", "true", "{N}"], "--parameter N: wanted is NAME=VALUE,VALUE"),
        (["--parameter", "N=/bin/true,/nix", "--", "{N}"], "/nix: no such program"),
        (["--command", "'", "--", "true"], '--command "\'": No closing quotation'),
        (["--command", " "], "--command: a command is wanted"),
        (["--command", "true", "--server", "true"], "wanted is either -- COMMAND... or"),
        (["--server", "sleep 9", "--prepare", "true"], "--prepare goes with a command"),
        (["--server", "sleep 9", "--parameter", "N=1"], "--parameter goes with a command"),
        (["--server", "sleep 9", "--warmup", "0"], "--warmup goes with a command"),
        (["--warmup", "-1", "--", "true"], "--warmup"),
        (["--export-csv", "/proc/none/x", "--", "true"], "--export-csv /proc/none/x: "),
        (["--export-markdown", "/", "--", "true"], "--export-markdown /: Is a directory"),
    ],
)
def test_bad_input(repository: Paths, refuse: Refuse, words: list[str], problem: str) -> None:
    refuse(repository, "compare", words, problem)
