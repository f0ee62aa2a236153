"""A report: one HTML file without a network, made from results and soaks.

The tables are written here, from the same figures as on a terminal. The data stands in the page
once, as JSON, and the page draws its plots from that with plotly, which it carries compressed.
"""

import base64
import gzip
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from hakmem_lab import __version__
from hakmem_lab.analysis import summary
from hakmem_lab.analysis.fragmentation import Cycles, is_fragmentation, read_cycles, trend
from hakmem_lab.analysis.servers import server_verdicts
from hakmem_lab.analysis.soak import (
    DEFAULT_WARM_UP,
    Judgement,
    Series,
    Summary,
    beside,
    judge_soak,
    read_series,
    show_seconds,
    soak_files,
    summarise,
)
from hakmem_lab.analysis.statistics import CONFIDENCE, RESAMPLES, Change, Estimate, percentiles
from hakmem_lab.analysis.tail import tail_verdicts
from hakmem_lab.analysis.verdict import verdicts
from hakmem_lab.analysis.where import missed, where_words
from hakmem_lab.base.csv_table import Table, read_table
from hakmem_lab.base.numbers import NOTHING
from hakmem_lab.base.printable import with_printable_texts
from hakmem_lab.report import tune_table
from hakmem_lab.report.chart import NARROW, SHAPES, WIDE, draw
from hakmem_lab.report.opening import largest, opening_lines, section_names
from hakmem_lab.report.page_model import Cell, PageRow, PageTable, number, says_where_from
from hakmem_lab.report.page_tables import (
    base_of,
    cost_estimate,
    peak_mib,
    run_estimate,
    subjects_of,
    tables_of,
    unit_of,
)
from hakmem_lab.run.results import Result, understood
from hakmem_lab.run.runner import Pace, Reporter


@dataclass
class Soaks:
    """The runs of all CSV files: soaks, and cycles of phases."""

    series: list[Series] = field(default_factory=list)
    cycles: list[Cycles] = field(default_factory=list)


def read_soaks(sources: Sequence[Path]) -> Soaks:
    tables: list[Table] = [read_table(file) for file in soak_files(sources)]
    phases = [table for table in tables if is_fragmentation(table)]
    return Soaks(
        read_series([table for table in tables if not is_fragmentation(table)]),
        read_cycles(phases),
    )


# --- the page's data ------------------------------------------------------------------------------


def numbers(estimate: Estimate | None) -> list[float | None] | None:
    """Value, low, high, count."""
    if estimate is None:
        return None
    return [estimate.value, estimate.low, estimate.high, estimate.count]


def figures_of(result: Result) -> dict[str, Any]:
    """What the plots show: each good run's cost and peak memory, medians and means."""
    names = result.allocator_names()
    base = base_of(result)
    rows: list[dict[str, Any]] = []
    for row in result.rows:
        on: dict[str, Any] = {}
        for name in names:
            good = row.good_runs(name)
            if good:
                costs = row.costs(name)
                on[name] = {
                    "cost": {
                        "rounds": list(costs),
                        "values": list(costs.values()),
                        "median": numbers(cost_estimate(row, name)),
                        "ratio": numbers(summary.cost_ratio(row, name, base)),
                    },
                    "memory": {
                        "rounds": [run.round for run in good],
                        "values": [peak_mib(run) for run in good],
                        "median": numbers(run_estimate(row, name, peak_mib)),
                        "ratio": numbers(summary.memory_ratio(row, name, base)),
                    },
                }
        rows.append({"name": row.name, "unit": unit_of(row), "on": on})
    means = {
        means.allocator: {"cost": numbers(means.time), "memory": numbers(means.memory)}
        for means in summary.geometric_means(result)
    }
    subjects = subjects_of(result)
    return {"base": base, "names": names, "subjects": subjects, "rows": rows, "means": means}


