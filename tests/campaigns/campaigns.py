#!/usr/bin/env python3
"""Runs campaigns: what a system, other threads and other processes can do to a program while it allocates.

Usage: campaigns.py NAME... [--seconds N] [--seed N] [--config NAME...] [--out FILE] [--jobs N]
       campaigns.py all          every campaign
       campaigns.py --list       names, and what each tries

Every step is a process of its own, which checks the contents of all its blocks, and in the end that none is lost and
that memory is where it was (work.h); one that does not end in time has hung, and that is a failure. --out FILE writes
FILE.json and FILE.md. Exit status: 0 fine, 1 something failed, 77 nothing could be tried here.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIP = 77
TIMEOUT = 240  # seconds, beside the time that a step is told to take

# Name: variant of the build, what is set in the environment.
CONFIGS = {
    "standard": ("standard", {}),
    "lean": ("standard", {"HAKMEM_PROFILE": "lean"}),
    "light": ("hardened", {"HAKMEM_GUARD": "light"}),
    "full": ("hardened", {"HAKMEM_GUARD": "full"}),
    "check": ("check", {}),
}

PRELOADED = tuple(name for name, (variant, _) in CONFIGS.items() if variant != "check")

# What other options do to the paths that system calls are made from.
OPTIONS = {
    "default": {},
    "lean": {"HAKMEM_PROFILE": "lean"},
    "lazy": {"HAKMEM_SS_MEM_LEAN_DECOMMIT": "FREE", "HAKMEM_WARM_POOL_DECAY_MS": "1"},
    "hugepages": {"HAKMEM_SS_HUGEPAGE": "explicit"},
    "no-pool": {"HAKMEM_WARM_POOL_MB": "0"},
    "samples": {"HAKMEM_PROF_RATE": "4096", "HAKMEM_PROF_MOST": "0", "HAKMEM_GUARD_SAMPLE": "2"},
    "counting": {"HAKMEM_TINY_HEAP_STATS": "1"},
}

# The kernel's calls that a filter refuses, alone and all together.
REFUSED = {
    "madvise": "madvise process_madvise",
    "mremap": "mremap",
    "clone": "clone clone3",
    "clone3": "clone3",
    "prctl": "prctl",
    "membarrier": "membarrier",
}
REFUSED["all"] = " ".join(dict.fromkeys(" ".join(REFUSED.values()).split()))


@dataclass
class Step:
    """A process to run: a program of tests/ (folder/name) or another command."""

    name: str
    program: str
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    seconds: int = 0  # that it is told to take
    group: bool = False  # in a control group of its own
    only: tuple[str, ...] = ()  # configurations; empty: all but those of `program` that have it not


@dataclass
class Outcome:
    """What came of a step in one configuration."""

    campaign: str
    step: str
    config: str
    result: str  # passed, failed, hung, skipped
    seconds: float
    figures: dict[str, int]
    reason: str
    command: str
    sites: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Settings:
    seconds: int
    seed: int
    short: bool


# --- campaigns ------------------------------------------------------------------------------------


def closing(name: str, settings: Settings, mode: str, share: float = 1, **more) -> Step:
    seconds = max(1, round(settings.seconds * share))
    return Step(name, "campaigns/closing", [mode, str(seconds)], seconds=seconds, **more)


def syscalls(settings: Settings) -> Iterator[Step]:
    """Every system call of every scenario refused once, from each one on, and at random; under several options."""
    rounds = str(max(1, settings.seconds / 6))
    # In short what fault.each-call-nth-mixed and its kin do not: other options.
    for options in ("lean",) if settings.short else OPTIONS:
        for mode in ("nth", "from", "random"):
            scenario = ["mixed"] if settings.short else []
            environment = {"HAK_TEST_SCALE": rounds, **OPTIONS[options]}
            if not settings.short and options == "default":
                environment["HAK_TEST_EVERY"] = "1"
            yield Step(f"{mode}.{options}", "campaigns/each_call", [mode, *scenario], environment, 600, only=("check",))
    if settings.short:
        return
    for options in OPTIONS:
        yield Step(f"threads.{options}", "fault/threads_fault", [], OPTIONS[options], 60, only=("check",))
    yield Step("munmap", "fault/munmap_fails", only=("check",))


def signals(settings: Settings) -> Iterator[Step]:
    """A signal before every instruction of malloc and its family: its handler raises another, or forks."""
    every, forks = ("50", "4") if settings.short else ("1", str(50 * settings.seconds))
    only = ("standard", "full", "check") if settings.short else ()
    yield Step("stepped", "campaigns/signals", [every, forks, str(settings.seed)], seconds=600, only=only)


def forks(settings: Settings) -> Iterator[Step]:
    """fork, vfork, posix_spawn and clone(CLONE_VM | CLONE_VFORK) from several threads while others allocate."""
    seconds = str(settings.seconds)
    yield Step("all-ways", "campaigns/storms", ["all", seconds], seconds=settings.seconds)
    if settings.short:
        return
    for way in ("fork", "vfork", "spawn", "clone"):
        yield Step(way, "campaigns/storms", [way, seconds], seconds=settings.seconds)
    yield Step("many-threads", "campaigns/storms", ["all", seconds, "8", "8"], seconds=settings.seconds)
    for who in ("main", "thread"):
        yield Step(f"storm-from-{who}", "stress/fork_storm", [who])
    for who in ("alone", "beside"):
        yield Step(f"in-handler-{who}", "stress/fork_in_handler", [who])
    yield Step("handlers", "stress/fork_handlers")
    yield Step("streams", "stress/fork_streams", only=PRELOADED)
    yield Step("first", "stress/fork_first")
    yield Step("everything", "stress/random", [str(settings.seed), seconds], seconds=settings.seconds)


def cancellation(settings: Settings) -> Iterator[Step]:
    """Threads are cancelled while they allocate, wait, or read their blocks; what they leave is freed by others."""
    yield Step("waves", "campaigns/cancellation", [str(settings.seconds)], seconds=settings.seconds)
    if not settings.short:
        yield Step("deferred", "stress/cancel")


def limits(settings: Settings) -> Iterator[Step]:
    """RLIMIT_AS, RLIMIT_DATA and a control group's memory limit close in step by step, and open again."""
    yield closing("as", settings, "as")
    yield closing("data", settings, "data")
    yield closing("group", settings, "group", group=True)
    if settings.short:
        return
    for limit in ("64", "300", "+4", "+100"):
        # The place of a sample is for other samples, and 4 MB are little.
        yield Step(f"exhausted-{limit}MB", "fault/rlimit_as", [limit], {"HAKMEM_PROF_RATE": "0"},
                   only=PRELOADED if limit == "+4" else ("standard",))  # fmt: skip
    yield Step("set-late", "fault/limits", ["late"], only=PRELOADED)


