"""The commands hakmem-lab report and hakmem-lab chart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.soak import DEFAULT_WARM_UP, parse_warm_up
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import Keeper
from hakmem_lab.base.printable import print_lines
from hakmem_lab.report.chart import NARROW, WIDE, draw, overview_of
from hakmem_lab.report.html import read_soaks, render
from hakmem_lab.report.page_model import shorten_paths
from hakmem_lab.run.results import read_result

SoakOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--soak", metavar="DIR|CSV", help="A soak's CSV, or a directory of them; repeatable."
    ),
]
StripOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--strip",
        metavar="DIR",
        help="Left out of paths, as the repository's own directory is; repeatable.",
    ),
]


def split_sources(files: Sequence[Path], soaks: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Results, and soaks: directories and CSV files are soaks wherever they stand."""
    is_soak = [file.is_dir() or file.suffix == ".csv" for file in files]
    results = [file for file, soak in zip(files, is_soak, strict=True) if not soak]
    return results, [*soaks, *(file for file, soak in zip(files, is_soak, strict=True) if soak)]


def write_page(text: str, keeper: Keeper) -> None:
    """Ends the command with 1 when the page is not where it was to be."""
    if not keeper.save(text):
        raise typer.Exit(1)


def report_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RESULT.json...", help="Results that other commands kept."),
    ] = None,
    soak: SoakOption = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html")] = Path(
        "report.html"
    ),
    warm_up: Annotated[
        str, typer.Option(help="Left out of a soak's figures: seconds, or a share of the time.")
    ] = DEFAULT_WARM_UP,
    strip: StripOption = None,
) -> None:
    """Makes one HTML file of results and soaks: tables, plots, every run; it needs no network."""
    parse_warm_up(warm_up, 1)
    results, soaks = split_sources(files or [], soak or [])
    if not results and not soaks:
        raise LabError("report: a result (JSON) or a soak (CSV) is wanted")
    keeper = Keeper(output, make_directories=False)
    read = [(file, shorten_paths(read_result(file), strip or [])) for file in results]
    page = render(read, read_soaks(soaks), warm_up)
    write_page(page, keeper)
    print_lines([f"written: {output}, {len(page.encode()) / 1e6:.1f} MB"])


def chart_command(
    file: Annotated[Path, typer.Argument(metavar="RESULT.json", help="A result of the suite.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.svg")] = Path("chart.svg"),
    narrow: Annotated[bool, typer.Option("--narrow", help="The layout for phones.")] = False,
) -> None:
    """Draws one chart of a suite: time and peak memory of each peer beside hakmem, losses too."""
    overview = overview_of(read_result(file))
    if overview is None:
        raise LabError(f"{file}: a result of the suite with two rows and a peer is wanted")
    write_page(draw(overview, NARROW if narrow else WIDE), Keeper(output, make_directories=False))
    print_lines([f"written: {output}"])


def register(app: typer.Typer) -> None:
    app.command("report")(report_command)
    app.command("chart")(chart_command)
