"""What `hunt` searches through: the parameters of bench/hunt, how they are drawn and mutated, and
one run of them.

Parameters are a dictionary by the program's own names. What is drawn is made to fit: into memory,
and into the time that a run may take.
"""

import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import (
    REPORTED,
    Launcher,
    Run,
    Running,
    clean_environment,
    describe_failure,
    read_tail,
)
from hakmem_lab.run.preload import preload_problem
from hakmem_lab.run.rows import Row

Value = int | str
Parameters = dict[str, Value]
DrawFunction = Callable[[Random], Value]

LARGEST = 16 << 20  # bytes of a block
WORK_SECONDS = 0.25  # that a run's work is meant to take
REST_MS = 1000
TRIED_VALUES = 1000
TABLE = 32  # bytes beside each block: its slot, and what an allocator has at least
LINE = re.compile(r"^hunt: operations=(\d+) seconds=([\d.]+) rest_kb=(\d+)$", re.MULTILINE)


def one_of(*values: Value) -> DrawFunction:
    return lambda random: random.choice(values)


def about(low: int, high: int) -> DrawFunction:
    """A number whose logarithm is evenly distributed."""
    return lambda random: round(math.exp(random.uniform(math.log(low), math.log(high))))


@dataclass(frozen=True)
class Parameter:
    """An option of bench/hunt. `otherwise` is the program's default: not said in commands."""

    name: str
    otherwise: Value
    plain: Value | None  # what minimising tries first; None: it is only halved
    draw: DrawFunction
    most: int = 0  # of a number that is mutated by a factor; 0: it is drawn anew


PARAMETERS = (
    Parameter("threads", 1, 1, one_of(1, 1, 2, 2, 4, 8, 16)),
    Parameter("size-min", 16, None, about(8, 1 << 20), LARGEST),
    Parameter("size-max", 1024, None, about(8, LARGEST), LARGEST),
    Parameter("sizes", "mixed", "mixed", one_of("mixed", "mixed", "mixed", "rounds")),
    Parameter("alignment", 0, 0, one_of(*[0] * 6, 64, 4096, 65536)),
    Parameter("live", 1000, None, about(1, 200_000), 1 << 22),
    Parameter("lifetime", "random", "fifo", one_of("fifo", "lifo", "random")),
    Parameter("handover", 0, 0, one_of(0, 0, 10, 50, 100)),
    Parameter("realloc", 0, 0, one_of(0, 0, 0, 10, 50, 100)),
    Parameter("calloc", 0, 0, one_of(0, 0, 0, 10, 100)),
    Parameter("burst", "no", "no", one_of("no", "yes")),
    Parameter("idle-ms", 0, 0, one_of(*[0] * 6, 10, 100)),
    Parameter("touch", "ends", "ends", one_of("none", "ends", "all")),
    Parameter("rounds", 1, 1, one_of(1, 1, 2, 4, 8)),
    Parameter("operations", 100_000, None, about(2_000, 2_000_000), 20_000_000),
    Parameter("keep", 0, 0, one_of(0, 0, 1, 5, 20, 50)),
    Parameter("rest", "asleep", "asleep", one_of("asleep", "ended")),
    Parameter("rest-ms", 1000, None, one_of(0)),
    Parameter("seed", 1, 1, one_of(1)),
)
BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}
# Those that a search changes: how long a run rests depends on what is searched for.
SEARCHED = tuple(p for p in PARAMETERS if p.name not in ("rest-ms", "seed"))


def number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def mean_size(values: Mapping[str, Value]) -> float:
    """Bytes of a block; of one size a round, the largest that there may be."""
    low, high = number(values, "size-min"), number(values, "size-max")
    if values["sizes"] == "rounds" or low == high:
        return high
    return (high - low) / math.log(high / low)


def memory_of(values: Mapping[str, Value]) -> float:
    """Bytes that live at once, about."""
    each = mean_size(values) + number(values, "alignment") + TABLE
    return number(values, "threads") * number(values, "live") * each


def seconds_of_operation(values: Mapping[str, Value]) -> float:
    """About: a call, page faults of what is touched, copies and clearing."""
    size = mean_size(values)
    pages = size / 4096 if values["touch"] == "all" else min(2.0, size / 4096)
    moved = (number(values, "realloc") + number(values, "calloc")) / 100 * size
    return 100e-9 + 300e-9 * pages + 0.1e-9 * moved


def fit(values: Parameters, most_bytes: int, cpus: int) -> Parameters:
    """The parameters with what does not go together taken out, and small enough."""
    fitting = dict(values)
    if number(fitting, "size-min") > number(fitting, "size-max"):
        fitting["size-min"], fitting["size-max"] = fitting["size-max"], fitting["size-min"]
    threads = number(fitting, "threads")
    if threads == 1:
        fitting["handover"], fitting["rest"] = 0, "asleep"
    if fitting["rounds"] == 1:
        fitting["idle-ms"], fitting["sizes"] = 0, "mixed"
    each = memory_of(fitting) / number(fitting, "live")
    calls = WORK_SECONDS / seconds_of_operation(fitting) * min(cpus, threads) / threads
    live = min(number(fitting, "live"), int(most_bytes / each), int(calls / 3))
    fitting["live"] = max(1, live)
    operations = int(max(calls / 3, 10) / number(fitting, "rounds"))
    fitting["operations"] = max(1, min(number(fitting, "operations"), operations))
    return fitting


def draw(random: Random) -> Parameters:
    values = {p.name: p.draw(random) for p in PARAMETERS}
    # A range of sizes is as often none, narrow or wide.
    factor = random.choice((1, 1, 2, 8, 64, 1024))
    values["size-max"] = min(LARGEST, number(values, "size-min") * factor)
    return values


