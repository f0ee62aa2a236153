"""hakmem-lab as a user starts it: in a process of its own, or in this one."""

import signal
import subprocess
import sys
from typing import Protocol

import pytest

from hakmem_lab.base.paths import Paths
from hakmem_lab.cli import app
from hakmem_lab.run.results import Result, read_result

PROGRAM = "from hakmem_lab.start import main; main()"


def command(paths: Paths, kind: str, *words: str) -> list[str]:
    start = [sys.executable, "-c", PROGRAM, kind, "--root", str(paths.root)]
    return [*start, "--json", str(paths.root / "out.json"), *words]


def lab(
    paths: Paths, kind: str, *words: str, **options: object
) -> subprocess.CompletedProcess[str]:
    options = {"stdin": subprocess.DEVNULL, **options}
    if "input" in options:
        del options["stdin"]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command(paths, kind, *words),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def good(paths: Paths, kind: str, *words: str, **options: object) -> tuple[str, Result]:
    done = lab(paths, kind, *words, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, read_result(paths.root / "out.json")


def in_this_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str, str]:
    """Exit code and both outputs of `hakmem-lab words`."""
    monkeypatch.setattr(sys, "argv", ["hakmem-lab", *map(str, words)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    capsys.readouterr()
    code = 0
    try:
        app.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    said = capsys.readouterr()
    return code, said.out, said.err


def words_of(text: str) -> str:
    """Without line breaks, and without the box that messages of the option parser stand in."""
    return " ".join(text.replace("│", " ").split())


def inside(
    paths: Paths,
    kind: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...] | None = None,
) -> tuple[int, str, str]:
    """Exit code and both outputs of the command in this process: for what ends before it runs."""
    words = [*(("--json", str(paths.root / "out.json")) if options is None else options), *words]
    return in_this_process(monkeypatch, capsys, kind, "--root", paths.root, *words)


class Refuse(Protocol):
    """The fixture of this name: the command ends with 2 before it runs anything, and says why."""

    def __call__(
        self,
        paths: Paths,
        kind: str,
        words: list[str],
        problem: str,
        options: tuple[str, ...] | None = None,
    ) -> None: ...
