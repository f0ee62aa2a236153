#!/usr/bin/env python3
"""Makes the inputs of the real programs in bench/programs.toml, and checks these.

Usage: make_bench_inputs.py [--inputs FOLDER] [NAME...]     these inputs; all without a name
       make_bench_inputs.py [--inputs FOLDER] --list
       make_bench_inputs.py [--inputs FOLDER] --check [--preload LIBRARY] [PROGRAM...]

Inputs are files or folders in FOLDER (build/bench/inputs); the same bytes each time, and made once:
what is there already is left alone unless the way to make it has changed. --check makes what the
programs need and runs each of them once, on libc's allocator unless --preload names another: its
processor time in seconds, its peak memory in MB, size and sum of what it wrote. Programs that are
not installed are reported and are no error.
"""

import argparse
import dataclasses
import hashlib
import inspect
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "bench" / "programs"
TABLE = ROOT / "bench" / "programs.toml"
# Small inputs of the same kinds, and the documents of the demo.
MAKE_DATA = ROOT / "tests" / "programs" / "inputs" / "make_data.py"
MAKE_DOCUMENTS = ROOT / "scripts" / "demo" / "make_input.py"
# Not the caller's: where python3 is a script that looks for Python, that would be measured.
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
RUN_SECONDS = 120

sys.path.insert(0, str(SCRIPTS))
import generate  # noqa: E402  (it lies with the programs' own scripts)


class Failed(Exception):
    """What a user can act on, one line."""


@dataclasses.dataclass
class Input:
    """One input: `make` writes it to a path; `seed` is what else decides its content."""

    make: Callable[[Path], None]
    seed: tuple[str, ...] = ()

    def recipe(self) -> str:
        """Changes when the content would."""
        parts = [inspect.getsource(self.make), *self.seed]
        for file in (MAKE_DATA, MAKE_DOCUMENTS, SCRIPTS / "generate.py"):
            parts.append(file.read_text(encoding="utf-8"))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


INPUTS: dict[str, Input] = {}


