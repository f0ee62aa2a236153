"""The programs of this folder: what is promised of them, how one is run, what came of it."""

import dataclasses
import os
import re
import resource
import signal
import subprocess
import tomllib
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "expected.toml"
TIERS = {"small": ["tiny", "mid"], "big": ["large", "huge"]}
MODES = ("standard", "off", "light", "full")
LIKE = {"off": "standard", "full": "light"}  # where nothing else is said
VERDICTS = ("stopped", "prevented", "improbable", "not covered")
FAULT = "fault"
NOT_COVERED = "not covered"
TIMEOUT = 60  # seconds; the longest takes two
STOPS = (signal.SIGABRT, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS)
FAULTS = (signal.SIGSEGV, signal.SIGBUS)
# What sets an allocator up must not come from the caller.
OTHERS = (
    "HAKMEM_",
    "MALLOC_",
    "MIMALLOC_",
    "SCUDO_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
)


class BadTable(Exception):
    """expected.toml is wrong; the text says where."""


def tiers_of(words: list[str]) -> list[str]:
    return [tier for word in words for tier in TIERS.get(word, [word])]


@dataclasses.dataclass
class Guarantee:
    """One program."""

    name: str
    attack: str
    tiers: list[str]
    what: list[str]  # the messages that it may be stopped with; FAULT
    promises: dict[str, dict[str, str]]  # mode -> tier -> one of VERDICTS
    pending: dict[str, str]  # mode -> reason
    of_hakmem: bool
    copies: bool = False  # with the library that checks copies, where there is one

    def is_tried(self, mode: str) -> bool:
        """In off without any promise only twins would be run, which standard runs."""
        return mode != "off" or set(self.promises[mode].values()) != {NOT_COVERED}


def read_promise(name: str, entry: dict, mode: str, tiers: list[str]) -> dict[str, str]:
    given = entry.get(mode, entry.get(LIKE.get(mode, mode)))
    if isinstance(given, str):
        given = dict.fromkeys(tiers, given)
    if not isinstance(given, dict):
        raise BadTable(f"{name}: no promise for {mode}")
    found = {tier: word for key, word in given.items() for tier in TIERS.get(key, [key])}
    if found.keys() != set(tiers) or not set(found.values()) <= set(VERDICTS):
        raise BadTable(f"{name}: {mode}: wanted is one of {VERDICTS} for each of {tiers}")
    return found


KEYS = {"name", "class", "tiers", "what", "pending", "of_hakmem", "copies", *MODES}


def load(path: Path = TABLE) -> list[Guarantee]:
    with open(path, "rb") as file:
        table = tomllib.load(file)
    messages = table["messages"] | {FAULT: FAULT}
    found = []
    for entry in table["guarantee"]:
        name = entry["name"]
        if unknown := entry.keys() - KEYS:
            raise BadTable(f"{name}: unknown {sorted(unknown)}")
        tiers = tiers_of(entry.get("tiers", ["tiny"]))
        if unknown := [key for key in entry.get("what", []) if key not in messages]:
            raise BadTable(f"{name}: what: unknown {unknown}; known: {sorted(messages)}")
        pending = entry.get("pending", {})
        if not pending.keys() <= set(MODES):
            raise BadTable(f"{name}: pending: modes are {MODES}")
        found.append(
            Guarantee(
                name,
                entry["class"],
                tiers,
                [messages[key] for key in entry.get("what", [])],
                {mode: read_promise(name, entry, mode, tiers) for mode in MODES},
                pending,
                entry.get("of_hakmem", False),
                entry.get("copies", False),
            )
        )
    names = [guarantee.name for guarantee in found]
    if len(set(names)) < len(names):
        raise BadTable(f"a program twice: {sorted({n for n in names if names.count(n) > 1})}")
    sources = {file.stem for end in ("*.c", "*.cpp") for file in path.parent.glob(end)}
    if different := (sources - {"guarantee"}) ^ set(names):
        raise BadTable(f"a program without promises, or the other way round: {sorted(different)}")
    return found


@dataclasses.dataclass
class Outcome:
    """What came of one run. kind: detected, fault (at the access that is the mistake), crashed (by
    such a signal elsewhere), survived, harm, well, untried, hung or other."""

    kind: str
    text: str
    due: tuple[str, str] = ("-", "-")  # function and pointer that a message may name

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


def judge(code: int, stdout: str, stderr: str) -> Outcome:
    # The dynamic linker goes on without it: libc's allocator would be judged.
    if "cannot be preloaded" in stderr:
        return Outcome("other", stderr.splitlines()[0])
    lines = stdout.splitlines()
    announced = [line.split() for line in lines if line.startswith("due ")]
    due = (announced[-1][1], announced[-1][2]) if announced else ("-", "-")
    if code < 0:
        name = signal.Signals(-code).name
        first = stderr.strip().splitlines()
        if -code in STOPS:
            return Outcome("detected", "\n".join(first) or name, due)
        if -code in FAULTS:
            at_access = lines and lines[-1] == "access"
            return Outcome("fault" if at_access else "crashed", name, due)
        return Outcome("other", f"ended by {name}", due)
    last = lines[-1] if lines else ""
    kind, _, text = last.partition(": ")
    if (code, kind) in ((0, "survived"), (0, "well"), (1, "harm"), (3, "harm")):
        return Outcome(kind, text, due)
    if code == 2 and kind == "not tried":
        return Outcome("untried", text, due)
    if stderr.strip():
        # An allocator that ends the process by itself, without a signal.
        return Outcome("detected", stderr.strip(), due)
    return Outcome("other", f"ended with {code}, said {last!r}", due)


def environment(library: str, more: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    return kept | more | ({"LD_PRELOAD": library} if library else {})


def without_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(program: Path, tier: str, twin: bool, library: str, more: dict[str, str]) -> Outcome:
    command = [str(program), tier, *(["twin"] if twin else [])]
    try:
        done = subprocess.run(
            command,
            env=environment(library, more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            preexec_fn=without_core,
        )
    except subprocess.TimeoutExpired:
        return Outcome("hung", f"not done after {TIMEOUT} s")
    return judge(done.returncode, done.stdout, done.stderr)


# What is in parentheses there differs with the size of the block.
MESSAGE = re.compile(r"hakmem: ([a-z_]+)\(\): (0x[0-9a-f]+): (.*?)(?: \(\d+ bytes; room for \d+\))?")


def is_kept(verdict: str, guarantee: Guarantee, outcome: Outcome) -> bool:
    """Is this what was promised? Of a message, every word counts."""
    if outcome.kind == "fault":
        return FAULT in guarantee.what
    if outcome.kind == "detected":
        found = MESSAGE.fullmatch(outcome.text)
        if found is None or found[3] not in guarantee.what:
            return False
        function, pointer = outcome.due
        return function in ("-", found[1]) and pointer in ("-", found[2])
    return outcome.kind == "survived" and verdict != "stopped"
