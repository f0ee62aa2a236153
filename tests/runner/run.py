#!/usr/bin/env python3
"""Configures, builds and tests the variants one after the other and sums up once at the end.

Usage: run.py [--quick] [--jobs N] [variant...]

--quick leaves out what has CTest's label `slow`, and all variants but check and standard. When it
passed, the next complete run on the same files does not repeat these tests: it runs the slow ones and
the other variants.
With CI=true, a skip that tests/may-skip.toml does not list is a failure.
The last line has the form of ctest's own summary, over all variants together.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True
from skips import BadList, Entry, Skip, not_listed, read_list, skips_of, without_a_test  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MAY_SKIP = ROOT / "tests" / "may-skip.toml"
QUICK_PASSED = ROOT / "build" / "quick-passed"  # the files on which --quick passed last
# Which folders each of them runs: cmake/tests.cmake. standard last: its tests take longest, and a
# mistake shows sooner in the others.
VARIANTS = ["check", "asan", "tsan", "hardened", "fast", "observe", "standard"]
QUICK_VARIANTS = ["check", "standard"]
KEPT_OUTPUT = 1 << 20  # bytes of a test's output; ctest keeps 1 KiB, the skipped cases may stand before
SHOWN_LINES = 20  # of the output of a test that failed, once more at the end
SLOW_ONLY = ["--label-regex", "^slow$"]
QUICK_ONLY = ["--label-exclude", "^slow$"]


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
    seconds: float = 0.0

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


def read_junit(path: Path, result: Result) -> None:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name", "?")
        output = case.findtext("system-out", "")
        skipped = case.find("skipped")
        if case.get("status") == "run":
            result.passed += 1
            result.skips += skips_of(result.variant, name, False, output)
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            result.skipped += 1
            result.skips += skips_of(result.variant, name, True, output)
        elif case.get("status") != "disabled":  # failed, or its program was not found
            result.failed.append(name)
            result.said[name] = output


def run_ctest(build: Path, jobs: int, selection: list[str], result: Result) -> None:
    listed = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1"], stdout=subprocess.PIPE, text=True
    )
    if listed.returncode == 0:
        result.tests = [test["name"] for test in json.loads(listed.stdout)["tests"]]
    junit = build / "junit.xml"
    junit.unlink(missing_ok=True)
    started = time.monotonic()
    done = subprocess.run(
        ["ctest", "--test-dir", str(build), "-j", str(jobs), "--output-on-failure"]
        + ["--no-tests=error", "--output-junit", str(junit)]
        + ["--test-output-size-passed", str(KEPT_OUTPUT), *selection],
        stdin=subprocess.DEVNULL,
    )
    result.seconds = time.monotonic() - started
    if junit.exists():
        read_junit(junit, result)
    if done.returncode != 0 and not result.failed:
        result.failed.append(f"ctest itself (exit {done.returncode})")


def test_variant(variant: str, jobs: int, selection: list[str]) -> Result:
    result = Result(variant)
    build = ROOT / "build" / variant
    print(f"== {variant}: build", flush=True)
    started = time.monotonic()
    if not (
        run_quietly(
            ["cmake", "--preset", variant, "-DBUILD_TESTING=ON"], build / "configure.log"
        )
        and run_quietly(["cmake", "--build", str(build), "-j", str(jobs)], build / "build.log")
    ):
        result.failed.append("build")
        return result
    print(f"== {variant}: built in {time.monotonic() - started:.0f} s; tests", flush=True)
    run_ctest(build, jobs, selection, result)
    return result


def summarise(results: list[Result], unlisted: list[Skip], stale: list[Entry]) -> bool:
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
    for skip in unlisted:
        print(f"{'FAILED ' if strict else 'SKIPPED'}  {skip} (a skip that tests/may-skip.toml does not list)")
    for entry in stale:
        print(f"FAILED   tests/may-skip.toml: there is no test {entry.test}")
    for result in results:
        for name in result.failed:
            print(f"FAILED   {result.variant}: {name}")
            for line in result.said.get(name, "").splitlines()[-SHOWN_LINES:]:
                print(f"         | {line}")
    print(f"{'variant':<10}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'time':>8}")
    for r in results:
        print(
            f"{r.variant:<10}{r.total:>7}{r.passed:>8}{len(r.failed):>8}{r.skipped:>9}"
            f"{r.seconds:>6.0f} s"
        )
    if unlisted and not strict:
        print(f"\n{len(unlisted)} not run and not listed: with CI=true they would count as failures")
    # Each of these is a test less that ran, whether ctest counted it or not.
    more = len(stale) + (len(unlisted) if strict else 0)
    total = sum(r.total for r in results)
    failed = min(total, sum(len(r.failed) for r in results) + more)
    percent = 100 * (total - failed) // total if total else 0
    print(f"Total Test time (real) = {sum(r.seconds for r in results):7.2f} sec\n")
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
        variant: QUICK_ONLY if arguments.quick else SLOW_ONLY if variant in repeated else [] for variant in variants
    }
    before = files_now() if arguments.quick else ""
    results = [test_variant(variant, arguments.jobs, selections[variant]) for variant in variants]

    unlisted = not_listed((skip for result in results for skip in result.skips), may_skip)
    stale: list[Entry] = []
    if variants == VARIANTS and not any("build" in result.failed for result in results):
        stale = without_a_test(may_skip, (test for result in results for test in result.tests))
    good = summarise(results, unlisted, stale)
    if good and arguments.quick and not arguments.variants and before == files_now():
        QUICK_PASSED.write_text(before, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
