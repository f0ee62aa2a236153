#!/usr/bin/env python3
"""Builds the allocators that hakmem is measured against, each as a library to preload.

Usage: build_peers.py [--only NAME|GROUP]... [--jobs N] [--table FILE] [--output FOLDER] [--untuned]
                      [--tried FILE] [--list]

Reads bench/peers/peers.toml; writes FOLDER/lib<name>.so and FOLDER/peers.json (build/peers by
default): a list with name, version, source, and `library`, or `missing` with the reason. Peers of a
group are built only when they or the group are named, and go to FOLDER/<group>.json. What
cannot be built is reported as missing, the rest go on, and the exit code is 0; it is 2 when the
arguments or the table are wrong. Crates come through cargo, at the versions in each Cargo.lock;
wheels through pip, with the hashes in each requirements.txt; Debian's libraries are used as installed. With --untuned crates are compiled with less optimisation and
past ccache, which from nothing takes a third less time: for tests, and never to be measured. With --tried a
crate is not built again whose key stands in FILE: the same recipe, crates, script and compiler passed before.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / "peers"
# Without these a library cannot stand in for malloc. (Not reallocarray: libc's calls realloc.)
REQUIRED = (
    *("malloc", "free", "calloc", "realloc", "memalign"),
    *("aligned_alloc", "posix_memalign", "malloc_usable_size"),
)
# They would change what is built, or end up in it.
LEFT_OUT = (
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "RUSTFLAGS",
    "LD_PRELOAD",
    "CARGO_TARGET_DIR",
)
FEW_HAVE = ("group", "crate_sources", "include", "untuned", "wheel")
UNTUNED = "-O1"  # behind all other flags; with -O0, jemalloc's functions in headers take four times as long
BUILD_SECONDS = 3600  # no build takes a tenth of it; a registry that hangs must not hang the rest


class BadTable(Exception):
    """The table or an argument is wrong; the text says what, and what is accepted."""


class Missing(Exception):
    """A peer cannot be had; the text is the reason, one line."""


@dataclasses.dataclass
class Peer:
    """One entry of peers.toml: a crate (project, crate, ...), a package (package, library), or a wheel, which brings
    the library as it is (project, wheel, library)."""

    name: str
    group: str = ""  # left out unless asked for
    project: str = ""  # folder of Cargo.toml, relative to the table
    crate: str = ""
    features: list[str] = dataclasses.field(default_factory=list)
    archive: str = ""  # in the crate's build folder; becomes the library
    cmake_target: str = (
        ""  # instead of archive: a library that the crate's own CMake tree can build
    )
    cflags: str = ""
    cxxflags: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)  # {project}: that folder
    sources: list[str] = dataclasses.field(
        default_factory=list
    )  # C files of ours beside Cargo.toml
    crate_sources: list[str] = dataclasses.field(default_factory=list)  # that its build leaves out
    include: list[str] = dataclasses.field(default_factory=list)  # folders of the crate, for these
    libraries: list[str] = dataclasses.field(default_factory=list)  # arguments of the linker
    version: dict[str, Any] = dataclasses.field(default_factory=dict)
    package: str = ""
    wheel: str = ""
    library: str = ""
    untuned: bool = False  # --untuned

    def check(self) -> None:
        def refuse(text: str) -> None:
            raise BadTable(f"peer {self.name or '?'}: {text}")

        for word in (self.name, self.group or "none"):
            if not re.fullmatch(r"[a-z0-9-]+", word):
                refuse("name is not made of a-z, 0-9 and -")
        if sum(map(bool, (self.crate, self.package, self.wheel))) != 1:
            refuse("needs one of crate (with project), package (with library) and wheel (with both)")
        if self.crate and (not self.project or bool(self.archive) == bool(self.cmake_target)):
            refuse("needs project, and archive or cmake_target")
        if self.crate and len({"symbol", "file", "crate"} & self.version.keys()) != 1:
            refuse("version needs one of symbol, file, crate")
        if "file" in self.version and "pattern" not in self.version:
            refuse("version of a file needs a pattern")
        if not self.crate and not self.library:
            refuse("needs library, the file's name in the package or wheel")
        if self.wheel and not self.project:
            refuse("needs project, the folder of requirements.txt")
        if self.wheel and self.version.keys() != {"symbol"}:
            refuse("version of a wheel's library needs symbol")


def load_table(path: Path) -> list[Peer]:
    try:
        with open(path, "rb") as file:
            entries = tomllib.load(file).get("peer", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadTable(f"{path}: {error}") from None
    known = {field.name for field in dataclasses.fields(Peer)} - {"untuned"}
    peers = []
    for entry in entries:
        if unknown := entry.keys() - known:
            raise BadTable(f"{path}: unknown {sorted(unknown)}; known: {sorted(known)}")
        peers.append(Peer(**{"name": "", **entry}))
        peers[-1].check()
    names = [peer.name for peer in peers]
    if not peers or len(set(names)) < len(names):
        raise BadTable(f"{path}: no peer, or a name twice: {names}")
    if mixed := {"peers", *names} & {peer.group for peer in peers}:
        raise BadTable(f"{path}: a group with the name of something else: {sorted(mixed)}")
    return peers


@dataclasses.dataclass
class Tried:
    """Keys of peers that were built and tried before, and the file that has them."""

    path: Path
    keys: dict[str, str]


def load_tried(path: Path) -> Tried:
    try:
        with open(path, "rb") as file:
            return Tried(path.absolute(), {name: str(key) for name, key in tomllib.load(file).items()})
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadTable(f"{path}: {error}") from None


def useful_line(output: str) -> str:
    """The line of a failed build that says most: a compiler's error, else cargo's, or the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for pattern in (
        r": (fatal )?error: |^CMake Error|undefined reference|: not found$|is not installed",
        r"^error(\[E\d+\])?: (?!failed to run custom build|could not compile)",
        r"^error|^ERROR: |panicked at",
    ):
        for number, line in enumerate(lines):
            if re.search(pattern, line):
                # CMake says what is wrong in the next line.
                more = f" {lines[number + 1]}" if line.endswith(":") and lines[number + 1 :] else ""
                return (line + more)[:300]
    return lines[-1][:300] if lines else "no output"


