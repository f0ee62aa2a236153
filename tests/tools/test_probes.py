"""Static probes in the library: their notes, read by readelf, and the kernel's own listening at them."""

import ctypes
import re
import struct
import time

from common import *

SITES = os.environ.get("HAKMEM_TEST_SITES", "")
HELD = os.environ.get("HAKMEM_TEST_HELD", "")
HELD_STATIC = os.environ.get("HAKMEM_TEST_HELD_STATIC", "")
PROBES = {
    "otel_memory:alloc": 3,
    "otel_memory:free": 1,
    "hakmem:refill": 3,
    "hakmem:adopt": 3,
    "hakmem:purge": 2,
    "hakmem:map": 2,
    "hakmem:unmap": 2,
}
REGISTERS = {"x86_64": ["%rdi", "%rsi", "%rdx"], "aarch64": ["x0", "x1", "x2"]}.get(os.uname().machine)
NOTE = re.compile(r"Provider: (\w+)\n +Name: (\w+)\n +Location: (\w+), Base: (\w+), Semaphore: (\w+)\n +Arguments:(.*)\n")
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}.get(os.uname().machine)


def notes(path):
    """Address, address of the semaphore and arguments of each probe. The addresses are those in the file."""
    found = {}
    base = next((int(section[1], 16) for section in sections(path) if section[0] == ".stapsdt.base"), 0)
    for provider, name, location, linked, semaphore, arguments in NOTE.findall(execute(["readelf", "-nW", path]).out):
        moved = base - int(linked, 16)  # by what came after the linker
        found[f"{provider}:{name}"] = int(location, 16) + moved, int(semaphore, 16) + moved, arguments.split()
    return found


def sections(path):
    """Name, address, offset, bytes and flags."""
    pattern = r"^ +\[ *\d+\] (\S+) +\w+ +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) \w+ +([A-Za-z]*)"
    return re.findall(pattern, execute(["readelf", "-SW", path]).out, re.MULTILINE)


def offset_of(path, address):
    """Where in the file an address is."""
    for name, start, offset, size, flags in sections(path):
        if "A" in flags and name != ".bss" and int(start, 16) <= address < int(start, 16) + int(size, 16):
            return int(offset, 16) + address - int(start, 16)
    raise AssertionError(f"{path}: {address:#x} lies in no section")


class ProbesCase(TestCase):
    def start(self, *arguments, program=SITES, library=LIBRARY, **changes):
        process = subprocess.Popen([program, *arguments], env=environment(LD_PRELOAD=library, **changes), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline().split()[0], "ready")
        return process.pid

    def semaphores(self, pid, library=LIBRARY):
        """Their values in a process."""
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            base = next(int(line.split("-")[0], 16) for line in file if line.rstrip().endswith(library))
        values = {}
        with open(f"/proc/{pid}/mem", "rb") as memory:
            for name, (_, semaphore, _) in notes(library).items():
                memory.seek(base + semaphore)
                values[name] = struct.unpack("H", memory.read(2))[0]
        return values


class Notes(ProbesCase):
    def test_every_form_of_the_library_has_them(self):
        for path in (LIBRARY, API_LIBRARY, HELD_STATIC):
            with self.subTest(path=path):
                found = notes(path)
                self.assertEqual({name: len(arguments) for name, (_, _, arguments) in found.items()}, PROBES)
                self.assertEqual(len({semaphore for _, semaphore, _ in found.values()}), len(PROBES))
                [(_, start, offset, size, flags)] = [section for section in sections(path) if section[0] == ".probes"]
                self.assertIn("W", flags)
                with open(path, "rb") as file:
                    file.seek(int(offset, 16))
                    self.assertEqual(file.read(int(size, 16)), bytes(2 * len(PROBES)))
                for _, semaphore, arguments in found.values():
                    self.assertTrue(int(start, 16) <= semaphore < int(start, 16) + int(size, 16))
                    # As in a call: that is where the OpenTelemetry profiler reads them.
                    if REGISTERS is not None:
                        self.assertEqual(arguments, [f"8@{register}" for register in REGISTERS[: len(arguments)]])

    def test_nobody_listens(self):
        self.assertEqual(self.semaphores(self.start()), dict.fromkeys(PROBES, 0))


class Kernel(ProbesCase):
    def listen(self, library, name):
        """The kernel's counters at a probe, one a processor, which raise its semaphore as perf and bpftrace have it done."""
        location, semaphore, _ = notes(library)[name]
        try:
            with open("/sys/bus/event_source/devices/uprobe/type", encoding="ascii") as file:
                kind = int(file.read())
        except OSError as error:
            self.skipTest(f"the kernel has no probes for us: {error}")
        self.kept = ctypes.create_string_buffer(library.encode())
        # struct perf_event_attr: type, size, config, nothing, the file and the place in it.
        attributes = struct.pack("IIQ5QQQ", kind, 112, offset_of(library, semaphore) << 32, 0, 0, 0, 0, 0,
                                 ctypes.addressof(self.kept), offset_of(library, location)).ljust(112, b"\0")  # fmt: skip
        libc = ctypes.CDLL(None, use_errno=True)
        counters = [libc.syscall(PERF_EVENT_OPEN, attributes, -1, processor, -1, 0) for processor in os.sched_getaffinity(0)]
        if min(counters) < 0:
            self.skipTest(f"the kernel has no probes for us: {os.strerror(ctypes.get_errno())}")
        return counters

    def test_it_counts(self):
        if PERF_EVENT_OPEN is None:
            self.skipTest("the kernel has no probes for us: this machine's number of perf_event_open is not known here")
        # Eight threads that come and go, so that memory is adopted, given back, unmapped and mapped again.
        # A file of its own: the kernel listens in every process that has the same one, and takes gdb's breakpoints for its own.
        library = self.copy(LIBRARY, "libhakmem.so")
        pid = self.start("storm", program=HELD, library=library, HAKMEM_PROF_RATE="4096", HAKMEM_WARM_POOL_DECAY_MS="1", HAKMEM_WARM_POOL_MB="0")
        for name in PROBES:
            counters = self.listen(library, name)
            self.assertEqual([other for other, value in self.semaphores(pid, library).items() if value > 0], [name])
            while sum(struct.unpack("Q", os.read(counter, 8))[0] for counter in counters) < 3:
                time.sleep(0.01)
            for counter in counters:
                os.close(counter)
            while self.semaphores(pid, library)[name] != 0:  # the kernel lets go in its own time
                time.sleep(0.01)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
