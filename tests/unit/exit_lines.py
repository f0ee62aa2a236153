#!/usr/bin/env python3
"""The statistics that a program prints at exit: their format, and that they tell what it did.

usage: exit_lines.py VARIANT PROGRAM
PROGRAM is exit_lines_target, which says on stdout what it did.
"""
import json
import os
import re
import subprocess
import sys

variant, program = sys.argv[1:]
failures = 0

# The fields of each line; these formats are promised to users.
OS = "alloc free madvise madvise_disabled mmap_total fallback_mmap huge_alloc huge_fail".split()
WARM = ["hits", "misses", "prefilled"]
HEAP = ["fast", "slow", "free_fast_local"]
FRONT = ["alloc", "free"]
MEMORY = ["resident", "live", "pinned", "bins", "cached", "metadata", "given", "lost",
          "peak", "peak_samples", "peak_ms"]  # fmt: skip
REFILL = ["ss_local", "ss_remote", "adopted", "carved", "new_slab"]
PIPELINE = ["tls_sll", "ss_local", "ss_remote"]
CLASSES = 77
LARGE, HUGE = CLASSES, CLASSES + 1


def check(what, good, detail=None):
    global failures
    if good:
        return
    failures += 1
    print(f"FAILED: {what}" + (f": {detail!r}"[:3000] if detail is not None else ""))