def run(command: list[str], log: Path, what: str, **options: Any) -> str:
    """Runs a command of a build and gives its standard output; both outputs are kept in `log`."""
    try:
        done = subprocess.run(
            command,
            text=True,
            errors="replace",
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=BUILD_SECONDS,
            **options,
        )
    except FileNotFoundError:
        raise Missing(f"{what}: {command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{what}: not done after {BUILD_SECONDS} s") from None
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(command)}\n{done.stderr}{done.stdout}\n")
    if done.returncode:
        reason = useful_line(done.stderr + done.stdout)
        raise Missing(f"{what}: {reason}")
    return str(done.stdout)


def clean_environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    return kept | {name: value for name, value in changes.items() if value}


@dataclasses.dataclass
class Crate:
    """A crate that cargo has built."""

    version: str
    source: Path  # its sources, as cargo unpacked them
    out: Path  # where its build script put what it built


def named_package(package_id: str) -> tuple[str, str]:
    """Name and version from cargo's package id: ...#name@version, or .../name#version."""
    address, _, fragment = package_id.rpartition("#")
    name, _, version = fragment.rpartition("@")
    return name or address.rpartition("/")[2], version


def build_crate(peer: Peer, project: Path, folder: Path, log: Path, jobs: int) -> Crate:
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--message-format=json-render-diagnostics",
    ]
    command += ["--jobs", str(jobs), "--target-dir", str(folder / "target")]
    command += ["--manifest-path", str(project / "Cargo.toml")]
    if peer.features:
        command += ["--features", ",".join(peer.features)]
    extra = {key: value.format(project=project) for key, value in peer.environment.items()}
    if shutil.which("ccache") and not peer.untuned:
        # The crates are unpacked to the same place for every checkout, so these come from one cache.
        for name, compiler in (("CC", "cc"), ("CXX", "c++")):
            extra[name] = f"ccache {os.environ.get(name) or compiler}"
        extra |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
    less = f" {UNTUNED}" if peer.untuned else ""
    environment = clean_environment(CFLAGS=peer.cflags + less, CXXFLAGS=peer.cxxflags + less, **extra)
    output = run(command, log, "cargo build", env=environment)
    crate = Crate("", Path(), Path())
    for line in output.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        name, version = named_package(message.get("package_id", ""))
        if name != peer.crate:
            continue
        if message["reason"] == "build-script-executed":
            crate.out, crate.version = Path(message["out_dir"]), version.partition("+")[0]
        elif message["reason"] == "compiler-artifact":
            crate.source = Path(message["manifest_path"]).parent
    if not crate.version:
        raise Missing(f"cargo build: {project.name} does not use the crate {peer.crate}")
    return crate


