"""What a result says about the machine it comes from."""

import hashlib
import os
import platform
import re
from pathlib import Path
from typing import Any

import psutil


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def cpu_model() -> str:
    """Name of the first CPU; where the kernel gives no name (aarch64), its part number."""
    text = read_text("/proc/cpuinfo")
    found = re.search(r"^(?:model name|CPU part)\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def chosen(path: str) -> str:
    """The word in brackets of a kernel setting such as `always [madvise] never`."""
    found = re.search(r"\[(\w+)\]", read_text(path))
    return found.group(1) if found else "unknown"


def machine_id() -> str:
    """Tells one machine from another of the same kind, and nothing else about it."""
    text = read_text("/etc/machine-id").strip()
    return hashlib.sha256(f"hakmem-lab {text}".encode()).hexdigest()[:12] if text else "unknown"


def describe_machine() -> dict[str, Any]:
    """Kernel, CPU, memory in MiB, transparent huge pages, load average at this moment."""
    return {
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu_model": cpu_model(),
        "cpus": os.cpu_count() or 1,
        "memory_mib": psutil.virtual_memory().total // (1 << 20),
        "transparent_huge_pages": chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load_average": round(os.getloadavg()[0], 2),
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "unknown",
        "python": platform.python_version(),
        "id": machine_id(),
    }
