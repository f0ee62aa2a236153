"""The records have the fields of include/hakmem.h, in its order and with its types."""

import ctypes
import re
from pathlib import Path

import pytest

import hakmem
from hakmem._process import _STRUCTURES

HEADER = Path(__file__).parents[1] / "source" / "include" / "hakmem.h"
TYPES = {"uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64}
FIELD = re.compile(r"^  (uint\d+_t) (\w+);", re.MULTILINE)


@pytest.mark.parametrize(
    ("record", "name"),
    [
        (hakmem.HeapStats, "hak_stats"),
        (hakmem.MemoryStats, "hak_memory_stats"),
        (hakmem.ClassStats, "hak_class_stats"),
    ],
)
def test_fields(record: type, name: str) -> None:
    text = HEADER.read_text()
    start = text.index(f"struct {name} {{")
    body = text[start : text.index("\n};", start)]
    wanted = [(field, TYPES[kind]) for kind, field in FIELD.findall(body)]
    assert len(wanted) == len(re.findall(r"^  \w", body, re.MULTILINE))
    assert _STRUCTURES[record]._fields_ == wanted


def test_tiers() -> None:
    (names,) = re.findall(r"enum hak_tier \{ (.*) \};", HEADER.read_text())
    assert [f"HAK_TIER_{tier.name}" for tier in hakmem.Tier] == names.split(", ")
