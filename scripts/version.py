#!/usr/bin/env python3
"""The version, which include/hakmem.h states, and the files of packages that have to repeat it.

Usage: version.py            prints it
       version.py --check    exit 1 when a file says another one, each named
       version.py --write    writes it into all of them
"""

import argparse
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Copy:
    """Files by their pattern, and where each states the version: group 1, wherever it matches."""

    pattern: str
    place: str
    needed: bool = True  # each of these files states it
    numbers: int = 3  # how many of the version's


@dataclass(frozen=True)
class Changelog:
    """Of a package: its newest entry comes first."""

    path: str
    newest: str  # group 1: its version
    maintainer: str
    date: str
    entry: str
    place: str  # a new entry comes here


NUMBER = r"(\d+\.\d+\.\d+)"
# In what people type, and in what they then see: an archive, an image, the library's file, a line of the tool's.
# A table of results has none of these: it keeps the version that was measured.
SHOWN = (
    rf"\bhakmem-{NUMBER}(?=\.tar\.gz)",
    rf"\bhakmem:{NUMBER}",
    rf"\blibhakmem\.so\.{NUMBER}",
    rf"\b{NUMBER}(?=(?:,| \() ?standard\b)",
    rf"\bThis is version {NUMBER}",
)
SHOWN_IN = ("contrib/kubernetes/*.yaml", "contrib/rpm/hakmem.spec", "docs/*.md")
COPIES = [
    Copy("contrib/alpine/APKBUILD", r"(?m)^pkgver=(.*)$"),
    Copy("contrib/rpm/hakmem.spec", r"(?m)^Version: +(.*)$"),
    Copy("contrib/vcpkg/ports/*/vcpkg.json", r'"version": "(.*)"'),
    # Bindings. Those that take it from the header have no such line.
    Copy("bindings/rust/**/Cargo.toml", r'(?m)^\[(?:workspace\.)?package\]\n(?:[^\[\n].*\n)*?version = "([^"]*)"', False),
    Copy("bindings/rust/**/Cargo.toml", r'(?m)^hakmem[\w-]* = \{[^}\n]*?version = "=([^"]*)"', False),
    Copy("bindings/rust/Cargo.lock", r'(?m)^name = "hakmem[\w-]*"\nversion = "([^"]*)"', False),
    Copy("bindings/python/pyproject.toml", r'(?m)^\[project\]\n(?:[^\[\n].*\n)*?version = "([^"]*)"', False),
    Copy("lab/hakmem_lab/__init__.py", r'(?m)^__version__ = "(.*)"'),
    Copy("docs/releasing.md", rf"(?<![\d.]){NUMBER}"),  # its examples
    *(Copy(pattern, place, False) for pattern in SHOWN_IN for place in SHOWN),
    # Before 1.0 a package of 0.2 is none for who asks for 0.1.
    Copy("docs/*.md", r"\bfind_package\(hakmem (\d+\.\d+) REQUIRED\)", False, 2),
]
CHANGELOGS = [
    Changelog(
        "debian/changelog",
        r"\A\w+ \((.*)\)",
        r"(?m)^ -- (.*?)  ",
        "%a, %d %b %Y %H:%M:%S +0000",
        "hakmem ({version}) unstable; urgency=medium\n\n  * New release: see CHANGELOG.md.\n\n -- {maintainer}  {date}\n\n",
        r"\A",
    ),
    Changelog(
        "contrib/rpm/hakmem.spec",
        r"(?m)^%changelog\n\* .* - (.*)-\d+$",
        r"(?m)^\* \w+ \w+ \d+ \d+ (.*) - ",
        "%a %b %d %Y",
        "* {date} {maintainer} - {version}-1\n- New release: see CHANGELOG.md.\n\n",
        r"(?m)(?<=^%changelog\n)",
    ),
]


def version() -> str:
    text = (ROOT / "include/hakmem.h").read_text(encoding="utf-8")
    return re.findall(r'HAKMEM_VERSION_STRING "(.*)"', text)[0]


def changed_copies(wanted: str) -> dict[Path, tuple[str, str]]:
    """Each file that says another version: which, and its text with the wanted one."""
    found: dict[Path, tuple[str, str]] = {}
    for copy in COPIES:
        for path in sorted(ROOT.glob(copy.pattern)):
            text = found[path][1] if path in found else path.read_text(encoding="utf-8")
            places = list(re.finditer(copy.place, text))
            if not places and copy.needed:
                sys.exit(f"version: {path.relative_to(ROOT)} states none")
            said = ".".join(wanted.split(".")[: copy.numbers])
            for place in reversed(places):  # from the end, so that the places before stay right
                if place[1] != said:
                    text = text[: place.start(1)] + said + text[place.end(1) :]
                    found[path] = (place[1], text)
    now = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    for log in CHANGELOGS:
        path = ROOT / log.path
        text = found[path][1] if path in found else path.read_text(encoding="utf-8")
        newest, maintainer = re.search(log.newest, text), re.search(log.maintainer, text)
        if newest is None or maintainer is None:
            sys.exit(f"version: {log.path} has no entry")
        if newest[1] != wanted:
            # C's names of days and months: this process has no other locale.
            entry = log.entry.format(version=wanted, maintainer=maintainer[1], date=time.strftime(log.date, now))
            found[path] = (newest[1], re.sub(log.place, lambda _, entry=entry: entry, text, count=1))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    wanted = version()
    if not (arguments.check or arguments.write):
        print(wanted)
        return 0
    changed = changed_copies(wanted)
    for path, (said, text) in changed.items():
        print(f"{path.relative_to(ROOT)}: {said}, include/hakmem.h: {wanted}")
        if arguments.write:
            path.write_text(text, encoding="utf-8")
    return 1 if changed and not arguments.write else 0


if __name__ == "__main__":
    sys.exit(main())
