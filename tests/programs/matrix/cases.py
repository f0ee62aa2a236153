"""Reads the table of programs from cases/*.toml."""

import dataclasses
import pathlib
import re
import shutil
import tomllib

# The same for every run, so that a stand-in earlier on the caller's PATH does not decide the result.
SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"


class CaseError(Exception):
    """The table itself is wrong."""


@dataclasses.dataclass
class Normalise:
    """A difference that has nothing to do with the allocator, taken out before the comparison."""

    pattern: bytes
    replacement: bytes
    reason: str


@dataclasses.dataclass
class Case:
    """One program of the matrix; tests/programs/README.md explains every field."""

    name: str
    needs: list
    run: str
    probe: str
    process: list
    prepare: str
    files: list
    env: dict
    path: list
    normalise: list
    mixed: str
    own_operators: str
    timeout: int

    def missing(self):
        """Names of programs or files that the case needs and that are not here."""
        absent = []
        for need in self.needs:
            found = pathlib.Path(need).exists() if "/" in need else shutil.which(need, path=self.search_path())
            if not found:
                absent.append(need)
        return absent

    def search_path(self):
        return ":".join([str(pathlib.Path(p).expanduser()) for p in self.path] + [SEARCH_PATH])


FIELDS = {field.name for field in dataclasses.fields(Case)} - {"name"}


def make_case(name, entry):
    unknown = set(entry) - FIELDS
    if unknown:
        raise CaseError(f"case {name}: unknown field {', '.join(sorted(unknown))}")
    for field in ("needs", "run"):
        if field not in entry:
            raise CaseError(f"case {name}: field {field} is missing")
    rules = []
    for rule in entry.get("normalise", []):
        if not rule.get("reason"):
            raise CaseError(f"case {name}: a normalisation needs its reason")
        rules.append(Normalise(rule["pattern"].encode(), rule["with"].encode(), rule["reason"]))
        re.compile(rules[-1].pattern)
    program = entry["needs"][0]
    return Case(
        name=name,
        needs=entry["needs"],
        run=entry["run"],
        probe=entry.get("probe", f"{program} --version"),
        process=entry.get("process", [pathlib.Path(program).name]),
        prepare=entry.get("prepare", ""),
        files=entry.get("files", []),
        env=entry.get("env", {}),
        path=entry.get("path", []),
        normalise=rules,
        mixed=entry.get("mixed", ""),
        own_operators=entry.get("own_operators", ""),
        timeout=entry.get("timeout", 60),
    )


def load(folder):
    """All cases by name, in the order of the files and of the entries in them."""
    cases = {}
    for file in sorted(pathlib.Path(folder).glob("*.toml")):
        with open(file, "rb") as stream:
            table = tomllib.load(stream)
        if set(table) != {"case"}:
            raise CaseError(f"{file.name}: holds something else than [case.NAME] tables")
        for name, entry in table["case"].items():
            if name in cases:
                raise CaseError(f"{file.name}: case {name} is there twice")
            cases[name] = make_case(name, entry)
    return cases
