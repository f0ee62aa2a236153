#!/usr/bin/env python3
"""Configures and builds the variants, runs the tests of all of them in one go and sums up at the end.

Usage: run.py [--quick | --changed [--base COMMIT] [--list]] [--jobs N] [variant...]

--quick leaves out what has CTest's label `slow`, and all variants but check and standard. When it
passed, the next complete run on the same files does not repeat these tests: it runs the slow ones and
the other variants.
--changed runs those tests that --quick leaves out and that tests/affected.toml selects for the files
that differ from the commit of tests/last-complete, or from COMMIT. Where that commit is not to be had,
it runs all that --quick leaves out. --list prints what is selected, and runs nothing.
Without either, every test runs. When all of them passed and no file differs from the commit, the run
writes that commit into tests/last-complete.
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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

sys.dont_write_bytecode = True
from affected import BadTable, Selection, described, read_table, select  # noqa: E402
from changes import (  # noqa: E402
    LAST_COMPLETE, changed_since, commit_now, files_now, read_last_complete, uncommitted, write_last_complete,
)  # fmt: skip
from plan import SLOTS, Test, Unreadable, make_measure, read_measured, tests_of, with_fixtures, write_list  # noqa: E402
from skips import BadList, Entry, Skip, not_listed, read_list, skips_of, without_a_test  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MAY_SKIP = ROOT / "tests" / "may-skip.toml"
AFFECTED = ROOT / "tests" / "affected.toml"
QUICK_PASSED = ROOT / "build" / "quick-passed"  # the files on which --quick passed last
# Which folders each of them runs: cmake/tests.cmake.
VARIANTS = ["check", "asan", "tsan", "hardened", "fast", "observe", "standard"]
QUICK_VARIANTS = ["check", "standard"]
KEPT_OUTPUT = 1 << 20  # bytes of a test's output; ctest keeps 1 KiB, the skipped cases may stand before
SHOWN_LINES = 20  # of the output of a test that failed, once more at the end
SHOWN_TESTS = 25  # that took the most processor time, or the longest
Wanted = Callable[[Test], bool]


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


@cache
def configure_variant(variant: str) -> bool:
    """Once in a run."""
    build = ROOT / "build" / variant
    return run_quietly(["cmake", "--preset", variant, "-DBUILD_TESTING=ON"], build / "configure.log")


def build_variant(variant: str, jobs: int) -> bool:
    build = ROOT / "build" / variant
    print(f"== {variant}: build", flush=True)
    started, before = time.monotonic(), children_seconds()
    built = configure_variant(variant) and run_quietly(
        ["cmake", "--build", str(build), "-j", str(jobs)], build / "build.log"
    )
    if built:
        taken = f"{time.monotonic() - started:.0f} s, {children_seconds() - before:.0f} s of a processor"
        print(f"== {variant}: built in {taken}", flush=True)
    return built


def has_wanted(variant: str, wanted: Wanted) -> bool:
    """Whether it is worth building. Where that cannot be told, the build tells what is wrong."""
    if not configure_variant(variant):
        return True
    try:
        return any(wanted(test) for test in tests_of(variant, ROOT / "build" / variant))
    except Unreadable:
        return True


def chosen(tests: list[Test], wanted: Wanted) -> list[Test]:
    return with_fixtures([test for test in tests if wanted(test)], tests)


def run_tests(tests: list[Test], jobs: int, results: dict[str, Result], environment: dict[str, str]) -> float:
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
        env={**os.environ, **environment},
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


def test_variants(
    selections: dict[str, Wanted], jobs: int, environment: dict[str, str]
) -> tuple[list[Result], float]:
    """What the variants came to, and the seconds that their tests took."""
    results = {variant: Result(variant) for variant in selections}
    tests: list[Test] = []
    for variant, wanted in selections.items():
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
        tests += chosen(of_variant, wanted)
    seconds = run_tests(tests, jobs, results, environment) if tests else 0.0
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
) -> tuple[int, int]:
    """Prints what became of all tests, and returns how many failed, of how many."""
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
    print(f"Total Test time (real) = {seconds:7.2f} sec\n")
    return failed, total


def passed_quickly() -> bool:
    """Whether --quick passed on the very files that are here."""
    passed = QUICK_PASSED.read_text(encoding="utf-8") if QUICK_PASSED.is_file() else ""
    return passed != "" and passed == files_now(ROOT)


def is_quick(test: Test) -> bool:
    return not test.slow


def is_left_out(test: Test) -> bool:
    """By --quick."""
    return test.slow or test.variant not in QUICK_VARIANTS


def selection_of(base: str) -> tuple[Selection, dict[str, str]]:
    """What the change since `base` selects, and what its tests get in their environment."""
    table = read_table(AFFECTED)
    commit = base or read_last_complete(ROOT)
    changed = changed_since(ROOT, commit) if commit else None
    if changed is None:
        where = "the argument" if base else LAST_COMPLETE
        return Selection({}, f"there is no commit {commit or 'that it could name'} here ({where} says it)"), {}
    selection = select(table, changed)
    print(f"{len(changed)} files differ from {commit[:12]}; what these can affect:")
    return selection, {} if selection.everything else table.environment


def end_of_complete(files: str, commit: str, unclean: list[str] | None, unlisted: list[Skip]) -> None:
    """Writes tests/last-complete after a run in which no test failed, if that says everything of a commit."""
    if unclean is None:
        reason = "no git here"
    elif unclean:
        reason = f"{unclean[0]} differs from the commit"
    elif unlisted:
        reason = f"a skip is not listed: {unlisted[0]}"
    elif (files, commit) != (files_now(ROOT), commit_now(ROOT)):
        reason = "files changed while the tests ran"
    else:
        write_last_complete(ROOT, commit)
        print(f"{LAST_COMPLETE} names {commit[:12]} now: commit it")
        return
    print(f"{LAST_COMPLETE} stays as it was: {reason}")


def print_closing(failed: int, total: int) -> None:
    percent = 100 * (total - failed) // total if total else 0
    print(f"{percent}% tests passed, {failed} tests failed out of {total}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--base", default="", metavar="COMMIT")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("variants", nargs="*", metavar="variant", help=f"default: {' '.join(VARIANTS)}")
    arguments = parser.parse_args()
    if wrong := set(arguments.variants) - set(VARIANTS):
        parser.error(f"unknown variant {' '.join(wrong)}")
    if arguments.quick and arguments.changed:
        parser.error("--quick and --changed exclude each other")
    if (arguments.base or arguments.list) and not arguments.changed:
        parser.error("--base and --list need --changed")
    environment: dict[str, str] = {}
    try:
        may_skip = read_list(MAY_SKIP, VARIANTS)
        if arguments.changed:
            selection, environment = selection_of(arguments.base)
    except (OSError, BadList, BadTable) as error:
        sys.exit(f"run.py: {error}")

    variants = arguments.variants or (QUICK_VARIANTS if arguments.quick else VARIANTS)
    complete = variants == VARIANTS and not arguments.quick and not arguments.changed
    selections: dict[str, Wanted] = {variant: lambda test: True for variant in variants}
    if arguments.quick:
        QUICK_PASSED.unlink(missing_ok=True)
        selections = {variant: is_quick for variant in variants}
    elif arguments.changed:
        for line in described(selection):
            print(f"  {line}", flush=True)
        if arguments.list:
            return 0
        if not passed_quickly():
            print("make test has not passed on these files, and its tests do not run here", flush=True)

        def wanted(test: Test) -> bool:
            return is_left_out(test) and selection.selects(test.full_name)

        selections = {
            variant: wanted for variant in variants if selection.of_variant(variant) and has_wanted(variant, wanted)
        }
        if not selections:
            print("nothing to run beyond make test")
            return 0
    else:
        if complete and passed_quickly():
            print(f"make test passed on these files just now: of {' and '.join(QUICK_VARIANTS)}, the slow tests alone run")
            selections |= {variant: is_left_out for variant in QUICK_VARIANTS}
        QUICK_PASSED.unlink(missing_ok=True)  # for one run: the next repeats all

    files, commit, unclean = files_now(ROOT), commit_now(ROOT), uncommitted(ROOT)
    results, seconds = test_variants(selections, arguments.jobs, environment)

    unlisted = not_listed((skip for result in results for skip in result.skips), may_skip)
    stale: list[Entry] = []
    if complete and not any("build" in result.failed for result in results):
        stale = without_a_test(may_skip, (test for result in results for test in result.tests))
    failed, total = summarise(results, unlisted, stale, seconds, arguments.jobs)
    good = failed == 0 and total > 0
    if good and complete:
        end_of_complete(files, commit, unclean, unlisted)
    if good and arguments.quick and not arguments.variants and files == files_now(ROOT):
        QUICK_PASSED.write_text(files, encoding="utf-8")
    print_closing(failed, total)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
