"""Which tests a change can affect, by tests/affected.toml.

The table has groups of tests and entries. An entry names files by globs and says which tests a change of such a file can
affect. A file may be named by several entries: the tests of all of them are selected. A file that no entry names selects
every test.

In a glob of files `*` stays within a folder and `**` does not. Tests are named VARIANT/NAME, as run.py prints them, and
`*` matches anything in these. A word without a slash is the name of a group. `!` takes tests out of its own list again.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path


class BadTable(Exception):
    """The table itself is wrong; the text says where, and what is accepted."""


@cache
def path_pattern(glob: str) -> re.Pattern[str]:
    parts = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*|\*|\?)", glob)))


@dataclass(frozen=True)
class Entry:
    """One [[change]] of the table, with its groups replaced by what they stand for."""

    paths: tuple[str, ...]
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...] = ()

    def names(self, path: str) -> bool:
        return any(path_pattern(glob).fullmatch(path) for glob in self.paths)

    def selects(self, full_name: str) -> bool:
        return any(fnmatchcase(full_name, glob) for glob in self.wanted) and not any(
            fnmatchcase(full_name, glob) for glob in self.unwanted
        )


EVERYTHING = Entry((), ("*/*",))


@dataclass
class Table:
    entries: list[Entry]
    environment: dict[str, str]  # of the tests of a selection that is not everything

    def known(self, path: str) -> bool:
        return any(entry.names(path) for entry in self.entries)


@dataclass
class Selection:
    """What a change selects."""

    entries: dict[Entry, list[str]] = field(default_factory=dict)  # and the changed files that each names
    everything: str = ""  # why all tests are selected; "" where they are not

    def selects(self, full_name: str) -> bool:
        return bool(self.everything) or any(entry.selects(full_name) for entry in self.entries)

    def of_variant(self, variant: str) -> bool:
        """Whether a test of this variant may be selected."""
        return bool(self.everything) or any(
            fnmatchcase(variant, glob.split("/", 1)[0]) for entry in self.entries for glob in entry.wanted
        )


def strings(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip("!") for item in value):
        raise BadTable(f"{where} has to be a list of texts that are not empty")
    return value


def resolved(words: Iterable[str], groups: dict[str, list[str]], where: str) -> list[str]:
    """`words` with the globs of each group in place of its name."""
    globs: list[str] = []
    for word in words:
        if "/" in word:
            globs.append(word)
        elif word in groups:
            globs += resolved(groups[word], {name: groups[name] for name in groups if name != word}, where)
        else:
            raise BadTable(f"{where}: {word} is neither a group nor VARIANT/NAME")
    return globs


def read_table(path: Path) -> Table:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadTable(f"{path.name}: {error}") from error
    groups = {
        name: strings(globs, f"{path.name}: group {name}") for name, globs in table.pop("groups", {}).items()
    }
    environment = table.pop("environment", {})
    if not all(isinstance(value, str) for value in environment.values()):
        raise BadTable(f"{path.name}: [environment] has texts only")
    entries = []
    for number, item in enumerate(table.pop("change", []), 1):
        where = f"{path.name}: change {number}"
        if set(item) != {"paths", "tests"}:
            raise BadTable(f"{where}: has to have paths and tests, and nothing else")
        globs = resolved(strings(item["tests"], f"{where}: tests"), groups, where)
        entries.append(
            Entry(
                tuple(strings(item["paths"], f"{where}: paths")),
                tuple(glob for glob in globs if not glob.startswith("!")),
                tuple(glob[1:] for glob in globs if glob.startswith("!")),
            )
        )
    if table:
        raise BadTable(f"{path.name}: {', '.join(table)}: only groups, environment and [[change]] are known")
    return Table(entries, environment)


def select(table: Table, paths: Iterable[str]) -> Selection:
    selection = Selection()
    for path in paths:
        named = [entry for entry in table.entries if entry.names(path)]
        if not named:
            return Selection({}, f"tests/affected.toml does not know {path}")
        for entry in named:
            selection.entries.setdefault(entry, []).append(path)
            if EVERYTHING.wanted[0] in entry.wanted:
                return Selection({}, f"{path} can affect every test")
    return selection


def few(items: list[str], most: int = 3) -> str:
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def described(selection: Selection) -> list[str]:
    """A line for each entry: the changed files that it names, and the tests that it selects."""
    if selection.everything:
        return [f"every test: {selection.everything}"]
    return [
        f"{few(paths)}: {few(list(entry.wanted), 6) or 'no test'}" for entry, paths in selection.entries.items()
    ]
