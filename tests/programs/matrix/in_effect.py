"""Tells from the dynamic linker's own log whether a library really took over malloc in a program."""

import pathlib
import re

# What the library has to own, all of it: one function left to another allocator is a crash to come.
FAMILY = set(
    """malloc calloc realloc free reallocarray free_sized free_aligned_sized aligned_alloc posix_memalign
    memalign valloc pvalloc malloc_usable_size malloc_trim mallinfo mallinfo2 malloc_info malloc_stats
    mallopt""".split()
)
OPERATOR = re.compile(r"_Z(n[wa]m|d[la]Pvm?)(St11align_val_t)?(RKSt9nothrow_t)?$")
BINDING = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: \w+ symbol `([^']+)'")


def belongs(symbol):
    return symbol in FAMILY or OPERATOR.match(symbol)


class Log:
    """The bindings of one process, as LD_DEBUG=bindings wrote them with LD_BIND_NOW=1."""

    def __init__(self, file, library, case):
        bound = {}  # (source, symbol) -> names of the targets
        for source, target, symbol in BINDING.findall(file.read_text(errors="replace")):
            source, target = pathlib.Path(source).name, pathlib.Path(target).name
            bound.setdefault((source, symbol), set()).add(target)
        self.programs = {source for source, _ in bound}
        self.ours = set()
        self.foreign = set()
        for (source, symbol), targets in bound.items():
            if source == library.name or not belongs(symbol):
                continue
            for target in targets:
                # A program that is not position independent and takes malloc's address lends its own
                # jump-table entry to everybody; the entry leads where the program's call is bound.
                through = bound.get((target, symbol), set()) if target in case.process else ()
                if library.name in (target, *through):
                    self.ours.add(symbol)
                elif not (case.own_operators and target in case.process and OPERATOR.match(symbol)):
                    self.foreign.add(f"{symbol} of {source} bound to {target}")


def problems(folder, library, case):
    """Sentences that say for which of the case's processes the override is missing or partial."""
    logs = [Log(file, library, case) for file in sorted(pathlib.Path(folder).glob("bindings.*"))]
    found = []
    for process in case.process:
        matching = [log for log in logs if process in log.programs]
        if not matching:
            found.append(f"no process named {process} was seen by the dynamic linker")
        for log in matching:
            if not log.ours:
                found.append(f"{process}: no allocation function is bound to {library.name}")
            if log.foreign and not case.mixed:
                found.append(f"{process}: {'; '.join(sorted(log.foreign)[:4])}")
    return found


def has_statistics(library):
    """The `fast` variant is built without them."""
    return b"[SS_OS_STATS]" in library.read_bytes()
