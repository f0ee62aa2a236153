"""One chart of a suite: time and peak memory of each peer, as a ratio to hakmem's, row by row.

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
    figures: int  # width of the means and counts at the right of a panel
    beside: bool  # panels beside each other, or below
    letters: int  # of a line of small text


WIDE = Layout(width=900, head=80, names=92, figures=112, beside=True, letters=130)
NARROW = Layout(width=420, head=142, names=86, figures=112, beside=False, letters=58)
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
.chart .dots { stroke-width: 7; stroke-linecap: round; stroke-opacity: 0.6; fill: none; }
.chart .good { stroke: var(--good); }
.chart .bad { stroke: var(--bad); }
.chart .mean { stroke: var(--ink); stroke-width: 2; }
.chart .diamond { fill: var(--ink); stroke: var(--paper); stroke-width: 1.5; }
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


def tick(power: int) -> str:
    return str(2**power) if power >= 0 else f"1/{2**-power}"


@dataclass(frozen=True)
class Panel:
    title: str
    of: list[Against]  # of each peer
    x: float  # of the names' left end
    y: float
    width: float
    layout: Layout

    def draw(self, names: Sequence[str]) -> list[str]:
        left, right = self.x + self.layout.names, self.x + self.width - self.layout.figures
        values = [value for against in self.of for value in against.medians]
        low = min(-1, math.floor(math.log2(min(values))))
        high = max(1, math.ceil(math.log2(max(values))))
        top, bottom = self.y + AXIS, self.y + AXIS + LINE * len(self.of)

        def at(value: float) -> float:
            return left + (math.log2(value) - low) / (high - low) * (right - left)

        drawn = [text(self.x, self.y + 16, self.title, "panel")]
        drawn.append(text(right + 12, self.y + 16, "mean · rows lost", "faint small"))
        every = 1 if (right - left) / (high - low) >= 26 else 2
        for power in range(low, high + 1):
            if power % every == 0:
                kind, x = "one" if power == 0 else "rule", at(2.0**power)
                drawn.append(line(x, top - 6, x, bottom, kind))
                drawn.append(text(x, self.y + 40, tick(power), "faint small", "middle"))
        for number, (name, figures) in enumerate(zip(names, self.of, strict=True)):
            y = top + LINE * number + LINE / 2
            drawn.append(text(self.x, y + 4, name))
            for kind, lost in (("good", False), ("bad", True)):
                of_kind = [value for value in figures.medians if (value * NOISE < 1) is lost]
                if of_kind:
                    dots = "".join(f"M{exact(at(value))} {exact(y)}h0" for value in of_kind)
                    drawn.append(f'<path class="dots {kind}" d="{dots}"/>')
            mean = figures.mean
            if mean.low is not None and mean.high is not None:
                drawn.append(line(at(mean.low), y, at(mean.high), y, "mean"))
            top_of_sign = f"M{exact(at(mean.value))} {exact(y - 7)}"
            drawn.append(f'<path class="diamond" d="{top_of_sign}l5.5 7-5.5 7-5.5-7z"/>')
            drawn.append(text(right + 12, y + 4, f"{mean.value:.2f}"))
            count = f"{figures.lost} of {len(figures.medians)}"
            drawn.append(text(right + 52, y + 4, count, "faint"))
        return drawn


def signs(overview: Overview, letters: int) -> list[str]:
    """What the signs mean, in lines of so many letters at most."""
    interval = f", {CONFIDENCE:.0%} interval" if overview.rounds >= LEAST_FOR_INTERVAL else ""
    return textwrap.wrap(
        f"A dot is one benchmark: what the other allocator needs, as a ratio to {overview.subject}."
        " Left of 1 the other is better, which counts as lost (orange) beyond 3% of noise."
        f" Diamond: geometric mean{interval}.",
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
            ("Time", [peer.time for peer in peers]),
            ("Peak memory", [peer.memory for peer in peers]),
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
        drawn += panel.draw([peer.name for peer in peers])
    rules = f"<style>{style}{SHAPES}</style>" if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img"'
        f' aria-label="{escape(f"{what} {whom}")}"'
        f' viewBox="0 0 {layout.width} {exact(height)}"'
        f' width="{layout.width}" height="{exact(height)}">'
        f"<title>{escape(f'{what} {whom}')}</title>{rules}\n" + "\n".join(drawn) + "\n</svg>\n"
    )
