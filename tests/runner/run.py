#!/usr/bin/env python3
"""Configures and builds the variants, runs the tests of all of them in one go and sums up at the end.

Usage: run.py [--quick] [--jobs N] [variant...]

--quick leaves out what has CTest's label `slow`, and all variants but check and standard. When it
passed, the next complete run on the same files does not repeat these tests: it runs the slow ones and
the other variants.
The summary has the tests that take longest, by wall clock and by processor time.
With CI=true, a skip that tests/may-skip.toml does not list is a failure.
The last line has the form of ctest's own summary, over all variants together.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True
from plan import SLOTS, Test, Unreadable, make_measure, read_measured, tests_of, with_fixtures, write_list  # noqa: E402
from skips import BadList, Entry, Skip, not_listed, read_list, skips_of, without_a_test  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MAY_SKIP = ROOT / "tests" / "may-skip.toml"
QUICK_PASSED = ROOT / "build" / "quick-passed"  # the files on which --quick passed last
# Which folders each of them runs: cmake/tests.cmake.
VARIANTS = ["check", "asan", "tsan", "hardened", "fast", "observe", "standard"]
QUICK_VARIANTS = ["check", "standard"]
KEPT_OUTPUT = 1 << 20  # bytes of a test's output; ctest keeps 1 KiB, the skipped cases may stand before
SHOWN_LINES = 20  # of the output of a test that failed, once more at the end
SHOWN_TESTS = 25  # that took the most processor time, or the longest
ALL, QUICK_ONLY, SLOW_ONLY = "all", "quick", "slow"


@dataclass
class Result:
    """What one variant came to."""

    variant: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)  # by those that failed
    skipped: int = 0  # whole tests
    skips: list[Skip] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)  # that there are, run or not
    seconds: dict[str, float] = field(default_factory=dict)  # by test: wall clock
    processor: dict[str, float] = field(default_factory=dict)  # by test: processor time

    @property
    def total(self) -> int:
        return self.passed + len(self.failed) + self.skipped


def run_quietly(command: list[str], log: Path) -> bool:
    """Runs `command` with its output in `log`, whose end is shown when it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as stream:
        done = subprocess.run(
            command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-60:]))
        print(f"FAILED: {' '.join(command)} (all of its output: {log.relative_to(ROOT)})", flush=True)
    return done.returncode == 0


def read_case(case: ElementTree.Element, name: str, result: Result) -> None:
    output = case.findtext("system-out", "")
    skipped = case.find("skipped")
    result.seconds[name] = float(case.get("time", "0"))
    if case.get("status") == "run":
        result.passed += 1
        result.skips += skips_of(result.variant, name, False, output)
    elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        result.skipped += 1
        result.skips += skips_of(result.variant, name, True, output)
    elif case.get("status") != "disabled":  # failed, or its program was not found
        result.failed.append(name)
        result.said[name] = output


