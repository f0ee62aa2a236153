"""Which files are the source: what git tracks, or in an unpacked archive all that was not built there."""

import os
import subprocess
from pathlib import Path

NOT_SOURCE = {".git", "build", "__pycache__"}


def source_files(root: Path) -> list[str]:
    """Paths from `root`, sorted by their bytes. A file that was deleted and not yet committed is none."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
        names = [name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in NOT_SOURCE]
            names += [(Path(folder) / name).relative_to(root).as_posix() for name in files]
    return sorted((name for name in names if (root / name).is_file()), key=str.encode)
