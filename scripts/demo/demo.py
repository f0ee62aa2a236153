#!/usr/bin/env python3
"""Real programs on hakmem and on glibc in turn; one table at the end. Started by scripts/demo.sh."""

import argparse
import dataclasses
import math
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import measure
import workloads

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIDES = ("glibc", "hakmem")
BUDGET_SECONDS = 165  # what is left of three minutes goes to the build check and to slow machines
INPUT_SECONDS = 8.0


class Progress:
    """One line that is rewritten on a terminal, one line an event elsewhere."""

    def __init__(self):
        self.terminal = sys.stderr.isatty()

    def show(self, text):
        if self.terminal:
            columns = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\033[K" + text[:columns])
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def clear(self):
        if self.terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@dataclasses.dataclass
class Row:
    """All runs of one program so far."""

    workload: object
    runs: dict = dataclasses.field(default_factory=lambda: {side: [] for side in SIDES})
    problem: str = ""

    def seconds_a_run(self):
        done = [run.seconds for side in SIDES for run in self.runs[side]]
        return sum(done) / len(done) if done else self.workload.seconds

    def verdict(self):
        if self.problem:
            return "FAILED"
        if not all(self.runs.values()):
            return "not run"
        digests = {run.digest for side in SIDES for run in self.runs[side]}
        if len({run.digest for run in self.runs["glibc"]}) > 1:
            return "UNSTABLE"
        return "yes" if len(digests) == 1 else "NO"

    def figures(self):
        """Of each side the best time, and the largest peak in MB."""
        seconds = [min((run.seconds for run in self.runs[side]), default=None) for side in SIDES]
        peaks = [max((run.peak_kb / 1024 for run in self.runs[side]), default=None) for side in SIDES]
        return seconds, peaks

    def cells(self):
        """The table's line."""
        cells = [self.workload.title]
        for values, digits in zip(self.figures(), (2, 1)):
            cells += ["-" if value is None else f"{value:.{digits}f}" for value in values]
            cells.append("-" if None in values else f"{values[1] / values[0]:.2f}")
        return cells + [self.verdict()]


HEAD = (
    ["", "time (s)", "time (s)", "", "peak (MB)", "peak (MB)", "", "output"],
    ["program", "glibc", "hakmem", "ratio", "glibc", "hakmem", "ratio", "same"],
)


def print_table(rows, count):
    lines = list(HEAD) + [row.cells() for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD[0]))]
    for number, line in enumerate(lines):
        padded = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("  ".join(padded).rstrip())
        if number == len(HEAD) - 1:
            print("-" * (sum(widths) + 2 * len(widths) - 2))
    print(
        f"\nTime: wall clock, the best of {count} run{'s' if count != 1 else ''} a side, in turn; ratio below 1:"
        " hakmem is faster.\nPeak: resident memory of the largest single process of the program, the highest of its runs."
    )
    for row in rows:
        if row.problem:
            print(f"{row.workload.title}: {row.problem}")


def mean_line(rows):
    """Geometric means of the ratios, of the programs that ran well on both sides."""
    good = [row.figures() for row in rows if row.verdict() == "yes"]
    if not good:
        return "no program ran on both sides"
    time_ratio, peak_ratio = (
        math.exp(sum(math.log(of[i][1] / of[i][0]) for of in good) / len(good)) for i in range(2)
    )
    programs = f"{len(good)} program{'s' if len(good) != 1 else ''}"
    return f"mean of {programs}: {time_ratio:.2f} of glibc's time, {peak_ratio:.2f} of its peak memory"


