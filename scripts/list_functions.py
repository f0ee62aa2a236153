#!/usr/bin/env python3
"""Makes cmake/first_functions.list and cmake/next_functions.list: which functions of libhakmem.so programs run.

cmake/layout.ld.in puts the first ones into a segment of their own, and the next ones in front of all other code. Run it when
fault.first-blocks says that small programs hold too much of the library. Needs valgrind.

usage: scripts/list_functions.py build/standard/libhakmem.so
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL = (
    ["ls", "-l", "/usr/bin"],
    ["date"],
    ["bash", "-c", ":"],
    ["sort", "/etc/passwd"],
)
LARGER = (
    ["/usr/bin/python3", "-c", "import json; [json.dumps(list(range(300))) for _ in range(300)]; bytearray(3 << 20)"],
    ["gawk", 'BEGIN { for (i = 0; i < 30000; i++) a[i] = "x" i; for (k in a) s += length(a[k]); print s }'],
    ["perl", "-e", "my %h; $h{$_} = $_ x 3 for 1..20000; print scalar keys %h"],
    ["sqlite3", ":memory:", "with recursive c(n) as (select 1 union all select n + 1 from c where n < 20000) select count(distinct n) from c"],
)


def functions_of(library: Path) -> set[str]:
    """Its functions, by their names."""
    lines = subprocess.run(["nm", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^\w+ [tTwW] (\S+)$", lines, re.MULTILINE))


def run_by(program: list[str], library: Path, settings: dict[str, str]) -> set[str]:
    """What the program runs of the library. callgrind does not always know which file the library's code is of."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *program],
            env={**os.environ, "LD_PRELOAD": str(library), **settings},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        lines = out.read_text().splitlines()
    names: dict[tuple[str, str], str] = {}
    found, file = set(), ""
    for line in lines:
        match = re.match(r"(c?)(ob|fn)=(\(\d+\))(?: (.*))?$", line)
        if match is None:
            continue
        called, kind, number, name = match.groups()
        if name:
            names[kind, number] = re.sub(r"'\d+$", "", name)
        if kind == "ob" and not called:
            file = names[kind, number]
        elif not called and file in ("???", str(library)):
            found.add(names[kind, number])
    return found


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    library = Path(sys.argv[1]).resolve()
    known = functions_of(library)

    def names(programs: tuple[list[str], ...], **settings: str) -> set[str]:
        found = (run_by(program, library, settings) for program in programs if shutil.which(program[0]))
        return {re.sub(r"\.(isra|part|constprop|cold)\b.*", "", name) for each in found for name in each if name in known}

    # What the test measures is one of the small programs; `make test` builds it.
    measured = library.parent / "tests" / "fault" / "fault_first_blocks"
    if not measured.exists():
        print(f"{measured} is missing: build the tests first", file=sys.stderr)
        return 1
    first = names((*SMALL, [str(measured)]), HAKMEM_PROF_RATE="1G")
    for name, functions in (("first", first), ("next", names(LARGER, HAKMEM_PROF_RATE="256K") - first)):
        (ROOT / "cmake" / f"{name}_functions.list").write_text("".join(f"{function}\n" for function in sorted(functions)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
