"""The command hakmem-lab publish: a result as others may have it.

A result says where the libraries and the programs of a run lay, and of a library that was given by
its path it cannot know the version. What is kept in docs/results has neither fault.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.analysis.statistics import LEAST_FOR_INTERVAL
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import check_output
from hakmem_lab.base.printable import print_lines
from hakmem_lab.cli.report import StripOption
from hakmem_lab.report.page_model import change_texts, shorten_paths
from hakmem_lab.run.allocators import is_hakmem
from hakmem_lab.run.results import Result, read_result, write_result

UNKNOWN = "unknown"
BY_ITS_PATH = re.compile(r", sha256 [0-9a-f]{12}")  # what the source of such an allocator says
OF_THE_SYSTEM = ("/usr/", "/lib/", "/lib64/", "/bin/", "/proc/", "/sys/", "/dev/")
ABSOLUTE = re.compile(r"(?<![\w./-])/[\w.+-]+/[\w.+/-]*")


def parse_versions(texts: list[str]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for text in texts:
        name, equals, version = text.partition("=")
        if not (name and equals and version) or name in versions:
            raise LabError(f"--version {text}: wanted is NAME=VERSION, each name once")
        versions[name] = version
    return versions


def set_versions(result: Result, versions: Mapping[str, str]) -> Result:
    """The result with versions of allocators whose version it does not know."""
    unknown = [a.name for a in result.allocators if a.version == UNKNOWN]
    for name in versions:
        if name not in unknown:
            raise LabError(
                f"--version {name}: not an allocator of unknown version;"
                f" there are: {', '.join(unknown) or 'none'}"
            )
    told = [replace(a, version=versions.get(a.name, a.version)) for a in result.allocators]
    return replace(result, allocators=told)


def paths_left(result: Result) -> list[str]:
    """Absolute paths in the result's texts, but for those that every system has."""
    found: set[str] = set()

    def look(text: str) -> str:
        found.update(p for p in ABSOLUTE.findall(text) if not p.startswith(OF_THE_SYSTEM))
        return text

    change_texts(asdict(result), look)
    return sorted(found)


def faults(result: Result) -> list[str]:
    """Why a suite's or servers' result is not one run of one commit that others can make again."""
    found: list[str] = []
    commit = result.settings.get("commit", "")
    if not commit:
        found.append("its commit is not known")
    elif commit.endswith("-dirty"):
        found.append(f"its sources were changed since commit {commit.removesuffix('-dirty')}")
    for allocator in result.allocators:
        if BY_ITS_PATH.search(allocator.source) and not is_hakmem(allocator):
            found.append(f"{allocator.name} is not of `make peers`")
    for row in result.rows:
        if row.missing is not None:
            found.append(f"row {row.name} was not run: {row.missing}")
            continue
        for name in result.allocator_names():
            rounds = len(row.good_runs(name))
            if rounds < LEAST_FOR_INTERVAL and row.failure(name) is None:
                what = f"{rounds} round{'' if rounds == 1 else 's'} of {row.name} on {name}"
                found.append(f"{what}, {LEAST_FOR_INTERVAL} are needed")
    return found


def refuse_faults(file: Path, result: Result) -> None:
    found = faults(result) if result.kind in ("suite", "servers") else []
    if found:
        more = f", and {len(found) - 1} more reasons" if len(found) > 1 else ""
        raise LabError(f"{file}: not to be published: {found[0]}{more}; --as-it-is does it anyway")


def publish(
    file: Path,
    output: Path,
    strip: Sequence[Path] = (),
    versions: Mapping[str, str] | None = None,
    as_it_is: bool = False,
) -> list[str]:
    """Writes the result for others. Returns the paths of this machine that are left in it."""
    result = read_result(file)
    if not as_it_is:
        refuse_faults(file, result)
    result = shorten_paths(set_versions(result, versions or {}), list(strip))
    try:
        write_result(result, output)
    except OSError as error:
        raise LabError(f"--output {output}: {error.strerror}") from None
    return paths_left(result)


def publish_command(
    file: Annotated[Path, typer.Argument(metavar="RESULT.json", help="A result that was kept.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where the result for others goes."),
    ],
    strip: StripOption = None,
    version: Annotated[
        list[str] | None,
        typer.Option(
            "--version",
            metavar="NAME=VERSION",
            help="Version of an allocator that the result lacks; repeatable.",
        ),
    ] = None,
    as_it_is: Annotated[
        bool,
        typer.Option(
            "--as-it-is",
            help="Also a suite, or servers, with fewer than six rounds of a row, of a commit that"
            " is unknown or was changed, or with peers that `make peers` did not build.",
        ),
    ] = False,
) -> None:
    """Writes a result anew for others: paths from the repository on, versions filled in. A name
    that ends in .json.zst has it compressed."""
    check_output("--output", output)
    left = publish(file, output, strip or [], parse_versions(version or []), as_it_is)
    print_lines([f"written: {output}"])
    if left:
        shown = ", ".join(left[:5])
        print_lines([f"paths of this machine are left, --strip takes them out: {shown}"])


def register(app: typer.Typer) -> None:
    app.command("publish")(publish_command)