def mlockall(settings: Settings) -> Iterator[Step]:
    """mlockall of what there is, of what comes, of what is touched; and with a small RLIMIT_MEMLOCK."""
    for mode in ("current", "future", "onfault", "small"):
        yield closing(mode, settings, f"locked-{mode}")
    if not settings.short:
        yield Step("small-from-start", "fault/limits", ["locked"], only=("standard", "lean"))


def seccomp(settings: Settings) -> Iterator[Step]:
    """Filters that refuse calls of the kernel, each alone and all, before the program begins and in its middle."""
    for name in ("all",) if settings.short else REFUSED:
        for error in ("EPERM", "ENOSYS"):
            for when in ("early", "late"):
                yield closing(f"{name}.{error}.{when}", settings, f"filter-{when}", 0.2,
                              environment={"CAMPAIGN_FILTER": f"{error} {REFUSED[name]}"})  # fmt: skip


def no_thp(settings: Settings) -> Iterator[Step]:
    """Huge pages turned off for the process; no /sys to read."""
    yield closing("off-for-process", settings, "no-thp")
    yield closing("no-sys", settings, "no-sys")


def pages(settings: Settings) -> Iterator[Step]:
    """The tests for aarch64 under an emulator with pages of 4, 16 and 64 KiB."""
    if not settings.short:  # cross.aarch64 is a test of its own
        command = [str(ROOT / "tests/cross/run_target.py"), "aarch64", "--jobs", str(os.cpu_count() or 1)]
        yield Step("aarch64", sys.executable, command, seconds=1800, only=("standard",))


