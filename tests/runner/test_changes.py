"""changes.py: which files differ from a commit, and what tests/last-complete says."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from datetime import date
from pathlib import Path

sys.dont_write_bytecode = True
from changes import (
    LAST_COMPLETE,
    changed_since,
    commit_now,
    files_now,
    machine,
    read_last_complete,
    uncommitted,
    write_last_complete,
)

# One who commits, whatever the machine has set.
IDENTITY = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]


class Changes(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="hakmem-changes-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.git("init", "-q")
        (self.root / ".gitignore").write_text("/build/\n")
        for name in ("src/a.c", "src/b.c", "docs/c.md", "tests/d"):
            self.write(name, f"content of {name}\n" * 20)
        self.base = self.commit()

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *IDENTITY, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def test_nothing_changed(self) -> None:
        self.write("build/new", "ignored\n")
        self.assertEqual(changed_since(self.root, self.base), [])
        self.assertEqual(uncommitted(self.root), [])

    def test_what_is_committed_and_what_is_not(self) -> None:
        self.write("src/a.c", "committed\n")
        self.commit()
        self.write("src/b.c", "staged\n")
        self.git("add", "src/b.c")
        self.write("docs/c.md", "not staged\n")
        self.write("neu ö.txt", "not tracked\n")
        self.assertEqual(changed_since(self.root, self.base), ["docs/c.md", "neu ö.txt", "src/a.c", "src/b.c"])
        self.assertEqual(uncommitted(self.root), ["docs/c.md", "neu ö.txt", "src/b.c"])

    def test_gone_and_renamed(self) -> None:
        (self.root / "docs/c.md").unlink()
        self.git("mv", "src/a.c", "tests/a.c")
        self.assertEqual(changed_since(self.root, self.base), ["docs/c.md", "src/a.c", "tests/a.c"])
        self.commit()
        self.assertEqual(changed_since(self.root, self.base), ["docs/c.md", "src/a.c", "tests/a.c"])

    def test_mode(self) -> None:
        (self.root / "tests/d").chmod(0o755)
        self.assertEqual(changed_since(self.root, self.base), ["tests/d"])

    def test_a_base_that_is_not_here(self) -> None:
        for base in ("0" * 40, "gone", "--output=x", ""):
            with self.subTest(base):
                self.assertIsNone(changed_since(self.root, base))
        self.write("src/a.c", "more\n")
        self.commit()
        shallow = self.root / "build/shallow"
        subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{self.root}", str(shallow)], check=True)
        self.assertIsNone(changed_since(shallow, self.base))
        self.assertEqual(changed_since(shallow, "HEAD"), [])

    def test_without_git(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(changed_since(Path(folder), "HEAD"))
            self.assertIsNone(uncommitted(Path(folder)))
            self.assertEqual((commit_now(Path(folder)), files_now(Path(folder))), ("", ""))

    def test_the_tree_by_its_name(self) -> None:
        before = files_now(self.root)
        self.assertEqual(before, self.git("rev-parse", "HEAD^{tree}"))
        self.write("new", "x\n")
        self.assertNotEqual(files_now(self.root), before)
        self.assertEqual(self.git("status", "--short"), "?? new")  # the index is as it was

    def test_last_complete(self) -> None:
        self.assertEqual(read_last_complete(self.root), "")
        write_last_complete(self.root, self.base, date(2026, 11, 28))
        self.assertEqual(read_last_complete(self.root), self.base)
        text = (self.root / LAST_COMPLETE).read_text()
        self.assertIn("\ndate = 2026-11-28\n", text)
        self.assertIn(f'\nmachine = "{machine()}"\n', text)
        self.assertNotIn(os.uname().nodename, text)
        # That file is written after the tests, and so is no change that they have not seen.
        self.assertEqual(uncommitted(self.root), [])
        for text in ("", "commit = 5\n", "<<<<<<< ours\n"):
            (self.root / LAST_COMPLETE).write_text(text)
            self.assertEqual(read_last_complete(self.root), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
