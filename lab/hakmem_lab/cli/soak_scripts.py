"""The commands scripts/analyze_soak.py, analyze_epoch_tail_csv.py and calculate_percentiles.py."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hakmem_lab.analysis.fragmentation import is_fragmentation, read_cycles, report_fragmentation
from hakmem_lab.analysis.soak import (
    DEFAULT_WARM_UP,
    parse_warm_up,
    read_series,
    report_soak,
    without_warm_up,
)
from hakmem_lab.analysis.statistics import percentiles
from hakmem_lab.analysis.tail import TAIL_EPOCHS, name_share, tail_rows
from hakmem_lab.base.csv_table import (
    STDIN,
    format_rows,
    name_source,
    parse_numbers,
    parse_table,
    read_table,
    read_text,
    reported,
)
from hakmem_lab.base.errors import LabError
from hakmem_lab.base.keep import check_output
from hakmem_lab.base.numbers import Floats
from hakmem_lab.base.printable import print_lines

WARM_UP_HELP = "left out at the start: seconds, or a share of the time (default %(default)s)"


def check_plot(plot: Path) -> None:
    if not plot.absolute().parent.is_dir():
        raise LabError(f"--plot {plot}: no such directory")
    check_output("--plot", plot)


def report_files(
    sources: Sequence[str],
    warm_up: str,
    plot: Path | None,
    reference: str | None,
    judged: Sequence[str] | None,
) -> tuple[list[str], bool]:
    """The lines on soaks, of any kind, in CSV files, and whether nothing failed; the picture."""
    parse_warm_up(warm_up, 1)
    if plot is not None:
        check_plot(plot)
    tables = [read_table(source) for source in sources]
    if is_fragmentation(tables[0]):
        cycles = read_cycles(tables)
        if plot is not None:
            from hakmem_lab.report.soak_plot import plot_fragmentation

            plot_fragmentation(cycles, plot)
        return report_fragmentation(cycles), True
    runs = read_series(tables)
    reported_lines, good = report_soak(runs, warm_up, reference, judged)
    if plot is not None:
        from hakmem_lab.report.soak_plot import plot_soak

        plot_soak(runs, plot)
    return reported_lines, good


def analyze_soak() -> None:
    """Exit codes: 0 nothing failed, 1 a limit is exceeded, 2 wrong input."""
    program = "analyze_soak"
    parser = argparse.ArgumentParser(
        prog=program,
        description="Sums soaks up, side by side, and judges them by rule R4: resident memory grows"
        " by at most 1%, throughput falls by at most 1%, its CV is at most 1.5%. Reads the CSV of"
        " soak_mixed_single_process.sh, soak_mixed_rss.sh and soak_fragmentation.sh.",
    )
    parser.add_argument("files", nargs="+", metavar="CSV", help="a run has its file's name")
    parser.add_argument("--warm-up", default=DEFAULT_WARM_UP, metavar="TIME", help=WARM_UP_HELP)
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="memory and throughput over time"
    )
    parser.add_argument(
        "--reference",
        metavar="NAME",
        help="run that went beside: a throughput that holds as a share of its own passes, and a CV"
        " no worse",
    )
    parser.add_argument("--judge", metavar="A,B", help="the runs to judge (default: all)")
    options = parser.parse_args()
    with reported(program):
        judged = options.judge.split(",") if options.judge is not None else None
        lines, good = report_files(
            options.files, options.warm_up, options.plot, options.reference, judged
        )
        print_lines(lines)
    sys.exit(0 if good else 1)


def report_tails(sources: Sequence[str], warm_up: str) -> list[str]:
    """The lines on the slow tails of soaks in CSV files."""
    parse_warm_up(warm_up, 1)
    tables = [read_table(source) for source in sources]
    runs = [without_warm_up(run, warm_up) for run in read_series(tables)]
    lines = format_rows(tail_rows(runs))
    few = [run.label for run in runs if len(run.elapsed) < TAIL_EPOCHS]
    if few:
        lines += [
            "",
            f"Fewer than {TAIL_EPOCHS} epochs ({', '.join(few)}): p0.1 and p99.9 lie next to the"
            " worst epoch.",
        ]
    return lines


def analyze_epoch_tail() -> None:
    program = "analyze_epoch_tail_csv"
    parser = argparse.ArgumentParser(
        prog=program,
        description="The slow tail of a soak, epoch by epoch: low percentiles of throughput, high"
        " ones of the epochs' latencies. Reads the CSV of soak_mixed_single_process.sh.",
    )
    parser.add_argument("files", nargs="+", metavar="CSV", help="a run has its file's name")
    parser.add_argument("--warm-up", default=DEFAULT_WARM_UP, metavar="TIME", help=WARM_UP_HELP)
    options = parser.parse_args()
    with reported(program):
        print_lines(report_tails(options.files, options.warm_up))


def first_is_number(text: str) -> bool:
    first = text.lstrip().split("\n", 1)[0].split(",")[0].strip()
    try:
        float(first)
    except ValueError:
        return False
    return True


def read_column(source: str, column: str | None) -> Floats:
    """A column of a CSV file by name or number (from 1); of a file without header the only one."""
    text = read_text(source)
    header = ["value"] if first_is_number(text) else None
    table = parse_table(name_source(source), text, header)
    if column is None:
        if len(table.header) != 1:
            raise LabError(
                f"{table.where}: --column is wanted; there are: {', '.join(table.header)}"
            )
        column = table.header[0]
    elif column.isdecimal() and column not in table.header:
        if not 1 <= int(column) <= len(table.header):
            raise LabError(f"{table.where}: --column {column}: there are {len(table.header)}")
        column = table.header[int(column) - 1]
    return table.numbers(column, low=None)


def calculate_percentiles() -> None:
    program = "calculate_percentiles"
    parser = argparse.ArgumentParser(
        prog=program,
        description="Percentiles of the numbers in files, all taken together: one number a line, or"
        " a column of CSV.",
    )
    parser.add_argument("files", nargs="*", default=[STDIN], metavar="FILE", help="default: stdin")
    parser.add_argument("--column", metavar="NAME", help="of CSV: the column's name, or its number")
    parser.add_argument(
        "--percentiles", default="0,0.1,1,10,50,90,99,99.9,100", metavar="P,P", help="0 to 100"
    )
    options = parser.parse_args()
    with reported(program):
        shares = parse_numbers(
            "--percentiles",
            options.percentiles,
            lambda share: 0 <= share <= 100,
            "numbers from 0 to 100",
        )
        values = np.concatenate([read_column(source, options.column) for source in options.files])
        print(f"count {len(values)}")
        for share, value in zip(shares, percentiles(values, shares), strict=True):
            print(f"{name_share(share)} {value:.12g}")
