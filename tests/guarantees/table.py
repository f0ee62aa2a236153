#!/usr/bin/env python3
"""Runs the programs of this folder on hakmem's builds, glibc and hardened peers: what came of it?

usage: table.py [--programs FOLDER] [--runs N] [--only NAME,NAME] [--json FILE] [--document FILE]
Without --document the tables go to standard output; with it between the two marks in that file.
Rows and columns are in the order of expected.toml and of allocators(). A peer that cannot be had is
named below, with the reason. Where runs differ, as chance decides, a cell has each outcome.
Exit: 2 wrong arguments, or nothing to run.
"""

import argparse
import concurrent.futures
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True
from guarantees import Guarantee, Outcome, load, run  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
BEGIN = "<!-- begin: made by make security-table, not edited by hand -->"
END = "<!-- end: made by make security-table -->"
PROGRAMS = ROOT / "build/standard/tests/guarantees/programs"
SECURITY_PEERS = ROOT / "build/peers/security.json"


@dataclass
class Allocator:
    name: str
    version: str
    library: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    missing: str = ""


def hakmem(name: str, build: str, environment: dict[str, str]) -> Allocator:
    text = (ROOT / "include/hakmem.h").read_text(encoding="utf-8")
    found = re.search(r'define HAKMEM_VERSION_STRING\s+"([^"]+)"', text)
    version = found[1] if found else "unknown"
    library = ROOT / "build" / build / "libhakmem.so"
    missing = "" if library.is_file() else f"build/{build}/libhakmem.so is not built"
    return Allocator(name, version, str(library), environment, missing)


def peers() -> list[Allocator]:
    try:
        entries = json.loads(SECURITY_PEERS.read_text(encoding="utf-8"))
    except OSError:
        return [Allocator("peers", "", missing="not built: make peers PEERS=security")]
    return [
        Allocator(
            entry["name"],
            f"{entry['version']}, {entry['source']}",
            str(ROOT / entry["library"]) if "library" in entry else "",
            missing=entry.get("missing", ""),
        )
        for entry in entries
    ]


