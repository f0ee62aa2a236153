"""Where things lie in the repository."""

import os
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.base.errors import LabError

MARK = Path("include/hakmem.h")
MOST_CPUS = 1 << 20  # no machine has a higher number


@dataclass(frozen=True)
class Paths:
    """The repository that is measured, and what its builds put where."""

    root: Path

    @property
    def launcher(self) -> Path:
        return self.root / "build/lab/launch"

    @property
    def bench(self) -> Path:
        """The benchmark programs and everything that measuring leaves behind."""
        return self.root / "build/bench"

    @property
    def hakmem(self) -> Path:
        return self.root / "build/standard/libhakmem.so"

    @property
    def tool(self) -> Path:
        """The command hakmem."""
        return self.root / "build/standard/hakmem"

    @property
    def peers(self) -> Path:
        return self.root / "build/peers/peers.json"

    @property
    def suite(self) -> Path:
        return self.root / "bench/suite.toml"

    @property
    def programs(self) -> Path:
        return self.root / "bench/programs.toml"

    @property
    def scale(self) -> Path:
        return self.root / "bench/scale.toml"

    @property
    def servers(self) -> Path:
        return self.root / "bench/servers.toml"

    def resolve(self, path: str | Path) -> Path:
        """`path` as it stands, or from the root when it is relative."""
        return self.root / path

    def shown(self, path: Path) -> str:
        """`path` for a reader: from the root when it lies below."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)


def find_paths(root: Path | None = None) -> Paths:
    """The repository at `root`, or around the working directory, or around this package."""
    if root is not None:
        if not (root / MARK).is_file():
            raise LabError(f"--root {root}: not a hakmem repository ({MARK} is missing)")
        return Paths(root.resolve())
    here = Path.cwd()
    for directory in [here, *here.parents, *Path(__file__).resolve().parents]:
        if (directory / MARK).is_file():
            return Paths(directory)
    raise LabError(f"no hakmem repository around {here} ({MARK} is missing); say --root DIRECTORY")


def available_cpus() -> list[int]:
    """The CPUs this process may run on, in ascending order."""
    return sorted(os.sched_getaffinity(0))


def parse_cpus(text: str | None) -> list[int]:
    """CPUs of a list as `0,2-3`; all that this process may use when there is none."""
    allowed = available_cpus()
    if text is None:
        return allowed
    cpus: set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            start, end = int(first), int(last if dash else first)
            if end > MOST_CPUS:
                raise LabError(f"--cpus {text}: available are {','.join(map(str, allowed))}")
            cpus.update(range(start, end + 1))
    except ValueError:
        raise LabError(f"--cpus {text}: accepted is a list as 0,1 or 0-3") from None
    if not cpus or not cpus.issubset(allowed):
        raise LabError(f"--cpus {text}: available are {','.join(map(str, allowed))}")
    return sorted(cpus)
