"""Runs Python programs on the hakmem memory allocator, and tells where their memory is.

In a terminal::

    hakmem run python app.py          # the program on hakmem
    hakmem stats PID                  # where the memory of a running process is

In a program that was started so::

    hakmem.is_active()                # True
    hakmem.memory_stats().live        # bytes of blocks in use
    hakmem.trim()                     # gives what is unused back, in bytes

An allocator has to be there before the first allocation, so importing this package changes nothing
by itself: functions that ask the allocator raise :class:`NotActiveError` in a program that was not
started with ``hakmem run``. All may be called from any thread, and in children of ``fork``.
"""

from hakmem._files import library_path, tool_path
from hakmem._process import (
    NotActiveError,
    class_stats,
    heap_stats,
    is_active,
    loaded_library,
    memory_stats,
    trim,
    variant,
    version,
)
from hakmem._records import ClassStats, HeapStats, MemoryStats, Tier

__all__ = [
    "ClassStats",
    "HeapStats",
    "MemoryStats",
    "NotActiveError",
    "Tier",
    "class_stats",
    "heap_stats",
    "is_active",
    "library_path",
    "loaded_library",
    "memory_stats",
    "tool_path",
    "trim",
    "variant",
    "version",
]
