"""When is a server ready? A port that accepts connections, or a command that succeeds."""

import re
import shlex
import socket
import subprocess
import time
from dataclasses import dataclass

from hakmem_lab.base.errors import LabError

LOCAL = ("127.0.0.1", "::1")
PAUSE = 0.02  # seconds between two looks
CONNECT_TIMEOUT = 1.0


def accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), CONNECT_TIMEOUT):
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class Ready:
    """A port (on `hosts`), or a command; never both."""

    hosts: tuple[str, ...] = ()
    port: int | None = None
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.port is None:
            return shlex.join(self.command)
        return f"port {self.port}" if self.hosts == LOCAL else f"{self.hosts[0]}:{self.port}"

    def holds(self, environment: dict[str, str], patience: float) -> bool:
        if self.port is not None:
            port = self.port
            return any(accepts(host, port) for host in self.hosts)
        try:
            done = subprocess.run(
                self.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=max(PAUSE, patience),
                check=False,
            )
        except OSError as error:
            raise LabError(f"--ready: {self.command[0]}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def taken(self) -> bool:
        """Whether somebody listens already; of a command nothing is known."""
        return self.port is not None and self.holds({}, CONNECT_TIMEOUT)

    def wait_until_free(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.taken():
            if time.monotonic() > end:
                return False
            time.sleep(PAUSE)
        return True


def split_command(option: str, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise LabError(f"{option} {text!r}: {error}") from None
    if not words:
        raise LabError(f"{option}: a command is wanted")
    return words


def parse_ready(text: str) -> Ready:
    """PORT, HOST:PORT, or a command."""
    found = re.fullmatch(r"(?:([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])?:)?(\d+)", text.strip())
    if found is None:
        return Ready(command=split_command("--ready", text))
    port = int(found.group(2))
    if not 1 <= port <= 65535:
        raise LabError(f"--ready {text}: a port is a number from 1 to 65535")
    host = found.group(1)
    return Ready((host.strip("[]"),) if host else LOCAL, port)
