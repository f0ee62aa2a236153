"""Runs a shell script with a time limit, sees to it that nothing stays behind, and shows the stacks of
what hangs."""

import ctypes
import dataclasses
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 5  # what a program may need to end by itself after its script has


@dataclasses.dataclass
class Result:
    """What one run of a script gave."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    hang: str = ""  # the stacks, when the time limit ended it
    left: tuple = ()  # names of processes that did not end with the script


def adopt_orphans():
    """Makes this process the parent of every orphan below it, so that a daemon cannot slip away."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(parent):
    """Process ids of the living descendants of `parent`, nearest first."""
    table = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # ended while we looked
            if fields[0] != "Z":
                table.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [parent]
    while queue:
        below = table.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def process_name(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"


def stacks(pids):
    """gdb's view of each process; a hang is nearly always visible in it."""
    gdb = shutil.which("gdb")
    if not gdb:
        return "gdb is not installed: no stacks\n"
    text = ""
    for pid in pids:
        text += f"--- process {pid} ({process_name(pid)})\n"
        command = [gdb, "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 20"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
            text += done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired:
            text += "gdb did not come back\n"
    return text


def end_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def reap():
    """Collects every child that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def leftovers():
    """Waits for what the script left running; ends and names what does not go."""
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        reap()
        pids = children_of(os.getpid())
        if not pids:
            return ()
        if time.monotonic() > deadline:
            names = tuple(process_name(pid) for pid in pids)
            end_all(pids)
            time.sleep(0.1)
            reap()
            return names
        time.sleep(0.05)


def no_core_files():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_script(script, cwd, env, timeout, log):
    """Runs `script` with bash in `cwd` and with exactly `env`; its output goes to files named after the
    path `log`."""
    out, err = pathlib.Path(f"{log}.stdout"), pathlib.Path(f"{log}.stderr")
    hang = ""
    start = time.monotonic()
    with open(out, "wb") as out_file, open(err, "wb") as err_file:
        process = subprocess.Popen(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
            start_new_session=True,
            preexec_fn=no_core_files,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            pids = children_of(os.getpid())
            hang = stacks(pids)
            end_all(pids)
            code = process.wait()
    seconds = time.monotonic() - start
    return Result(code, out.read_bytes(), err.read_bytes(), seconds, hang, leftovers())
