"""The command hakmem-lab scorecard."""

import re
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.fragmentation import is_fragmentation
from hakmem_lab.analysis.soak import read_series, soak_files
from hakmem_lab.analysis.summary import CROWDS, MANY_THREADS
from hakmem_lab.base.csv_table import read_table
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper
from hakmem_lab.base.paths import Paths, find_paths
from hakmem_lab.base.printable import print_lines, with_printable_texts
from hakmem_lab.cli.report import SoakOption, StripOption, split_sources, write_page
from hakmem_lab.report.page_model import shorten_paths
from hakmem_lab.run.allocators import hakmem
from hakmem_lab.run.mimalloc_bench import ENTRIES
from hakmem_lab.run.results import read_result, understood
from hakmem_lab.run.rows import read_suite
from hakmem_lab.scorecard.evidence import KINDS, Evidence, SoakRun, Source, stem_of
from hakmem_lab.scorecard.page import Origin, render_scorecard

VERSIONED = re.compile(r"-(\d+(?:\.\d+)+)(?:\.json(?:\.zst)?)?$")


def name_of(paths: Paths, file: Path) -> str:
    """A file for a reader: from the repository on, or by its name alone."""
    shown = paths.shown(file.resolve())
    return file.name if shown.startswith("/") else shown


def kept_version(kept: Path, version: str) -> str:
    """`version` where it has results, else the newest one that has some."""
    found = {match[1] for f in kept.glob("*-*") if (match := VERSIONED.search(f.name))}
    if version in found or not found:
        return version
    return max(found, key=lambda text: [int(part) for part in text.split(".")])


def usual_sources(kept: Path, version: str) -> tuple[list[Path], list[Path]]:
    """What the repository keeps of a version: a file a purpose, compressed or not."""
    names = [f"{purpose}-{version}.json" for purpose in KINDS]
    results = [kept / f"{name}{ending}" for name in names for ending in ("", ".zst")]
    soaks = [kept / f"soak-{version}"]
    return [file for file in results if file.is_file()], [s for s in soaks if s.is_dir()]


def no_evidence(paths: Paths) -> Evidence:
    """Nothing but the suite's rows and the bars that they have today.

    Without those of the group `crowds`: the targets were set for the 60 others.
    """
    suite = read_suite(paths, paths.root / "bench/suite.toml")
    rows = [row for row in suite if row.group != CROWDS]
    bars = {row.name: row.bar for row in rows} | {entry.name: entry.bar for entry in ENTRIES}
    many = tuple(row.name for row in rows if row.group == MANY_THREADS)
    return Evidence(bars=bars, many_threads=many)


def read_evidence(
    paths: Paths, results: list[Path], soaks: list[Path], strip: list[Path]
) -> tuple[Evidence, list[Origin]]:
    evidence = no_evidence(paths)
    origins: list[Origin] = []

    def name_origin(file: Path) -> str:
        name = name_of(paths, file)
        if any(stem_of(origin.name) == stem_of(name) for origin in origins):
            stem = stem_of(name)
            raise LabError(f"{file}: a second file called {stem}; lines name their file so")
        origins.append(Origin(name, file))
        return name

    for file in results:
        result = with_printable_texts(shorten_paths(read_result(file), strip))
        evidence.add(Source(name_origin(file), result))
    tables = [(file, read_table(file)) for file in soak_files(soaks)]
    for file, table in tables:
        if not is_fragmentation(table):
            name = name_origin(file)
            evidence.soaks.extend(SoakRun(name, series) for series in read_series([table]))
    return evidence, origins


def scorecard_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RESULT.json...]", help="More results, one for each purpose."),
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            "--results",
            metavar="FILE",
            help="Repeatable. Default: docs/results/PURPOSE-VERSION.json.",
        ),
    ] = None,
    soak: SoakOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: docs/scorecard.md."),
    ] = None,
    strip: StripOption = None,
    kept: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results are by default: docs/results."),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="The repository.")] = None,
) -> None:
    """Writes docs/scorecard.md from results: every goal, its figure, met or not (rule R5)."""
    paths = find_paths(root)
    version = hakmem(paths).version
    given, soaks = split_sources([*(results or []), *(files or [])], soak or [])
    kept = kept or paths.root / "docs/results"
    measured = kept_version(kept, version)
    usual_results, usual_soaks = usual_sources(kept, measured)
    keeper = Keeper(output or paths.root / "docs/scorecard.md", make_directories=False)
    evidence, origins = read_evidence(
        paths, given or usual_results, soaks or usual_soaks, strip or []
    )
    with understood(", ".join(origin.name for origin in origins)):
        text = render_scorecard(evidence, origins, version, measured)
    write_page(text, keeper)
    print_lines([f"written: {paths.shown(keeper.file)}, from {len(origins)} files"])


def register(app: typer.Typer) -> None:
    app.command("scorecard")(scorecard_command)
