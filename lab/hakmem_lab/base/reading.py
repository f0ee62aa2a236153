"""Reads files of others: what is none, or never ends, is an error of one line."""

import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from hakmem_lab.base.errors import LabError

MOST_BYTES = 512 << 20  # a suite of 100 rows and 20 rounds has 4 MB
MOST_DEEP = 32  # lists in lists; results have 6
LARGEST, SMALLEST = 2.0**63, 1e-15  # figures beyond these are nobody's, and their ratios overflow

COMPRESSED = b"\x28\xb5\x2f\xfd"  # how a zstd frame begins

Place = tuple[Any, ...]  # keys and indices that lead to a value


def refuse_kind(source: str | Path, mode: int, pipes: bool = True) -> None:
    if stat.S_ISDIR(mode):
        raise LabError(f"{source}: Is a directory")
    if stat.S_ISFIFO(mode) and not pipes:
        raise LabError(f"{source}: a pipe, which can be read in one direction only")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise LabError(f"{source}: a device or a socket, not a file")


def read_bytes(source: str | Path) -> bytes:
    """All of a file, or of a pipe that somebody writes to."""
    try:
        # Not blocking: opening a pipe without a writer would wait for one for ever.
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as stream:
            mode = os.fstat(descriptor).st_mode
            refuse_kind(source, mode)
            start = stream.read(1) if stat.S_ISFIFO(mode) else b""
            if start == b"" and stat.S_ISFIFO(mode):
                raise LabError(f"{source}: an empty pipe that nobody writes to")
            os.set_blocking(descriptor, True)
            parts = [start or b""]
            left = MOST_BYTES
            while block := stream.read(min(left, 1 << 20)):
                parts.append(block)
                left -= len(block)
                if left <= 0:
                    raise LabError(f"{source}: larger than {MOST_BYTES >> 20} MiB")
    except OSError as error:
        raise LabError(f"{source}: {error.strerror}") from None
    return b"".join(parts)


def unpacked(source: str | Path, data: bytes) -> bytes:
    """The data of a file that may be compressed with zstd, whatever its name."""
    if not data.startswith(COMPRESSED):
        return data
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
            content = stream.read(MOST_BYTES + 1)
            whole = not stream.read(1)
    except zstandard.ZstdError as error:
        raise LabError(f"{source}: compressed, and cut off or damaged: {error}") from None
    if not whole or len(content) > MOST_BYTES:
        raise LabError(f"{source}: larger than {MOST_BYTES >> 20} MiB")
    return content


def locate(path: Place) -> str:
    """A place in the file for a reader: rows[3].runs[0].wall_s"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the whole"


def walk(content: Any) -> Iterator[tuple[Place, Any]]:
    """Every value with its place; no recursion, as a file may be nested as deeply as it likes."""
    left: list[tuple[Place, Any]] = [((), content)]
    while left:
        place, value = left.pop()
        yield place, value
        if len(place) > MOST_DEEP:
            continue
        if isinstance(value, dict):
            left += [((*place, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            left += [((*place, index), item) for index, item in enumerate(value)]


def refuse_strange_numbers(where: str | Path, content: Any) -> None:
    for place, value in walk(content):
        if len(place) > MOST_DEEP:
            raise LabError(f"{where}: {locate(place[:3])}...: nested more than {MOST_DEEP} deep")
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise LabError(f"{where}: {locate(place)}: not a finite number")
        if abs(value) > LARGEST or 0 < abs(value) < SMALLEST:
            raise LabError(f"{where}: {locate(place)}: a number that nothing measures")


def without_halves(content: Any) -> Any:
    """The content with what is only half of a character, which JSON can hold and UTF-8 cannot,
    replaced; names of files may have some."""
    if isinstance(content, str):
        return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(content, list):
        return [without_halves(item) for item in content]
    if isinstance(content, dict):
        return {without_halves(key): without_halves(item) for key, item in content.items()}
    return content


def read_json(file: Path) -> Any:
    """The content of a JSON file; a LabError says what is wrong with it."""
    try:
        text = unpacked(file, read_bytes(file)).decode()
        content = json.loads(text)
    except UnicodeDecodeError:
        raise LabError(f"{file}: not a result file: not text") from None
    except RecursionError:
        raise LabError(f"{file}: not a result file: lists nested too deeply") from None
    except ValueError as error:
        raise LabError(f"{file}: not JSON, or cut off: {error}") from None
    refuse_strange_numbers(file, content)
    return without_halves(content) if "\\ud" in text.lower() else content
