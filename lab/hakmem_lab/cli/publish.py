"""The command hakmem-lab publish: a result as others may have it.

A result says where the libraries and the programs of a run lay, and of a library that was given by
its path it cannot know the version. What is kept in docs/results has neither fault.
"""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import check_output
from hakmem_lab.base.printable import print_lines
from hakmem_lab.cli.report import StripOption
from hakmem_lab.report.page_model import change_texts, shorten_paths
from hakmem_lab.run.results import Result, read_result, write_result

UNKNOWN = "unknown"
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


def set_versions(result: Result, versions: dict[str, str]) -> Result:
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
            help="Of an allocator whose version the result does not know; repeatable.",
        ),
    ] = None,
) -> None:
    """Writes a result anew for others: paths from the repository on, versions filled in."""
    check_output("--output", output)
    result = set_versions(read_result(file), parse_versions(version or []))
    result = shorten_paths(result, strip or [])
    try:
        write_result(result, output)
    except OSError as error:
        raise LabError(f"--output {output}: {error.strerror}") from None
    print_lines([f"written: {output}"])
    left = paths_left(result)
    if left:
        shown = ", ".join(left[:5])
        print_lines([f"paths of this machine are left, --strip takes them out: {shown}"])


def register(app: typer.Typer) -> None:
    app.command("publish")(publish_command)
