"""Keeps what a command wrote: whether that can be is found out before anything is measured, and a
result that cannot be kept where it was to be later on is kept elsewhere."""

import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.printable import printable

PROBE_BYTES = 64 << 10  # that have to find room before the first run
OF_THE_KERNEL = ("/dev/", "/proc/")

SayFunction = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    print(f"hakmem-lab: {printable(text)}", file=sys.stderr)


def place_of(file: Path) -> Path:
    """Where the bytes go: the file itself behind a symbolic link, which stays one. A link of the
    kernel's (/dev/stdout) is what it leads to already."""
    if file.is_symlink() and not str(file.absolute()).startswith(OF_THE_KERNEL):
        return Path(os.path.realpath(file))
    return file


def is_stream(place: Path) -> bool:
    """A pipe, a terminal, /dev/null: written to as it is, and once."""
    try:
        return not stat.S_ISREG(place.stat().st_mode) or place.is_symlink()
    except FileNotFoundError:
        return False


def write_whole(file: Path, content: str | bytes) -> None:
    """Writes the file anew, in one step: a reader sees the old one or the new one."""
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    place = place_of(file)
    if is_stream(place):
        with place.open("wb") as stream:
            stream.write(data)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    # A name may have all the length that there is: this one is short.
    partial = place.with_name(f".{place.name[:40]}.{os.getpid()}")
    try:
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # a full disk may say so only here
        partial.replace(place)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def probe(place: Path) -> None:
    with tempfile.TemporaryFile(dir=place.parent, prefix=f".{place.name[:40]}.") as stream:
        stream.write(b"\0" * PROBE_BYTES)
        stream.flush()


def check_output(option: str, file: Path, make_directories: bool = True) -> None:
    """LabError for a file that cannot be written; makes the directories above it."""
    try:
        place = place_of(file)
        if place.is_dir():
            raise LabError(f"{option} {file}: Is a directory")
        above = place.parent
        if above.exists() and not above.is_dir():
            raise LabError(f"{option} {file}: {above} is not a directory")
        if place.exists() and not os.access(place, os.W_OK):
            raise LabError(f"{option} {file}: Permission denied")
        if not is_stream(place):
            if make_directories:
                above.mkdir(parents=True, exist_ok=True)
            probe(place)
    except OSError as error:
        raise LabError(f"{option} {file}: {error.strerror or error}") from None


def check_directory(option: str, directory: Path) -> None:
    """LabError for a directory that no file can be made in; makes it."""
    try:
        if directory.exists() and not directory.is_dir():
            raise LabError(f"{option} {directory}: not a directory")
        directory.mkdir(parents=True, exist_ok=True)
        probe(directory / "x")
    except OSError as error:
        raise LabError(f"{option} {directory}: {error.strerror or error}") from None


def other_places(file: Path) -> list[Path]:
    """Where a result goes that cannot be kept where it was to be."""
    name = f"{file.stem[:40] or 'result'}-{os.getpid()}{file.suffix[:10]}"
    places: list[Path] = []
    for directory in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        with suppress(OSError, RuntimeError):
            places.append(directory() / name)
    return places


def keep_earlier(file: Path, say: SayFunction = say_on_stderr) -> None:
    """Gives an earlier result the name of its time, so that the next one does not replace it."""
    try:
        written = file.stat()
    except OSError:
        return  # there is none, or the Keeper says what is wrong
    if file.is_symlink() or not stat.S_ISREG(written.st_mode):
        return
    when = time.strftime("%Y%m%d-%H%M%S", time.localtime(written.st_mtime))
    for again in ("", *(f"-{number}" for number in range(2, 100))):
        kept = file.with_name(f"{file.stem}-{when}{again}{file.suffix}")
        if not os.path.lexists(kept):
            file.rename(kept)
            say(f"the earlier {file} is {kept.name} now")
            return


class Keeper:
    """Keeps a text that grows in `file`; made before the first run, as it raises a LabError where
    that cannot be written."""

    def __init__(self, file: Path, option: str = "--output", make_directories: bool = True) -> None:
        check_output(option, file, make_directories)
        self.file = file
        self.option = option
        self.elsewhere: Path | None = None  # where it is instead

    @property
    def place(self) -> Path:
        return self.elsewhere or self.file

    def save(self, text: str, last: bool = True, say: SayFunction = say_on_stderr) -> bool:
        """Writes all of the text. False: it is elsewhere, or nowhere; said once in one line. What
        is read once, a pipe say, gets the `last` one only."""
        try:
            if last or not is_stream(place_of(self.file)):
                write_whole(self.file, text)
            if self.elsewhere is not None:
                self.elsewhere.unlink(missing_ok=True)
                self.elsewhere = None
                say(f"{self.option} {self.file}: written after all")
            return True
        except (OSError, UnicodeError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        known = [self.elsewhere] if self.elsewhere is not None else other_places(self.file)
        for place in known:
            try:
                write_whole(place, text)
            except OSError:
                continue
            if self.elsewhere is None:
                say(f"{self.option} {self.file}: {problem}; the result is kept in {place}")
            self.elsewhere = place
            return False
        if last:
            say(f"{self.option} {self.file}: {problem}; the result could be kept nowhere else")
        return False
