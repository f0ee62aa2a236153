"""A result is not lost: what cannot be written is told before the first run, and what cannot be
written after it is kept elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import PROGRAM, in_this_process
from samples import suite, write_samples

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper, check_output, keep_earlier
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.results import read_result, write_result

Monkey = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]

# Each would run `touched`, which must not happen.
MEASURING = [
    ("suite", "--quick", "--rows", "small"),
    ("programs", "--rounds", "1"),
    ("compare", "--rounds", "1", "--", "{touch}", "{ran}"),
    ("ab", "--a", "glibc", "--b", "hakmem", "--rounds", "1", "--", "{touch}", "{ran}"),
    ("instructions", "--program", "{touch}"),
    ("tail", "--program", "{touch}", "--seconds", "1"),
    ("soak", "--program", "{touch}", "--seconds", "4"),
    ("steady", "--rows", "idle-95"),
    ("replay", "{away}"),
    ("report", "{result}"),
    ("scorecard", "--results", "{result}"),
    ("publish", "{result}"),
]


@pytest.mark.parametrize("words", MEASURING, ids=[words[0] for words in MEASURING])
@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("/proc/{kind}.json", "No such file or directory"),
        ("{directory}", "directory"),
        ("{file}/below/x.json", "irectory"),
    ],
)
def test_an_output_that_cannot_be_written_is_told_before_the_first_run(
    repository: Paths,
    tmp_path: Path,
    monkeypatch: Monkey,
    capsys: Captured,
    words: tuple[str, ...],
    output: str,
    problem: str,
) -> None:
    kind, *rest = words
    result, _ = write_samples(tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("kept")
    (repository.root / "docs").mkdir()
    (repository.bench / "idle").write_text("#!/bin/sh\n")
    (repository.bench / "replay").write_text("#!/bin/sh\n")
    if kind == "soak" and "directory" in output:
        output, problem = "{file}", "not a directory"  # it wants a directory
    names = {
        "kind": kind,
        "touch": shutil.which("touch") or "touch",
        "ran": str(tmp_path / "ran"),
        "away": str(tmp_path / "away.htrace"),
        "result": str(result),
        "directory": str(tmp_path / "directory"),
        "file": str(tmp_path / "file"),
    }
    rest = [word.format(**names) for word in rest]
    option = ["-o", output.format(**names)]
    root = [] if kind in ("report", "publish") else ["--root", str(repository.root)]
    code, out, err = in_this_process(monkeypatch, capsys, kind, *root, *option, *rest)
    assert code == 2, out + err
    (line,) = [line for line in err.splitlines() if line.startswith("hakmem-lab: ")]
    assert f"--output {option[1]}" in line and problem in line
    assert not (tmp_path / "ran").exists() and "round 1" not in err
    assert (tmp_path / "file").read_text() == "kept"
    assert list((tmp_path / "directory").iterdir()) == []


def run(paths: Paths, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "compare", "--root", str(paths.root), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=directory,
        env={**os.environ, "HOME": str(directory)},
    )


def test_a_result_that_cannot_be_written_later_is_kept_elsewhere(
    repository: Paths, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    # The directory goes while the program runs, and a file takes its place.
    script = f"rm -rf {there}; touch {there}"
    options = ["--allocators", "glibc,hakmem", "--rounds", "3", "--no-system-calls"]
    done = run(repository, here, *options, "-o", str(there / "x.json"), "--", "sh", "-c", script)
    (said,) = [line for line in done.stderr.splitlines() if "is kept in" in line]
    (file,) = here.iterdir()
    assert f"--output {there / 'x.json'}" in said and said.endswith(str(file))
    assert done.returncode == 1
    assert "Verdicts" in done.stdout and f"result: {file}" in done.stdout
    (row,) = read_result(file).rows
    assert len(row.good_runs("glibc")) == 3


def test_what_was_kept_elsewhere_comes_back(tmp_path: Path, monkeypatch: Monkey) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    said: list[str] = []
    keeper = Keeper(tmp_path / "there/x.json")
    (tmp_path / "there").rmdir()
    (tmp_path / "there").touch()
    assert not keeper.save("one", last=False, say=said.append)
    assert not keeper.save("two", last=False, say=said.append)
    assert keeper.place.read_text() == "two" and keeper.place.parent == tmp_path / "here"
    (tmp_path / "there").unlink()
    assert keeper.save("three", say=said.append)
    assert keeper.place == tmp_path / "there/x.json" and keeper.place.read_text() == "three"
    assert list((tmp_path / "here").iterdir()) == []
    assert len(said) == 2


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "x.html"
    file.write_text("old")
    keeper = Keeper(file)
    before = os.listdir(tmp_path)
    # A file of at most 1,000 bytes: as a full disk, and like it for root, too.
    code = (
        "import resource, signal, sys; from pathlib import Path;"
        "from hakmem_lab.base.keep import write_whole;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "write_whole(Path(sys.argv[1]), 'x' * 100_000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "File too large" in done.stderr
    assert keeper.file.read_text() == "old" and os.listdir(tmp_path) == before


def test_a_full_disk_is_told_before_the_first_run(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path;"
        "from hakmem_lab.base.keep import check_output;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "check_output('--output', Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "LabError: --output" in done.stderr and "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_permissions(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("mine")
    file.chmod(0o400)
    with pytest.raises(LabError, match="Permission denied"):
        check_output("--output", file)
    tmp_path.chmod(0o500)
    with pytest.raises(LabError, match="Permission denied"):
        check_output("--output", tmp_path / "y.json")
    tmp_path.chmod(0o700)


def test_a_link_stays_one_and_a_device_too(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "target.json")
    write_result(suite(), link)
    assert link.is_symlink() and (tmp_path / "target.json").is_file()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    keeper = Keeper(pipe)
    assert keeper.save("one", last=False) and keeper.save("two")
    assert reader.communicate(timeout=30)[0] == "two"
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    assert Keeper(null).save("x") and null.is_symlink() and not Path("/dev/null").is_file()


def test_a_name_of_all_the_length_there_is(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / ("x" * 250 + ".json"))
    assert keeper.save("x") and keeper.place.read_text() == "x"
    with pytest.raises(LabError, match="File name too long"):
        Keeper(tmp_path / ("x" * 256))


def test_epochs_do_not_take_the_place_of_the_result(
    repository: Paths, tmp_path: Path, monkeypatch: Monkey, capsys: Captured
) -> None:
    words = ("--program", "/bin/true", "-o", tmp_path / "x.csv")
    code, _, err = in_this_process(monkeypatch, capsys, "tail", "--root", repository.root, *words)
    assert code == 2 and "the result is JSON; its epochs go to that name" in err


def test_an_earlier_result_gets_the_name_of_its_time(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "compare.json"
    keep_earlier(file, said.append)
    assert said == []
    for text in ("first", "second"):
        file.write_text(text)
        os.utime(file, (1_000_000_000, 1_000_000_000))
        keep_earlier(file, said.append)
    names = sorted(path.name for path in tmp_path.iterdir())
    texts = {(tmp_path / name).read_text() for name in names}
    assert len(names) == 2 and texts == {"first", "second"}
    assert all(re.fullmatch(r"compare-2001\d{4}-\d{6}(-2)?\.json", name) for name in names)
    assert len(said) == 2 and all(line.endswith(" now") for line in said)


def test_compare_keeps_its_earlier_result(repository: Paths) -> None:
    """Where the user named no file; a file that was named is replaced."""
    words = [sys.executable, "-c", PROGRAM, "compare", "--root", str(repository.root)]
    words += ["--rounds", "1", "--allocators", "glibc", "--no-system-calls"]
    for arguments in (["one two"], ["three"]):
        done = subprocess.run(
            [*words, "--", shutil.which("echo") or "echo", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    results = [read_result(file) for file in sorted(repository.bench.glob("compare*.json"))]
    assert sorted(result.rows[0].command[1:] for result in results) == [["one two"], ["three"]]
    assert "the earlier " in done.stderr and "compare-" in done.stderr
