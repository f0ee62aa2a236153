"""For scripts that use the lab's package (lab/hakmem_lab): makes it importable."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "build/lab/venv"


def enter_lab(*modules: str) -> None:
    """Goes on when this Python has `modules`; starts the script again in the lab's environment when
    they are there; otherwise ends it with a line that says how to get them."""
    sys.path.insert(0, str(ROOT / "lab"))
    missing = [module for module in modules if find_spec(module) is None]
    if not missing:
        return
    python = ENVIRONMENT / "bin/python"
    if python.is_file() and Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        os.execv(python, [str(python), *sys.argv])
    program = Path(sys.argv[0]).stem
    print(
        f"{program}: this Python has no {' and no '.join(missing)}: run scripts/setup_lab.sh,"
        " which makes build/lab/venv with all that is needed",
        file=sys.stderr,
    )
    sys.exit(2)