def link(peer: Peer, project: Path, crate: Crate, result: Path, log: Path) -> None:
    """The whole archive, our sources and more of the crate's, as a shared library."""
    archive = crate.out / peer.archive
    if not archive.is_file():
        raise Missing(f"the crate's build made no {peer.archive}")
    # Bsymbolic: calls inside of the library go straight to their target, as with hidden symbols.
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", "-o", str(result)]
    command += [
        "-Wl,-Bsymbolic,-z,defs,--as-needed",
        f"-Wl,--version-script={PEERS / 'exports.map'}",
    ]
    command += [str(project / source) for source in peer.sources]
    command += [f"-I{crate.source / folder}" for folder in peer.include]
    command += [str(crate.source / source) for source in peer.crate_sources]
    command += ["-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive"]
    command += [*peer.libraries, "-pthread"]
    run(command, log, "link", env=clean_environment())


def replace_if_changed(new: Path, library: Path) -> None:
    """By renaming: programs that run on the old library go on. Not when both are the same."""
    if library.is_file() and library.read_bytes() == new.read_bytes():
        new.unlink()
    else:
        new.replace(library)


def probe(probe_binary: Path, library: Path, log: Path) -> dict[str, str]:
    """Runs probe.c on the library: function -> file it is in, and the versions it knows."""
    output = run(
        [str(probe_binary)], log, "probe", env=clean_environment() | {"LD_PRELOAD": str(library)}
    )
    found = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    for function in REQUIRED:
        where = found.get(function, "nothing")
        if where == "nothing" or not os.path.samefile(where, library):
            raise Missing(
                f"probe: {function} comes from {os.path.basename(where)}, not from {library.name}"
            )
    return found


def version_of(peer: Peer, crate: Crate, found: dict[str, str]) -> str:
    how = peer.version
    if "crate" in how:
        version = crate.version
    elif "symbol" in how:
        if how["symbol"] not in found:
            raise Missing(f"version: the library has no {how['symbol']}")
        version = found[how["symbol"]]
        # jemalloc: version-commits since-g and the commit; 0 commits since is the release.
        version = re.sub(r"-0-g[0-9a-f]{40}$", "", version)
    else:
        try:
            text = (crate.source / how["file"]).read_text(encoding="utf-8")
        except OSError as error:
            raise Missing(f"version: {error.strerror}: {how['file']}") from None
        match = re.search(how["pattern"], text, re.MULTILINE)
        if match is None:
            raise Missing(f"version: nothing in {how['file']} matches {how['pattern']}")
        version = match[1]
    return str(how.get("prefix", "") + version + how.get("suffix", ""))


def recipe_of(peer: Peer, project: Path) -> str:
    """Other flags or another crate: cargo and the crates' scripts do not notice all of these."""
    # What few peers have is not in the recipes of the others, which were built without it.
    fields = dataclasses.asdict(peer)
    fields = {key: value for key, value in fields.items() if value or key not in FEW_HAVE}
    return json.dumps(fields) + "".join(
        path.read_text() for path in sorted(project.glob("*")) if path.is_file()
    )


