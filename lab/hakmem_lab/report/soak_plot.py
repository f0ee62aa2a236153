"""Pictures of soaks: resident memory and throughput over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hakmem_lab.analysis.fragmentation import Cycles
from hakmem_lab.analysis.soak import Series
from hakmem_lab.base.errors import LabError


def figure(panels: int) -> tuple[Any, Any, list[Any]]:
    """matplotlib's pyplot, a figure, and its panels one below the other."""
    import matplotlib

    matplotlib.use("Agg")  # without a display
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(
        panels, 1, sharex=True, squeeze=False, figsize=(10, 3.2 * panels + 0.6)
    )
    return pyplot, drawn, [row[0] for row in axes]


def save(pyplot: Any, drawn: Any, panels: list[Any], time: str, out: Path) -> None:
    for panel in panels:
        panel.set_ylim(0, panel.dataLim.ymax * 1.08)
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel(time)
    panels[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    drawn.tight_layout()
    try:
        # Without the date and the version: the same CSV gives the same file.
        drawn.savefig(out, dpi=110, metadata={"Software": None})
    except OSError as error:
        raise LabError(f"--plot {out}: {error.strerror}") from None
    except ValueError as error:  # no such format
        raise LabError(f"--plot {out}: {error}") from None
    finally:
        pyplot.close(drawn)


def scale(longest: float) -> tuple[float, str]:
    return (60.0, "minutes") if longest >= 300 else (1.0, "seconds")


def plot_soak(runs: Sequence[Series], out: Path) -> None:
    measured = [run for run in runs if run.throughput is not None]
    pyplot, drawn, panels = figure(2 if measured else 1)
    unit, time = scale(max(float(run.elapsed[-1]) for run in runs))
    for index, run in enumerate(runs):
        colour = f"C{index}"
        panels[0].plot(
            run.elapsed / unit, run.rss_kb / 1024, color=colour, linewidth=1, label=run.label
        )
        if run.throughput is not None:
            panels[1].plot(run.elapsed / unit, run.throughput / 1e6, color=colour, linewidth=0.7)
    panels[0].set_ylabel("resident, MiB")
    if measured:
        panels[1].set_ylabel("operations, millions a second")
    save(pyplot, drawn, panels, time, out)


def plot_fragmentation(runs: Sequence[Cycles], out: Path) -> None:
    pyplot, drawn, panels = figure(1)
    unit, time = scale(max(float(run.elapsed[-1]) for run in runs))
    for index, run in enumerate(runs):
        panels[0].plot(
            run.elapsed / unit, run.rss_kb / 1024, color=f"C{index}", linewidth=1, label=run.label
        )
    last = runs[-1]
    panels[0].plot(
        last.elapsed / unit, last.live_kb / 1024, "k:", linewidth=1, label=f"live ({last.label})"
    )
    panels[0].set_ylabel("resident, MiB")
    save(pyplot, drawn, panels, time, out)
