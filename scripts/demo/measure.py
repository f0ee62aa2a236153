"""Runs a command and measures it; sees to it that nothing of it stays behind."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import signal
import subprocess
import time

# Not the caller's PATH: a wrapper script there would be measured instead of the program.
SEARCH_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"


class Failed(Exception):
    """A program did not do its work."""


@dataclasses.dataclass
class Run:
    """One finished run of a program."""

    seconds: float
    peak_kb: int  # of the largest single process
    digest: str  # of everything it put out
    in_effect: bool = True  # the library was seen in the process


def environment(folder, library, extra):
    env = {"PATH": SEARCH_PATH, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    env.update(extra)
    if library:
        env["LD_PRELOAD"] = str(library)
        # Options set by the user are meant for hakmem, also here.
        env.update({name: value for name, value in os.environ.items() if name.startswith("HAKMEM_")})
    return env


def digest_of(paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
    return total.hexdigest()[:16]


class Child:
    """A started program. Its rusage comes from wait4: ru_maxrss is the largest of the process and of the
    children it has waited for. (It starts at this Python's own size, some 15 MB; all programs here need
    more.)"""

    def __init__(self, command, folder, env, library):
        self.folder = folder
        self.library = library
        self.command = command
        self.start = time.monotonic()
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self.usage = None
        self.status = 0
        self.seen = library is None

    def poll(self):
        """True once it has ended. Until the library has been seen, looks for it in the process's map."""
        if self.usage is not None:
            return True
        if not self.seen:
            with contextlib.suppress(OSError):
                maps = pathlib.Path(f"/proc/{self.process.pid}/maps").read_text(errors="replace")
                self.seen = pathlib.Path(self.library).name in maps
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return False
        self.seconds = time.monotonic() - self.start
        self.status, self.usage = status, usage
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return True

    def check_alive(self):
        if self.poll():
            raise Failed(self.complaint())

    def complaint(self):
        text = (self.folder / "stderr").read_text(errors="replace")[-400:]
        return f"{pathlib.Path(self.command[0]).name} ended with exit code {self.process.returncode}: {text}"

    def finish(self, outputs=()):
        while not self.poll():
            # Fine enough for runs of seconds; the library is looked for in the first few.
            time.sleep(0.005)
        if self.process.returncode:
            raise Failed(self.complaint())
        try:
            digest = digest_of([self.folder / name for name in ("stdout", *outputs)])
        except FileNotFoundError as error:
            raise Failed(f"{self.complaint()} made no {pathlib.Path(error.filename).name}") from error
        return Run(self.seconds, self.usage.ru_maxrss, digest, self.seen)

    def end(self):
        """Ends it and all it started, whatever state they are in."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        while not self.poll():
            time.sleep(0.005)


class Session:
    """Starts programs, and knows which of them still run."""

    def __init__(self):
        self.children = []

    @contextlib.contextmanager
    def server(self, command, folder, env, library):
        child = Child(command, folder, env, library)
        self.children.append(child)
        try:
            yield child
        finally:
            child.end()
            self.children.remove(child)

    def run(self, command, folder, env, library, outputs):
        with self.server(command, folder, env, library) as child:
            return child.finish(outputs)

    def helper(self, command, folder):
        """A program that belongs to the demo itself and is not measured."""
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder, None, {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, err = process.communicate(timeout=150)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return subprocess.CompletedProcess(command, process.returncode, b"", err)
