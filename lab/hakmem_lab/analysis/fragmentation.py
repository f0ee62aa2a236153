"""What a fragmentation soak came to: resident against live bytes, phase by phase."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.analysis.soak import read_runs
from hakmem_lab.analysis.statistics import Change, change
from hakmem_lab.base.csv_table import Table, format_rows
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.numbers import Floats

LEAST_CYCLES = 3  # with fewer, there is no trend after the first


@dataclass(frozen=True)
class Cycles:
    """The phases of one run, in the order of the file."""

    label: str
    cycle: Floats
    phase: list[str]
    elapsed: Floats  # seconds
    live_kb: Floats
    rss_kb: Floats

    def of_phase(self, phase: str) -> tuple[Floats, Floats]:
        """Resident kB and the ratio resident / live, a value a cycle."""
        chosen = np.array([name == phase for name in self.phase])
        return self.rss_kb[chosen], self.rss_kb[chosen] / self.live_kb[chosen]

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(self.phase))


def is_fragmentation(table: Table) -> bool:
    return {"cycle", "phase"} <= set(table.header)


def cycles_of(label: str, table: Table) -> Cycles:
    cycle = table.numbers("cycle", low=1)
    words = table.words("phase")
    # Each cycle has the phases of the first one in the same order: none is missing, none stands for
    # another.
    phases = [word for word, number in zip(words, cycle, strict=True) if number == cycle[0]]
    for index, word in enumerate(words):
        wanted = index // len(phases) + 1
        if cycle[index] != wanted:
            raise table.fail(index, "cycle", f"{cycle[index]:g} where {wanted} is wanted")
        if word != phases[index % len(phases)]:
            raise table.fail(
                index, "phase", f"{word} where {phases[index % len(phases)]} is wanted"
            )
    return Cycles(
        label,
        cycle,
        words,
        table.numbers("elapsed_s"),
        table.numbers("live_kb", low=1),
        table.numbers("rss_kb", low=1),
    )


def read_cycles(tables: Sequence[Table]) -> list[Cycles]:
    for table in tables:
        if not is_fragmentation(table):
            raise LabError(
                f"{table.where}: CSV of a soak beside that of phases: one kind at a time"
            )
    return read_runs(tables, cycles_of)


def trend(values: Floats) -> Change | None:
    """The change over the cycles after the first; None with too few."""
    if len(values) < LEAST_CYCLES:
        return None
    return change(np.arange(1, len(values), dtype=np.float64), values[1:])


def report_fragmentation(runs: Sequence[Cycles]) -> list[str]:
    rows = [["resident / live", *(run.label for run in runs)]]
    growth = [["resident, change over the cycles", *(run.label for run in runs)]]
    phases = list(dict.fromkeys(phase for run in runs for phase in run.phases))
    for phase in phases:
        cells: list[str] = []
        changes: list[str] = []
        for run in runs:
            rss, ratio = run.of_phase(phase)
            if len(rss) == 0:
                cells.append("-")
                changes.append("-")
                continue
            cells.append(f"{np.median(ratio):.2f} (most {ratio.max():.2f})")
            moved = trend(rss)
            changes.append("-" if moved is None else f"{moved.tenths:+.1f}%, {moved.slope:+.1f}%")
        rows.append([phase, *cells])
        growth.append([phase, *changes])
    cycles = ", ".join(f"{run.label} {int(run.cycle[-1])}" for run in runs)
    return [
        *format_rows(rows),
        "",
        *format_rows(growth),
        "",
        f"Medians over cycles ({cycles}). Change: last tenth of the cycles after the first against"
        " their first tenth, and slope.",
    ]
