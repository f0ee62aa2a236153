"""What git knows of the files here: whether they are a commit's, what differs from one, and which passed all tests last.

tests/last-complete names the last commit for which every test of every variant passed. `make test-changed` takes it as the
base of a change.
"""

import os
import platform
import re
import subprocess
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path

LAST_COMPLETE = "tests/last-complete"
ABOUT = """\
# The last commit for which `make test-all` ran every test and all passed. `make test-all` writes this file.
# `make test-changed` asks what has changed since.
"""


def git(root: Path, *arguments: str, **environment: str) -> str | None:
    """What git prints; None where it fails, or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="surrogateescape",
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def files_now(root: Path) -> str:
    """The name that git has for the tree as it lies here, with what is not committed; "" without git."""
    index = root / "build" / "quick-index"
    index.parent.mkdir(exist_ok=True)
    tree = None
    if git(root, "add", "-A", GIT_INDEX_FILE=str(index)) is not None:
        tree = git(root, "write-tree", GIT_INDEX_FILE=str(index))
    index.unlink(missing_ok=True)
    return (tree or "").strip()


def commit_now(root: Path) -> str:
    """The name of the commit that is checked out; "" without git."""
    return (git(root, "rev-parse", "--verify", "HEAD^{commit}") or "").strip()


def changed_since(root: Path, base: str) -> list[str] | None:
    """The files that differ from the commit `base`, committed or not, also those that are gone. None: no such commit here."""
    if base.startswith("-") or git(root, "rev-parse", "--verify", f"{base}^{{commit}}") is None:
        return None
    # A file that was renamed is one that is gone and one that is new.
    differ = git(root, "diff", "--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z", base, "--")
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if differ is None or new is None:
        return None
    return sorted({path for path in (differ + new).split("\0") if path})


def uncommitted(root: Path) -> list[str] | None:
    """The files that are not as in the commit, beside the one that a complete run itself writes. None without git."""
    changed = changed_since(root, "HEAD")
    return None if changed is None else [path for path in changed if path != LAST_COMPLETE]


def read_last_complete(root: Path) -> str:
    """The commit that the file names; "" where it names none."""
    try:
        commit = tomllib.loads((root / LAST_COMPLETE).read_text(encoding="utf-8")).get("commit")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return ""
    return commit if isinstance(commit, str) else ""


def machine() -> str:
    """The kind of processor and how many there are: nothing that names this very machine."""
    model = ""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        model = found[1] if found else ""
    except OSError:
        pass
    model = re.sub(r"\((R|TM)\)|\b(CPU|Processor)\b|@.*", " ", model, flags=re.IGNORECASE)
    count = os.cpu_count() or 1
    kind = " ".join(re.sub(r"[^\w .+-]", " ", model).split()) or platform.machine()
    return f"{kind}, {count} processor{'s' if count > 1 else ''}"


def write_last_complete(root: Path, commit: str, day: date | None = None) -> None:
    day = day or datetime.now(UTC).date()
    text = f'{ABOUT}commit = "{commit}"\ndate = {day}\nmachine = "{machine()}"\n'
    (root / LAST_COMPLETE).write_text(text, encoding="utf-8")
