"""Reads what callgrind writes: the cost of each function, and of each call from one to another."""

import re
from collections import defaultdict
from dataclasses import dataclass, field

from hakmem_lab.base.errors import LabError

# Names are written in full once, as `fn=(3) name`, and as `fn=(3)` afterwards.
NAMED = re.compile(r"\((\d+)\)(?: (.*))?$")
# What to count positions (lines, addresses) follow; the last number is the cost. A position may be
# relative to the last one (+3, -3, *).
COST = re.compile(r"^(?:[+\-*]?(?:0x[0-9a-f]+|\d*)\s+)+(\d+)$")


@dataclass(frozen=True, order=True)
class Function:
    """A function, with the file it was loaded from: two libraries may both have a `malloc`."""

    object: str
    name: str


@dataclass
class Profile:
    """Instructions of a whole run, by function and by call; and how often each call was made."""

    own: dict[Function, int] = field(default_factory=lambda: defaultdict(int))
    calls: dict[tuple[Function, Function], int] = field(default_factory=lambda: defaultdict(int))
    counts: dict[tuple[Function, Function], int] = field(default_factory=lambda: defaultdict(int))

    def total(self) -> int:
        return sum(self.own.values())


class Names:
    """The numbers that stand for names; files, objects and functions are numbered apart."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}

    def resolve(self, kind: str, text: str) -> str:
        found = NAMED.match(text)
        if found is None:
            return text
        number, name = found.groups()
        if name is not None:
            self.known[kind, number] = name
        try:
            return self.known[kind, number]
        except KeyError:
            raise LabError(f"callgrind's output: ({number}) was never given a name") from None


def parse_callgrind(text: str) -> Profile:
    """The profile in a callgrind.out file; a LabError for a file that is cut off or damaged."""
    profile = Profile()
    names = Names()
    object_ = called_object = ""
    current: Function | None = None
    called: Function | None = None
    totals: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        key, equals, value = line.partition("=")
        if key == "ob" and equals:
            object_ = called_object = names.resolve("ob", value)
        elif key == "cob" and equals:
            called_object = names.resolve("ob", value)
        elif key == "fn" and equals:
            current = Function(object_, names.resolve("fn", value))
            called_object = object_
        elif key == "cfn" and equals:
            called = Function(called_object, names.resolve("fn", value))
            called_object = object_  # cob= counts for one call
        elif key == "calls" and equals and current is not None and called is not None:
            times = value.partition(" ")[0]
            profile.counts[current, called] += int(times) if times.isdigit() else 0
        elif line.startswith("totals:"):  # the file's last line
            words = line.split()
            totals = int(words[1]) if len(words) > 1 and words[1].isdigit() else totals
        elif line[:1] and line[0] in "0123456789+-*":
            found = COST.match(line)
            if found is None or current is None:
                raise LabError(f"callgrind's output, line {number}: not understood: {line[:60]!r}")
            cost = int(found.group(1))
            if called is not None:  # the line after calls=: cost of the call, all inclusive
                profile.calls[current, called] += cost
                called = None
            else:
                profile.own[current] += cost
    if totals is None:
        raise LabError("callgrind's output is cut off: it has no totals")
    if totals != profile.total():
        raise LabError(
            f"callgrind's output is damaged: its functions add up to {profile.total()}, not to"
            f" its total of {totals}"
        )
    return profile
