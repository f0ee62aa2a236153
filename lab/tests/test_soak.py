"""The analysis of soaks, on CSV whose drift, variation and percentiles are known."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hakmem_lab.analysis.soak import judge_soak, read_series, summarise
from hakmem_lab.base.csv_table import parse_table
from hakmem_lab.cli import soak_scripts

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
HEADER = "epoch,elapsed_s,throughput_ops_s,rss_kb"
GOOD = f"{HEADER}\n1,2.000,100,2000\n2,4.000,100,2000\n3,6.001,100,2000\n"

Values = Callable[[float], float]  # of the share of the time that is over


def soak_text(epochs: int, rss: Values, throughput: Values) -> str:
    lines = [HEADER]
    for epoch in range(1, epochs + 1):
        over = (epoch - 1) / (epochs - 1)
        lines.append(f"{epoch},{epoch * 2}.000,{throughput(over):.0f},{rss(over):.0f}")
    return "\n".join(lines) + "\n"


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]
COMMANDS = {
    "analyze_soak.py": soak_scripts.analyze_soak,
    "analyze_epoch_tail_csv.py": soak_scripts.analyze_epoch_tail,
    "calculate_percentiles.py": soak_scripts.calculate_percentiles,
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a script's command within this process: loading scipy takes longer than all the rest."""

    def run_command(name: str, *arguments: str | Path, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = 0
        try:
            COMMANDS[name]()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run_command


def run_script(script: Path, *arguments: str | Path, python: tuple[str, ...]) -> Done:
    done = subprocess.run(
        [*python, str(script), *map(str, arguments)],
        text=True,
        capture_output=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def flat(_over: float) -> float:
    return 1e8


@pytest.fixture
def soaks(tmp_path: Path) -> Path:
    """A directory of soaks: still, growing by 4%, slowing down by 3%, unsteady by 2%."""
    noise = np.random.default_rng(5).normal(0, 0.02, 200)

    def unsteady(over: float) -> float:
        return 1e8 * (1 + float(noise[round(over * 199)]))

    for name, rss, throughput in (
        ("still", lambda _: 200_000, flat),
        ("growing", lambda over: 200_000 * (1 + 0.04 * over), flat),
        ("slowing", lambda _: 200_000, lambda over: 1e8 * (1 - 0.03 * over)),
        ("unsteady", lambda _: 200_000, unsteady),
    ):
        (tmp_path / f"{name}.csv").write_text(soak_text(200, rss, throughput))
    return tmp_path


# --- rule R4 --------------------------------------------------------------------------------------


def verdict(text: str, beside: str | None = None) -> list[bool | None]:
    def summary(name: str, csv: str) -> object:
        return summarise(read_series([parse_table(f"{name}.csv", csv)])[0])

    reference = None if beside is None else summary("beside", beside)
    return [j.passed for j in judge_soak(summary("soak", text), reference)]  # type: ignore[arg-type]


def grows(share: float) -> Values:
    return lambda over: 200_000 * (1 + share * over)


@pytest.mark.parametrize("share, passed", [(0.009, True), (-0.5, True), (0.012, False)])
def test_limit_of_growth(share: float, passed: bool) -> None:
    assert verdict(soak_text(400, grows(share), flat)) == [passed, True, True]


@pytest.mark.parametrize("share, passed", [(0.009, True), (-0.05, True), (0.012, False)])
def test_limit_of_loss(share: float, passed: bool) -> None:
    text = soak_text(400, grows(0), lambda over: 1e8 * (1 - share * over))
    assert verdict(text)[:2] == [True, passed]


def test_growth_during_warm_up_is_none() -> None:
    assert verdict(soak_text(400, lambda o: 200_000 * min(1, 0.5 + 20 * o), flat))[0] is True
    assert verdict(soak_text(400, lambda o: 200_000 * min(1, 0.5 + o), flat))[0] is False


def test_variation_is_held_against_the_references() -> None:
    def wobbling(share: float) -> str:
        return soak_text(400, grows(0), lambda over: 1e8 * (1 + share * (-1) ** round(over * 399)))

    assert verdict(wobbling(0.014))[2] is True
    assert verdict(wobbling(0.02))[2] is False
    assert verdict(wobbling(0.02), wobbling(0.03))[2] is True
    assert verdict(wobbling(0.02), wobbling(0.016))[2] is False
    # The reference decides alone, also where the limit without one is kept.
    assert verdict(wobbling(0.014), wobbling(0.01))[2] is False


def test_throughput_is_judged_as_a_share_of_the_references() -> None:
    """A machine that slows both down, by chance more or less in each epoch."""
    machine = np.random.default_rng(7).normal(1, 0.1, 400)

    def slowing(level: float, share: float) -> str:
        return soak_text(
            400,
            grows(0),
            lambda over: level * (1 - share * over) * float(machine[round(over * 399)]),
        )

    assert verdict(slowing(1e8, 0.2))[1] is False
    assert verdict(slowing(1e8, 0.2), slowing(7e7, 0.2))[1] is True
    assert verdict(slowing(1e8, 0.22), slowing(7e7, 0.2))[1] is False
    # What holds by itself, but not beside one that gets faster, does not hold.
    assert verdict(slowing(1e8, 0), slowing(7e7, -0.2))[1] is False
    # Epochs of another length, or hardly any at the same time: no measure.
    lines = slowing(7e7, 0.2).splitlines(keepends=True)
    halved = [line.replace(f"{n},{2 * n}.000", f"{n},{n}.000") for n, line in enumerate(lines)]
    assert verdict(slowing(1e8, 0.2), "".join(halved))[1] is False
    assert verdict(slowing(1e8, 0.2), "".join(lines[:15]))[1] is False


def test_few_epochs_are_no_verdict() -> None:
    assert verdict(soak_text(15, grows(0.5), flat)) == [None, None, None]


def test_memory_alone() -> None:
    text = "epoch,elapsed_s,rss_kb,label\n" + "".join(
        f"{epoch},{epoch}.0,{rss},{label}\n"
        for epoch in range(1, 31)
        for label, rss in (("a", 100), ("b", 100 + epoch))
    )
    runs = [summarise(s) for s in read_series([parse_table("x.csv", text)])]
    assert [run.label for run in runs] == ["a", "b"]
    assert [[j.passed for j in judge_soak(run)] for run in runs] == [[True], [False]]


# --- damaged input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", ": empty"),
        ("\n\n", ": empty"),
        (HEADER + "\n", ": nothing but a header"),
        (GOOD.replace("rss_kb", "rss"), ":1: no column 'rss_kb'"),
        (GOOD.replace("rss_kb", "epoch"), ":1: not a header: two columns are called 'epoch'"),
        (GOOD.replace("rss_kb", ""), ":1: not a header: a column without a name"),
        (GOOD[:-1], ":4: cut off: no newline at the end"),
        (GOOD.replace("2,4.000,100,2000", "2,4.000,100"), ":3: 3 columns instead of 4"),
        (GOOD.replace("2,4.000,100,2000", "2,4.000,100,2000,5"), ":3: 5 columns instead of 4"),
        (GOOD.replace("2,4.000,100,2000", ""), ":3: 1 columns instead of 4"),
        (GOOD.replace("2,4.000,100", "2,4.000,1oo"), ":3: column 3 (throughput_ops_s): not a nu"),
        (GOOD.replace("2,4.000,100", "2,4.000,1_0"), ":3: column 3 (throughput_ops_s): not a nu"),
        (GOOD.replace("2,4.000,100", "2,4.000,"), ":3: column 3 (throughput_ops_s): not a number"),
        (GOOD.replace("2,4.000,100", "2,4.000,inf"), ":3: column 3 (throughput_ops_s): not a fin"),
        (GOOD.replace("2,4.000,100", "2,4.000,0"), ":3: column 3 (throughput_ops_s): 0 is below 1"),
        (
            GOOD.replace("2,4.000,100,2000", "2,4.000,100,-1"),
            ":3: column 4 (rss_kb): -1 is below 1",
        ),
        (GOOD.replace("2,4.000", "2,1.999"), ":3: column 2 (elapsed_s): 1.999 after 2.000"),
        (GOOD.replace("2,4.000", "3,4.000"), ":3: column 1 (epoch): 3 where 2 is wanted"),
    ],
)
def test_damaged_input(run: Command, tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "soak.csv"
    file.write_text(text)
    for script in ("analyze_soak.py", "analyze_epoch_tail_csv.py"):
        done = run(script, file)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"{script.removesuffix('.py')}: {file}{problem}"), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_not_text(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "soak.csv"
    file.write_bytes(GOOD.encode() + b"\xff\xfe\n")
    assert f"{file}:5: not text" in run("analyze_soak.py", file).stderr


def test_windows_newlines() -> None:
    table = parse_table("x", GOOD.replace("\n", "\r\n"))
    assert table.numbers("rss_kb").tolist() == [2000, 2000, 2000]


# --- the commands ---------------------------------------------------------------------------------


def test_side_by_side(run: Command, soaks: Path) -> None:
    names = ("still", "growing", "slowing", "unsteady")
    picture = soaks / "soak.png"
    done = run("analyze_soak.py", "--plot", picture, *(soaks / f"{n}.csv" for n in names))
    assert done.returncode == 1, done.stderr
    cells = [cell.strip() for cell in done.stdout.splitlines()[0].split("|")]
    assert cells[2:-1] == list(names)
    failed = [line for line in done.stdout.splitlines() if line.startswith("- FAIL")]
    assert [line.split(":")[0] for line in failed] == [
        "- FAIL growing",
        "- FAIL slowing",
        "- FAIL unsteady",
    ]
    assert "resident memory +3.4" in failed[0] and "CV 1.9" in failed[2]
    assert done.stdout.count("- PASS") == 9
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_judge_and_reference(run: Command, soaks: Path) -> None:
    files = [soaks / f"{name}.csv" for name in ("still", "growing")]
    assert run("analyze_soak.py", "--judge", "still", *files).returncode == 0
    assert run("analyze_soak.py", files[0]).returncode == 0
    done = run("analyze_soak.py", "--reference", "glibc", *files)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--reference: 'glibc' is unknown; there are: still, growing" in done.stderr


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--warm-up", "some"], "--warm-up some: wanted are seconds"),
        (["--warm-up", "100%"], "--warm-up 100%: wanted are seconds"),
        (["--warm-up", "399"], "still: 200 epochs, 0 of them after the warm-up"),
        (["--plot", "/nowhere/x.png"], "--plot /nowhere/x.png: no such directory"),
        (["--plot", "x.nonsense"], "--plot x.nonsense: "),
        (["/nowhere/soak.csv"], "/nowhere/soak.csv: No such file"),
    ],
)
def test_mistakes(run: Command, soaks: Path, arguments: list[str], problem: str) -> None:
    done = run("analyze_soak.py", *arguments, soaks / "still.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"analyze_soak: {problem}"), done.stderr


def test_two_runs_of_one_name(run: Command, soaks: Path) -> None:
    done = run("analyze_soak.py", soaks / "still.csv", soaks / "still.csv")
    assert "two runs are called 'still'" in done.stderr


def test_epoch_tail(run: Command, tmp_path: Path) -> None:
    """Throughputs 1..1001 M/s: their percentiles are exact, those of the latencies are others than
    the reciprocals."""
    throughputs = [1e6 * value for value in range(1, 1002)]
    file = tmp_path / "soak.csv"
    lines = [f"{i},{i * 2}.000,{t:.0f},100" for i, t in enumerate(throughputs, start=2)]
    file.write_text("\n".join([HEADER, "1,2.000,5,100", *lines]) + "\n")
    done = run("analyze_epoch_tail_csv.py", "--warm-up", "0", file)
    assert done.returncode == 0, done.stderr
    rows = dict(
        [cell.strip() for cell in line.split("|")[1:3]]
        for line in done.stdout.splitlines()
        if line.startswith("|")
    )
    assert rows["epochs"] == "1001"  # the first one is where everything starts
    for share, value in (("p50", 501), ("p10", 101), ("p1", 11), ("p0.1", 2)):
        assert rows[f"throughput ops/s, {share}"] == f"{value * 1_000_000}"
    latencies = np.array([1e9 / t for t in throughputs])
    for high in (50.0, 90.0, 99.0, 99.9):
        assert rows[f"latency ns/op, p{high:g}"] == f"{np.percentile(latencies, high):.3f}"
    assert rows["latency ns/op, worst epoch"] == "1000.000"
    assert "Fewer than 1000" not in done.stdout


def test_latency_is_not_a_reciprocal_of_a_percentile(run: Command, tmp_path: Path) -> None:
    """Between two epochs of 1 and 3 M/s: the median latency is 667 ns, 1 / median is 500."""
    file = tmp_path / "soak.csv"
    file.write_text(f"{HEADER}\n1,1,5,9\n2,2,1000000,9\n3,3,3000000,9\n")
    done = run("analyze_epoch_tail_csv.py", "--warm-up", "0", file)
    assert "| latency ns/op, p50         |  666.667 |" in done.stdout
    assert "Fewer than 1000 epochs (soak)" in done.stdout


def test_epoch_tail_needs_throughput(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "soak.csv"
    file.write_text("epoch,elapsed_s,rss_kb\n1,1,5\n2,2,5\n3,3,5\n")
    done = run("analyze_epoch_tail_csv.py", file)
    assert done.returncode == 2
    assert "soak: no column 'throughput_ops_s'" in done.stderr


PHASES = "cycle,phase,elapsed_s,live_kb,rss_kb,ratio"


def phases_text(growth: float) -> str:
    """Five cycles; the second phase keeps twice what is live, and more every time."""
    lines = [PHASES]
    for cycle in range(1, 6):
        lines.append(f"{cycle},grow,{cycle}.0,1000,1100,1.100")
        rss = 200 * (1 + growth * (cycle - 2) / 3)
        lines.append(f"{cycle},drop,{cycle}.5,100,{rss:.0f},{rss / 100:.3f}")
    return "\n".join(lines) + "\n"


def test_fragmentation(run: Command, tmp_path: Path) -> None:
    for name, growth in (("still", 0.0), ("growing", 0.5)):
        (tmp_path / f"{name}.csv").write_text(phases_text(growth))
    picture = tmp_path / "phases.png"
    files = [tmp_path / "still.csv", tmp_path / "growing.csv"]
    done = run("analyze_soak.py", "--plot", picture, *files)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    assert ["grow", "1.10 (most 1.10)", "1.10 (most 1.10)"] in rows
    assert ["drop", "2.00 (most 2.00)", "2.33 (most 3.00)"] in rows
    assert any(row[:2] == ["drop", "+0.0%, +0.0%"] and "+50.0%" in row[2] for row in rows if row)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("2,drop,", "2,drip,", ":5: column 2 (phase): drip where drop is wanted"),
        ("2,grow,", "3,grow,", ":4: column 1 (cycle): 3 where 2 is wanted"),
        ("2.0,1000,", "2.0,0,", ":4: column 4 (live_kb): 0 is below 1"),
    ],
)
def test_damaged_phases(run: Command, tmp_path: Path, old: str, new: str, problem: str) -> None:
    text = phases_text(0)
    assert old in text
    file = tmp_path / "phases.csv"
    file.write_text(text.replace(old, new))
    done = run("analyze_soak.py", file)
    assert done.returncode == 2
    assert done.stderr.startswith(f"analyze_soak: {file}{problem}"), done.stderr