def addresses(settings: Settings) -> Iterator[Step]:
    """Blocks all over the address space: low first; in single holes; above 47 bits (aarch64: 48) where there are any."""
    for mode in ("plain", "low", "scattered", "high"):
        yield closing(mode, settings, mode)


def maps(settings: Settings) -> Iterator[Step]:
    """vm.max_map_count is reached, again and again."""
    yield closing("closing", settings, "maps")
    if not settings.short:
        yield Step("reached", "fault/map_count", only=PRELOADED)


CAMPAIGNS: dict[str, Callable[[Settings], Iterator[Step]]] = {
    "syscalls": syscalls, "signals": signals, "forks": forks, "cancellation": cancellation, "limits": limits,
    "mlockall": mlockall, "seccomp": seccomp, "no-thp": no_thp, "pages": pages, "addresses": addresses, "maps": maps,
}  # fmt: skip


# --- running a step ----------------------------------------------------------------------------------


class Group:
    """A control group for one step, of version 2 or 1; None of them: a reason why."""

    def __init__(self, name: str) -> None:
        self.directory: Path | None = None
        self.reason = ""
        for parent in self.parents():
            directory = parent / name
            try:
                directory.mkdir()
            except OSError as error:
                self.reason = f" ({directory}: {error.strerror})"
                continue
            if any((directory / file).exists() for file in ("memory.max", "memory.limit_in_bytes")):
                self.directory = directory
                return
            directory.rmdir()
        self.reason = "no group with a memory limit can be made here" + self.reason

    @staticmethod
    def parents() -> Iterator[Path]:
        root = Path("/sys/fs/cgroup")
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers and (root / "cgroup.controllers").exists():
                yield root / path.strip("/")
                yield root
            elif "memory" in controllers.split(","):
                yield root / "memory" / path.strip("/")
                yield root / "memory"

    @property
    def version(self) -> int:
        return 2 if self.directory and (self.directory / "memory.max").exists() else 1

    def remove(self) -> None:
        for _ in range(100):
            try:
                if self.directory:
                    self.directory.rmdir()
                return
            except OSError:
                time.sleep(0.05)


