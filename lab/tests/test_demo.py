"""scripts/demo: its table, and the means in its last line."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts/demo"))
    return importlib.import_module("demo")


def row_of(demo: Any, title: str, times: tuple[float, float], peaks: tuple[int, int]) -> Any:
    row = demo.Row(SimpleNamespace(title=title, seconds=1.0))
    for side, seconds, peak in zip(demo.SIDES, times, peaks, strict=True):
        row.runs[side] = [
            SimpleNamespace(seconds=seconds, peak_kb=peak * 1024, digest="x"),
            SimpleNamespace(seconds=seconds * 2, peak_kb=peak * 512, digest="x"),
        ]
    return row


def test_means(demo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Of best times and largest peaks; a program that failed is in none."""
    rows = [row_of(demo, "a", (2, 1), (10, 20)), row_of(demo, "b", (1, 2), (10, 20))]
    failed = row_of(demo, "c", (1, 9), (1, 9))
    failed.problem = "on hakmem: oh"
    assert demo.mean_line([*rows, failed]) == (
        "mean of 2 programs: 1.00 of glibc's time, 2.00 of its peak memory"
    )
    assert demo.mean_line(rows[:1]).startswith("mean of 1 program: 0.50 of")
    assert demo.mean_line([failed]) == "no program ran on both sides"
    demo.print_table(rows, 2)
    assert re.search(
        r"^a +2\.00 +1\.00 +0\.50 +10\.0 +20\.0 +2\.00 +yes$", capsys.readouterr().out, re.M
    )


def test_a_program(tmp_path: Path) -> None:
    if shutil.which("lua5.4", path="/usr/bin:/usr/local/bin") is None:
        pytest.skip("lua5.4 is not installed")
    library = Path(os.environ.get("HAKMEM_TEST_LIBRARY", ROOT / "build/standard/libhakmem.so"))
    if not library.is_file():
        pytest.skip("hakmem is not built")
    words = ["--lib", str(library), "--only", "lua", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-B", str(ROOT / "scripts/demo/demo.py"), *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("lua")]
    ratios = line.split()[-5], line.split()[-2]
    last = f"mean of 1 program: {ratios[0]} of glibc's time, {ratios[1]} of its peak memory"
    assert lines[-1] == last