def mutate(values: Parameters, random: Random) -> Parameters:
    """One to three parameters changed: numbers by a factor or, one time in four, drawn anew."""
    changed = dict(values)
    for parameter in random.sample(SEARCHED, random.choice((1, 1, 2, 3))):
        before = changed[parameter.name]
        if parameter.most and isinstance(before, int) and random.random() < 0.75:
            factor = 2.0 ** random.gauss(0, 1.5)
            changed[parameter.name] = max(1, min(parameter.most, round(before * factor)))
        else:
            changed[parameter.name] = parameter.draw(random)
    if random.random() < 0.2:
        changed["size-min"] = changed["size-max"]
    return changed


def avoid(values: Parameters, without: Sequence[tuple[str, Value]], random: Random) -> Parameters:
    """What must not be is drawn again, in the order of `without`, until it is something else.

    parse_without has seen that it can be.
    """
    changed = dict(values)
    for name in dict.fromkeys(name for name, _ in without):
        while (name, changed[name]) in without:
            changed[name] = BY_NAME[name].draw(random)
    return changed


def words_of(values: Mapping[str, Value]) -> list[str]:
    """As the program takes them, without what is its default."""
    words: list[str] = []
    for p in PARAMETERS:
        if values[p.name] != p.otherwise:
            words += [f"--{p.name}", str(values[p.name])]
    return words


def parse_words(words: Sequence[str]) -> Parameters:
    """The parameters of a command line; what is wrong with a value the program says."""
    values = {p.name: p.otherwise for p in PARAMETERS}
    if len(words) % 2:
        raise LabError(f"{words[-1]}: its value is missing, or it is one without an option")
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = option.removeprefix("--")
        if not option.startswith("--") or name not in BY_NAME:
            raise LabError(f"{option}: unknown; there are: {', '.join(f'--{p}' for p in BY_NAME)}")
        if isinstance(BY_NAME[name].otherwise, str):
            values[name] = value
        elif value.isascii() and value.isdigit():
            values[name] = int(value)
        else:
            raise LabError(f"{option} {value}: wanted is a whole number")
    return values


def parse_without(items: Sequence[str]) -> tuple[tuple[str, Value], ...]:
    """Values that a search leaves out, each as NAME=VALUE."""
    without: list[tuple[str, Value]] = []
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise LabError(f"--without {item}: wanted is NAME=VALUE")
        without.append((name, parse_words([f"--{name}", value])[name]))
    random = Random(0)
    for name, value in without:
        drawn = {BY_NAME[name].draw(random) for _ in range(TRIED_VALUES)}
        if isinstance(value, str) and value not in drawn:
            accepted = ", ".join(map(str, sorted(drawn)))
            raise LabError(f"--without {name}={value}: accepted: {accepted}")
        if all((name, other) in without for other in drawn):
            raise LabError(f"--without {name}: nothing is left that it could be")
    return tuple(without)


@dataclass
class Started:
    """A run under way."""

    allocator: Allocator
    position: int
    running: Running
    stdout: IO[bytes]
    stderr: IO[bytes]


class HuntTrial:
    """Runs bench/hunt under allocators: in turn, or side by side where only memory is looked at."""

    def __init__(self, launcher: Launcher, side_by_side: int) -> None:
        self.launcher = launcher
        self.side_by_side = side_by_side

    def start(self, stack: ExitStack, row: Row, allocator: Allocator, at: int, warm: int) -> Started:
        stdout = stack.enter_context(tempfile.TemporaryFile())
        stderr = stack.enter_context(tempfile.TemporaryFile())
        running = self.launcher.spawn(
            row.command,
            clean_environment(row.environment, allocator.environment),
            allocator.library,
            self.launcher.cpus,
            stdout,
            stderr,
            warm=warm,
        )
        stack.callback(running.kill)
        return Started(allocator, at, running, stdout, stderr)

    def finish(self, started: Started, round_: int) -> Run:
        report = started.running.report()
        failure = describe_failure(report, read_tail(started.stderr), self.launcher.timeout)
        found = LINE.search(read_tail(started.stdout))
        if failure is None and found is None:
            failure = "its output has no line of hunt"
        figures: dict[str, float] = {}
        if failure is None and found is not None:
            figures = {"work_s": float(found[2]), "rest_kb": float(found[3])}
        reported = {name: report[name] for name in REPORTED}
        name = started.allocator.name
        return Run(name, round_, started.position, **reported, failure=failure, figures=figures)

    def run(
        self,
        row: Row,
        allocators: Sequence[Allocator],
        round_: int,
        memory: float,
        together: bool,
        keep: Callable[[Run], None],
    ) -> None:
        """A round; each run is kept as it ends. `memory`: bytes that live at once; twice as much is
        touched before each run."""
        warm = 0 if together else min(self.launcher.warm, int(memory * 2) >> 20)
        width = self.side_by_side if together else 1
        for first in range(0, len(allocators), width):
            with ExitStack() as stack:
                under_way: list[Started] = []
                for at, allocator in enumerate(allocators[first : first + width], start=first + 1):
                    problem = preload_problem(row.command[0], allocator.library)
                    if problem is not None:
                        failure = f"not preloaded: {problem}"
                        keep(Run(allocator.name, round_, at, failure=failure))
                        continue
                    under_way.append(self.start(stack, row, allocator, at, warm))
                for started in under_way:
                    keep(self.finish(started, round_))


def hunt_row(program: Path, name: str, group: str, values: Mapping[str, Value]) -> Row:
    return Row(name, (str(program), *words_of(values)), "wall", group)