@dataclass
class Runner:
    builds: dict[str, Path]
    settings: Settings

    def program_of(self, step: Step, variant: str) -> Path | None:
        """In the variant's own build; programs that are preloaded are the same in all."""
        if "/" not in step.program or step.program.startswith("/"):
            return Path(step.program)
        folder, name = step.program.split("/")
        file = f"tests/{folder}/{'campaign' if folder == 'campaigns' else folder}_{name}"
        for build in (self.builds[variant], self.builds["check" if variant == "check" else "standard"]):
            if (build / file).exists():
                return build / file
        return None

    def environment_of(self, step: Step, config: str) -> dict[str, str]:
        variant, options = CONFIGS[config]
        ours = {**options, **step.environment, "HAK_TEST_SEED": str(self.settings.seed)}
        if variant != "check" and not step.program.startswith("/"):
            ours["LD_PRELOAD"] = str(self.builds[variant] / "libhakmem.so")
        return ours

    def run(self, campaign: str, step: Step, config: str) -> Outcome:
        variant = CONFIGS[config][0]
        outcome = Outcome(campaign, step.name, config, "failed", 0.0, {}, "", "")
        program = self.program_of(step, variant)
        if program is None:
            outcome.reason = f"{step.program} is not built"
            return outcome
        ours = self.environment_of(step, config)
        group = None
        if step.group:
            group = Group(f"hakmem-campaign-{os.getpid()}-{config}")
            if group.directory is None:
                outcome.result, outcome.reason = "skipped", group.reason
                return outcome
            ours["CAMPAIGN_GROUP"] = str(group.directory)
        command = [str(program), *step.arguments]
        outcome.command = shlex.join(["env", *(f"{k}={v}" for k, v in ours.items()), *command])
        started = time.monotonic()
        try:
            self.wait_for(command, ours, step.seconds + TIMEOUT, outcome)
        finally:
            outcome.seconds = round(time.monotonic() - started, 1)
            if group:
                outcome.figures["cgroup_version"] = group.version
                group.remove()
        return outcome

    @staticmethod
    def wait_for(command: list[str], ours: dict[str, str], timeout: int, outcome: Outcome) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "HAK_TEST_", "LD_"))
        }
        # A session of its own, so that what it has started can be ended with it.
        process = subprocess.Popen(
            command, env={**inherited, **ours}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True, cwd=ROOT,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            outcome.result, outcome.reason = "hung", f"did not end within {timeout} s"
            return
        read_output(output, outcome)
        lines = [line for line in output.splitlines() if line.strip()]
        said = [line for line in lines if line.startswith(("FAILED", "hakmem: "))] or lines[-1:]
        if process.returncode == 0:
            outcome.result = "passed"
        elif process.returncode == SKIP:
            outcome.result, outcome.reason = "skipped", (lines or ["no reason"])[-1].removeprefix("skipped: ")
        elif process.returncode == -signal.SIGALRM:
            outcome.result, outcome.reason = "hung", "its own watchdog ended it"
        else:
            outcome.reason = f"ended with {process.returncode}: {' / '.join(said)}"


# What programs of other folders say in sentences.
SENTENCES = [
    r"(?P<calls>\d+) system calls; (?P<runs>\d+) runs, (?P<refused>\d+) calls refused, (?P<enomem>\d+) functions",
    r"(?P<rounds>\d+) rounds: (?P<refused>\d+) system calls refused, malloc gave (?P<blocks>\d+) .* (?P<enomem>\d+) times",
    r"blocks of \d+ MB freed, (?P<refused>\d+) calls refused",
    r"^(?P<forks>\d+) forks",
    r"(?P<operations>\d+) operations by (?P<threads>\d+) threads, (?P<forks>\d+) forks",
    r"^(?P<cancelled>\d+) threads cancelled",
    r"^ *(?P<largest_size>\d+) B: (?P<blocks>\d+) blocks = ",
    r"^(?P<mappings>\d+) mappings: (?P<enomem>\d+) times",
    r"^aarch64: (?P<tests>\d+) tests run",
]


def read_output(output: str, outcome: Outcome) -> None:
    for line in output.splitlines():
        if line.startswith("FIGURES "):
            outcome.figures.update({k: int(v) for k, v in (word.split("=") for word in line.split()[1:])})
        elif found := re.match(r"SITE (\S+ \S+) calls=(\d+) refused=(\d+)$", line):
            outcome.sites[found[1]] = [int(found[2]), int(found[3])]
        for pattern in SENTENCES:
            if found := re.search(pattern, line):
                for name, value in found.groupdict().items():
                    old = outcome.figures.get(name, 0)
                    outcome.figures[name] = max(old, int(value)) if name == "largest_size" else old + int(value)


def judge_sites(outcomes: list[Outcome], short: bool) -> Outcome | None:
    """Of all runs with refused calls together: has every place been refused one? Few scenarios do not reach all."""
    places: dict[str, list[int]] = {}
    for outcome in outcomes:
        for place, (calls, refused) in outcome.sites.items():
            sums = places.setdefault(place, [0, 0])
            sums[0] += calls
            sums[1] += refused
    if not places:
        return None
    missed = [place for place, (_, refused) in places.items() if refused == 0]
    figures = {"sites": len(places), "sites_refused": len(places) - len(missed)}
    reason = f"never refused: {', '.join(missed)} (see addr2line)" if missed and not short else ""
    return Outcome("syscalls", "every-site", "check", "failed" if reason else "passed", 0.0, figures, reason, "")


def tests_by_page_size() -> dict[str, int]:
    """How many tests of the emulated machine ran with each size of page."""
    junit, counts = ROOT / "build/cross-aarch64/junit.xml", {}
    if junit.exists():
        for case in ElementTree.parse(junit).getroot().iter("testcase"):
            size = case.get("name", "").rsplit(".", 1)[-1]
            if size.isdigit() and case.find("skipped") is None:
                counts[f"tests_{int(size) // 1024}k"] = counts.get(f"tests_{int(size) // 1024}k", 0) + 1
    return counts


# --- what is written down -----------------------------------------------------------------------------


def of_git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def read_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "not to be read"


def facts(settings: Settings) -> dict[str, object]:
    changed = of_git("status", "--porcelain", "--untracked-files=no", "--", "src", "include", "cmake", "tests")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": (of_git("rev-parse", "--short=12", "HEAD") or "unknown") + (" with changes" if changed else ""),
        "seed": settings.seed,
        "seconds": settings.seconds,
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "page_size": os.sysconf("SC_PAGESIZE"),
        "max_map_count": read_line("/proc/sys/vm/max_map_count"),
        "transparent_hugepage": read_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "five_level_paging": "la57" in Path("/proc/cpuinfo").read_text().split(),
        "privileges": "root" if os.geteuid() == 0 else "none",
    }


