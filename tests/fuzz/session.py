#!/usr/bin/env python3
"""One session of a fuzzer: for so many seconds, from the committed corpus.

usage: session.py libfuzzer|afl PROGRAM REPLAY CORPUS WORK SECONDS [SEED]

FUZZ_SECONDS in the environment replaces SECONDS: tests/affected.toml makes sessions shorter with it.
Without SEED each commit has its own: the same one would try much the same inputs every time.
The time bounds the work; nothing is asserted of it. Whatever the fuzzer finds is a failure, and stays in WORK/findings under
the name that is printed; how to run it again is printed, too. WORK is emptied first. What the session has learnt, beside what
CORPUS has already, is in WORK/corpus (libFuzzer) or WORK/out (AFL++).
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Of AFL++, whose processes run many inputs, and so under one set of options each. The seconds are shared.
AFL_OPTIONS = [
    {},
    {"HAKMEM_PROFILE": "lean", "HAKMEM_WARM_POOL_DECAY_MS": "1"},
    {"HAKMEM_PROF_RATE": "4096", "HAKMEM_PROF_MOST": "0", "HAKMEM_GUARD_SAMPLE": "2"},
    {"HAKMEM_BACKGROUND": "1", "HAKMEM_WARM_POOL_MB": "0", "HAKMEM_TINY_HEAP_STATS": "1"},
]


def seed_of_commit() -> int:
    """1 where there is no git, as in a released archive."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
    except OSError:
        return 1
    return int(done.stdout[:6], 16) + 1 if done.returncode == 0 else 1


def said(log: Path, pattern: str) -> str:
    found = re.findall(pattern, log.read_text(encoding="utf-8", errors="replace"))
    return found[-1] if found else "?"


def run(command: list[str], log: Path, environment: dict[str, str]) -> int:
    with open(log, "w", encoding="utf-8") as stream:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, **environment}
        ).returncode


def libfuzzer(program: str, replay: str, corpus: Path, work: Path, seconds: int, seed: int) -> list[str]:
    log = work / "log.txt"
    status = run(
        [program, f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=1024", "-timeout=120", "-rss_limit_mb=0",
         "-print_final_stats=1", f"-artifact_prefix={work / 'findings'}/", str(work / "corpus"), str(corpus)],
        log, {},
    )  # fmt: skip
    print(f"seed {seed}: {said(log, r'stat::number_of_executed_units: *([0-9]+)')} inputs with"
          f" {said(log, r'calls of the allocator: ([0-9]+)')} calls of the allocator,"
          f" coverage {said(log, r'cov: ([0-9]+)')}, {len(list((work / 'corpus').iterdir()))} of them new to the corpus")  # fmt: skip
    if status == 0:
        return []
    kept = sorted((work / "findings").iterdir())
    # One that takes long on a machine with other work is none: those that hang end by themselves and are called crash-.
    kept = [path for path in kept if not path.name.startswith(("slow-unit-", "timeout-"))] or kept
    print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]))
    return [f"{replay} --print {path}" for path in kept] or [f"libFuzzer ended with {status}: {log}"]


def record_that_ends_with(records: Path, crash: bytes) -> Path | None:
    """The record of the process that ran this input last."""
    for path in records.iterdir():
        if path.read_bytes().endswith(len(crash).to_bytes(4, sys.byteorder) + crash):
            return path
    return None


def afl_once(program: str, corpus: Path, work: Path, seconds: int, seed: int, options: dict[str, str]) -> list[str]:
    work.mkdir()
    records = work / "records"
    records.mkdir()
    log = work / "log.txt"
    words = " ".join(f"{name}={value}" for name, value in options.items())
    status = run(
        ["afl-fuzz", "-i", str(corpus), "-o", str(work / "out"), "-V", str(seconds), "-s", str(seed), "-t", "20000",
         "-m", "none", "-G", "1024", "--", program],
        log,
        {"AFL_NO_UI": "1", "AFL_NO_AFFINITY": "1", "AFL_SKIP_CPUFREQ": "1", "AFL_NO_COLOR": "1", "AFL_FAST_CAL": "1",
         "AFL_DEBUG_CHILD": "1", "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "FUZZ_RECORDS": str(records), **options},
    )  # fmt: skip
    out = work / "out" / "default"
    stats = (out / "fuzzer_stats").read_text() if (out / "fuzzer_stats").exists() else ""
    figures = dict(re.findall(r"^(\w+) *: (.*)$", stats, re.MULTILINE))
    calls = records.with_suffix(".calls")
    total = sum(map(int, calls.read_text().split())) if calls.exists() else 0
    print(f"seed {seed} {words}: {figures.get('execs_done', '?')} inputs with more than {total} calls of the allocator,"
          f" {figures.get('bitmap_cvg', '?')} of the map,"
          f" stability {figures.get('stability', '?')}", flush=True)  # fmt: skip
    findings = []
    for path in sorted((out / "crashes").glob("id*")) if out.exists() else []:
        record = record_that_ends_with(records, path.read_bytes())
        findings.append(f"{words} PROGRAM --kept {record}" if record else f"{path} (its process left no record)")
    if status != 0 and not findings:
        print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]))
        findings.append(f"afl-fuzz ended with {status}: {log}")
    return findings


def part_of(corpus: Path, number: int, folder: Path) -> Path:
    """AFL++ tries each input that it begins with seven times, which took as long as the fuzzing. Which options an input
    is begun with depends on the seed."""
    folder.mkdir()
    for path in sorted(corpus.iterdir())[number :: len(AFL_OPTIONS)]:
        shutil.copy(path, folder)
    return folder


def afl(program: str, corpus: Path, work: Path, seconds: int, seed: int) -> list[str]:
    # `--kept` is the fuzzer's own program run by hand: with the variant's library, as it was when it was found.
    findings = []
    for number, options in enumerate(AFL_OPTIONS):
        share = max(1, seconds // len(AFL_OPTIONS))
        inputs = part_of(corpus, (number + seed) % len(AFL_OPTIONS), work / f"corpus-{number}")
        findings += afl_once(program, inputs, work / str(number), share, seed, options)
    return [finding.replace("PROGRAM", program) for finding in findings]


def main() -> int:
    kind, program, replay, corpus_name, work_name, seconds_text, *more = sys.argv[1:]
    work, corpus, seconds = Path(work_name), Path(corpus_name), int(os.environ.get("FUZZ_SECONDS") or seconds_text)
    seed = int(more[0]) if more else seed_of_commit()
    shutil.rmtree(work, ignore_errors=True)
    for folder in (work, work / "findings", work / "corpus"):
        folder.mkdir(parents=True)
    if kind == "libfuzzer":
        findings = libfuzzer(program, replay, corpus, work, seconds, seed)
    else:
        findings = afl(program, corpus, work, seconds, seed)
    for finding in findings:
        print(f"FINDING: {finding}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
