"""Every kind of result as text: which tables it has."""

from pathlib import Path

from rich.console import Console

from hakmem_lab.base.printable import with_printable_texts
from hakmem_lab.report import (
    ab_table,
    compare_tables,
    hunt_table,
    replay_table,
    servers_table,
    tables,
    tail_tables,
    tune_table,
    where_table,
)
from hakmem_lab.run.results import Result

PRINTERS = {
    "suite": tables.print_suite,
    "programs": tables.print_programs,
    "ab": ab_table.print_ab,
    "instructions": tables.print_instructions,
    "compare": compare_tables.print_comparison,
    "tail": tail_tables.print_tail,
    "steady": tables.print_steady,
    "replay": replay_table.print_replay,
    "hunt": hunt_table.print_hunt,
    "servers": servers_table.print_servers,
    "where": where_table.print_where,
    "tune": tune_table.print_tune,
}


def print_result(result: Result, console: Console | None = None, file: Path | None = None) -> None:
    """Prints the tables of any kind of result; `file` is where it is kept."""
    console = console or tables.make_console()
    result = with_printable_texts(result)
    tables.print_head(result, console)
    PRINTERS[result.kind](result, console)
    if file is not None:
        tables.say(console, f"result: {file}")