def data_of(
    results: Sequence[tuple[Path, Result]], figures: Sequence[dict[str, Any]], soaks: Soaks
) -> dict[str, Any]:
    def listed(values: np.ndarray[Any, Any] | None) -> list[float] | None:
        return None if values is None else values.tolist()

    return {
        "results": [
            {"file": file.name, "result": asdict(result), "figures": of_result}
            for (file, result), of_result in zip(results, figures, strict=True)
        ],
        "soaks": [
            {
                "label": run.label,
                "elapsed_s": listed(run.elapsed),
                "rss_kb": listed(run.rss_kb),
                "throughput_ops_s": listed(run.throughput),
            }
            for run in soaks.series
        ],
        "cycles": [
            {
                "label": run.label,
                "cycle": listed(run.cycle),
                "phase": run.phase,
                "phases": len(run.phases),
                "rss_kb": listed(run.rss_kb),
                "live_kb": listed(run.live_kb),
            }
            for run in soaks.cycles
        ],
    }


def json_in_html(data: dict[str, Any]) -> Markup:
    """JSON that cannot end its script element: `<` is written as an escape."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def plot_library() -> str:
    """plotly.js, compressed; the page unpacks it. A third of its size: a report goes by mail."""
    from plotly.offline import get_plotlyjs  # takes a second

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def has_plots(sections: Sequence[dict[str, Any]], soaks: Soaks) -> bool:
    """One row has its runs in a table: a page of that needs no plot library of 1.4 MB."""
    return bool(soaks.series or soaks.cycles) or any(s["overview"] for s in sections)


# --- soaks ----------------------------------------------------------------------------------------


def moved(change: Change | None) -> list[Cell]:
    """The change seen in its two ways, in percent."""
    if change is None:
        return [Cell(NOTHING), Cell(NOTHING)]
    return [
        Cell(f"{value:+.2f}%", "", value) for value in (change.tenths, change.slope)
    ]  # signed, so that growth and loss are told apart at a glance


def soak_row(run: Summary) -> PageRow:
    cells = [
        Cell(show_seconds(run.total_s), f"{run.epochs} epochs of {run.epoch_s:.1f} s", run.total_s),
        number(float(np.median(run.rss))),
        number(float(run.rss.max())),
        *moved(run.growth),
    ]
    speed = run.throughput
    if speed is None:
        cells += [Cell(NOTHING)] * 5
    else:
        middle = float(np.median(speed.values)) / 1e6
        cells += [
            number(middle, 2),
            number(percentiles(speed.values, [1])[0] / 1e6, 2),
            *moved(speed.change),
            Cell(f"{speed.cv:.2f}%", "", speed.cv),
        ]
    return PageRow(run.label, cells)


def soak_table(summaries: Sequence[Summary]) -> PageTable:
    columns = ["run", "time", "resident kB, median", "most", "change, tenths", "change, slope"]
    columns += ["M ops/s, median", "p1", "loss or gain, tenths", "slope", "CV"]
    return PageTable(
        "Figures after the warm-up",
        columns,
        [soak_row(run) for run in summaries],
        "One run each; its epochs are in the plots. Tenths: the median of the last tenth against"
        " that of the first. Slope: Theil-Sen, over the whole time.",
        frozenset({0}),
    )


def judge_soaks(summaries: Sequence[Summary]) -> list[Judgement]:
    return [line for run in summaries for line in judge_soak(run, beside(summaries, run))]


def cycle_table(runs: Sequence[Cycles]) -> PageTable:
    rows: list[PageRow] = []
    for run in runs:
        for phase in run.phases:
            rss, ratio = run.of_phase(phase)
            cells = [
                Cell(phase, "", phase),
                number(float(np.median(ratio)), 2),
                number(float(ratio.max()), 2),
                *moved(trend(rss)),
                number(len(rss)),
            ]
            rows.append(PageRow(run.label, cells))
    columns = ["run", "phase", "resident / live, median", "most", "change, tenths", "slope"]
    return PageTable(
        "Resident against live memory, by phase",
        [*columns, "cycles"],
        rows,
        "Change of resident memory over the cycles after the first.",
        frozenset({0, 1}),
    )


# --- the page -------------------------------------------------------------------------------------

# Kinds whose outcome their commands say in sentences.
WORDS: dict[str, Callable[[Result], list[str]]] = {
    "compare": verdicts,
    "tail": tail_verdicts,
    "servers": server_verdicts,
    "where": lambda result: [*where_words(result), *missed(result)],
    "tune": tune_table.words,
}
MACHINE = {
    "cpu_model": "processor",
    "cpus": "processors",
    "memory_mib": "memory, MiB",
    "load_average": "load at the start",
}
SETTINGS = {
    "cpus": "processors used",
    "timeout_s": "time limit, s",
    "warm_mib": "memory touched before a run, MiB at most",
}


def section_of(file: Path, result: Result, title: str) -> dict[str, Any]:
    failures = [
        f"{row.name} on {name}: {failure}"
        for row in result.rows
        for name in result.allocator_names()
        if (failure := row.failure(name))
    ]
    unshown = ("peers", "parameters", "asked", "phases", "library_environment")
    settings = {k: v for k, v in result.settings.items() if k not in unshown}
    return {
        "title": title,
        "file": file.name,
        "result": result,
        "tables": tables_of(result),
        "verdicts": WORDS[result.kind](result) if result.kind in WORDS else [],
        "base": base_of(result),
        "subjects": subjects_of(result),
        "overview": result.kind not in ("steady", "where") and sum(bool(row.runs) for row in result.rows) > 1,
        "missing": [f"{row.name}: {row.missing}" for row in result.rows if row.missing],
        "failures": failures,
        "created": show_time(result.created),
        "settings": [
            (SETTINGS.get(name, name.replace("_", " ")), as_text(value))
            for name, value in settings.items()
        ],
        "machine": [
            (MACHINE.get(name, name.replace("_", " ")), as_text(value))
            for name, value in result.machine.items()
        ],
        "allocators": [(a, says_where_from(a)) for a in result.allocators],
    }


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(as_text, value))
    return value if isinstance(value, str) else json.dumps(value)


def show_time(text: str) -> str:
    """2026-01-02 03:04 UTC; what is no time stays as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment.tzinfo else text