def key_of(peer: Peer, table: Path, tried: Path) -> str:
    """Of all that decides what is built, and how it is tried: the recipe has Cargo.lock in it, which has the crates' sums; the tests
    lie beside the file of keys."""
    parts = [recipe_of(peer, table.parent / peer.project)]
    beside = {*table.parent.iterdir(), *tried.parent.iterdir()} - {table, tried, table.parent / "README.md"}
    for path in (Path(__file__), *sorted(path for path in beside if path.is_file())):
        parts.append(path.read_text(encoding="utf-8"))
    for name, compiler in (("CC", "cc"), ("CXX", "c++")):
        command = [*shlex.split(os.environ.get(name) or compiler), "--version"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            parts.append(done.stdout.partition("\n")[0])
        except OSError:
            parts.append("none")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def fresh_folder(folder: Path, recipe: str) -> None:
    """The folder anew, if it is of another recipe."""
    remembered = folder / "recipe"
    if not remembered.is_file() or remembered.read_text() != recipe:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        remembered.write_text(recipe)


def make_from_crate(
    peer: Peer, table: Path, output: Path, jobs: int, tried: Tried | None
) -> dict[str, str]:
    project = table.parent / peer.project
    folder = output / peer.name
    if tried and peer.name in tried.keys and not (output / f"lib{peer.name}.so").is_file():
        key = key_of(peer, table, tried.path)
        if tried.keys[peer.name] == key:
            raise Missing("the same was built and tried before")
        print(f"(key {key})", end=" ", flush=True)
    fresh_folder(folder, recipe_of(peer, project))
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    crate = build_crate(peer, project, folder, log, jobs)
    library = output / f"lib{peer.name}.so"
    new = folder / library.name
    if peer.cmake_target:
        command = ["cmake", "--build", str(crate.out / "build"), "--target", peer.cmake_target]
        run([*command, "-j", str(jobs)], log, "cmake --build", env=clean_environment())
        built = crate.out / "build" / f"lib{peer.cmake_target}.so"
        if not built.is_file():
            raise Missing(f"the crate's build made no {built.name}")
        shutil.copyfile(built, new)
    else:
        link(peer, project, crate, new, log)
    replace_if_changed(new, library)
    version = version_of(peer, crate, probe(output / "probe", library, log))
    return {
        "version": version,
        "source": f"crate {peer.crate} {crate.version}",
        "library": str(library),
    }


def take_from_wheel(peer: Peer, table: Path, output: Path) -> dict[str, str]:
    project = table.parent / peer.project
    folder = output / peer.name
    fresh_folder(folder, recipe_of(peer, project))
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    if not list(folder.glob("*.whl")):
        # An environment of its own: Debian's Python comes without pip.
        python = folder / "venv" / "bin" / "python"
        run([sys.executable, "-m", "venv", str(folder / "venv")], log, "venv")
        command = [str(python), "-m", "pip", "--no-input", "--disable-pip-version-check", "download"]
        command += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(folder)]
        run([*command, "--requirement", str(project / "requirements.txt")], log, "pip download")
        shutil.rmtree(folder / "venv")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if name.rpartition("/")[2] == peer.library]
        if len(inside) != 1:
            raise Missing(f"{wheel.name} has {len(inside)} files {peer.library}")
        new = folder / f"lib{peer.name}.so"
        new.write_bytes(archive.read(inside[0]))
    library = output / new.name
    replace_if_changed(new, library)
    version = version_of(peer, Crate("", Path(), Path()), probe(output / "probe", library, log))
    return {
        "version": version,
        "source": f"PyPI {peer.wheel} {wheel.name.split('-')[1]}",
        "library": str(library),
    }


def find_in_package(peer: Peer, output: Path) -> dict[str, str]:
    folder = output / peer.name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    if not shutil.which("dpkg-query"):
        raise Missing("not Debian: there is no dpkg-query")
    try:
        version = run(["dpkg-query", "-W", "-f", "${Version}", peer.package], log, "dpkg-query")
        files = run(["dpkg-query", "-L", peer.package], log, "dpkg-query").splitlines()
    except Missing:
        version, files = "", []
    if not version:
        raise Missing(f"package {peer.package} is not installed")
    library = next((file for file in files if os.path.basename(file) == peer.library), None)
    if library is None:
        raise Missing(f"package {peer.package} {version} has no {peer.library}")
    probe(output / "probe", Path(library), log)
    # 2.10-1 and 2.0.9+ds-2: upstream's version is what stands before Debian's own additions.
    upstream = re.split(r"\+|-(?=[^-]*$)", version.partition(":")[2] or version)[0]
    return {"version": upstream, "source": f"Debian {peer.package} {version}", "library": library}


def relative(path: str) -> str:
    """Below the checkout relative to it, so that results do not name the machine's folders."""
    resolved = Path(path).absolute()
    return str(resolved.relative_to(ROOT)) if resolved.is_relative_to(ROOT) else path


