"""The commands that people type from the repository's root are there, under the names they know."""

import os
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.base.paths import Paths
from hakmem_lab.run import rows

ROOT = Path(__file__).resolve().parents[2]
TARGETS = [
    *(f"bench_random_mixed_{kind}" for kind in ("hakmem", "system", "mi")),
    *(f"bench_random_mixed_hakmem_{kind}" for kind in ("minimal", "observe")),
    *("perf_fast", "perf_observe", "perf_all"),
    *("bench", "bench-quick", "bench-ir", "bench-programs", "bench-servers", "bench-ab"),
    *("peers", "soak"),
]
SCRIPTS = [
    *("run_mixed_10_cleanenv.sh", "larson.sh", "soak_mixed_single_process.sh"),
    *("soak_mixed_rss.sh", "analyze_epoch_tail_csv.py", "analyze_soak.py"),
    "calculate_percentiles.py",
]
# Rows of the suite, and what their blocks are where that is agreed on.
SCENARIOS = {
    **{name: "" for name in ("mixed400", "larson", "string-builder", "token-stream")},
    **{
        "small-objects": "",
        "json": "64 KiB",
        "mir": "256 KiB",
        "vm": "2 MiB",
        "mid": "8 to 32 KiB",
    },
}


@pytest.mark.parametrize("target", TARGETS)
def test_targets(target: str) -> None:
    """make knows them, and what they are made from."""
    words = ["make", "-n", "-C", str(ROOT), target, "A=a", "B=b", "ROW=mixed400"]
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(script: str) -> None:
    file = ROOT / "scripts" / script
    assert os.access(file, os.X_OK)
    assert file.read_text().startswith("#!/usr/bin/env ")


def test_scenarios() -> None:
    found = {row.name: row for row in rows.read_suite(Paths(ROOT), ROOT / "bench/suite.toml")}
    for name, blocks in SCENARIOS.items():
        assert blocks in found[name].idea
        assert (ROOT / "bench" / f"{Path(found[name].command[0]).name}.c").is_file()


def test_profiles_of_larson() -> None:
    done = subprocess.run(
        [str(ROOT / "scripts/larson.sh"), "--list"], capture_output=True, text=True, check=True
    )
    names = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert {"server", "small", "mid"} <= set(names)