def run(command: list[str], folder: Path, output: Path | None = None, **changes: str) -> None:
    """Runs a command in `folder`, its output into a file."""
    environment = {"PATH": SEARCH_PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8", **changes}
    try:
        with open(output or os.devnull, "wb") as file:
            subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                check=True,
            )
    except FileNotFoundError:
        raise Failed(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise Failed(f"{command[0]} failed: {lines[-1][:200]}") from None


def add(name: str, *seed: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def register(make: Callable[[Path], None]) -> Callable[[Path], None]:
        INPUTS[name] = Input(make, seed)
        return make

    return register


def add_data(name: str, kind: str, count: int) -> None:
    """A file of tests/programs/inputs/make_data.py."""

    def make(path: Path) -> None:
        run([sys.executable, "-B", str(MAKE_DATA), kind, str(count)], path.parent, path)

    INPUTS[name] = Input(make, (kind, str(count)))


def add_document(name: str) -> None:
    """A file of scripts/demo/make_input.py, which makes all of them in one go."""

    def make(path: Path) -> None:
        folder = path.parent
        with tempfile.TemporaryDirectory(dir=folder) as made:
            run([sys.executable, "-B", str(MAKE_DOCUMENTS)], Path(made))
            for file in Path(made).iterdir():
                file.replace(path if file.name == name else folder / file.name)
                if file.name != name:
                    remember(folder, file.name)

    INPUTS[name] = Input(make)


def add_script(script: Path) -> None:
    """A file of bench/programs/ or scripts/demo/."""

    def make(path: Path) -> None:
        shutil.copyfile(script, path)

    INPUTS[script.name] = Input(make, (script.read_text(encoding="utf-8"),))


for script in sorted(SCRIPTS.iterdir()):
    if script.is_file() and script.name != "generate.py":
        add_script(script)
for shared in ("trees.lua", "words.pl"):
    add_script(MAKE_DOCUMENTS.parent / shared)
for document in ("people.json", "few_people.json", "lines.txt", "rows.csv"):
    add_document(document)
add_data("functions.c", "c", 75)
add_data("few_functions.c", "c", 90)
add_data("classes.cc", "cxx", 8)
add_data("rows.json", "json", 180_000)
add_data("rows.xml", "xml", 400_000)
add_data("few_rows.xml", "xml", 150_000)
add_data("pages.ps", "ps", 50)
add_data("picture.ppm", "ppm", 1200)
add_data("graph.dot", "dot", 4000)
add_data("manual.1", "troff", 2000)
add_data("functions.asm", "asm", 300)


@add("objects")
def make_objects(path: Path) -> None:
    """A folder of object files to be linked."""
    path.mkdir()
    source = path / "part.s"
    for part in range(generate.PARTS):
        source.write_text(generate.assembler(part))
        run(["as", "part.s", "-o", f"part{part}.o"], path)
    source.unlink()


@add("repository.git")
def make_repository(path: Path) -> None:
    """A bare git repository."""
    path.mkdir()
    source = path / "stream"
    source.write_text(generate.git_history())
    run(["git", "init", "-q", "--bare", "-b", "main", "."], path)
    run(["sh", "-c", "git fast-import --quiet --done <stream"], path)
    source.unlink()
    run(["git", "config", "gc.auto", "0"], path)


@add("statements.sql")
def make_statements(path: Path) -> None:
    path.write_text(generate.statements())


@add("classes.java")
def make_java(path: Path) -> None:
    path.write_text(generate.java())


@add("queens.smt2")
def make_queens(path: Path) -> None:
    path.write_text(generate.queens())


@add("checked")
def make_checked(path: Path) -> None:
    """A folder of C++ files."""
    path.mkdir()
    for part in range(5):
        (path / f"part{part}.cpp").write_text(generate.checked(part))


# --- making them --------------------------------------------------------------------------------


def stamp(folder: Path, name: str) -> Path:
    return folder / ".made" / name


def remember(folder: Path, name: str) -> None:
    stamp(folder, name).parent.mkdir(exist_ok=True)
    stamp(folder, name).write_text(INPUTS[name].recipe())


def is_made(folder: Path, name: str) -> bool:
    mark = stamp(folder, name)
    return (folder / name).exists() and mark.is_file() and mark.read_text() == INPUTS[name].recipe()


def make_input(folder: Path, name: str) -> None:
    """Makes one input that is not there yet. What is half made has no stamp, and is made again."""
    path = folder / name
    stamp(folder, name).unlink(missing_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    INPUTS[name].make(path)
    remember(folder, name)


def make_inputs(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not is_made(folder, name)]
    shown = sys.stderr.isatty() or len(missing) > 3
    for number, name in enumerate(missing, 1):
        if is_made(folder, name):  # came along with another
            continue
        if shown:
            print(f"inputs: [{number}/{len(missing)}] {name}", file=sys.stderr, flush=True)
        try:
            make_input(folder, name)
        except Failed as error:
            raise Failed(f"{name}: {error}") from None


# --- checking the table -------------------------------------------------------------------------


@dataclasses.dataclass
class Program:
    """One entry of bench/programs.toml."""

    name: str
    command: list[str]
    kind: str
    needs: list[str]
    prepare: list[list[str]] = dataclasses.field(default_factory=list)


def load_programs(path: Path = TABLE) -> list[Program]:
    with open(path, "rb") as file:
        entries = tomllib.load(file)["program"]
    programs = [Program(**entry) for entry in entries]
    for program in programs:
        for word in itertools.chain(program.command, *program.prepare):
            word.format(inputs="", work="")  # no other name in braces
    return programs


@dataclasses.dataclass
class Used:
    """What one run took."""

    cpu: float  # seconds, user and system
    peak: float  # MB, of the largest process
    digest: str  # over the output and the files that it wrote
    size: int  # bytes of these


def sum_of(folder: Path) -> tuple[str, int]:
    """A sum over the files of a folder, and their size in bytes."""
    digest, size = 0, 0
    for path in sorted(
        path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    ):
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest, size = zlib.crc32(block, digest), size + len(block)
    return f"{digest:08x}", size


def run_once(program: Program, inputs: Path, preload: str) -> Used:
    """Runs a program on the library `preload`, or on libc's allocator, in a fresh folder."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as work:
        command = [word.format(inputs=inputs, work=work) for word in program.command]
        environment = {"PATH": SEARCH_PATH, "HOME": work, "LC_ALL": "C.UTF-8", "TMPDIR": work}
        if preload:
            environment["LD_PRELOAD"] = preload
        output = Path(work) / ".output"
        with open(output, "wb") as file, open(Path(work) / ".errors", "w+b") as errors:
            process = subprocess.Popen(
                command,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=errors,
                start_new_session=True,
            )
            alarm = threading.Timer(RUN_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
            alarm.start()
            # With what its own children took.
            _, status, used = os.wait4(process.pid, 0)
            alarm.cancel()
            process.returncode = code = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            note = errors.read().decode(errors="replace").strip()[-200:]
            if code != 0:
                raise Failed(
                    f"ended with {code}: {note.splitlines()[-1] if note else 'no message'}"
                )
        digest, size = sum_of(Path(work))
        return Used(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, digest, size)


def check(folder: Path, names: list[str], preload: str) -> int:
    programs = load_programs()
    known = [program.name for program in programs]
    for name in names:
        if name not in known:
            raise Failed(f"no program '{name}' in {TABLE.name}; there are: {' '.join(known)}")
    failures = 0
    print(f"{'program':<20}{'kind':<14}{'CPU s':>7}{'peak MB':>9}{'output MB':>11}  sum")
    for program in programs:
        if names and program.name not in names:
            continue
        absent = [name for name in program.needs if not shutil.which(name, path=SEARCH_PATH)]
        line = f"{program.name:<20}{program.kind:<14}"
        if absent:
            print(f"{line}missing: {' '.join(absent)}", flush=True)
            continue
        try:
            for command in program.prepare:
                run([word.format(inputs=folder) for word in command], ROOT)
            used = run_once(program, folder, preload)
            print(
                f"{line}{used.cpu:>7.2f}{used.peak:>9.1f}{used.size / 1e6:>11.2f}  {used.digest}",
                flush=True,
            )
        except Failed as error:
            failures += 1
            print(f"{line}FAILED: {error}", flush=True)
    return 1 if failures else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="make_bench_inputs.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--inputs", type=Path, default=ROOT / "build" / "bench" / "inputs", metavar="FOLDER"
    )
    parser.add_argument("--list", action="store_true", help="the inputs there are")
    parser.add_argument(
        "--check", action="store_true", help="run the programs once; names are programs"
    )
    parser.add_argument(
        "--preload", default="", metavar="LIBRARY", help="for --check: the allocator"
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parsed = parser.parse_args(arguments)
    folder = parsed.inputs.absolute()
    if parsed.list:
        print("\n".join(INPUTS))
        return 0
    if parsed.preload and not (parsed.check and Path(parsed.preload).is_file()):
        print(
            f"make_bench_inputs: --preload {parsed.preload}: no file, or without --check",
            file=sys.stderr,
        )
        return 2
    try:
        if parsed.check:
            started = time.monotonic()
            code = check(
                folder, parsed.names, parsed.preload and str(Path(parsed.preload).resolve())
            )
            print(f"{time.monotonic() - started:.0f} s")
            return code
        for name in parsed.names:
            if name not in INPUTS:
                print(
                    f"make_bench_inputs: no input '{name}'; there are: {' '.join(INPUTS)}",
                    file=sys.stderr,
                )
                return 2
        make_inputs(folder, parsed.names or list(INPUTS))
    except Failed as error:
        print(f"make_bench_inputs: {error}", file=sys.stderr)
        return 2 if "no program" in str(error) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
