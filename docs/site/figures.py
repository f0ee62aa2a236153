"""What the results page draws: a script of data for each result in docs/results, and plotly's own script.

Usage: build/lab/venv/bin/python docs/site/figures.py ROOT FOLDER      the folder is made; what is up to date in it stays

A page that is read from a folder may not fetch JSON, but it may load scripts: so the data are scripts.
"""

import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from plotly.offline import get_plotlyjs

from hakmem_lab.base.reading import read_json
from hakmem_lab.report.html import numbers, read_soaks
from hakmem_lab.report.page_tables import cost_estimate, peak_mib, run_estimate, unit_of
from hakmem_lab.run.results import Result, read_result

SOAK_POINTS = 400  # of each run; the CSV files have them all


def rounded(value: Any) -> Any:
    """Five digits: no plot shows more."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def measured(result: Result) -> dict[str, Any]:
    """Of each row and allocator: median with its interval, and every run."""
    rows: list[dict[str, Any]] = []
    for row in result.rows:
        on = {
            name: {
                "cost": [numbers(cost_estimate(row, name)), list(row.costs(name).values())],
                "memory": [
                    numbers(run_estimate(row, name, peak_mib)),
                    [peak_mib(run) for run in row.good_runs(name)],
                ],
            }
            for name in result.allocator_names()
            if row.good_runs(name)
        }
        if on:
            rows.append({"name": row.name, "idea": row.idea, "unit": unit_of(row), "on": on})
    versions = {a.name: a.version for a in result.allocators}
    return {"names": result.allocator_names(), "versions": versions, "rows": rows}


def idle(result: Result) -> dict[str, Any]:
    """Medians, in MiB, of the rows in which a process goes idle."""
    parts = {"filled_kb": "filled", "resident_kb": "resident when idle", "live_kb": "live"}
    rows: dict[str, dict[str, list[float]]] = {}
    for row in result.rows:
        for name in result.allocator_names():
            good = [run.figures for run in row.good_runs(name) if parts.keys() <= run.figures.keys()]
            if good:
                medians = [median(run[part] for run in good) / 1024 for part in parts]
                rows.setdefault(row.name, {})[name] = medians
    ideas = {row.name: row.idea for row in result.rows}
    return {"parts": list(parts.values()), "ideas": ideas, "rows": rows}


def instructions(result: dict[str, Any]) -> dict[str, Any]:
    parts = ("malloc", "malloc_slow", "free", "free_slow")
    good = [entry for entry in result["instructions"] if not entry["failure"]]
    return {"parts": parts, "on": {e["allocator"]: [e[part] for part in parts] for e in good}}


def campaigns(result: dict[str, Any]) -> dict[str, Any]:
    counted = Counter((run["campaign"], run["result"]) for run in result["runs"])
    names = sorted({name for name, _ in counted})
    ends = sorted({end for _, end in counted}, key=lambda end: (end != "passed", end))
    return {"campaigns": names, "results": {e: [counted[n, e] for n in names] for e in ends}}


def soaks(folder: Path) -> dict[str, Any]:
    runs = {}
    for run in read_soaks([folder]).series:
        step = max(1, len(run.elapsed) // SOAK_POINTS)
        runs[run.label] = {
            "minutes": (run.elapsed[::step] / 60).tolist(),
            "mib": (run.rss_kb[::step] / 1024).tolist(),
        }
    return {"runs": runs}


def figures_in(source: Path) -> dict[str, Any]:
    if source.is_dir():
        return soaks(source)
    raw = read_json(source)
    if "kind" not in raw:
        return campaigns(raw)
    if raw["kind"] == "instructions":
        return instructions(raw)
    result = read_result(source)
    return idle(result) if result.kind == "steady" else measured(result)


def fingerprint(source: Path) -> str:
    files = sorted(source.glob("*.csv")) if source.is_dir() else [source]
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def name_of(source: Path) -> str:
    """suite-0.1.0.json.zst -> suite: the page is of one version, and its plots say so."""
    return re.sub(r"-\d+\.\d+\.\d+(\.json(\.zst)?)?$", "", source.name)


def main() -> None:
    results, folder = Path(sys.argv[1]) / "docs/results", Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"plotly.min.js"}
    if not (folder / "plotly.min.js").is_file():
        (folder / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")
    for source in sorted([*results.glob("*.json"), *results.glob("*.json.zst"), *results.glob("soak-*")]):
        name = name_of(source)
        wanted.add(f"{name}.js")
        target, mark = folder / f"{name}.js", f"// {fingerprint(source)}\n"
        if target.is_file() and target.read_text(encoding="utf-8").startswith(mark):
            continue
        text = json.dumps(rounded(figures_in(source)), separators=(",", ":"))
        target.write_text(f"{mark}hakmemFigures[{json.dumps(name)}]={text};\n", encoding="utf-8")
    for file in folder.iterdir():
        if file.name not in wanted:
            file.unlink()


if __name__ == "__main__":
    main()