def make_peer(
    peer: Peer, table: Path, output: Path, jobs: int, tried: Tried | None
) -> dict[str, str]:
    """The peer's entry of peers.json."""
    entry = {"name": peer.name}
    try:
        if peer.package:
            made = find_in_package(peer, output)
        elif peer.wheel:
            made = take_from_wheel(peer, table, output)
        else:
            made = make_from_crate(peer, table, output, jobs, tried)
        return entry | made | {"library": relative(made["library"])}
    except Missing as reason:
        # A library of an earlier build would be measured under a version that nobody asked for.
        (output / f"lib{peer.name}.so").unlink(missing_ok=True)
        source = f"Debian {peer.package}" if peer.package else f"PyPI {peer.wheel}" if peer.wheel else f"crate {peer.crate}"
        return entry | {"version": "unknown", "source": source, "missing": str(reason)}


def read_entries(path: Path) -> dict[str, dict[str, str]]:
    try:
        return {entry["name"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def write_entries(path: Path, names: list[str], made: dict[str, dict[str, str]]) -> None:
    """What was made now, and what was made before of the others."""
    entries = read_entries(path) | made
    kept = [entries[name] for name in names if name in entries]
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    new.replace(path)
    missing = sum("missing" in entry for entry in kept)
    print(f"peers: {relative(str(path))}: {len(kept) - missing} ready, {missing} missing")


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="build_peers.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="this one, or this group; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--table", type=Path, default=PEERS / "peers.toml", metavar="FILE")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "peers", metavar="FOLDER")
    parser.add_argument(
        "--untuned", action="store_true", help="with less optimisation: not to be measured"
    )
    parser.add_argument(
        "--tried", type=Path, metavar="FILE", help="keys of peers that are not built again"
    )
    parser.add_argument("--list", action="store_true", help="names only; builds nothing")
    parsed = parser.parse_args(arguments)
    if parsed.jobs < 1:
        parser.error(f"--jobs: {parsed.jobs}: at least 1")
    return parsed


def main(arguments: list[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    try:
        peers = load_table(parsed.table)
        names = [peer.name for peer in peers]
        tried = load_tried(parsed.tried) if parsed.tried else None
        groups = list(dict.fromkeys(peer.group for peer in peers))
        for name in parsed.only or []:
            if name not in (*names, *groups):
                known = " ".join(filter(None, [*names, *groups]))
                raise BadTable(f"--only: no peer '{name}'; there are: {known}")
    except BadTable as error:
        print(f"build_peers: {error}", file=sys.stderr)
        return 2
    if parsed.list:
        print("\n".join(names))
        return 0

    output, table = parsed.output.absolute(), parsed.table.absolute()
    output.mkdir(parents=True, exist_ok=True)
    log = output / "probe.log"
    log.unlink(missing_ok=True)
    compiler = os.environ.get("CC", "cc")
    source = str(PEERS / "probe.c")
    try:
        run(
            [
                compiler,
                "-std=gnu11",
                "-O1",
                source,
                "-o",
                str(output / "probe"),
                "-pthread",
                "-ldl",
            ],
            log,
            "probe.c",
        )
    except Missing as error:
        print(f"build_peers: {error}", file=sys.stderr)
        return 1

    only = parsed.only or [""]  # those of no group
    wanted = [peer for peer in peers if peer.name in only or peer.group in only]
    for peer in wanted:
        peer.untuned = parsed.untuned
    made: dict[str, dict[str, str]] = {}
    for number, peer in enumerate(wanted, 1):
        print(f"peers: [{number}/{len(wanted)}] {peer.name} ...", end=" ", flush=True)
        started = time.monotonic()
        entry = made[peer.name] = make_peer(peer, table, output, parsed.jobs, tried)
        seconds = time.monotonic() - started
        took = f" ({seconds:.0f} s)" if seconds >= 2 else ""
        if "missing" in entry:
            print(f"missing: {entry['missing']}{took}", flush=True)
        else:
            print(f"{entry['version']}, {entry['source']}{took}", flush=True)
    for group in groups:
        of_group = [peer.name for peer in peers if peer.group == group]
        if made.keys() & set(of_group):
            write_entries(output / f"{group or 'peers'}.json", of_group, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
