"""The command hakmem-lab results: every published result anew, of one commit (`make results`)."""

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths, find_paths
from hakmem_lab.base.printable import print_lines
from hakmem_lab.cli.publish import UNKNOWN, publish
from hakmem_lab.run.allocators import hakmem, is_hakmem
from hakmem_lab.run.machine import describe_machine
from hakmem_lab.run.plan import (
    Identity,
    Work,
    choose_parts,
    commit_of,
    plan_file,
    read_plan,
    work_on,
)
from hakmem_lab.run.results import read_result
from hakmem_lab.run.resume import OF_THE_MOMENT

OF_THE_LAB = ".json.zst"  # published by `publish`; anything else is copied as it is


def show_minutes(minutes: float) -> str:
    return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min"


def plan_lines(works: Sequence[Work], share: float) -> list[str]:
    """Each part and how long it is likely to take."""
    lines = []
    width = max(len(work.part.name) for work in works) + 2
    for work in works:
        left = work.minutes(share)
        about = f", about {show_minutes(left)}" if left else ""
        lines.append(f"  {work.part.name:<{width}}{work.state}{about}")
    total = sum(work.minutes(share) for work in works)
    left_over = sum(not work.is_complete for work in works)
    if not left_over:
        return [*lines, "all parts are complete"]
    return [*lines, f"left: {left_over} of {len(works)} parts, about {show_minutes(total)}"]


def refuse_lacking(works: Sequence[Work], environment: Mapping[str, str]) -> None:
    for name in dict.fromkeys(name for work in works for name in work.part.needs):
        if not environment.get(name):
            parts = [work.part.name for work in works if name in work.part.needs]
            others = [work.part.name for work in works if name not in work.part.needs]
            without = f'; RESULTS="{" ".join(others)}" leaves them out' if others else ""
            raise LabError(f"{name}= is wanted for {', '.join(parts)}{without}")


def run_command(command: Sequence[str], root: Path, environment: Mapping[str, str]) -> int:
    """Its exit code. When this process is stopped the command is, too, and keeps what it has."""
    process = subprocess.Popen(command, cwd=root, env=dict(environment))
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


def bash(text: str) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", text]


def measure(work: Work, paths: Paths, environment: Mapping[str, str]) -> str:
    """What went wrong; empty: the part is complete."""
    start = time.monotonic()
    work.begin()
    own = {**environment, "OUT": str(work.folder)}
    if work.part.rounds and not environment["TRY"]:
        own["ROUNDS"] = str(work.part.rounds)
    for text in work.part.run:
        code = run_command(bash(text), paths.root, own)
        if code in (130, -signal.SIGINT):
            raise KeyboardInterrupt
        if code:
            return f"{work.part.name}: exit code {code} of: {text}"
    try:
        work.finish((time.monotonic() - start) / 60)
    except LabError as error:
        return str(error)
    return ""


def publish_part(work: Work, to: Path, version: str, as_it_is: bool) -> None:
    for name, place in work.part.keep.items():
        source, target = work.folder / name, to / place.format(version=version)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.name.endswith(OF_THE_LAB):
            # Our own libraries that are given by their path are of this version.
            ours = {a.name: version for a in read_result(source).allocators
                    if a.version == UNKNOWN and is_hakmem(a)}  # fmt: skip
            publish(source, target, versions=ours, as_it_is=as_it_is)
            target.with_suffix("").unlink(missing_ok=True)  # an earlier one, not compressed
        elif source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)


def identity_of(paths: Paths, version: str, rounds: int) -> Identity:
    machine = {k: v for k, v in describe_machine().items() if k not in OF_THE_MOMENT}
    return {
        "commit": commit_of(paths.root),
        "machine": machine,
        "version": version,
        "rounds": rounds,
    }


def results_command(
    wanted: Annotated[
        str | None,
        typer.Option("--parts", metavar="'A B'", help="Only these. Default: all of the plan."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Fewer than six: a try. It changes nothing in docs."),
    ] = None,
    only_plan: Annotated[bool, typer.Option("--plan", help="Says what is left, no more.")] = False,
    file: Annotated[
        Path | None, typer.Option("--plan-file", help="Default: bench/results.toml.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="The repository.")] = None,
) -> None:
    """Measures every published result of the commit that is checked out. Run again, it goes on."""
    paths = find_paths(root)
    plan = read_plan(file or plan_file(paths))
    version = hakmem(paths).version
    rounds = rounds or plan.rounds
    is_try = rounds < LEAST_FOR_INTERVAL
    folder = paths.bench / ("results-try" if is_try else "results")
    to = folder / "published" if is_try else paths.root
    works = work_on(choose_parts(plan, wanted), folder, identity_of(paths, version, rounds))
    share = rounds / plan.rounds
    print_lines(plan_lines(works, share))
    if only_plan:
        return
    environment = {
        **os.environ,
        "LAB": str(paths.root / "build/lab/venv/bin/hakmem-lab"),
        "PYTHON": str(paths.root / "build/lab/venv/bin/python"),
        "ROUNDS": str(rounds),
        "TRY": "1" if is_try else "",
        "TO": str(to),
        "VERSION": version,
    }
    left = [work for work in works if not work.is_complete]
    refuse_lacking(left, environment)
    targets = list(dict.fromkeys(target for work in left for target in work.part.build))
    if targets and run_command(["make", "--no-print-directory", *targets], paths.root, os.environ):
        raise LabError(f"make {shlex.join(targets)} failed")
    failures: list[str] = []
    for work in left:
        print_lines([f"results: {work.part.name}, about {show_minutes(work.minutes(share))}"])
        problem = measure(work, paths, environment)
        failures += [problem] if problem else []
    for work in works:
        try:
            if work.is_complete:
                publish_part(work, to, version, as_it_is=is_try)
        except LabError as error:
            failures.append(str(error))
    for text in plan.finish:
        code = run_command(bash(text), paths.root, environment)
        failures += [f"exit code {code} of: {text}"] if code else []
    print_lines([f"results: {problem}" for problem in failures])
    if failures:
        print_lines(["results: run it again to go on with what is left"])
        raise typer.Exit(1)
    print_lines([f"results: {len(works)} parts are in {paths.shown(to / 'docs')}"])


def register(app: typer.Typer) -> None:
    app.command("results")(results_command)
