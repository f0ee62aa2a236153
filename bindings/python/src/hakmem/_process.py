"""The library that serves this process, found among the symbols that the process already has.

Nothing is loaded here: a second allocator would have figures of its own, about nothing.
"""

import ctypes
import dataclasses
import functools
import os
from typing import Any, TypeVar

from hakmem._records import ClassStats, HeapStats, MemoryStats, Tier

Record = TypeVar("Record")

_HOW = "run the program with: hakmem run python ..."
_NARROW = {"tier", "counting"}  # uint32_t in hakmem.h; all other fields are uint64_t


class NotActiveError(RuntimeError):
    """hakmem does not serve this process's malloc; the text says why, and what to do."""

    __module__ = "hakmem"  # what tracebacks call it is what a program can import


class _Address(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _structure(record: type) -> type[ctypes.Structure]:
    """The C structure of which a record has the fields: behind its size and its version."""
    fields: list[tuple[str, Any]] = [("size", ctypes.c_uint32), ("version", ctypes.c_uint32)]
    for field in dataclasses.fields(record):
        fields.append((field.name, ctypes.c_uint32 if field.name in _NARROW else ctypes.c_uint64))
    return type(record.__name__, (ctypes.Structure,), {"_fields_": fields})


_STRUCTURES = {record: _structure(record) for record in (HeapStats, MemoryStats, ClassStats)}


def _owner(function: Any) -> str:
    """The file that a function of this process is in."""
    found = _Address()
    address = ctypes.cast(function, ctypes.c_void_p)
    if not _process().dladdr(address, ctypes.byref(found)) or found.file is None:
        return "an unknown file"
    return os.fsdecode(found.file)


@functools.cache
def _process() -> ctypes.CDLL:
    process = ctypes.CDLL(None)
    process.malloc.argtypes = [ctypes.c_size_t]
    process.malloc.restype = ctypes.c_void_p
    process.free.argtypes = [ctypes.c_void_p]
    process.free.restype = None
    process.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Address)]
    if hasattr(process, "hak_version"):
        process.hak_version.restype = ctypes.c_char_p
        process.hak_variant.restype = ctypes.c_char_p
        process.hak_purge.restype = ctypes.c_size_t
        process.hak_owns.argtypes = [ctypes.c_void_p]
        process.hak_owns.restype = ctypes.c_bool
        process.hak_stats_get.argtypes = [ctypes.c_void_p]
        process.hak_memory_stats_get.argtypes = [ctypes.c_void_p]
        process.hak_class_stats_get.argtypes = [ctypes.c_uint, ctypes.c_void_p]
    return process


@functools.cache
def _why_not() -> str:
    """Why hakmem does not serve this process; empty when it does. It stays so while it lives."""
    process = _process()
    if not hasattr(process, "hak_version"):
        return f"hakmem is not loaded in this process: {_HOW}"
    # The only proof: a block of this process's malloc lies in hakmem's memory.
    block = process.malloc(64)
    owned = process.hak_owns(block)
    process.free(block)
    if owned:
        return ""
    if _owner(process.malloc) == _owner(process.hak_version):
        return "hakmem is loaded but sends every call to libc: HAKMEM_FORCE_LIBC_ALLOC is set"
    return f"hakmem is loaded, but malloc is that of {_owner(process.malloc)}: {_HOW}"


def _active() -> ctypes.CDLL:
    if why := _why_not():
        raise NotActiveError(why)
    return _process()


def _record(record: type[Record], raw: ctypes.Structure) -> Record:
    values = {field.name: getattr(raw, field.name) for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    return record(**values)


def _read(record: type[Record], call: Any, *arguments: int) -> Record:
    """Has the library fill the record. Raises IndexError where it says EINVAL: no such class."""
    raw = _STRUCTURES[record]()  # type: ignore[index]
    raw.size = ctypes.sizeof(raw)
    if call(*arguments, ctypes.byref(raw)) != 0:
        raise IndexError(*arguments)
    return _record(record, raw)


def is_active() -> bool:
    """True when hakmem serves ``malloc`` in this process."""
    return not _why_not()


def heap_stats() -> HeapStats:
    """Totals of the allocator since the process started. Raises NotActiveError."""
    return _read(HeapStats, _active().hak_stats_get)


def memory_stats() -> MemoryStats:
    """Where the process's memory is now, in bytes. Raises NotActiveError.

    Walks all units of 2 MiB: its time grows with the memory that is held.
    """
    return _read(MemoryStats, _active().hak_memory_stats_get)


def class_stats() -> list[ClassStats]:
    """Figures of each size class, by ascending size, then of Large and of Huge blocks.

    Numbers of blocks are counted only when ``HAKMEM_STATS`` was set at start (``hakmem run
    --stats``). Raises NotActiveError.
    """
    library = _active()
    classes: list[ClassStats] = []
    while True:
        try:
            found = _read(ClassStats, library.hak_class_stats_get, len(classes))
        except IndexError:
            return classes
        classes.append(
            dataclasses.replace(found, tier=Tier(found.tier), counting=bool(found.counting))
        )


def trim() -> int:
    """Gives unused memory back to the operating system and returns how many bytes.

    Unused is what no object lives in: call ``gc.collect()`` before, if objects may wait in cycles.
    What other threads keep for their next allocations stays with them. Raises NotActiveError.
    """
    return int(_active().hak_purge())


def version() -> str:
    """The version of the library that serves this process. Raises NotActiveError."""
    return str(_active().hak_version().decode())


def variant() -> str:
    """``"standard"`` or ``"hardened"``: how that library was built. Raises NotActiveError."""
    return str(_active().hak_variant().decode())


def loaded_library() -> str:
    """The path of the library that serves this process. Raises NotActiveError."""
    return _owner(_active().hak_version)
