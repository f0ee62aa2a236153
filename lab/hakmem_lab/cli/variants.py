"""The commands of one comparison: several, each with every value of its parameters."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from hakmem_lab.base.errors import LabError

PARAMETER = re.compile(r"([A-Za-z_]\w*)=(.+)", re.ASCII | re.DOTALL)
LONGEST_NAME = 60  # characters of a command that names its row


@dataclass(frozen=True)
class Variant:
    """A command, the value of each of its parameters, and what its row is called."""

    name: str
    words: tuple[str, ...]
    values: dict[str, str]


def parse_parameters(items: Sequence[str]) -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = {}
    for item in items:
        found = PARAMETER.fullmatch(item)
        values = found[2].split(",") if found else []
        if found is None or not all(values):
            raise LabError(f"--parameter {item}: wanted is NAME=VALUE,VALUE")
        if found[1] in parameters or len(set(values)) < len(values):
            raise LabError(f"--parameter {item}: a name or a value that was there before")
        parameters[found[1]] = values
    return parameters


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with {NAME} replaced; other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def variants_of(
    commands: Sequence[Sequence[str]], items: Sequence[str], others: Sequence[str]
) -> list[Variant]:
    """Every command with every combination of the values of those parameters that occur in it or
    in `others`, the texts that all commands share."""
    parameters = parse_parameters(items)
    texts = [[*command, *others] for command in commands]
    used = [[n for n in parameters if any(f"{{{n}}}" in t for t in own)] for own in texts]
    for name in parameters:
        if not any(name in names for names in used):
            raise LabError(
                f"--parameter {name}: nothing has {{{name}}} in it: no command, --prepare,"
                " --cleanup, --env or --stdin"
            )
    programs = {command[0]: Path(command[0]).name for command in commands}
    alone = len(set(programs.values())) == len(commands)  # the program tells its command
    bare = len(set(programs.values())) == len(programs)  # its directory need not be said
    taken: set[str] = set()
    variants: list[Variant] = []
    for command, names in zip(commands, used, strict=True):
        for chosen in product(*(parameters[name] for name in names)):
            values = dict(zip(names, chosen, strict=True))
            words = tuple(fill(word, values) for word in command)
            program = Path(words[0]).name if bare else words[0]
            label = program if alone else shlex.join([program, *words[1:]])[:LONGEST_NAME]
            label = " ".join([label, *(f"{name}={value}" for name, value in values.items())])
            name, count = label, 1
            while name in taken:
                count += 1
                name = f"{label} ({count})"
            taken.add(name)
            variants.append(Variant(name, words, values))
    return variants
