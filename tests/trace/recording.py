"""What the tests of `hakmem trace record` share: recording a program, and reading what was recorded."""

import json
from collections import namedtuple

from common import *

PRINT = os.environ.get("HAKMEM_TEST_PRINT", "")
PROGRAMS = os.environ.get("HAKMEM_TEST_PROGRAMS", "")
MARK = 54321  # programs/program.h
ALLOCATIONS = ("malloc", "calloc", "aligned", "to")
RELEASES = ("free", "from")

Event = namedtuple("Event", "thread stamp operation address size alignment")


def program(name):
    return os.path.join(PROGRAMS, "trace_" + name)


class Recorded:
    """A trace as print_trace tells it. `broken`: the offset of a frame that cannot be read, or None."""

    def __init__(self, path):
        done = execute([PRINT, path])
        self.information, self.end, self.broken, self.events = None, None, None, []
        for line in done.out.splitlines():
            first, rest = line.split(" ", 1)
            if first == "information":
                self.information = json.loads(rest)
            elif first == "end":
                self.end = json.loads(rest)
            elif first == "broken":
                self.broken = int(rest)
            else:
                thread, stamp, operation, address, size, alignment = line.split()
                self.events.append(
                    Event(int(thread), int(stamp), operation, int(address, 16), int(size), int(alignment))
                )  # fmt: skip
        self.size = os.path.getsize(path)

    def of_thread(self, number):
        return [event for event in self.events if event.thread == number]

    def in_order(self):
        """Over all threads; of equal stamps releases first."""
        return sorted(self.events, key=lambda event: (event.stamp, event.operation in ALLOCATIONS))

    def sizes(self, operation="malloc"):
        return [event.size for event in self.events if event.operation == operation]


class RecordingCase(TestCase):
    def setUp(self):
        super().setUp()
        self.trace = self.path("it.htrace")

    def record(self, *command, options=(), **more):
        return hakmem("trace", "record", "-o", self.trace, *options, "--", *command, **more)

    def recorded(self, *command, code=0, **more):
        """Records a program that ends with `code`; the trace is whole."""
        result = self.record(*command, **more)
        self.assert_code(result, code)
        trace = Recorded(self.trace)
        self.assert_whole(trace)
        return result, trace

    def assert_whole(self, trace):
        self.assertIsNone(trace.broken)
        self.assertIsNotNone(trace.information)
        self.assertIsNotNone(trace.end)
        self.assertEqual(trace.end["events"], len(trace.events))
        self.assertEqual(trace.end["threads"], len({event.thread for event in trace.events}))
        self.assert_threads_in_order(trace)

    def assert_threads_in_order(self, trace):
        """Stamps rise within a thread, and the halves of a realloc lie beside each other."""
        before = {}
        for event in trace.events:
            last = before.get(event.thread)
            before[event.thread] = event
            if last is not None:
                self.assertGreaterEqual(event.stamp, last.stamp, (last, event))
                if last.operation == "from":
                    self.assertIn(event.operation, ("to", "failed"), (last, event))
            if event.operation == "to":
                self.assertEqual(last and last.operation, "from", event)

    def assert_refused(self, result, code, *words):
        """One line of complaint that holds all of `words`, nothing run, nothing written."""
        self.assert_code(result, code)
        self.assertEqual(result.out, "", result)
        self.assertEqual(len(result.err.splitlines()), 1, result)
        self.assertTrue(result.err.startswith("hakmem trace"), result)
        for word in words:
            self.assertIn(word, result.err)


def between_marks(events):
    """The events of one thread between the mark's free and its next malloc."""
    marks = [i for i, event in enumerate(events) if event.size == MARK and event.operation == "malloc"]
    assert len(marks) == 2, marks
    return events[marks[0] + 2 : marks[1]]


def by_name(events, printed):
    """(operation, name of the block, size, alignment) of each event; `printed`: the program's output."""
    names = {}  # a name of an address holds until the next one
    for line in printed.splitlines():
        name, address = line.split()
        names.setdefault(int(address, 16), []).append(name)
    live, told = {}, []
    for event in events:
        if event.operation in ALLOCATIONS:
            following = names.get(event.address)
            live[event.address] = following.pop(0) if following else "?"
        name = live.get(event.address, "?") if event.address else None
        told.append((event.operation, name, event.size, event.alignment))
    return told


__all__ = [
    "ALLOCATIONS", "MARK", "RELEASES", "STATIC", "TOOL", "Event", "Recorded", "RecordingCase",
    "between_marks", "by_name", "environment", "execute", "hakmem", "json", "os", "program",
    "shutil", "signal", "subprocess", "sys", "unittest",
]  # fmt: skip
