#!/usr/bin/env python3
"""The version, which include/hakmem.h states, and the files of packages that have to repeat it.

Usage: version.py            prints it
       version.py --check    exit 1 when a file says another one, each named
       version.py --write    writes it into all of them
"""

import argparse
import email.utils
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


COPIES = [
    Copy("contrib/alpine/APKBUILD", r"(?m)^pkgver=(.*)$"),
    Copy("contrib/rpm/hakmem.spec", r"(?m)^Version: +(.*)$"),
    Copy("contrib/vcpkg/ports/*/vcpkg.json", r'"version": "(.*)"'),
    # Bindings. Those that take it from the header have no such line.
    Copy("bindings/rust/**/Cargo.toml", r'(?m)^\[(?:workspace\.)?package\]\n(?:[^\[\n].*\n)*?version = "([^"]*)"'),
    Copy("bindings/rust/**/Cargo.toml", r'(?m)^hakmem[\w-]* = \{[^}\n]*?version = "=([^"]*)"'),
    Copy("bindings/rust/Cargo.lock", r'(?m)^name = "hakmem[\w-]*"\nversion = "([^"]*)"'),
    Copy("bindings/python/pyproject.toml", r'(?m)^\[project\]\n(?:[^\[\n].*\n)*?version = "([^"]*)"'),
]
CHANGELOG = "debian/changelog"
ENTRY = "hakmem ({}) unstable; urgency=medium\n\n  * New release: see CHANGELOG.md.\n\n -- {}  {}\n\n"


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
            if not places and not copy.pattern.startswith("bindings/"):
                sys.exit(f"version: {path.relative_to(ROOT)} states none")
            for place in reversed(places):  # from the end, so that the places before stay right
                if place[1] != wanted:
                    text = text[: place.start(1)] + wanted + text[place.end(1) :]
                    found[path] = (place[1], text)
    path = ROOT / CHANGELOG
    text = path.read_text(encoding="utf-8")
    first, maintainer = re.match(r"\w+ \((.*)\)", text), re.search(r"(?m)^ -- (.*?)  ", text)
    if first is None or maintainer is None:
        sys.exit(f"version: {CHANGELOG} has no entry")
    if first[1] != wanted:
        date = email.utils.formatdate(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
        found[path] = (first[1], ENTRY.format(wanted, maintainer[1], date.replace("-0000", "+0000")) + text)
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