def children_seconds() -> float:
    """Processor time of all processes that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def build_variant(variant: str, jobs: int) -> bool:
    build = ROOT / "build" / variant
    print(f"== {variant}: build", flush=True)
    started, before = time.monotonic(), children_seconds()
    built = run_quietly(
        ["cmake", "--preset", variant, "-DBUILD_TESTING=ON"], build / "configure.log"
    ) and run_quietly(["cmake", "--build", str(build), "-j", str(jobs)], build / "build.log")
    if built:
        taken = f"{time.monotonic() - started:.0f} s, {children_seconds() - before:.0f} s of a processor"
        print(f"== {variant}: built in {taken}", flush=True)
    return built


def chosen(tests: list[Test], selection: str) -> list[Test]:
    if selection == ALL:
        return tests
    return with_fixtures([test for test in tests if test.slow == (selection == SLOW_ONLY)], tests)


def run_tests(tests: list[Test], jobs: int, results: dict[str, Result]) -> float:
    """Runs them by one ctest and adds to `results` what became of each; returns the seconds that it took."""
    folder = ROOT / "build" / "tests"
    measure, measured = folder / "measure", folder / "measured"
    prefix = [str(measure), str(measured)] if make_measure(Path(__file__).with_name("measure.c"), measure) else []
    write_list(tests, folder, prefix)
    junit = folder / "junit.xml"
    junit.unlink(missing_ok=True)
    measured.unlink(missing_ok=True)
    started = time.monotonic()
    done = subprocess.run(
        # One more than there are processors: each test waits now and then, for a disk, a child or a lock. What only waits
        # finds room beside them.
        ["ctest", "--test-dir", str(folder), "-j", str(SLOTS * (jobs + 1) + SLOTS - 1), "--output-on-failure"]
        + ["--no-tests=error", "--output-junit", str(junit)]
        + ["--test-output-size-passed", str(KEPT_OUTPUT)],
        stdin=subprocess.DEVNULL,
    )
    seconds = time.monotonic() - started
    if junit.exists():
        for case in ElementTree.parse(junit).getroot().iter("testcase"):
            variant, _, name = case.get("name", "").partition("/")
            read_case(case, name, results[variant])
    for full_name, processor in read_measured(measured).items():
        variant, _, name = full_name.partition("/")
        results[variant].processor[name] = processor
    if done.returncode != 0 and not any(result.failed for result in results.values()):
        next(iter(results.values())).failed.append(f"ctest itself (exit {done.returncode})")
    return seconds


def test_variants(selections: dict[str, str], jobs: int) -> tuple[list[Result], float]:
    """What the variants came to, and the seconds that their tests took."""
    results = {variant: Result(variant) for variant in selections}
    tests: list[Test] = []
    for variant, selection in selections.items():
        if not build_variant(variant, jobs):
            results[variant].failed.append("build")
            continue
        try:
            of_variant = tests_of(variant, ROOT / "build" / variant)
        except Unreadable as error:
            results[variant].failed.append("list of the tests")
            print(f"FAILED: {variant}: {error}", flush=True)
            continue
        results[variant].tests = [test.name for test in of_variant]
        tests += chosen(of_variant, selection)
    seconds = run_tests(tests, jobs, results) if tests else 0.0
    return list(results.values()), seconds


def print_longest(results: list[Result], seconds: float, jobs: int) -> None:
    """The tests that took the most processor time, those that took longest, and whether the processors were busy."""
    every = [
        (result.processor[name], wall, f"{result.variant}: {name}")
        for result in results
        for name, wall in result.seconds.items()
        if name in result.processor
    ]
    if not every:
        return
    most = sorted(every, reverse=True)[:SHOWN_TESTS]
    longest = sorted(every, key=lambda row: row[1], reverse=True)[:SHOWN_TESTS]
    print(f"\n{'processor':>9}{'wall':>9}  the tests that took most of either")
    for processor, wall, name in sorted(set(most) | set(longest), reverse=True):
        print(f"{processor:>7.1f} s{wall:>7.1f} s  {name}")
    total = sum(row[0] for row in every)
    print(f"{total:>7.0f} s{seconds:>7.0f} s  all: {total / (seconds * jobs or 1):.0%} of {jobs} processors\n")


def summarise(
    results: list[Result], unlisted: list[Skip], stale: list[Entry], seconds: float, jobs: int
) -> bool:
    """Prints what became of all tests; true when that is good enough."""
    strict = os.environ.get("CI") == "true"
    print("\n=== summary ===")
    allowed = Counter(
        (skip.variant, skip.name.split("/")[0], "/" in skip.name, skip.reason)
        for result in results
        for skip in result.skips
        if skip not in unlisted
    )
    for (variant, test, of_cases, reason), count in allowed.items():
        print(f"skipped  {variant}: {test}{f', {count} of its cases' if of_cases else ''}: {reason}")
    print_longest(results, seconds, jobs)
    print(f"{'variant':<10}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'processor':>11}")
    for r in results:
        print(
            f"{r.variant:<10}{r.total:>7}{r.passed:>8}{len(r.failed):>8}{r.skipped:>9}"
            f"{sum(r.processor.values()):>9.0f} s"
        )
    # Last, so that whoever sees only the end of a long output sees these.
    for skip in unlisted:
        print(f"{'FAILED ' if strict else 'SKIPPED'}  {skip} (a skip that tests/may-skip.toml does not list)")
    for entry in stale:
        print(f"FAILED   tests/may-skip.toml: there is no test {entry.test}")
    for result in results:
        for name in result.failed:
            print(f"FAILED   {result.variant}: {name}")
            for line in result.said.get(name, "").splitlines()[-SHOWN_LINES:]:
                print(f"         | {line}")
    if unlisted and not strict:
        print(f"\n{len(unlisted)} not run and not listed: with CI=true they would count as failures")
    # Each of these is a test less that ran, whether ctest counted it or not.
    more = len(stale) + (len(unlisted) if strict else 0)
    total = sum(r.total for r in results)
    failed = min(total, sum(len(r.failed) for r in results) + more)
    percent = 100 * (total - failed) // total if total else 0
    print(f"Total Test time (real) = {seconds:7.2f} sec\n")
    print(f"{percent}% tests passed, {failed} tests failed out of {total}", flush=True)
    return failed == 0 and total > 0


def files_now() -> str:
    """The name that git has for the tree as it lies here, with what is not committed; "" without git."""
    index = ROOT / "build" / "quick-index"
    index.parent.mkdir(exist_ok=True)
    environment = {**os.environ, "GIT_INDEX_FILE": str(index)}
    tree = ""
    for command in (["add", "-A"], ["write-tree"]):
        done = subprocess.run(
            ["git", "-C", str(ROOT), *command], env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            tree = ""
            break
        tree = done.stdout.strip()
    index.unlink(missing_ok=True)
    return tree


def take_quick_passed() -> bool:
    """Whether --quick passed on the very files that are here. For one run: the next repeats all."""
    passed = QUICK_PASSED.read_text(encoding="utf-8") if QUICK_PASSED.is_file() else ""
    QUICK_PASSED.unlink(missing_ok=True)
    return passed != "" and passed == files_now()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("variants", nargs="*", metavar="variant", help=f"default: {' '.join(VARIANTS)}")
    arguments = parser.parse_args()
    if wrong := set(arguments.variants) - set(VARIANTS):
        parser.error(f"unknown variant {' '.join(wrong)}")
    try:
        may_skip = read_list(MAY_SKIP, VARIANTS)
    except (OSError, BadList) as error:
        sys.exit(f"run.py: {error}")

    variants = arguments.variants or (QUICK_VARIANTS if arguments.quick else VARIANTS)
    repeated: list[str] = []
    if take_quick_passed() and not arguments.quick and not arguments.variants:
        repeated = QUICK_VARIANTS
        print(f"make test passed on these files just now: of {' and '.join(repeated)}, the slow tests alone run")
    selections = {
        variant: QUICK_ONLY if arguments.quick else SLOW_ONLY if variant in repeated else ALL for variant in variants
    }
    before = files_now() if arguments.quick else ""
    results, seconds = test_variants(selections, arguments.jobs)

    unlisted = not_listed((skip for result in results for skip in result.skips), may_skip)
    stale: list[Entry] = []
    if variants == VARIANTS and not any("build" in result.failed for result in results):
        stale = without_a_test(may_skip, (test for result in results for test in result.tests))
    good = summarise(results, unlisted, stale, seconds, arguments.jobs)
    if good and arguments.quick and not arguments.variants and before == files_now():
        QUICK_PASSED.write_text(before, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
