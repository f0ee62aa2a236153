"""What the tests of the peers share."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD_PEERS = ROOT / "scripts" / "build_peers.py"
# Those of the test peers.make, or by hand those of `make peers`.
PEERS_JSON = Path(os.environ.get("HAKMEM_TEST_PEERS") or ROOT / "build/peers/peers.json")
TIMEOUT = 120  # seconds for one program


def environment(**changes: str) -> dict[str, str]:
    """The environment without anything that concerns an allocator."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HAKMEM_", "MALLOC_", "MIMALLOC_")) and name != "LD_PRELOAD"
    }
    return kept | changes


def execute(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    options.setdefault("env", environment())
    return subprocess.run(
        command,
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT,
        **options,
    )


def built_peers() -> list[dict[str, str]]:
    if not PEERS_JSON.is_file():
        sys.exit(f"no {PEERS_JSON}: run `make peers` first")
    return json.loads(PEERS_JSON.read_text(encoding="utf-8"))


def library_of(peer: dict[str, str]) -> Path:
    return ROOT / peer["library"]  # an absolute path stays what it is
