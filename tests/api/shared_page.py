#!/usr/bin/env python3
"""HAKMEM_SHM=1: the page in /dev/shm of a process, of the child of a fork, after an exec, at the end, and where it cannot be had.

usage: shared_page.py LIBRARY PROGRAM
"""
import os
import resource
import struct
import subprocess
import sys

library, program = sys.argv[1:]
failures = 0
MIB = 1 << 20


def check(what, good, detail=None):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}: {detail!r}"[:2000])


def path(pid):
    return f"/dev/shm/hakmem-{pid}"


def start(*arguments, value="1", **options):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    env.update(LD_PRELOAD=library, HAKMEM_SHM=value, HAKMEM_WARM_POOL_MB="0")
    return subprocess.Popen([program, *arguments], env=env, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # fmt: skip


def said(process, what):
    word, pid = process.stdout.readline().split()
    check("the program's states", word == what, word)
    return int(pid)


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def read(pid):
    """Process, bytes in use and bytes of huge blocks; None without a page."""
    try:
        with open(path(pid), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    check("length and name", len(content) == 4096 and content.startswith(b"hakmem figures\0"), content[:64])
    version, size, sequence, process = struct.unpack_from("4I", content, 16)
    check("version, size and rest", (version, sequence % 2, process) == (1, 0, pid) and size < 4096, (version, sequence))
    figures = struct.unpack_from("10Q", content, 80)
    return {"in_use": figures[1], "huge": figures[8]}


def end(process, status=0):
    out, err = process.communicate(timeout=60)
    check("how it ends", process.returncode == status, (process.returncode, out, err))
    return err


def through_fork_and_exit():
    process = start()
    pid = said(process, "parent")
    before = read(pid)
    check("10 MiB in use", before and 10 * MIB <= before["in_use"] < 14 * MIB, before)
    check("for its user alone", os.stat(path(pid)).st_mode & 0o777 == 0o600)
    go_on(process)
    child = said(process, "child-before")
    go_on(process)
    check("the child", said(process, "child") == child)
    figures = read(child)
    check("the child's own page", figures and 50 * MIB <= figures["in_use"] < 56 * MIB, figures)
    check("the parent's is as it was", read(pid) == before, read(pid))
    go_on(process)
    check("the parent", said(process, "parent-after") == pid)
    check("the child's page went with it", read(child) is None)
    after = read(pid)
    check("the parent's goes on", after and 11 * MIB <= after["in_use"] < 16 * MIB, after)
    go_on(process)
    check("nothing is said", end(process) == "")
    check("the page went with the process", read(pid) is None)


def in_place_of_one_that_was_left():
    """exec() leaves the page: the next program of that number takes its place, or the number is another process' by then."""
    process = start(program)
    pid = said(process, "parent")
    go_on(process)
    said(process, "child-before")
    go_on(process)
    said(process, "child")
    go_on(process)
    said(process, "parent-after")
    old = os.stat(path(pid)).st_ino
    go_on(process)
    check("the same number", said(process, "parent") == pid)
    check("a page of its own", os.stat(path(pid)).st_ino != old and read(pid) is not None)
    process.kill()
    end(process, -9)
    os.unlink(path(pid))


def not_asked_for():
    process = start(value="0")
    check("no page", read(said(process, "parent")) is None)
    process.kill()
    end(process, -9)


def refused():
    """No file may have any length: one line, and the program goes on."""
    process = start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    check("no page where files may have no length", read(said(process, "parent")) is None)
    for state in ("child-before", "child", "parent-after"):
        go_on(process)
        said(process, state)
    go_on(process)
    err = end(process)
    check("one line", err.startswith("hakmem: HAKMEM_SHM: no page in /dev/shm/: ") and err.count("\n") == 1, err)


if not os.path.isdir("/dev/shm") or not os.access("/dev/shm", os.W_OK):
    print("skipped: /dev/shm cannot be written")
    sys.exit(77)
for test in (through_fork_and_exit, in_place_of_one_that_was_left, not_asked_for, refused):
    test()
sys.exit(failures > 0)
