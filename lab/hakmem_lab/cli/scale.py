"""The command hakmem-lab scale."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.scale import Workload, first_limit, speedup, workload_of
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper
from hakmem_lab.base.paths import find_paths, parse_cpus
from hakmem_lab.base.printable import print_lines
from hakmem_lab.cli.commands import CpusOption, RootOption, TimeoutOption
from hakmem_lab.run import allocators
from hakmem_lab.run.measure import DEFAULT_TIMEOUT, Launcher
from hakmem_lab.run.rows import read_suite, select_rows, split_list
from hakmem_lab.run.runner import Reporter
from hakmem_lab.run.scale import measure_row

PROCESSORS = "2,8,32,128,512"
MOST_PROCESSORS = 4096


def parse_processors(text: str) -> list[int]:
    parts = split_list(text)
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    accepted = [number for number in numbers if 1 <= number <= MOST_PROCESSORS]
    if not accepted or len(accepted) != len(parts):
        raise LabError(
            f"--processors {text}: accepted are numbers from 1 to {MOST_PROCESSORS}, as 2,8,32"
        )
    return accepted


def limit_of(workload: Workload, line_ns: float) -> str:
    limit = first_limit(workload, line_ns)
    if limit is None:
        return "none | none"
    place = next(place for place in workload.places if place.name == limit[0])
    visits = f"{place.visits * 1e6:,.0f} x {place.hold_ns:,.0f} ns"
    return f"{limit[0]}, {visits} | {limit[1]:,.0f}"


def table(workloads: Sequence[Workload], processors: Sequence[int], line_ns: float) -> list[str]:
    """In Markdown."""
    heads = [f"{number} processors" for number in processors]
    lines = [
        f"Throughput against one processor's; {line_ns:g} ns for a cache line from another one.",
        "",
        "| row | ns alone | " + " | ".join(heads) + " | busiest place, visits of 10^6 operations"
        " | always busy from |",
        "|---|" + "---|" * (len(heads) + 3),
    ]
    for workload in workloads:
        shares = " | ".join(f"{speedup(workload, n, line_ns):.1f}" for n in processors)
        alone = workload.alone_ns + sum(p.visits * p.hold_ns for p in workload.places)
        lines.append(
            f"| {workload.name} | {alone:.1f} | {shares} | {limit_of(workload, line_ns)} |"
        )
    return lines


def scale_command(
    names: Annotated[
        str | None, typer.Option("--rows", metavar="A,B", help="Only these of bench/scale.toml.")
    ] = None,
    allocator_name: Annotated[
        str, typer.Option("--allocator", metavar="NAME", help="hakmem, or a build of it.")
    ] = "hakmem",
    processors: Annotated[
        str, typer.Option(metavar="N,M", help="Processors to solve the model for.")
    ] = PROCESSORS,
    line_ns: Annotated[
        float,
        typer.Option(
            min=0, max=10_000, help="Nanoseconds that a cache line takes between processors."
        ),
    ] = 100.0,
    cpus: CpusOption = None,
    timeout: TimeoutOption = 5 * DEFAULT_TIMEOUT,
    markdown: Annotated[
        Path | None, typer.Option("--export-markdown", metavar="FILE", help="The table, too.")
    ] = None,
    root: RootOption = None,
) -> None:
    """A model of more processors than this machine has: which lock would limit hakmem first?"""
    paths = find_paths(root)
    wanted = parse_processors(processors)
    rows = select_rows(read_suite(paths, paths.scale), names, None)
    chosen = allocators.select_allocators(paths, allocator_name, False)
    if len(chosen) != 1 or not allocators.is_hakmem(chosen[0]):
        raise LabError(f"--allocator {allocator_name}: the model knows the locks of hakmem alone")
    launcher = Launcher(paths.launcher, parse_cpus(cpus), timeout)
    page = None if markdown is None else Keeper(markdown, make_directories=False)
    reporter = Reporter()
    workloads = []
    for index, row in enumerate(rows, start=1):
        if row.missing is not None:
            raise LabError(f"{row.name}: {row.missing}")
        reporter.line(f"{index} of {len(rows)}: {row.name}")
        workloads.append(workload_of(row.name, measure_row(launcher, chosen[0], row)))
    lines = table(workloads, wanted, line_ns)
    print_lines(lines)
    if page is not None and not page.save("\n".join(lines) + "\n"):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    app.command("scale")(scale_command)
