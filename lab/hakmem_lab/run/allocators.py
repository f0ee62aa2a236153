"""The allocators of a run: glibc, hakmem, the peers of `make peers`, and what a user adds."""

import hashlib
import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, model_validator

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.paths import MARK, Paths
from hakmem_lab.base.reading import read_json
from hakmem_lab.base.shape import Entry, Name, Record, check
from hakmem_lab.run.rows import refuse_unknown, split_list

# What --quick runs when nobody says otherwise.
QUICK = ("glibc", "hakmem", "mimalloc3", "rpmalloc", "snmalloc", "jemalloc")


@dataclass(frozen=True)
class Allocator(Record):
    """What a command runs on: a library to preload (empty: none) and variables."""

    name: Name
    version: str
    source: str
    library: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    missing: str | None = None  # why it cannot be run


# In the place of all of them, where `make peers` has not run.
NO_PEERS = Allocator(
    "peers",
    "unknown",
    "bench/peers",
    missing="not built: make peers builds mimalloc, jemalloc, tcmalloc, snmalloc and rpmalloc",
)


def is_hakmem(allocator: Allocator) -> bool:
    """Whether it is hakmem, in whatever variant: by its name, its library or its variables."""
    sets = any(name.startswith("HAKMEM_") for name in allocator.environment)
    file = Path(allocator.library).name
    ours = file == "libhakmem.so" or file.startswith("libhakmem.so.")  # behind the link
    return sets or allocator.name == "hakmem" or ours


def is_foreign(allocator: Allocator) -> bool:
    """Whether its library, which is there to be looked at, is another project's."""
    if not allocator.library or is_hakmem(allocator):
        return False
    return b"HAKMEM_PROFILE" not in Path(allocator.library).read_bytes()


def glibc() -> Allocator:
    version = (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")
    return Allocator("glibc", version, "the system's C library")


# What a result is made of. Documentation may change during the hours that a run takes.
SOURCES = (
    *("src", "include", "bench", "bindings", "lab", "cmake", "scripts"),
    *("tests/campaigns", "tests/guarantees", "CMakeLists.txt", "Makefile"),
)


def git(root: Path, *words: str) -> str:
    """What it prints; empty without git, and outside a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.rstrip() if done.returncode == 0 else ""


def changed_sources(root: Path, untracked: bool = True) -> list[str]:
    """Files of SOURCES that differ from the commit that is checked out."""
    files = "all" if untracked else "no"
    found = git(root, "status", "--porcelain", f"--untracked-files={files}", "--", *SOURCES)
    return [line[3:] for line in found.splitlines()]


def describe_commit(root: Path) -> str:
    """The commit of the sources, with -dirty when they were changed since; empty without git."""
    commit = git(root, "describe", "--always")
    return f"{commit}-dirty" if commit and changed_sources(root, untracked=False) else commit


def fingerprint(library: Path) -> str:
    """Start of the SHA-256 of the file: tells two builds of one version apart."""
    return hashlib.sha256(library.read_bytes()).hexdigest()[:12]


def hakmem(paths: Paths) -> Allocator:
    text = (paths.root / MARK).read_text(encoding="utf-8")
    found = re.search(r'define HAKMEM_VERSION_STRING\s+"([^"]+)"', text)
    version = found.group(1) if found else "unknown"
    if not paths.hakmem.is_file():
        missing = f"{paths.shown(paths.hakmem)} is not built: run make"
        return Allocator("hakmem", version, "this repository", missing=missing)
    commit = describe_commit(paths.root)
    source = f"{commit + ', ' if commit else ''}sha256 {fingerprint(paths.hakmem)}"
    return Allocator("hakmem", version, source, str(paths.hakmem))


class Peer(Entry):
    """An entry of peers.json: a library, or why there is none."""

    name: Name
    version: str = "unknown"
    source: str = "unknown"
    library: Name | None = None
    missing: Name | None = None

    @model_validator(mode="after")
    def refuse_both_or_none(self) -> "Peer":
        if (self.library is None) == (self.missing is None):
            raise ValueError("an entry with either library or missing")
        return self


def read_peers(paths: Paths) -> list[Allocator]:
    """The peers listed in peers.json; none when `make peers` has not run."""
    file = paths.peers
    if not file.is_file():
        return []
    try:
        entries = check(TypeAdapter(list[Peer]), read_json(file), file)
    except LabError as error:
        raise LabError(f"{error}; `make peers` writes it anew") from None
    peers: list[Allocator] = []
    for entry in entries:
        library = "" if entry.library is None else str(paths.resolve(entry.library))
        missing = entry.missing
        if library and not Path(library).is_file():
            missing, library = f"{entry.library} is not there: run make peers", ""
        peers.append(Allocator(entry.name, entry.version, entry.source, library, missing=missing))
    return peers


def plain_name(name: str) -> str:
    """The scripts call libc's malloc system."""
    return "glibc" if name == "system" else name


def known_allocators(paths: Paths) -> list[Allocator]:
    """glibc, hakmem and the peers, in this order."""
    return [glibc(), hakmem(paths), *read_peers(paths)]


def parse_contender(paths: Paths, name: str, text: str) -> Allocator:
    """An allocator from words: NAME=VALUE sets a variable, any other word is a library's path or
    the name of a known allocator; hakmem's standard build when there is none."""
    environment: dict[str, str] = {}
    base: Allocator | None = None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise LabError(f"{name}: {text!r}: {error}") from None
    known = {allocator.name: allocator for allocator in known_allocators(paths)}
    for word in words:
        variable, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            environment[variable] = value
            continue
        if base is not None:
            raise LabError(f"{name}: {text!r}: one library at most")
        path = Path(word).resolve()
        if word in known:
            base = known[word]
        elif path.is_file():
            base = Allocator(name, "unknown", f"{word}, sha256 {fingerprint(path)}", str(path))
        else:
            raise LabError(
                f"{name}: {word!r} is neither NAME=VALUE, nor a library's path, nor one of"
                f" {', '.join(known)}"
            )
    base = base or known["hakmem"]
    if base.missing:
        raise LabError(f"{name}: {base.missing}")
    settings = " ".join(f"{key}={value}" for key, value in environment.items())
    source = f"{base.source}, {settings}" if settings else base.source
    return replace(base, name=name, source=source, environment=environment)


def select_allocators(paths: Paths, text: str | None, quick: bool) -> list[Allocator]:
    """The allocators of `--allocators`: known names, `all` of them, and NAME=WORDS for others (see
    parse_contender). Without the option all of them; with --quick a few."""
    known = known_allocators(paths)
    names = [allocator.name for allocator in known]
    everything = known if paths.peers.is_file() else [*known, NO_PEERS]
    if text is None:
        return [a for a in everything if not quick or a.name in QUICK or a is NO_PEERS]
    chosen: list[Allocator] = []
    for item in split_list(text):
        if item == "all":
            chosen += everything
            continue
        name, equals, words = item.partition("=")
        if equals:
            chosen.append(parse_contender(paths, name, words))
            continue
        item = plain_name(item)
        if item not in names and not paths.peers.is_file():
            raise LabError(
                f"--allocators: {item!r} is unknown; there are: {', '.join(names)};"
                f" peers are {NO_PEERS.missing}"
            )
        refuse_unknown("--allocators", [item], names)
        chosen.append(known[names.index(item)])
    labels = [allocator.name for allocator in chosen]
    if not chosen or len(set(labels)) != len(labels):
        raise LabError(f"--allocators {text}: wanted is a list of different names")
    return chosen
