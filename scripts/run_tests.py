#!/usr/bin/env python3
"""Configures, builds and tests the variants one after the other and sums up once at the end.

Usage: run_tests.py [--jobs N] [variant...]
The last line has the form of ctest's own summary, over all variants together.
"""
import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Which folders each of them runs: cmake/tests.cmake. standard last: its tests take longest, and a
# mistake shows sooner in the others.
VARIANTS = ["check", "asan", "tsan", "hardened", "fast", "observe", "standard"]


@dataclass
class Result:
    """What one variant came to."""

    variant: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return self.passed + len(self.failed) + len(self.skipped)


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


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason printed"


def read_junit(path: Path, result: Result) -> None:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name", "?")
        skipped = case.find("skipped")
        if case.get("status") == "run":
            result.passed += 1
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            result.skipped.append((name, last_line(case.findtext("system-out", ""))))
        elif case.get("status") != "disabled":  # failed, or its program was not found
            result.failed.append(name)


def test_variant(variant: str, jobs: int) -> Result:
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

    junit = build / "junit.xml"
    junit.unlink(missing_ok=True)
    started = time.monotonic()
    done = subprocess.run(
        ["ctest", "--test-dir", str(build), "-j", str(jobs), "--output-on-failure"]
        + ["--no-tests=error", "--output-junit", str(junit)],
        stdin=subprocess.DEVNULL,
    )
    result.seconds = time.monotonic() - started
    if junit.exists():
        read_junit(junit, result)
    if done.returncode != 0 and not result.failed:
        result.failed.append(f"ctest itself (exit {done.returncode})")
    return result


def summarise(results: list[Result]) -> bool:
    print("\n=== summary ===")
    for result in results:
        for name, reason in result.skipped:
            print(f"skipped  {result.variant}: {name}: {reason}")
    for result in results:
        for name in result.failed:
            print(f"FAILED   {result.variant}: {name}")
    print(f"{'variant':<10}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'time':>8}")
    for r in results:
        print(
            f"{r.variant:<10}{r.total:>7}{r.passed:>8}{len(r.failed):>8}{len(r.skipped):>9}"
            f"{r.seconds:>6.0f} s"
        )
    total = sum(r.total for r in results)
    failed = sum(len(r.failed) for r in results)
    percent = 100 * (total - failed) // total if total else 0
    print(f"Total Test time (real) = {sum(r.seconds for r in results):7.2f} sec\n")
    print(f"{percent}% tests passed, {failed} tests failed out of {total}", flush=True)
    return failed == 0 and total > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("variants", nargs="*", metavar="variant", help=f"default: {' '.join(VARIANTS)}")
    arguments = parser.parse_args()
    variants = arguments.variants or VARIANTS
    for variant in variants:
        if variant not in VARIANTS:
            parser.error(f"unknown variant {variant}")
    return 0 if summarise([test_variant(v, arguments.jobs) for v in variants]) else 1


if __name__ == "__main__":
    sys.exit(main())
