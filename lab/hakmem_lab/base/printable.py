"""Texts as they may be printed: what a program said, or a file holds, does not steer a terminal.

Names, commands and error messages come from programs and files of others. A control character in
them (ESC begins a sequence that may clear the screen, or write what is typed next) is shown as an
escape, as is what turns the direction of writing, and what cannot be encoded.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

# Control, format, half of a pair, line and paragraph separators.
UNPRINTABLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

T = TypeVar("T")


def escape(character: str) -> str:
    number = ord(character)
    if character in SHORT:
        return SHORT[character]
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def printable(text: str) -> str:
    """The text with everything that is not to be seen written as an escape."""
    if text.isprintable():
        return text
    return "".join(escape(c) if unicodedata.category(c) in UNPRINTABLE else c for c in text)


def printable_lines(text: str) -> str:
    """As printable(), of a text of several lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line))


def with_printable_texts(value: T) -> T:
    """The value with each text in it made printable: keys too, and fields of data classes."""
    return _change(value)  # type: ignore[no-any-return]


def _change(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return type(value)(_change(item) for item in value)
    if isinstance(value, dict):
        return {_change(key): _change(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _change(getattr(value, f.name)) for f in fields(value)})
    return value
