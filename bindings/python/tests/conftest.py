"""What the tests share: the environment that has the package installed, and programs on hakmem.

They run with the interpreter of that environment, never from src/ (run.py makes it).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HAKMEM = [str(Path(sys.executable).with_name("hakmem"))]
SECONDS = 60


def environment(**changes: str) -> dict[str, str]:
    """This process's variables, without what sets an allocator up, and with `changes`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "PYTHONMALLOC")
        and (not name.startswith("HAKMEM_") or name.startswith("HAKMEM_TEST_"))
    }
    return {**kept, **changes}


def run(command: Sequence[str], **changes: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env=environment(**changes)
    )


def on_hakmem(code: str, *options: str, **changes: str) -> Any:
    """Runs `code` by `hakmem run`; what it prints is JSON."""
    done = run([*HAKMEM, "run", *options, sys.executable, "-c", code], **changes)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def resting(code: str, *options: str, **changes: str) -> Iterator[int]:
    """The PID of a program on hakmem that has run `code` and waits."""
    wait = "\nimport sys\nprint('ready', flush=True)\nsys.stdin.read()"
    program = subprocess.Popen(
        [*HAKMEM, "run", *options, sys.executable, "-c", code + wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**changes),
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        yield program.pid
    finally:
        assert program.stdin is not None
        program.stdin.close()
        deadline = time.monotonic() + SECONDS
        while program.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        program.kill()
        program.wait()
    assert program.returncode == 0


@pytest.fixture(scope="session")
def may_look() -> None:
    """Skips where the kernel lets nobody but root and parents look into a process."""
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        return
    if scope != "0" and os.geteuid() != 0:
        pytest.skip("this kernel lets only root look into other processes")
