"""One chart of a suite: time and peak memory of each peer, as a ratio to hakmem's: a bar a peer.

An SVG without a script, in two layouts, one of them for phones. It follows the reader's choice of
light or dark; inside a report the page's colours count.
"""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from hakmem_lab.analysis.statistics import (
    CONFIDENCE,
    LEAST_FOR_INTERVAL,
    Estimate,
    geometric_mean,
    paired_ratios,
)
from hakmem_lab.analysis.summary import NOISE, peers_of, subjects_of
from hakmem_lab.base.printable import with_printable_texts
from hakmem_lab.run.results import Result, RowResult


@dataclass(frozen=True)
class Against:
    """One peer's figures as ratios to the subject's: above 1 the peer needs more."""

    medians: list[float]  # of each row that both ended
    mean: Estimate  # geometric, over these rows

    @property
    def middle(self) -> tuple[float, float]:
        """Between these lie eight of ten rows."""
        low, high = np.percentile(self.medians, [10, 90])
        return float(low), float(high)

    @property
    def lost(self) -> int:
        """Rows in which the subject needs more, by more than the noise."""
        return sum(value * NOISE < 1 for value in self.medians)


@dataclass(frozen=True)
class Peer:
    name: str
    version: str
    time: Against
    memory: Against


@dataclass(frozen=True)
class Overview:
    subject: str  # with its version
    peers: list[Peer]  # the fastest first
    rows: int
    rounds: int


Figures = Callable[[RowResult, str], dict[int, float]]


def peaks(row: RowResult, name: str) -> dict[int, float]:
    return {run.round: float(run.peak_rss_kb) for run in row.good_runs(name)}


def against(result: Result, peer: str, subject: str, figures: Figures) -> Against | None:
    """None: no row ended well on both."""
    ratios = [paired_ratios(figures(row, peer), figures(row, subject)) for row in result.rows]
    ratios = [of_row for of_row in ratios if len(of_row)]
    if not ratios:
        return None
    medians = [float(np.median(of_row)) for of_row in ratios]
    return Against(medians, geometric_mean(ratios))


def overview_of(result: Result) -> Overview | None:
    """None where there is nothing to compare: another kind of result, one row, no peer."""
    result = with_printable_texts(result)
    subjects = subjects_of(result)
    ran = [row for row in result.rows if row.runs]
    if result.kind != "suite" or not subjects or len(ran) < 2:
        return None
    versions = {allocator.name: allocator.version for allocator in result.allocators}
    peers: list[Peer] = []
    for name in peers_of(result):
        time = against(result, name, subjects[0], lambda row, of: dict(row.costs(of)))
        memory = against(result, name, subjects[0], peaks)
        if time is not None and memory is not None:
            peers.append(Peer(name, versions[name], time, memory))
    if not peers:
        return None
    peers.sort(key=lambda peer: peer.time.mean.value)
    rounds = max(run.round for row in ran for run in row.runs)
    subject = f"{subjects[0]} {versions[subjects[0]]}"
    return Overview(subject, peers, len(ran), rounds)


# --- drawing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    width: int
    head: int  # height above the panels: the title, and what the signs mean
    names: int  # width of the peers' names
    figures: int  # width of the means, intervals and counts at the right of a panel
    beside: bool  # panels beside each other, or below
    letters: int  # of a line of small text


WIDE = Layout(width=900, head=80, names=106, figures=160, beside=True, letters=130)
NARROW = Layout(width=420, head=142, names=106, figures=160, beside=False, letters=58)
LINE, AXIS, GAP, FOOT = 26, 52, 24, 14  # heights, and what lies between panels

STYLE = """
.chart {
  --paper: #ffffff; --ink: #1b1f23; --faint: #57606a; --rule: #d5dade;
  --good: #0a58ca; --bad: #a24a00;
  font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums;
}
@media (prefers-color-scheme: dark) {
  .chart {
    --paper: #14171a; --ink: #e3e6e8; --faint: #9ba4ac; --rule: #363c42;
    --good: #7db3ff; --bad: #f5a356;
  }
}
"""
# What follows from the colours; in a report they are the page's own.
SHAPES = """
.chart .paper { fill: var(--paper); }
.chart text { fill: var(--ink); }
.chart .title { font-size: 16px; font-weight: 600; }
.chart .panel { font-weight: 600; }
.chart .faint { fill: var(--faint); }
.chart .small { font-size: 12px; }
.chart .rule { stroke: var(--rule); }
.chart .one { stroke: var(--faint); stroke-width: 1.5; }
.chart .good { fill: var(--good); }
.chart .bad { fill: var(--bad); }
.chart .rows { stroke: var(--faint); stroke-width: 1.5; }
.chart .mean { stroke: var(--ink); stroke-width: 2; fill: none; }
"""


