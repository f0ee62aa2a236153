"""What servers of bench/servers.toml consist of: at their highest, and after the idle time.

A server is not stopped to be looked at, since its clients would wait: hakmem's figures may be of
several moments while it works. Those after the idle time are of one.
"""

import time
from pathlib import Path
from typing import Any

from hakmem_lab.run import memory_map
from hakmem_lab.run.composition import POLLED, Figures, LookError, look
from hakmem_lab.run.measure import Running
from hakmem_lab.run.rows import Row
from hakmem_lab.run.server import Load, ServerError, Session, resident_kib, wait_for_any
from hakmem_lab.run.servers import TableTrial, peak_kib

IDLE = "idle_"  # begins the names of the figures after the idle time
LOOK_SECONDS = 0.05
GROWTH = 1.02


class WhereServer(TableTrial):
    """One run of a server that is looked at."""

    def __init__(self, tool: Path, *others: Any) -> None:
        super().__init__(*others)
        self.tool = tool
        self.highest: Figures | None = None

    def look(self, running: Running) -> Figures:
        try:
            return look(memory_map.descendants(running.process.pid), self.allocator, self.tool)
        except LookError as error:
            raise ServerError(f"it could not be inspected: {error}") from None

    def look_if_grown(self, running: Running) -> None:
        kib = resident_kib(running) or 0
        if self.highest is None or kib > self.highest[POLLED] * GROWTH:
            figures = self.look(running)
            if self.highest is None or figures[POLLED] > self.highest[POLLED]:
                self.highest = figures

    def before_load(self, row: Row, session: Session) -> None:
        super().before_load(row, session)
        self.look_if_grown(session.running)

    def wait_for_load(self, load: Running, session: Session) -> None:
        end = time.monotonic() + self.launcher.timeout + 60
        while load.process.poll() is None and not session.ended() and time.monotonic() < end:
            wait_for_any([load, session.running], LOOK_SECONDS)
            self.peak = max(self.peak, peak_kib(session.running))
            self.look_if_grown(session.running)

    def after_load(self, session: Session, load: Load) -> dict[str, float]:
        figures = super().after_load(session, load)
        self.look_if_grown(session.running)
        return figures | (self.highest or {})

    def after_idle(self, session: Session) -> dict[str, float]:
        return {f"{IDLE}{name}": kib for name, kib in self.look(session.running).items()}
