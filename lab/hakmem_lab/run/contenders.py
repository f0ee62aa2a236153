"""What a user's own program is compared on: the known allocators, and the one that it brings."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import Paths
from hakmem_lab.run import allocators
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import environment_of
from hakmem_lab.run.preload import own_malloc
from hakmem_lab.run.rows import Row, split_list

OWN = "own"


def search_path(row: Row) -> str | None:
    return environment_of(row, Allocator("", "", "")).get("PATH")


def with_glibc_itself(chosen: list[Allocator], row: Row) -> list[Allocator]:
    """A program that is linked with another malloc runs on that one when nothing is preloaded; libc
    preloaded comes first, so that glibc is what it says."""
    own = own_malloc(row.command[0], search_path(row))
    if own is None:
        return chosen
    return [
        replace(a, library=own.libc, source=f"{a.source}, preloaded")
        if not a.library and a.missing is None
        else a
        for a in chosen
    ]


def choose_contenders(
    paths: Paths, text: str | None, row: Row, say: Callable[[str], None]
) -> list[Allocator]:
    """The allocators of --allocators; `own` among them is what the program is linked with. Without
    the option all, and that one where there is one."""
    own = own_malloc(row.command[0], search_path(row))
    names = split_list(text) if text is not None else None
    if names is not None and OWN in names and own is None:
        raise LabError(f"--allocators: {OWN}: {row.command[0]} is not linked with another malloc")
    rest = None if names is None else ",".join(name for name in names if name != OWN)
    chosen = [] if rest == "" else allocators.select_allocators(paths, rest, False)
    chosen = with_glibc_itself(chosen, row)
    if own is None:
        return chosen
    library = Path(own.library)
    say(f"{row.command[0]} is linked with {library.name}: preloads replace it")
    if names is None or OWN in names:
        at = len(chosen) if names is None else names.index(OWN)
        source = f"{library}, which the program is linked with"
        chosen.insert(at, Allocator(OWN, library.name, source))
    return chosen


def choose_base(chosen: list[Allocator], wanted: str | None) -> str:
    """glibc, or the first one that can be run where it is not among them."""
    names = [allocator.name for allocator in chosen if allocator.missing is None]
    if wanted is not None:
        wanted = allocators.plain_name(wanted)
        if wanted not in names:
            raise LabError(f"--base {wanted}: not among those that are run: {', '.join(names)}")
        return wanted
    return "glibc" if "glibc" in names else (names or [""])[0]