def test_one_kind_at_a_time(run: Command, tmp_path: Path, soaks: Path) -> None:
    file = tmp_path / "phases.csv"
    file.write_text(phases_text(0))
    assert "one kind at a time" in run("analyze_soak.py", file, soaks / "still.csv").stderr


def test_percentiles_of_a_column(run: Command, tmp_path: Path) -> None:
    numbers = "".join(f"{n}\n" for n in range(101))
    done = run("calculate_percentiles.py", stdin=numbers)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "count 101", "p0 0", "p0.1 0.1", "p1 1", "p10 10", "p50 50", "p90 90", "p99 99",
        "p99.9 99.9", "p100 100",
    ]  # fmt: skip
    file = tmp_path / "some.csv"
    file.write_text("name,value\na,-1\nb,1\nc,3\n")
    for column in ("value", "2"):
        done = run("calculate_percentiles.py", "--column", column, "--percentiles", "50", file)
        assert done.stdout == "count 3\np50 1\n"
    both = run("calculate_percentiles.py", "--column", "2", "--percentiles", "50", file, file)
    assert both.stdout == "count 6\np50 1\n"


@pytest.mark.parametrize(
    "arguments, text, problem",
    [
        ([], "1\n2\nx\n", "standard input:3: column 1 (value): not a number: 'x'"),
        ([], "1\n2\n3", "standard input:3: cut off"),
        ([], "a,b\n1,2\n", "standard input: --column is wanted; there are: a, b"),
        (["--column", "c"], "a,b\n1,2\n", "standard input:1: no column 'c'; there are: a, b"),
        (["--column", "3"], "a,b\n1,2\n", "standard input: --column 3: there are 2"),
        (["--column", "b"], "a,b\n1,2\n1,\n", "standard input:3: column 2 (b): not a number: ''"),
        (["--percentiles", "101"], "1\n", "--percentiles 101: wanted are numbers from 0 to 100"),
        (["--percentiles", "half"], "1\n", "--percentiles half: wanted are numbers"),
        ([], "", "standard input: empty"),
    ],
)
def test_percentiles_of_wrong_input(
    run: Command, arguments: list[str], text: str, problem: str
) -> None:
    done = run("calculate_percentiles.py", *arguments, stdin=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"calculate_percentiles: {problem}"), done.stderr