def run(**options):
    """What the program did, by class number, and its stderr."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    env["HAKMEM_PROF_RATE"] = "0"  # samples lie in slabs that serve several classes
    env.update(options)
    done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=120, check=False)
    check(f"the program runs with {options}", done.returncode == 0, done)
    keys = ("size", "alloc", "here", "elsewhere")
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    return {row[0]: dict(zip(keys, row[1:])) for row in rows}, done.stderr


def lines_of(stderr):
    """{label: {class number: {field: value}}}; every line has to have its exact form. JSON stays out."""
    found = {}
    for line in stderr.splitlines():
        if line.startswith("{"):
            continue
        label = re.match(r"\[(\w+)\] ", line)
        check("a line starts with its label", label is not None, line)
        if label is None:
            continue
        fields = {"SS_OS_STATS": OS, "MEMORY_STATS": MEMORY, "WARM_POOL_STATS": WARM, "TINY_HEAP_STATS": HEAP,
                  "TINY_FRONT_CLASS_STATS": FRONT, "REFILL_STATS": REFILL,
                  "FREE_PIPELINE": PIPELINE}[label[1]]  # fmt: skip
        of_class = "" if fields is OS or fields is MEMORY else r"class=(?P<class>\d+ size=(?P<size>\d+)|large|huge) "
        form = of_class + " ".join(rf"{f}=(?P<{f}>\d+)" for f in fields)
        match = re.fullmatch(form, line[label.end() :])
        check(f"a {label[1]} line has its form", match is not None, line)
        if match is None:
            continue
        groups = match.groupdict()
        name = (groups.get("class") or "os").split()[0]
        number = {"large": LARGE, "huge": HUGE, "os": -1}.get(name)
        values = {f: int(groups[f]) for f in fields}
        if number is None:
            number, values["size"] = int(name), int(groups["size"])
        rows = found.setdefault(label[1], {})
        check(f"{label[1]}: one line for class {name}", number not in rows, line)
        check(f"{label[1]}: lines ascend", all(n < number for n in rows), line)
        rows[number] = values
    return found


def slabs_for(done):
    """Slabs that so many blocks take: of one slice of 64 KiB, from 8 KiB on two, from 32 KiB on four."""
    size = done["size"]
    slices = 1 if size <= 8192 else 2 if size <= 32768 else 4
    return -(-done["alloc"] // (slices * 65536 // size))


def agree(did, found, labels):
    """The lines against what the program says it did."""
    check("the lines asked for are there, and no others", set(found) == set(labels), sorted(found))
    small = {c for c in did if c < LARGE}
    check("the program left out every fifth class", len(small) == CLASSES - CLASSES // 5, len(small))
    for label, rows in found.items():
        if label in ("SS_OS_STATS", "MEMORY_STATS"):
            continue
        tiers = set(did) if label in ("WARM_POOL_STATS", "TINY_FRONT_CLASS_STATS") else small
        check(f"{label}: every class used has its line, the others have none",
              set(rows) == tiers, sorted(set(rows) ^ tiers))
        for c in set(rows) & tiers:
            row, done = rows[c], did[c]
            where = f"{label}, class {c}: {row} {done}"
            freed = done["here"] + done["elsewhere"]
            check("the size, " + where, row.get("size", 0) == done["size"])
            if label == "WARM_POOL_STATS":
                count = done["alloc"] if c >= LARGE else slabs_for(done)
                check("hits and misses, " + where, row["hits"] + row["misses"] == count)
                check("prefilled, " + where, row["prefilled"] == 0)
            elif label == "TINY_HEAP_STATS":
                check("fast + slow = alloc, " + where, row["fast"] + row["slow"] == done["alloc"])
                refill = min(64, max(1, 4096 // done["size"]))
                check("slow, " + where, row["slow"] == -(-done["alloc"] // refill))
                check("free_fast_local, " + where, row["free_fast_local"] == done["here"])
            elif label == "TINY_FRONT_CLASS_STATS":
                check("alloc, " + where, row["alloc"] == done["alloc"])
                check("free, " + where, row["free"] == freed)
            elif label == "REFILL_STATS":
                refill = min(64, max(1, 4096 // done["size"]))
                check("carved, " + where, row["carved"] == refill * -(-done["alloc"] // refill))
                check("new_slab, " + where, row["new_slab"] == slabs_for(done))
                check("others, " + where, row["ss_local"] + row["ss_remote"] + row["adopted"] == 0)
            elif label == "FREE_PIPELINE":
                check("tls_sll, " + where, row["tls_sll"] == done["here"])
                check("ss_remote, " + where, row["ss_remote"] == done["elsewhere"])
                # What a bin has no room for, and what waits when a further class makes its slab: once.
                check("ss_local, " + where, row["ss_local"] <= freed)
    if "WARM_POOL_STATS" in found and "SS_OS_STATS" in found:
        misses = sum(row["misses"] for row in found["WARM_POOL_STATS"].values())
        units = found["SS_OS_STATS"][-1]["alloc"]
        check("each miss took a unit into use", 1 <= misses <= units, (misses, units))


def each_option_by_itself():
    observe = variant == "observe"
    stages = ["REFILL_STATS", "FREE_PIPELINE"] if observe else []
    for options, labels in (
        ({}, []),
        ({"HAKMEM_SS_OS_STATS": "1"}, ["SS_OS_STATS"]),
        ({"HAKMEM_WARM_POOL_STATS": "1"}, ["WARM_POOL_STATS"]),
        ({"HAKMEM_TINY_HEAP_STATS": "1"}, []),
        ({"HAKMEM_TINY_HEAP_STATS_DUMP": "1"}, ["TINY_HEAP_STATS", *stages] if observe else []),
        ({"HAKMEM_TINY_HEAP_STATS": "1", "HAKMEM_TINY_HEAP_STATS_DUMP": "1"}, ["TINY_HEAP_STATS", *stages]),
        ({"HAKMEM_TINY_FRONT_CLASS_STATS": "1"}, ["TINY_FRONT_CLASS_STATS"]),
        ({"HAKMEM_STATS": "off"}, []),
        ({"HAKMEM_STATS": "all"},
         ["SS_OS_STATS", "MEMORY_STATS", "WARM_POOL_STATS", "TINY_HEAP_STATS", "TINY_FRONT_CLASS_STATS",
          *stages]),
    ):  # fmt: skip
        did, stderr = run(**options)
        agree(did, lines_of(stderr), labels)


def json_says_what_the_lines_say():
    """Both out of one run."""
    options = "SS_OS WARM_POOL TINY_HEAP TINY_FRONT_CLASS".split()
    did, stderr = run(HAKMEM_STATS="json", HAKMEM_TINY_HEAP_STATS_DUMP="1",
                      **{f"HAKMEM_{option}_STATS": "1" for option in options})  # fmt: skip
    lines = lines_of(stderr)
    objects = [line for line in stderr.splitlines() if line.startswith("{")]
    check("JSON is one line", len(objects) == 1, len(objects))
    try:
        data = json.loads(objects[0])
    except ValueError as error:
        check(f"JSON is valid ({error})", False, objects[0])
        return
    members = "version hakmem variant pid program profile at partial os totals heaps numa memory classes large huge".split()
    check("JSON has its members", list(data) == members, list(data))
    check("version", data["version"] == 1)
    check("variant", data["variant"] == variant, data["variant"])
    check("program", data["program"] == os.path.basename(program), data["program"])
    check("a whole one, at exit", (data["at"], data["partial"]) == ("exit", False), (data["at"], data["partial"]))
    check("os", {f: data["os"][f] for f in OS} == lines["SS_OS_STATS"][-1], data["os"])
    extra = {"munmap", "mprotect", "mremap", "failed"}
    check("os: all calls", set(data["os"]) == set(OS) | extra, sorted(data["os"]))
    check("heaps", data["heaps"] == {"active": 1, "parked": 1}, data["heaps"])
    nodes = data["numa"]
    check("numa: a number for each node", len(nodes["superslabs"]) >= nodes["nodes"] > 0, nodes)
    check("numa: all SuperSlabs", sum(nodes["superslabs"]) == data["totals"]["superslabs_live"], nodes)
    check("totals: the blocks that stay", data["totals"]["bytes_in_use"] > 1000000, data["totals"])
    check("totals: mapped", data["totals"]["bytes_mapped"] >= data["totals"]["bytes_slab"], data["totals"])
    memory = data["memory"]
    check("memory: its members", list(memory) == MEMORY, memory)
    check("memory: live blocks", memory["live"] == data["totals"]["bytes_in_use"], memory)
    check("memory: bins", memory["bins"] == data["totals"]["bytes_in_bins"], memory)
    check("memory: what is resident", memory["resident"] > memory["metadata"] > 0, memory)
    classes = {row.pop("class"): row for row in data["classes"]}
    check("classes: those used", set(classes) == {c for c in did if c < LARGE}, sorted(classes))
    for c, row in {**classes, LARGE: data["large"], HUGE: data["huge"]}.items():
        groups = [(row, "TINY_HEAP_STATS"), (row, "TINY_FRONT_CLASS_STATS"),
                  (row["warm_pool"], "WARM_POOL_STATS")]  # fmt: skip
        if variant == "observe" and c < LARGE:
            groups += [(row["refill"], "REFILL_STATS"), (row["free_pipeline"], "FREE_PIPELINE")]
        for group, label in groups:
            if c >= LARGE and label == "TINY_HEAP_STATS":
                continue
            line = dict(lines[label][c])
            size = line.pop("size", None)
            check(f"{label}, class {c}: JSON agrees", {f: group.get(f) for f in line} == line, (group, line))
            check(f"class {c}: size", row.get("size") == size, row)
        if c < LARGE:
            check(f"class {c}: free", row["free"] == row["free_fast_local"] + row["free_remote"], row)


def in_bytes(text):
    """12.3 MiB: the least and the most that it stands for."""
    number, unit = text.split()
    factor = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)
    return float(number) * factor, (float(number) + (0.1 if factor > 1 else 0)) * factor


SIZE = r"\d+(?:\.\d)? (?:B|[KMGT]iB)"
SUMMARY = (
    r"\[STATS\] (?P<program>\S+) \(pid (?P<pid>\d+)\) at exit, hakmem [\d.]+ (?P<variant>\w+), profile balanced",
    rf"  peak       (?P<peak>{SIZE}) resident, of the whole process",
    rf"  resident   (?P<resident>{SIZE}) of the whole process",
    rf"  live       (?P<live>{SIZE}) in blocks of the program",
    rf"  kept       (?P<bins>{SIZE}) of free blocks in threads, (?P<pinned>{SIZE}) beside live ones, (?P<cached>{SIZE}) empty",
    rf"  mapped     (?P<mapped>{SIZE}) of addresses, and (?P<metadata>{SIZE}) of descriptors",
    rf"  given back (?P<given>{SIZE}) within what is mapped",
    r"  calls      (?P<alloc>\d+) blocks handed out, (?P<fast>\d+) of them from the thread's own list, (?P<free>\d+) freed",
    r"  heaps      (?P<active>\d+) with a thread, (?P<parked>\d+) of threads that have ended",
    r"  system     (?P<mmap>\d+) mmap, (?P<munmap>\d+) munmap, (?P<madvise>\d+) madvise, (?P<mprotect>\d+) mprotect, "
    r"(?P<mremap>\d+) mremap; (?P<failed>\d+) failed",
)  # fmt: skip


def peak_is_there_with_samples():
    """Under one set of names, and as an end of a line of the summary. Without samples (run) it is 0, and that line has no such end."""
    if variant == "fast":
        return
    memory = json.loads(run(HAKMEM_STATS="json", HAKMEM_PROF_RATE="1000", HAKMEM_PROF_MOST="0")[1])["memory"]
    check("peak: what lives is less", 0 < memory["live"] / 2 < memory["peak"], memory)
    few = json.loads(run(HAKMEM_STATS="json", HAKMEM_PROF_RATE="100000", HAKMEM_PROF_MOST="0")[1])["memory"]
    check("peak: not below what lives", few["peak_samples"] == 0 or few["peak"] >= few["live"], few)
    check("peak: samples, and when", memory["peak_samples"] > 10 and memory["peak_ms"] < 60000, memory)
    text = run(HAKMEM_STATS="text", HAKMEM_PROF_RATE="1000", HAKMEM_PROF_MOST="0")[1]
    form = rf"\n  live +{SIZE} in blocks of the program; at the peak, \d+ s ago, {SIZE} asked for \(by \d+ samples\)\n"
    check("peak: in the summary", re.search(form, text) is not None, text)


def text_is_a_summary():
    """Ten lines; their figures are those of the lines out of the same run, and of what does not differ in another's JSON."""
    did, stderr = run(HAKMEM_STATS="text", HAKMEM_SS_OS_STATS="1", HAKMEM_TINY_HEAP_STATS="1",
                      HAKMEM_TINY_HEAP_STATS_DUMP="1")  # fmt: skip
    summary, others = stderr.splitlines()[: len(SUMMARY)], stderr.splitlines()[len(SUMMARY) :]
    said = {}
    for form, line in zip(SUMMARY, summary):
        match = re.fullmatch(form, line)
        check("a line of the summary has its form", match is not None, (form, line))
        said.update(match.groupdict() if match else {})
    check("all figures are there", len(said) == sum(form.count("(?P<") for form in SUMMARY), stderr)
    alone = run(HAKMEM_STATS="text")[1].splitlines()
    check("ten lines, and no others", len(alone) == len(SUMMARY) == 10, alone)
    if failures:
        return
    check("whose it is", (said["program"], said["variant"]) == (os.path.basename(program), variant), said)
    lines = lines_of("\n".join(others))
    allocated = sum(row["alloc"] for row in did.values())
    freed = sum(row["here"] + row["elsewhere"] for row in did.values())
    check("calls", (int(said["alloc"]), int(said["free"])) == (allocated, freed), (said, allocated, freed))
    check("fast calls", int(said["fast"]) == sum(row["fast"] for row in lines["TINY_HEAP_STATS"].values()), said)
    check("heaps", (int(said["active"]), int(said["parked"])) == (1, 1), said)
    calls = lines["SS_OS_STATS"][-1]
    check("system calls", (int(said["mmap"]), int(said["madvise"])) == (calls["mmap_total"], calls["madvise"]), said)
    memory = json.loads(run(HAKMEM_STATS="json")[1])["memory"]
    for name in ("live", "bins"):
        least, most = in_bytes(said[name])
        check(f"{name} is that of JSON", least <= memory[name] <= most, (said[name], memory[name]))
    held = sum(in_bytes(said[name])[0] for name in ("live", "bins", "pinned", "cached"))
    check("what is held is mapped", 0 < held <= in_bytes(said["mapped"])[1], said)
    check("there are descriptors", in_bytes(said["metadata"])[0] > 0, said)
    check("the peak is not below what is resident", in_bytes(said["peak"])[1] >= in_bytes(said["resident"])[0] > 0, said)


if variant == "fast":
    did, stderr = run(HAKMEM_STATS="json", HAKMEM_TINY_FRONT_CLASS_STATS="1")
    check("the fast variant has no statistics", stderr == "", stderr)
else:
    each_option_by_itself()
    json_says_what_the_lines_say()
    text_is_a_summary()
    peak_is_there_with_samples()
print("failed" if failures else "passed")
sys.exit(1 if failures else 0)
