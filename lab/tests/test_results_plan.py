"""All published results by one command: what is left, what is taken up, what is refused."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import in_this_process
from samples import suite

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import SOURCES, describe_commit
from hakmem_lab.run.plan import choose_parts, plan_file, read_plan
from hakmem_lab.run.results import read_result, write_result

ROOT = Path(__file__).resolve().parents[2]
HEADER = '#define HAKMEM_VERSION_STRING "1.2.3"\n'
# Two parts that need no time. `slow` can be stopped, and adds a line whenever it is run.
PLAN = """
rounds = 6
finish = ['echo "finished $VERSION" >> "$LOG"']

[[part]]
name = "quick"
minutes = 10
run = ['echo "quick $ROUNDS" >> "$LOG"', 'cp "$SAMPLE" "$OUT/quick.json"']
keep = { "quick.json" = "docs/results/quick-{version}.json.zst" }

[[part]]
name = "slow"
minutes = 120
goes_on = true
run = ['''
  echo slow >> "$LOG"
  echo line >> "$OUT/slow.txt"
  exit "${SLOW_ENDS_WITH:-0}"''']
keep = { "slow.txt" = "docs/results/slow-{version}.txt" }
"""
Results = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a commit, a plan of small parts, and a result for them to keep."""
    root = tmp_path / "project"
    for name, text in {
        "include/hakmem.h": HEADER,
        "src/a.c": "int a;\n",
        "bench/results.toml": PLAN,
        "docs/page.md": "A page.\n",
        ".gitignore": "/build/\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    git(root, "init", "-q")
    git(root, "add", ".")
    commit(root)
    write_result(suite(), tmp_path / "sample.json")
    monkeypatch.setenv("SAMPLE", str(tmp_path / "sample.json"))
    monkeypatch.setenv("LOG", str(root / "build/log"))
    (root / "build").mkdir()
    return root


@pytest.fixture
def results(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Results:
    def run(*words: object) -> tuple[int, str, str]:
        return in_this_process(monkeypatch, capsys, "results", "--root", project, *words)

    return run


def git(root: Path, *words: str) -> None:
    person = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"]
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", root, *person, *words], check=True, env=os.environ | alone)


def commit(root: Path) -> None:
    git(root, "commit", "-q", "--allow-empty", "-a", "-m", "A change")


def what_ran(project: Path) -> list[str]:
    """Since it was asked last."""
    log = project / "build/log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def test_says_first_what_is_left_and_how_long_it_takes(project: Path, results: Results) -> None:
    code, said, _ = results("--plan")
    assert code == 0 and what_ran(project) == []
    lines = [line.strip() for line in said.splitlines()]
    assert lines == [
        "quick  to be measured, about 10 min",
        "slow   to be measured, about 2.0 h",
        "left: 2 of 2 parts, about 2.2 h",
    ]


def test_fewer_rounds_take_less_time(results: Results) -> None:
    assert "left: 2 of 2 parts, about 22 min" in results("--plan", "--rounds", 1)[1]


def test_a_part_may_have_rounds_of_its_own(project: Path, results: Results) -> None:
    plan = PLAN.replace("minutes = 10", "minutes = 10\nrounds = 40")
    (project / "bench/results.toml").write_text(plan, encoding="utf-8")
    commit(project)
    results("--parts", "quick")
    assert what_ran(project)[0] == "quick 40"
    results("--parts", "quick", "--rounds", 1)
    assert what_ran(project)[0] == "quick 1"


def test_what_is_complete_is_not_measured_again(project: Path, results: Results) -> None:
    code, said, _ = results("--rounds", 7)
    assert code == 0, said
    assert what_ran(project) == ["quick 7", "slow", "finished 1.2.3"]
    code, said, _ = results("--rounds", 7)
    assert code == 0 and "all parts are complete" in said
    assert what_ran(project) == ["finished 1.2.3"]


def test_publishes_results_compressed_and_other_files_as_they_are(
    project: Path, results: Results
) -> None:
    # A suite of few rounds is not published; a try of it is, elsewhere.
    code, _, _ = results("--rounds", 1)
    assert code == 0
    assert not (project / "docs/results").exists()
    published = project / "build/bench/results-try/published/docs/results"
    assert read_result(published / "quick-1.2.3.json.zst").kind == "suite"
    assert (published / "slow-1.2.3.txt").read_text(encoding="utf-8") == "line\n"


def test_another_commit_measures_all_parts_anew(project: Path, results: Results) -> None:
    results("--rounds", 1)
    what_ran(project)
    commit(project)
    assert results("--rounds", 1)[0] == 0
    assert what_ran(project) == ["quick 1", "slow", "finished 1.2.3"]
    # In a folder of its own, not after what the other commit left.
    assert (project / "build/bench/results-try/slow/slow.txt").read_text() == "line\n"


def test_another_number_of_rounds_is_another_result(project: Path, results: Results) -> None:
    results("--rounds", 1)
    what_ran(project)
    results("--rounds", 2)
    assert what_ran(project) == ["quick 2", "slow", "finished 1.2.3"]


def test_a_part_whose_file_was_changed_is_measured_again(project: Path, results: Results) -> None:
    results("--rounds", 1)
    what_ran(project)
    (project / "build/bench/results-try/quick/quick.json").write_text("{}", encoding="utf-8")
    results("--rounds", 1)
    assert what_ran(project) == ["quick 1", "finished 1.2.3"]


def test_a_part_that_was_stopped_goes_on(
    project: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOW_ENDS_WITH", "130")  # as hakmem-lab ends after Ctrl-C
    assert results("--rounds", 1)[0] != 0
    assert what_ran(project) == ["quick 1", "slow"]
    monkeypatch.delenv("SLOW_ENDS_WITH")
    assert "slow   goes on" in results("--plan", "--rounds", 1)[1]
    assert results("--rounds", 1)[0] == 0
    assert what_ran(project) == ["slow", "finished 1.2.3"]
    kept = project / "build/bench/results-try/slow/slow.txt"
    assert kept.read_text(encoding="utf-8") == "line\nline\n"


def test_a_part_that_fails_does_not_stop_the_others(
    project: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMPLE", "/nowhere")
    code, said, _ = results("--rounds", 1)
    assert code == 1 and "quick: exit code 1 of: cp" in said
    assert what_ran(project) == ["quick 1", "slow", "finished 1.2.3"]


def test_the_time_that_a_part_took_is_the_next_estimate(project: Path, results: Results) -> None:
    results("--rounds", 1)
    mark = project / "build/bench/results-try/slow/done.json"
    done = json.loads(mark.read_text(encoding="utf-8"))
    mark.write_text(json.dumps(done | {"minutes": 45.0}), encoding="utf-8")
    commit(project)
    assert "slow   to be measured, about 45 min" in results("--plan", "--rounds", 1)[1]


def test_chooses_parts(project: Path, results: Results) -> None:
    assert results("--rounds", 1, "--parts", "slow")[0] == 0
    assert what_ran(project) == ["slow", "finished 1.2.3"]
    code, _, problem = results("--parts", "slow fast")
    assert code == 2 and "no part 'fast'" in problem and "quick, slow" in problem


@pytest.mark.parametrize("file", ["src/a.c", "src/new.c", "include/hakmem.h"])
def test_refuses_changed_sources(project: Path, results: Results, file: str) -> None:
    with (project / file).open("a", encoding="utf-8") as stream:
        stream.write("/* changed */\n")
    code, _, problem = results()
    assert code == 2 and f"{file} differs from" in problem and what_ran(project) == []


def test_documentation_may_change_meanwhile(project: Path, results: Results) -> None:
    (project / "docs/page.md").write_text("Changed.\n", encoding="utf-8")
    assert results("--plan")[0] == 0
    assert not describe_commit(project).endswith("-dirty")
    (project / "src/a.c").write_text("int b;\n", encoding="utf-8")
    assert describe_commit(project).endswith("-dirty")


def test_refuses_a_folder_without_a_commit(project: Path, results: Results) -> None:
    (project / ".git").rename(project / "build/git")
    code, _, problem = results()
    assert code == 2 and "has none" in problem


def test_names_the_variable_that_is_lacking(project: Path, results: Results) -> None:
    plan = PLAN.replace('name = "slow"', 'name = "slow"\nneeds = ["NOT_THERE"]')
    (project / "bench/results.toml").write_text(plan, encoding="utf-8")
    commit(project)
    code, _, problem = results("--rounds", 1)
    assert code == 2 and "NOT_THERE= is wanted for slow" in problem
    assert 'RESULTS="quick"' in problem and what_ran(project) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("minutes = 120", "hours = 2", "unknown key hours"),
        ("minutes = 120\n", "", "no minutes"),
        ('name = "slow"', 'name = "quick"', "each of another name"),
        ("rounds = 6", "rounds = ", "bench/results.toml"),
        ("rounds = 6", "", "no rounds"),
    ],
)
def test_a_bad_plan_is_an_error_of_one_line(
    project: Path, old: str, new: str, problem: str
) -> None:
    file = project / "bench/results.toml"
    file.write_text(PLAN.replace(old, new), encoding="utf-8")
    with pytest.raises(LabError, match=problem):
        read_plan(file)


def test_the_repositorys_own_plan_is_complete() -> None:
    plan = read_plan(plan_file(Paths(ROOT)))
    assert choose_parts(plan, " ") == list(plan.parts)
    files = [*(ROOT / "bench").glob("*.mk"), ROOT / "tests/campaigns/campaigns.mk"]
    makefiles = "".join(file.read_text(encoding="utf-8") for file in files)
    for part in plan.parts:
        assert part.run and part.keep and part.minutes > 0
        for target in part.build:
            assert f"\n{target}:" in makefiles, target
    assert all((ROOT / source).exists() for source in SOURCES)