def render(
    results: Sequence[tuple[Path, Result]],
    soaks: Soaks,
    warm_up: str = DEFAULT_WARM_UP,
    reporter: Reporter | None = None,
) -> str:
    """The page's text; a result with many rows takes seconds."""
    reporter = reporter or Reporter()
    results = [(file, with_printable_texts(result)) for file, result in results]
    soaks = with_printable_texts(soaks)
    pace = Pace([str(file) for file, _ in results])
    sections: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    titles = section_names(results)
    with reporter.running():
        for (file, result), title in zip(results, titles, strict=True):
            reporter.step(str(file), pace, len(results))
            start = time.monotonic()
            with understood(file):
                sections.append(section_of(file, result, title))
                figures.append(figures_of(result))
            pace.finish(str(file), time.monotonic() - start)
    summaries = [summarise(run, warm_up) for run in soaks.series]
    judgements = judge_soaks(summaries)
    shown = largest(results)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hakmem_lab.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def asset(name: str) -> Markup:
        assert environment.loader is not None
        return Markup(environment.loader.get_source(environment, name)[0])

    return environment.get_template("page.html.jinja").render(
        opening=opening_lines(results, judgements),
        chart=None if shown is None else [Markup(draw(shown[1], at, "")) for at in (WIDE, NARROW)],
        chart_of=None if shown is None else shown[0],
        sections=sections,
        soak_table=soak_table(summaries) if summaries else None,
        judgements=judgements,
        has_throughput=any(run.throughput is not None for run in soaks.series),
        cycle_table=cycle_table(soaks.cycles) if soaks.cycles else None,
        warm_up=warm_up,
        data=json_in_html(data_of(results, figures, soaks)),
        library=plot_library() if has_plots(sections, soaks) else "",
        style=asset("style.css") + Markup(SHAPES),
        scripts=[asset("plots.js"), asset("page.js")],
        confidence=round(CONFIDENCE * 100),
        resamples=RESAMPLES,
        version=__version__,
    )
