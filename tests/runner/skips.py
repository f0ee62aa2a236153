"""What was skipped in a run of ctest, and whether tests/may-skip.toml lets it.

A skip has a name: that of the test, or test/case where a test that passed left one of its cases out.
Cases are read from what the tests print: cmocka, GoogleTest, Python's unittest with verbosity 2,
pytest -ra, and lines "skipped: case: reason" of tests/cross/run_target.py.
"""
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

NO_REASON = "no reason printed"


class BadList(Exception):
    """The list itself is wrong; the text says where, and what is accepted."""


@dataclass(frozen=True)
class Skip:
    variant: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.variant}: {self.name}: {self.reason}"


@dataclass(frozen=True)
class Entry:
    """One [[skip]] of the list."""

    test: str
    variants: tuple[str, ...]
    reason: str

    def allows(self, skip: Skip) -> bool:
        return (
            (not self.variants or skip.variant in self.variants)
            and re.fullmatch(self.test, skip.name) is not None
            and self.reason in skip.reason
        )

    def names_one_of(self, tests: Iterable[str]) -> bool:
        pattern = self.test.split("/", 1)[0]
        return any(re.fullmatch(pattern, test) for test in tests)


def read_list(path: Path, variants: Iterable[str]) -> list[Entry]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadList(f"{path.name}: {error}") from error
    entries = []
    for number, item in enumerate(table.pop("skip", []), 1):
        where = f"{path.name}: entry {number}"
        if unknown := set(item) - {"test", "variants", "reason"}:
            raise BadList(f"{where}: {', '.join(sorted(unknown))}: only test, variants and reason are known")
        for key in ("test", "reason"):
            if not isinstance(item.get(key), str) or not item[key].strip():
                raise BadList(f"{where}: {key} has to be a text that is not empty")
        wanted = item.get("variants", [])
        if wrong := set(wanted) - set(variants):
            raise BadList(f"{where}: no variant {', '.join(sorted(wrong))}")
        try:
            re.compile(item["test"])
        except re.error as error:
            raise BadList(f"{where}: test is no regular expression: {error}") from error
        entries.append(Entry(item["test"], tuple(wanted), item["reason"]))
    if table:
        raise BadList(f"{path.name}: {', '.join(table)}: only [[skip]] is known")
    return entries


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else NO_REASON


# cmocka and GoogleTest tell in the same way when a case begins and how it ended.
CASE_BEGINS = re.compile(r"^\[ RUN      \] (\S+)")
CASE_SKIPPED = re.compile(r"^\[  SKIPPED \] ([A-Za-z_]\S*)")
UNITTEST_SKIPPED = re.compile(r"""^(?:(?P<case>.*) \.\.\. )?skipped (?P<quote>['"])(?P<reason>.*)(?P=quote)$""")
UNITTEST_COUNT = re.compile(r"^(?:OK|FAILED) \(.*?skipped=(\d+)")
UNITTEST_CASE = re.compile(r"^(test\w*|setUp\w*) \((?:__main__\.)?([\w.]+)\)")
PYTEST_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (?:\S*/)?([^/:]+\.py)(?::\d+)?: (.*)$")
OWN_SKIPPED = re.compile(r"^skipped: ([\w.-]+): (.+)$")


def skipped_cases(output: str) -> Iterator[tuple[str, str]]:
    """The cases that a test which passed left out, each with its reason."""
    seen: set[str] = set()
    since_begin: list[str] = []
    unittest_case = "?"
    unittest_count = 0
    for line in output.splitlines():
        if CASE_BEGINS.match(line):
            since_begin = []
            continue
        elif found := CASE_SKIPPED.match(line):
            if found[1] not in seen:
                seen.add(found[1])
                yield found[1], last_line("\n".join(since_begin)).removeprefix("skipped: ")
            since_begin = []
        elif found := UNITTEST_SKIPPED.match(line):
            unittest_count += 1
            head = UNITTEST_CASE.match(found["case"] or "")
            yield head[1] if head else unittest_case, found["reason"]
        elif found := UNITTEST_CASE.match(line):
            unittest_case = found[1]
        elif found := UNITTEST_COUNT.match(line):
            # Run without verbosity=2, it does not say which.
            for _ in range(int(found[1]) - unittest_count):
                yield "?", NO_REASON
        elif found := PYTEST_SKIPPED.match(line):
            for _ in range(int(found[1])):
                yield found[2], found[3]
        elif found := OWN_SKIPPED.match(line):
            yield found[1], found[2]
        since_begin.append(line)


def skips_of(variant: str, test: str, skipped: bool, output: str) -> list[Skip]:
    """What `test` left out: itself, or some of its cases."""
    if skipped:
        return [Skip(variant, test, last_line(output).removeprefix("skipped: "))]
    return [Skip(variant, f"{test}/{case}", reason) for case, reason in skipped_cases(output)]


def not_listed(skips: Iterable[Skip], entries: Iterable[Entry]) -> list[Skip]:
    known = list(entries)
    return [skip for skip in skips if not any(entry.allows(skip) for entry in known)]


def without_a_test(entries: Iterable[Entry], tests: Iterable[str]) -> list[Entry]:
    """Entries for tests that there are none of: left over from a test that has another name now."""
    names = list(tests)
    return [entry for entry in entries if not entry.names_one_of(names)]
