"""The tests of several build folders as one list for ctest, which then fills the processors across all of them.

A test keeps all of its properties and is called VARIANT/NAME. Each is run by measure.c, which writes down the processor
time that it took.
"""

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# ctest counts in whole processors. A test that mostly sleeps or waits for another (label `waits`) gets a part of one:
# so ctest is told of SLOTS for each processor, of which such a test takes one, and any other test all.
SLOTS = 4
WAITS = "waits"
FIXTURES = ("FIXTURES_SETUP", "FIXTURES_REQUIRED", "FIXTURES_CLEANUP")
SLOW_COST = 10.0  # what a slow test says that does not say more: so it begins before the many short ones, which fill the gaps
# What other tests are called by: those of the same build folder.
OF_THE_VARIANT = (*FIXTURES, "DEPENDS")


class Unreadable(Exception):
    """The list of a build folder's tests cannot be had; the text says why."""


@dataclass
class Test:
    variant: str
    name: str
    command: list[str]  # empty: its program is not there
    properties: dict[str, Any]

    @property
    def full_name(self) -> str:
        return f"{self.variant}/{self.name}"

    @property
    def slow(self) -> bool:
        return "slow" in self.properties.get("LABELS", [])


def tests_of(variant: str, build: Path) -> list[Test]:
    """All tests of a build folder, whose programs have to be built: ctest looks for them."""
    listed = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True
    )
    if listed.returncode != 0:
        raise Unreadable(listed.stderr.strip())
    return [
        Test(
            variant,
            test["name"],
            test.get("command", []),
            {entry["name"]: entry["value"] for entry in test.get("properties", [])},
        )
        for test in json.loads(listed.stdout)["tests"]
    ]


def with_fixtures(chosen: Iterable[Test], every: Iterable[Test]) -> list[Test]:
    """`chosen` and the tests that set up or clean up what they need, in the order of `every`."""
    every = list(every)
    names = {test.name for test in chosen}
    while True:
        needed = {
            fixture for test in every if test.name in names for fixture in test.properties.get("FIXTURES_REQUIRED", [])
        }
        found = names | {
            test.name
            for test in every
            if needed & {*test.properties.get("FIXTURES_SETUP", []), *test.properties.get("FIXTURES_CLEANUP", [])}
        }
        if found == names:
            return [test for test in every if test.name in names]
        names = found


def quoted(text: str) -> str:
    """As a bracket argument, in which CMake changes nothing."""
    level = "="
    while f"]{level}]" in text or text.endswith(f"]{level}"):
        level += "="
    # A line feed at the start would be left out.
    return f"[{level}[\n{text}]{level}]" if text.startswith("\n") else f"[{level}[{text}]{level}]"


def written(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, list):
        return quoted(";".join(str(item).replace(";", "\\;") for item in value))
    return quoted(str(value))


def slots(properties: dict[str, Any]) -> int:
    return 1 if WAITS in properties.get("LABELS", []) else SLOTS * int(properties.get("PROCESSORS", 1))


def write_list(tests: Iterable[Test], folder: Path, prefix: list[str]) -> None:
    """folder/CTestTestfile.cmake; `prefix` and the test's full name go before each command."""
    lines = []
    for test in tests:
        properties = dict(test.properties) | {"PROCESSORS": slots(test.properties)}
        if test.slow:
            properties.setdefault("COST", SLOW_COST)
        for name in OF_THE_VARIANT:
            if name in properties:
                properties[name] = [f"{test.variant}/{item}" for item in properties[name]]
        command = [*prefix, test.full_name, *test.command] if prefix and test.command else test.command
        words = " ".join(map(quoted, command or ["NOT_AVAILABLE"]))
        lines.append(f"add_test({quoted(test.full_name)} {words})")
        lines.append(
            f"set_tests_properties({quoted(test.full_name)} PROPERTIES "
            + " ".join(f"{name} {written(value)}" for name, value in properties.items())
            + ")"
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_measure(source: Path, program: Path) -> bool:
    """Compiles measure.c if that is due. False where it cannot be had: without a static libc, say."""
    if program.is_file() and program.stat().st_mtime >= source.stat().st_mtime:
        return True
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [os.environ.get("CC", "cc"), "-O1", "-static", "-o", str(program), str(source)]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    except OSError:
        return False


def read_measured(path: Path) -> dict[str, float]:
    """Seconds of processor time by full name. A test that was stopped at its time limit is not there."""
    taken: dict[str, float] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            user, system, name = line.split(" ", 2)
            taken[name] = (int(user) + int(system)) / 1e6
    return taken
