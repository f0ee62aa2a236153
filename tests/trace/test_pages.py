"""Pages of large blocks that a program touches: the events 'touched' of a known program."""

from recording import *


class Pages(RecordingCase):
    def test_known_pages(self):
        result, trace = self.recorded(program("pages"))
        events = between_marks(trace.of_thread(0))
        told = by_name(trace.of_thread(0), result.out)
        touched = {name: pages for operation, name, pages, _ in told if operation == "touched"}
        self.assertEqual(
            touched,
            {
                "none": 0,
                "some": 26,
                "read": 7,
                "all": 100,
                "huge": 1497,
                "dirty": 256,
                "zeroed": 256,  # it looked at each
                "half": 128,
                "aligned": 5,
                "grown": 64 + 10,
                "from_small": 1 + 3,
                "left": 11,
            },
        )
        for at, event in enumerate(events):
            if event.operation == "touched":
                self.assertEqual(events[at + 1].operation, "free")
                self.assertEqual(events[at + 1].address, event.address)
        # Of what is there at the end, exit() tells.
        self.assertEqual(told[-1], ("touched", "left", 11, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
