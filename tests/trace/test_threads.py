"""Threads: each one's events under its own number, and one order over all of them."""

from recording import *

TURNS, FIRST_SIZE = 2000, 1000  # programs/threads.c


class Threads(RecordingCase):
    def assert_possible(self, trace):
        """In the order of the stamps nobody gets a block that somebody else has, and nobody frees what is not
        there."""
        live = {}
        for event in trace.in_order():
            if event.operation in ALLOCATIONS:
                self.assertNotIn(event.address, live, event)
                live[event.address] = event
            elif event.operation in RELEASES:
                self.assertIn(event.address, live, event)
                del live[event.address]
        return live

    def test_turns(self):
        """What two threads do in turns has one order only."""
        _, trace = self.recorded(program("threads"), "turns")
        self.assert_possible(trace)
        told, address = [], {}
        for event in trace.in_order():
            if event.operation == "malloc" and FIRST_SIZE <= event.size < FIRST_SIZE + TURNS:
                told.append((event.thread, "malloc", event.size))
                address[event.address] = event.size
            elif event.operation == "free" and event.address in address:
                told.append((event.thread, "free", address.pop(event.address)))
        wanted = []
        for turn in range(TURNS):
            size = FIRST_SIZE + turn
            if turn > 0:
                wanted.append((1 + turn % 2, "free", size - 1))
            wanted.append((1 + turn % 2, "malloc", size))
        wanted.append((0, "free", FIRST_SIZE + TURNS - 1))
        self.assertEqual(told, wanted)

    def test_storm(self):
        threads, rounds = 6, 15000
        _, trace = self.recorded(program("threads"), "storm", str(threads), str(rounds))
        self.assert_possible(trace)
        self.assertEqual(trace.end["threads"], threads + 1)
        for number in range(1, threads + 1):
            operations = [event.operation for event in trace.of_thread(number)]
            self.assertEqual(operations.count("malloc"), rounds)
            self.assertEqual(operations.count("end_of_thread"), 1)
            self.assertEqual(operations[-1], "end_of_thread")
        # All but the last of each place are freed or reallocated by some thread, and those by the main one.
        releases = sum(event.operation == "free" for event in trace.events if event.thread)
        left = [event for event in trace.of_thread(0) if event.operation == "free"]
        self.assertGreaterEqual(releases + len(left), threads * rounds)

    def test_short_threads(self):
        """Also what a destructor does at a thread's end is the thread's; and numbers are in the order of starts."""
        count = 300
        _, trace = self.recorded(program("threads"), "short", str(count))
        self.assert_possible(trace)
        self.assertEqual(trace.end["threads"], count + 1)
        for number in range(1, count + 1):
            events = trace.of_thread(number)
            self.assertEqual(
                [(event.operation, event.size) for event in events],
                [("malloc", 5000 + number - 1), ("free", 0), ("end_of_thread", 0)],
            )
            self.assertEqual(events[0].address, events[1].address)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