def exact(value: float) -> str:
    """A coordinate, to a tenth: the last digits of a mean differ from processor to processor."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    kinds = f' class="{kind}"' if kind else ""
    return f'<text x="{exact(x)}" y="{exact(y)}"{kinds}{where}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{exact(x1)} {exact(y1)}L{exact(x2)} {exact(y2)}"/>'


TICKS = [2.0**power * part for power in range(-6, 12) for part in (1, 1.5)]
LEAST_BETWEEN = 30  # pixels from one tick to the next


def bounds(of: Sequence[Against]) -> tuple[float, float]:
    """Logarithms of the ends of the axis; 1 is always inside."""
    ends = [1.0]
    for against in of:
        mean = against.mean
        ends += [*against.middle, mean.value, mean.low or mean.value, mean.high or mean.value]
    return math.log2(min(ends)) - 0.1, math.log2(max(ends)) + 0.1


def interval_text(mean: Estimate) -> str:
    if mean.low is None or mean.high is None:
        return ""
    return f"{mean.low:.2f} to {mean.high:.2f}"


@dataclass(frozen=True)
class Panel:
    title: str
    of: list[tuple[str, Against]]  # of each peer, with its name
    x: float  # of the names' left end
    y: float
    width: float
    layout: Layout

    def draw(self) -> list[str]:
        """The peers from the one that needs least to the one that needs most."""
        of = sorted(self.of, key=lambda each: each[1].mean.value)
        left, right = self.x + self.layout.names, self.x + self.width - self.layout.figures
        low, high = bounds([figures for _, figures in of])
        top, bottom = self.y + AXIS, self.y + AXIS + LINE * len(of)

        def at(value: float) -> float:
            return left + (math.log2(value) - low) / (high - low) * (right - left)

        drawn = [text(self.x, self.y + 16, self.title, "panel")]
        drawn.append(text(right + 8, self.y + 40, "mean, interval · lost", "faint small"))
        shown = [1.0]
        for value in sorted(TICKS, key=lambda tick: abs(math.log2(tick))):
            inside = low < math.log2(value) < high
            if inside and all(abs(at(value) - at(other)) >= LEAST_BETWEEN for other in shown):
                shown.append(value)
        for value in sorted(shown):
            drawn.append(line(at(value), top - 6, at(value), bottom, "rule"))
            drawn.append(text(at(value), self.y + 40, f"{value:g}", "faint small", "middle"))
        for number, (name, figures) in enumerate(of):
            y, mean = top + LINE * number + LINE / 2, figures.mean
            drawn.append(text(self.x, y + 4, name))
            start, end = sorted((at(1), at(mean.value)))
            kind = "bad" if mean.value < 1 else "good"
            drawn.append(
                f'<rect class="bar {kind}" x="{exact(start)}" y="{exact(y - 7)}"'
                f' width="{exact(max(end - start, 0.5))}" height="14"/>'
            )
            drawn.append(line(at(figures.middle[0]), y, at(figures.middle[1]), y, "rows"))
            if mean.low is not None and mean.high is not None:
                ends = [at(mean.low), at(mean.high)]
                marks = "".join(f"M{exact(x)} {exact(y - 5)}v10" for x in ends)
                across = f"M{exact(ends[0])} {exact(y)}L{exact(ends[1])} {exact(y)}"
                drawn.append(f'<path class="mean" d="{marks}{across}"/>')
            drawn.append(text(right + 8, y + 4, f"{mean.value:.2f}"))
            drawn.append(text(right + 42, y + 4, interval_text(mean), "faint small"))
            count = f"{figures.lost}/{len(figures.medians)}"
            drawn.append(text(right + 122, y + 4, count, "faint small"))
        drawn.append(line(at(1), top - 6, at(1), bottom, "one"))
        return drawn


def signs(overview: Overview, letters: int) -> list[str]:
    """What the signs mean, in lines of so many letters at most."""
    certain = overview.rounds >= LEAST_FOR_INTERVAL
    interval = f" with its {CONFIDENCE:.0%} interval" if certain else ""
    return textwrap.wrap(
        f"Bar: what the other allocator needs, as a ratio to {overview.subject}: geometric mean"
        f"{interval}. Thin line: eight of ten benchmarks. Left of 1 (orange) the other needs less."
        " Lost: benchmarks on which it needs less by more than 3%.",
        letters,
    )


def draw(overview: Overview, layout: Layout, style: str = STYLE) -> str:
    """The SVG; `style` is empty where the page around it has the colours."""
    peers = overview.peers
    height_of_panel = AXIS + LINE * len(peers) + FOOT
    margin = 14
    inside = layout.width - 2 * margin
    width = (inside - GAP) / 2 if layout.beside else inside
    panels = []
    for number, (title, of) in enumerate(
        (
            ("Time", [(peer.name, peer.time) for peer in peers]),
            ("Peak memory", [(peer.name, peer.memory) for peer in peers]),
        )
    ):
        x = margin + (number * (width + GAP) if layout.beside else 0)
        y = layout.head + (0 if layout.beside else number * (height_of_panel + GAP / 2))
        panels.append(Panel(title, of, x, y, width, layout))
    height: float = layout.head + height_of_panel
    if not layout.beside:
        height += height_of_panel + GAP / 2
    what = f"{overview.rows} benchmarks, {overview.rounds} rounds:"
    whom = f"{len(peers)} allocators beside {overview.subject}"
    drawn = [f'<rect class="paper" width="{layout.width}" height="{exact(height)}" rx="6"/>']
    lines = signs(overview, layout.letters)
    titles = [f"{what} {whom}"] if layout.beside else [what, whom]
    drawn += [text(margin, 26 + 20 * n, part, "title") for n, part in enumerate(titles)]
    below = 28 + 20 * len(titles)
    drawn += [text(margin, below + 16 * n, part, "faint small") for n, part in enumerate(lines)]
    for panel in panels:
        drawn += panel.draw()
    rules = f"<style>{style}{SHAPES}</style>" if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img"'
        f' aria-label="{escape(f"{what} {whom}")}"'
        f' viewBox="0 0 {layout.width} {exact(height)}"'
        f' width="{layout.width}" height="{exact(height)}">'
        f"<title>{escape(f'{what} {whom}')}</title>{rules}\n" + "\n".join(drawn) + "\n</svg>\n"
    )