@pytest.mark.parametrize("script", sorted(COMMANDS))
def test_scripts(script: str, soaks: Path) -> None:
    """As a user starts them; with -S, without packages, they go on in the lab's environment."""
    for python in ((sys.executable,), (sys.executable, "-S")):
        arguments = ["--column=4"] if script.startswith("calculate") else []
        done = run_script(SCRIPTS / script, *arguments, soaks / "still.csv", python=python)
        assert done.returncode == 0, done.stderr
        assert "200000" in done.stdout or "100000000" in done.stdout


def test_a_python_without_the_packages(tmp_path: Path, soaks: Path) -> None:
    elsewhere = tmp_path / "repository/scripts"
    elsewhere.mkdir(parents=True)
    for name in ("in_lab.py", "analyze_soak.py"):
        (elsewhere / name).write_text((SCRIPTS / name).read_text())
    bare = (sys.executable, "-S")
    done = run_script(elsewhere / "analyze_soak.py", soaks / "still.csv", python=bare)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "analyze_soak: this Python has no numpy and no scipy: run scripts/setup_lab.sh"
    )


# --- the whole of it ------------------------------------------------------------------------------


def test_soak_results(tmp_path: Path) -> None:
    """Seconds instead of hours, the library in every part."""
    programs = Path(os.environ.get("HAKMEM_TEST_PROGRAMS", ROOT / "build/bench"))
    library = Path(os.environ.get("HAKMEM_TEST_LIBRARY", ROOT / "build/standard/libhakmem.so"))
    for needed in (programs / "random_mixed", programs / "phases", library):
        if not needed.is_file():
            pytest.skip(f"{needed} is not built")
    out = tmp_path / "soak"
    variables = {
        "LONG_SEC": "3", "SHORT_SEC": "3", "CYCLES": "2", "EPOCH_SEC": "1", "MIB": "4",
        "IDLE_MS": "10", "WARM_UP": "0", "BENCH_OUT": str(programs), "HAKMEM": str(library),
        "MIMALLOC": str(library), "JEMALLOC": str(library),
    }  # fmt: skip
    script = [str(SCRIPTS / "soak_results.sh")]
    environment = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(
        [*script, str(out)], env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    runs = {"balanced", "glibc", "speed", "glibc-speed", "lean", "glibc-lean"}
    runs |= {"mimalloc", "jemalloc"}
    assert {path.stem for path in out.glob("*.csv")} == runs | {"fragmentation"}
    assert {path.stem for path in out.glob("*.png")} == {
        "pair", "speed", "lean", "others", "fragmentation",
    }  # fmt: skip
    text = (out / "analysis.md").read_text()
    assert text == done.stdout
    for run in runs:
        assert len((out / f"{run}.csv").read_text().splitlines()) == 4
        assert f"- {run}: " in text
    assert "SHORT balanced: " in text and "SHORT glibc" not in text
    assert "SHORT speed: " in text and "at most glibc-speed's beside it" in text
    assert "- balanced: [SS_OS_STATS] " in text

    for changes, problem in (
        ({"LONG_SEC": "an hour"}, "LONG_SEC=an hour: not a number"),
        ({"SHORT_SEC": "1", "EPOCH_SEC": "2"}, "EPOCH_SEC=2 is above SHORT_SEC=1"),
        ({"MIMALLOC": "/nowhere/lib.so"}, "no library at /nowhere/lib.so"),
        ({"RESUME": "yes"}, "RESUME=yes: not a number; accepted: 0..1"),
    ):
        done = subprocess.run(
            [*script, str(out)], env=environment | changes, text=True, capture_output=True,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert f"soak_results: {problem}" in done.stderr

    def resumed(**changes: str) -> set[str]:
        """What a run with RESUME=1 measures again."""
        times = {path: path.stat().st_mtime_ns for path in out.glob("*.csv")}
        done = subprocess.run(
            [*script, str(out)], env=environment | {"RESUME": "1"} | changes, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (out / "analysis.md").read_text() == done.stdout
        return {path.stem for path, time in times.items() if path.stat().st_mtime_ns != time}

    assert resumed() == set()
    lines = (out / "speed.csv").read_text().splitlines(keepends=True)
    (out / "speed.csv").write_text("".join(lines[:-1]))  # killed in its last epoch
    report = (out / "mimalloc.txt").read_text()
    (out / "mimalloc.txt").write_text(report.replace("Throughput", "Thro"))  # killed after it
    (out / "fragmentation.txt").write_text("Throughput = 1 ops/s\n" * 3)  # the fourth is missing
    assert resumed() == {"speed", "glibc-speed", "mimalloc", "jemalloc", "fragmentation"}
    assert resumed(LONG_SEC="4", CYCLES="3") == {"balanced", "glibc", "fragmentation"}