def figures_text(figures: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in figures.items())


def markdown(about: dict[str, object], outcomes: list[Outcome]) -> str:
    count = {result: sum(o.result == result for o in outcomes) for result in ("passed", "failed", "hung", "skipped")}
    lines = [
        "# Campaigns",
        "",
        f"{count['passed']} of {len(outcomes)} runs passed, {count['failed']} failed, {count['hung']} hung, "
        f"{count['skipped']} could not be tried. Each run checks the contents of every block, and in the end that no block",
        "is lost and that memory is where it was. Made by `make campaigns-results`; what is tried: "
        "[tests/campaigns](../../tests/campaigns/README.md).",
        "",
        f"Commit {about['commit']}, {about['date']}, seed {about['seed']}, {about['seconds']} s for steps without end. "
        f"{about['kernel']}, {about['processors']} processors,",
        f"pages of {about['page_size']} bytes, vm.max_map_count {about['max_map_count']}, huge pages "
        f"`{about['transparent_hugepage']}`, 5-level paging: {'yes' if about['five_level_paging'] else 'no'}, "
        f"privileges: {about['privileges']}. {about['note']}".rstrip(),
        "",
        "| Campaign | Runs | Passed | Failed | Hung | Not tried | Time |",
        "|---|---|---|---|---|---|---|",
    ]
    names = list(dict.fromkeys(o.campaign for o in outcomes))
    for name in names:
        mine = [o for o in outcomes if o.campaign == name]
        cells = [sum(o.result == result for o in mine) for result in ("passed", "failed", "hung", "skipped")]
        lines.append(f"| {name} | {len(mine)} | {' | '.join(map(str, cells))} | {sum(o.seconds for o in mine):.0f} s |")
    for name in names:
        lines += ["", f"## {name}", "", str(CAMPAIGNS[name].__doc__), ""]
        lines += ["| Step | Configuration | Result | Time | Figures |", "|---|---|---|---|---|"]
        for o in (o for o in outcomes if o.campaign == name):
            said = " ".join(filter(None, (o.reason.replace("|", "/"), figures_text(o.figures))))
            lines.append(f"| {o.step} | {o.config} | {o.result} | {o.seconds:.1f} s | {said} |")
    return "\n".join(lines) + "\n"


