"""The trace of a known program is its known events: each function, its size and its alignment."""

from recording import *

NO_SIZE = (1 << 64) - 1
TOO_MUCH = 1 << 63
PAGE = os.sysconf("SC_PAGESIZE")
PAGE_POWER = PAGE.bit_length() - 1


def block(name, operation, size, alignment=0, freed=0):
    return [(operation, name, size, alignment), ("free", name, freed, 0)]


class Calls(RecordingCase):
    def events(self, name):
        result, trace = self.recorded(program(name))
        return by_name(between_marks(trace.of_thread(0)), result.out)

    def test_c(self):
        self.assertEqual(
            self.events("calls"),
            [
                *block("zero", "malloc", 0),
                ("malloc", "a", 100, 0),
                ("calloc", "b", 336, 0),
                ("free", "a", 0, 0),
                ("free", "b", 0, 0),
                *block("copy", "malloc", 10),
                # realloc and reallocarray
                ("malloc", "small", 77, 0),
                ("from", "small", 0, 0),
                ("to", "larger", 30000, 0),
                ("from", "larger", 0, 0),
                ("to", "array", 60000, 0),
                ("from", "array", 0, 0),
                ("to", "same", 59999, 0),
                ("from", "same", 0, 0),
                ("failed", "same", NO_SIZE, 0),
                ("from", "same", 0, 0),
                ("failed", "same", TOO_MUCH, 0),
                ("free", "same", 0, 0),
                # refused
                ("failed", None, TOO_MUCH, 0),
                ("failed", None, NO_SIZE, 0),
                ("failed", None, NO_SIZE, 0),
                ("failed", None, 1000, 0),
                ("failed", None, TOO_MUCH, 0),
                # aligned
                *block("posix", "aligned", 1000, 8),
                *block("c11", "aligned", 8192, 12),
                *block("memalign", "aligned", 65, 6),
                *block("rounded", "aligned", 10, 6),
                *block("valloc", "aligned", 10, PAGE_POWER),
                *block("pvalloc", "aligned", PAGE, PAGE_POWER),
                *block("megabytes", "aligned", 40, 22),
                # freed with a size
                *block("sized", "malloc", 123, freed=123),
                *block("aligned_sized", "aligned", 256, 7, freed=256),
            ],
        )

    def test_cpp(self):
        self.assertEqual(
            self.events("operators"),
            [
                *block("plain", "malloc", 40),
                *block("array", "malloc", 41),
                *block("sized", "malloc", 42, freed=42),
                *block("array_sized", "malloc", 43, freed=43),
                *block("nothrow", "malloc", 44),
                *block("array_nothrow", "malloc", 45),
                *block("aligned", "aligned", 46, 6),
                *block("array_aligned", "aligned", 47, 6),
                *block("both", "aligned", 48, 6, freed=48),
                *block("array_both", "aligned", 49, 6, freed=49),
                *block("all", "aligned", 50, 6),
                ("failed", None, TOO_MUCH, 0),
            ],
        )

    def test_information(self):
        result, trace = self.recorded(program("lives"), "after", "two words", 'a"b\\c\n')
        said = trace.information
        self.assertEqual(said["command"], [program("lives"), "after", "two words", 'a"b\\c\n'])
        self.assertEqual(said["page_size"], PAGE)
        self.assertRegex(said["started"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertGreater(said["ticks_per_second"], 1000000)
        self.assertGreater(said["pid"], 1)
        self.assertIn(f" {os.uname().machine}, ", said["machine"])
        self.assertEqual(trace.end["status"], 0)
        self.assertEqual(trace.end["lost"], 0)
        self.assertGreater(trace.end["seconds"], 0)
        events, size = len(trace.events), trace.size
        self.assertRegex(
            result.err,
            rf"^hakmem trace record: {self.trace}: {events} events? of \d threads?, {size} bytes, .* s\n$",
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