class Demo:
    """The order of the runs, and what is known so far."""

    def __init__(self, library, chosen, rounds):
        self.library = library
        self.rows = [Row(w) for w in chosen]
        self.rounds = rounds
        self.finished_rounds = 0
        self.session = measure.Session()
        self.progress = Progress()
        self.start = time.monotonic()

    def round_seconds(self, position=0):
        return sum(2 * row.seconds_a_run() for row in self.rows[position:])

    def left(self, round_number, position):
        """Seconds still to go: the rest of this round, and what follows as far as it will fit."""
        left = self.round_seconds(position)
        end = time.monotonic() - self.start + left
        for _ in range(round_number + 1, self.rounds):
            end += self.round_seconds()
            if end <= BUDGET_SECONDS:
                left += self.round_seconds()
        return left

    def one(self, row, side, work, data):
        folder = work / "run"
        folder.mkdir()
        try:
            library = self.library if side == "hakmem" else None
            run = row.workload.run(folder, data, library, self.session)
            stderr = (folder / "stderr").read_text(errors="replace")
            complaints = [line for line in stderr.splitlines() if line.startswith(("hakmem:", "ERROR: ld.so"))]
            if complaints or not run.in_effect:
                row.problem = f"on {side}: {complaints[0] if complaints else 'the library was not seen in the process'}"
            row.runs[side].append(run)
        except measure.Failed as failure:
            row.problem = f"on {side}: {failure}"
        finally:
            shutil.rmtree(folder)

    def run(self, work):
        data = work / "data"
        data.mkdir()
        total = INPUT_SECONDS + self.left(0, 0)
        self.progress.show(f"writing the inputs, about {total:.0f} s left")
        workloads.make_inputs(data, self.session)
        for number in range(self.rounds):
            # The first round is always finished; a further one only when it fits.
            spent = time.monotonic() - self.start
            if number and spent + self.round_seconds() > BUDGET_SECONDS:
                self.progress.show(f"after {spent:.0f} s no further round fits into three minutes")
                break
            for position, row in enumerate(self.rows):
                order = SIDES if (number + position) % 2 == 0 else SIDES[::-1]
                for step, side in enumerate(order):
                    left = self.left(number, position) - step * row.seconds_a_run()
                    name = f"round {number + 1} of {self.rounds}, {position + 1}/{len(self.rows)}"
                    self.progress.show(f"{name}: {row.workload.title} on {side}, about {left:.0f} s left")
                    if not row.problem:
                        self.one(row, side, work, data)
            self.finished_rounds = number + 1


def stop(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="scripts/demo.sh")
    parser.add_argument("--lib", type=pathlib.Path, default=ROOT / "build/standard/libhakmem.so", help="the library")
    parser.add_argument("--only", action="append", metavar="PROGRAM", help="leave the others out; may be repeated")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each program on each side (2)")
    parser.add_argument("--list", action="store_true", help="name the programs")
    args = parser.parse_args()
    chosen = workloads.all_workloads()
    if args.list:
        print("\n".join(w.title for w in chosen))
        return 0
    if args.only:
        chosen = [w for w in chosen if any(w.title.startswith(name) for name in args.only)]
    if not args.lib.is_file():
        parser.error(f"{args.lib} is not there: run make first")
    missing = [(w.title, w.missing()) for w in chosen if w.missing()]
    for title, names in missing:
        print(f"left out: {title}: {', '.join(names)} is not installed")
    chosen = [w for w in chosen if not w.missing()]
    if not chosen or args.rounds < 1:
        parser.error("nothing to run")

    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        print(f"the machine is busy (load {load:.0f} on {cores} cores): times will be rough, peaks are not affected")
    signal.signal(signal.SIGTERM, stop)
    demo = Demo(args.lib.resolve(), chosen, args.rounds)
    code = 0
    work = pathlib.Path(tempfile.mkdtemp(prefix="hakmem-demo."))
    try:
        demo.run(work)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not stop the cleaning up
        code = 130
    except measure.Failed as failure:
        print(f"demo: {failure}", file=sys.stderr)
        code = 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    demo.progress.clear()
    if code == 130:
        print("stopped; finished so far:")
    print_table(demo.rows, demo.finished_rounds or 1)
    print(f"{time.monotonic() - demo.start:.0f} s in all, {demo.library.name} from {demo.library.parent}")
    print(mean_line(demo.rows))
    if code == 0 and any(row.verdict() != "yes" for row in demo.rows):
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