def write_down(out: Path, about: dict[str, object], outcomes: list[Outcome]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = [{k: v for k, v in asdict(o).items() if k not in ("sites", "command")} for o in outcomes]
    Path(f"{out}.json").write_text(json.dumps({"about": about, "runs": kept}, indent=1) + "\n")
    Path(f"{out}.md").write_text(markdown(about, outcomes))


def show(outcome: Outcome) -> None:
    text = f"{outcome.campaign}.{outcome.step}.{outcome.config}"
    if outcome.result == "skipped":
        print(f"skipped: {text}: {outcome.reason}", flush=True)
        return
    print(f"{outcome.result}: {text}, {outcome.seconds} s; {figures_text(outcome.figures)}", flush=True)
    if outcome.result != "passed":
        print(f"  {outcome.reason}\n  to see it: {outcome.command}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or of {', '.join(CAMPAIGNS)}")
    parser.add_argument("--seconds", type=int, help="of each step that could go on for ever (6; 1 with --short)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--config", nargs="+", choices=CONFIGS, default=list(CONFIGS), help="default: all")
    parser.add_argument("--out", type=Path, help="write FILE.json and FILE.md", metavar="FILE")
    parser.add_argument("--note", default="", help="a sentence for FILE.md")
    parser.add_argument("--add", type=Path, nargs="+", default=[], metavar="FILE.json", help="runs of before, for --out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="steps at a time")
    parser.add_argument("--short", action="store_true", help="some seconds, programs of this folder alone: for CTest")
    parser.add_argument("--build", nargs="+", default=[], metavar="VARIANT=DIRECTORY", help="where a variant is built")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        for name, campaign in CAMPAIGNS.items():
            print(f"{name:13} {campaign.__doc__}")
        return 0
    names = list(CAMPAIGNS) if "all" in arguments.names else arguments.names
    if not names or (unknown := set(names) - set(CAMPAIGNS)):
        parser.error(f"no such campaign: {', '.join(unknown)}" if names else "no campaign named")
    builds = {variant: ROOT / "build" / variant for variant, _ in CONFIGS.values()}
    builds.update({name: Path(path) for name, path in (text.split("=", 1) for text in arguments.build)})
    settings = Settings(arguments.seconds or (1 if arguments.short else 6), arguments.seed, arguments.short)
    runner = Runner(builds, settings)
    about = {**facts(settings), "note": arguments.note}

    outcomes: list[Outcome] = []
    runs = [
        (name, step, config)
        for name in names
        for step in CAMPAIGNS[name](settings)
        for config in arguments.config
        if not step.only or config in step.only
    ]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        # The longest first.
        order = sorted(range(len(runs)), key=lambda i: -runs[i][1].seconds)
        submitted = {i: pool.submit(runner.run, *runs[i]) for i in order}
        running = [submitted[i] for i in range(len(runs))]
        for future in running:
            outcome = future.result()
            if outcome.campaign == "pages" and outcome.result == "passed":
                outcome.figures.update(tests_by_page_size())
            outcomes.append(outcome)
            show(outcome)
            if arguments.out:  # what there is so far, should it be stopped
                write_down(arguments.out, about, outcomes)
    if "syscalls" in names and (sites := judge_sites(outcomes, settings.short)):
        outcomes.insert(max(i for i, o in enumerate(outcomes) if o.campaign == "syscalls") + 1, sites)
        show(sites)
    for path in arguments.add:
        outcomes += [Outcome(command="", **run) for run in json.loads(path.read_text())["runs"]]
    outcomes.sort(key=lambda outcome: list(CAMPAIGNS).index(outcome.campaign))
    if arguments.out:
        write_down(arguments.out, about, outcomes)
        print(f"written: {arguments.out}.md and .json")
    bad = [o for o in outcomes if o.result in ("failed", "hung")]
    passed = [o for o in outcomes if o.result == "passed"]
    print(f"{len(passed)} passed, {len(bad)} failed or hung, {len(outcomes) - len(bad) - len(passed)} not tried")
    if not bad and not passed and outcomes:
        print(f"skipped: {outcomes[-1].reason}")
    return 1 if bad else 0 if passed else SKIP


if __name__ == "__main__":
    sys.exit(main())