def allocators() -> list[Allocator]:
    libc = (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")
    modes = [
        hakmem(f"hardened, {mode}", "hardened", {"HAKMEM_GUARD": mode})
        for mode in ("off", "light", "full")
    ]
    return [hakmem("standard", "standard", {}), *modes, *peers(), Allocator("glibc", libc)]


# --- running --------------------------------------------------------------------------------------

ADDRESS = re.compile(r"0x[0-9a-f]+")


def without_numbers(text: str) -> str:
    """A message without what differs from run to run."""
    first = text.splitlines()[0] if text else ""
    return re.sub(r"\b\d{4,}\b|pid \d+", "N", ADDRESS.sub("ADDRESS", first))[:200]


def try_cell(
    guarantee: Guarantee, tier: str, allocator: Allocator, programs: Path, runs: int
) -> tuple[Counter, list[str]]:
    """Outcomes of one program on one allocator, how often each; and the messages."""
    program = programs / guarantee.name
    twin = run(program, tier, True, allocator.library, allocator.environment)
    if twin.kind == "untried":
        return Counter({f"not tried: {twin.text}": 1}), []
    if twin.kind != "well":
        return Counter({f"twin: {without_numbers(str(twin))}": 1}), []
    found: Counter = Counter()
    messages: dict[str, None] = {}
    for _ in range(runs):
        outcome = run(program, tier, False, allocator.library, allocator.environment)
        found[word_of(outcome)] += 1
        if outcome.kind == "detected":
            messages[without_numbers(outcome.text)] = None
    return found, sorted(messages)


def word_of(outcome: Outcome) -> str:
    if outcome.kind == "harm":
        return f"harm: {outcome.text}"
    if outcome.kind == "other":
        return f"other: {without_numbers(outcome.text)}"
    return outcome.kind


# --- writing --------------------------------------------------------------------------------------


def in_order(found: Counter) -> list[tuple[str, int]]:
    """Best first."""
    order = ["detected", "fault", "survived", "crashed", "harm"]
    return sorted(
        found.items(),
        key=lambda item: (
            order.index(item[0].split(":")[0]) if item[0].split(":")[0] in order else 9,
            item[0],
        ),
    )


def cell_text(found: Counter, notes: dict[str, int]) -> str:
    """What stands in the table; kinds of harm and other long texts are numbered below it."""
    total = sum(found.values())
    parts = []
    for word, count in in_order(found):
        kind, _, text = word.partition(": ")
        if text:
            number = notes.setdefault(text, len(notes) + 1)
            kind = f"**{kind}** {number}" if kind == "harm" else f"{kind} {number}"
        parts.append(kind if count == total else f"{kind} ({count} of {total})")
    return ", ".join(parts)


def rows_of(guarantee: Guarantee, cells: dict) -> list[tuple[str, list[Counter]]]:
    """A row for each kind of block; kinds that fared alike on every allocator share one."""
    rows: list[tuple[list[str], list[Counter]]] = []
    for tier in guarantee.tiers:
        found = [cells[guarantee.name, tier, column] for column in cells["columns"]]
        if rows and [dict(c) for c in rows[-1][1]] == [dict(c) for c in found]:
            rows[-1][0].append(tier)
        else:
            rows.append(([tier], found))
    return [(", ".join(tiers), found) for tiers, found in rows]


def promise_text(guarantee: Guarantee, mode: str) -> str:
    """One word, or one for each kind of block; and that it is not kept yet."""
    by_tier = guarantee.promises[mode]
    words = list(dict.fromkeys(by_tier.values()))
    parts = [
        word
        if len(words) == 1
        else f"{', '.join(tier for tier in guarantee.tiers if by_tier[tier] == word)}: {word}"
        for word in words
    ]
    late = " (not yet)" if mode in guarantee.pending else ""
    return "; ".join(parts) + late


def promises(guarantees: list[Guarantee]) -> list[str]:
    lines = [
        "### What is promised",
        "",
        "| attack | program | standard, off | light | full |",
        "|---|---|---|---|---|",
    ]
    for guarantee in guarantees:
        cells = [promise_text(guarantee, mode) for mode in ("standard", "light", "full")]
        if guarantee.promises["off"] != guarantee.promises["standard"]:
            cells[0] = f"{cells[0]}; off: {promise_text(guarantee, 'off')}"
        lines.append("| " + " | ".join([guarantee.attack, f"`{guarantee.name}`", *cells]) + " |")
    late = {reason for guarantee in guarantees for reason in guarantee.pending.values()}
    if late:
        lines += ["", "Not yet: " + "; ".join(sorted(late)) + "."]
    return [*lines, "", "### What came of it", ""]


def sums(guarantees: list[Guarantee], cells: dict, tried: list[Allocator]) -> list[str]:
    """For each kind of attack and allocator: how many tries were stopped each time, and how many ended in harm."""
    lines = [
        "### In sum",
        "",
        "Of the programs, each with each kind of block: stopped in every run / harm in any. "
        "What an allocator cannot try counts as neither.",
        "",
        "| " + " | ".join(["attack", "tries", *(a.name for a in tried)]) + " |",
        "|---" * (len(tried) + 2) + "|",
    ]
    attacks = list(dict.fromkeys(guarantee.attack for guarantee in guarantees))
    for attack in [*attacks, "all"]:
        chosen = [(g.name, tier) for g in guarantees if attack in (g.attack, "all") for tier in g.tiers]
        row = [attack, str(len(chosen))]
        for allocator in tried:
            found = [cells[name, tier, allocator.name] for name, tier in chosen]
            kinds = [{word.split(":")[0] for word in counter} for counter in found]
            stopped = sum(kind <= {"detected", "fault"} for kind in kinds)
            row.append(f"{stopped} / {sum('harm' in kind for kind in kinds)}")
        lines.append("| " + " | ".join(row) + " |")
    return [*lines, ""]


def markdown(
    guarantees: list[Guarantee],
    cells: dict,
    tried: list[Allocator],
    all_: list[Allocator],
    runs: int,
) -> str:
    notes: dict[str, int] = {}
    lines: list[str] = promises(load())
    lines[-2:] = [*sums(guarantees, cells, tried), *lines[-2:]]
    for attack in dict.fromkeys(guarantee.attack for guarantee in guarantees):
        lines += [f"#### {attack[0].upper()}{attack[1:]}", ""]
        lines += ["| " + " | ".join(["program", "blocks", *(a.name for a in tried)]) + " |"]
        lines += ["|---" * (len(tried) + 2) + "|"]
        for guarantee in guarantees:
            if guarantee.attack == attack:
                for tiers, found in rows_of(guarantee, cells):
                    texts = [cell_text(counter, notes) for counter in found]
                    lines += ["| " + " | ".join([f"`{guarantee.name}`", tiers, *texts]) + " |"]
        lines += [""]
    if notes:
        lines += ["| number | what it is |", "|---|---|"]
        lines += [f"| {number} | {text} |" for text, number in notes.items()] + [""]
    lines += [f"Each program ran {runs} times on each; (2 of 3): in two of three runs.", ""]
    lines += ["| tried | version |", "|---|---|"]
    lines += [f"| {a.name} | {a.version} |" for a in tried]
    lines += [f"\nNot available: {a.name}: {a.missing}." for a in all_ if a.missing]
    return "\n".join(lines)


def put_into(document: Path, text: str) -> None:
    whole = document.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"table.py: {document}: lacks the marks {BEGIN!r} and {END!r}")
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="table.py", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, default=PROGRAMS, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--only", metavar="NAME,NAME", help="these programs")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--document", type=Path, metavar="FILE")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else None
    guarantees = [g for g in load() if not g.of_hakmem and (wanted is None or g.name in wanted)]
    lacking = [g.name for g in guarantees if not (options.programs / g.name).is_file()]
    if not guarantees or lacking or options.runs < 1:
        parser.error(
            f"not built, in {options.programs}: {lacking or wanted}: make security-table does it"
        )
    everything = allocators()
    tried = [allocator for allocator in everything if not allocator.missing]
    cells: dict = {"columns": [allocator.name for allocator in tried]}
    messages: dict = {}
    # Every allocator with the same program, in turn; processors share the runs, which nobody times.
    jobs = [(g, tier, a) for g in guarantees for tier in g.tiers for a in tried]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(
            lambda job: try_cell(job[0], job[1], job[2], options.programs, options.runs), jobs
        )
        for (guarantee, tier, allocator), (found, said) in zip(jobs, done, strict=True):
            cells[guarantee.name, tier, allocator.name] = found
            messages[guarantee.name, tier, allocator.name] = said
    if options.json:
        content = {
            "runs": options.runs,
            "allocators": [
                {
                    "name": a.name,
                    "version": a.version,
                    **({"missing": a.missing} if a.missing else {}),
                }
                for a in everything
            ],
            "results": [
                {
                    "program": g.name,
                    "class": g.attack,
                    "block": tier,
                    "allocator": a.name,
                    "outcomes": dict(in_order(cells[g.name, tier, a.name])),
                    "messages": messages[g.name, tier, a.name],
                }
                for g, tier, a in jobs
            ],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    text = markdown(guarantees, cells, tried, everything, options.runs)
    if options.document:
        put_into(options.document, text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
