"""What the tests of the tool share: where things are, and how the tool is run."""

import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TOOL = os.environ.get("HAKMEM_TEST_TOOL", "")
NAMES = os.environ.get("HAKMEM_TEST_LIBDW", "") == "1"  # places in code have names
LIBRARY = os.path.realpath(os.environ.get("HAKMEM_TEST_LIBRARY", ""))
API_LIBRARY = os.environ.get("HAKMEM_TEST_API", "")
SUBJECT = os.environ.get("HAKMEM_TEST_SUBJECT", "")
STATIC = os.environ.get("HAKMEM_TEST_STATIC", "")
SOURCE = os.environ["HAKMEM_TEST_SOURCE"]
CC = os.environ.get("HAKMEM_TEST_CC", "cc")


def environment(**changes):
    """The environment of the tests without anything that concerns an allocator; None removes. Who sets a rate counts samples."""
    if changes.get("HAKMEM_PROF_RATE") is not None:
        changes.setdefault("HAKMEM_PROF_MOST", "0")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HAKMEM_") and name != "LD_PRELOAD"
    }
    kept.update({name: value for name, value in changes.items() if value is not None})
    for name, value in changes.items():
        if value is None:
            kept.pop(name, None)
    return kept


class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def __repr__(self):
        return f"code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


def execute(arguments, env=None, cwd=None, **options):
    """Runs a command; the code is negative for a signal."""
    done = subprocess.run(
        arguments,
        env=environment() if env is None else env,
        cwd=cwd,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        timeout=60,
        **options,
    )
    return Result(done)


def hakmem(*arguments, tool=None, **options):
    return execute([tool or TOOL, *arguments], **options)


def library_path(name):
    found = glob.glob(f"/usr/lib/*/{name}") + glob.glob(f"/usr/lib/{name}") + glob.glob(f"/usr/lib64/{name}")
    own = [path for path in found if os.uname().machine in path or path.count("/") == 3]
    return own[0] if own else None


class TestCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="hakmem-tools-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, content, mode=0o755):
        """A file in the test's directory."""
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, mode)
        return path

    def copy(self, source, name):
        path = self.path(name)
        shutil.copy(source, path)
        return path

    def build(self, name, source, *flags):
        """A program or library made of the C text `source`."""
        text = self.write(name + ".c", source)
        built = execute([CC, "-fno-builtin", "-o", self.path(name), text, *flags])
        self.assert_code(built, 0)
        return self.path(name)

    def assert_code(self, result, code):
        self.assertEqual(result.code, code, result)

    def assert_refused(self, result, code, *words):
        """One line of complaint that holds all of `words`, nothing run."""
        self.assert_code(result, code)
        self.assertEqual(result.out, "", result)
        self.assertEqual(len(result.err.splitlines()), 1, result)
        self.assertTrue(result.err.startswith("hakmem run: "), result)
        for word in words:
            self.assertIn(word, result.err)

    def assert_no_hakmem(self, library, words):
        """Refused as --library."""
        result = hakmem("run", "--library", library, SUBJECT)
        self.assert_refused(result, 2, os.path.realpath(library), words)
        doctor = hakmem("doctor", "--library", library)
        self.assert_code(doctor, 1)
        self.assertIn(f"FAIL  library: {os.path.realpath(library)} {words}", doctor.out)


__all__ = [
    "API_LIBRARY", "CC", "LIBRARY", "NAMES", "SOURCE", "STATIC", "SUBJECT", "TOOL", "TestCase", "environment",
    "execute", "hakmem", "library_path", "os", "shutil", "signal", "subprocess", "sys", "unittest",
]  # fmt: skip
