"""Replays a trace's plan on every allocator, beside each other, with bench/replay."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Launcher, Run
from hakmem_lab.run.rows import ONE_CPU_GROUP, Row
from hakmem_lab.run.runner import RunFunction
from hakmem_lab.trace.info import duration, live_curve, show_command
from hakmem_lab.trace.match import Objects
from hakmem_lab.trace.replay_plan import Plan

DRY = Allocator("dry", "", "the replay without calls")


def make_row(paths: Paths, trace: Path, plan_file: Path) -> Row:
    """Asked for before the plan is made, which takes a while."""
    program = paths.bench / "replay"
    if not program.is_file():
        raise LabError(f"{paths.shown(program)} is not built: run make bench-build")
    return Row(
        name=trace.stem,
        command=(str(program), str(plan_file.resolve())),
        measure="throughput",
        group="threads",
        idea=f"the allocations of {trace.name}",
    )


def pinned(row: Row, threads: int) -> Row:
    """A single thread stays on one CPU."""
    return row if threads > 1 else replace(row, group=ONE_CPU_GROUP)


def describe_replay(objects: Objects, plan: Plan) -> dict[str, Any]:
    """What the result says about the recording, beside its rounds and CPUs."""
    trace = objects.trace
    peak = live_curve(objects, objects.size.astype(np.int64)).max(initial=0)
    return {
        "trace": str(trace.path),
        "recorded": show_command(trace.information),
        "events": len(trace.stamp),
        "calls": plan.calls,
        "threads": len(trace.numbers),
        "recorded_s": round(duration(objects), 3),
        "peak_live_kb": int(peak) // 1024,
        "anomalies": sum(vars(objects.anomalies).values()),
        "problems": list(trace.warnings),
    }


def with_dry_runs(launcher: Launcher, settings: dict[str, Any]) -> RunFunction:
    """Runs as the launcher does, and first in each round the replay without calls: what it takes
    and how much memory goes to settings, as ns a call, KiB and page faults."""
    begun: set[int] = set()  # rounds; their first allocator may sit out
    dry: dict[str, list[float]] = {"ns": [], "peak_rss_kb": [], "faults": []}
    settings["dry"] = dry

    def run(row: Row, allocator: Allocator, round_: int, position: int) -> Run:
        if round_ not in begun:
            begun.add(round_)
            bare = Row(row.name, (*row.command, "--dry"), row.measure, row.group)
            done = launcher.run(bare, DRY, round_, position)
            cost = done.cost(row.measure)
            if cost is not None:
                dry["ns"].append(round(cost, 3))
                dry["peak_rss_kb"].append(done.peak_rss_kb)
                dry["faults"].append(done.minor_faults + done.major_faults)
        return launcher.run(row, allocator, round_, position)

    return run
