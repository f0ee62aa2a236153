"""The sampler is turned on and off a thousand times under load, from two places at once, while the process forks.

One time in twenty the tool does it, which reads all samples, too. The other times the test writes what the tool writes: a word in the
memory of the process, at the address that the process tells. (A run of the tool takes some 80 ms of a processor.)
"""

import struct
import threading
import time

from common import *
from profiles import *

TOGGLED = os.environ.get("HAKMEM_TEST_TOGGLED", "")
RATES = (0, 4096, 0, 1048576, 512)
TIMES, BY_TOOL = 500, 20
PAUSE = 0.01  # seconds, in which the threads hear of it


def seen_of(pid):
    """What a tool might leave behind in a process."""
    files = sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    names = sorted(
        open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8").read() for task in os.listdir(f"/proc/{pid}/task")
    )
    return files, [name for name in names if name != "hakmem\n"], sorted(os.listdir("/dev/shm"))


class Toggle(ProfCase):
    def toggle(self, pid, place, turn):
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        try:
            self.toggle_all(pid, memory, place, turn)
        finally:
            os.close(memory)

    def toggle_all(self, pid, memory, place, turn):
        for i in range(TIMES):
            rate = RATES[(i + turn) % len(RATES)]
            if i % BY_TOOL != 0:
                self.wrote[turn] += os.pwrite(memory, struct.pack("=q", rate or -1), place) == 8
                time.sleep(PAUSE)
                continue
            result = hakmem("prof", str(pid), f"--rate={rate}", "--sites=1")
            # The other one may have turned it off meanwhile, which is told.
            said = [line for line in result.err.splitlines() if "takes no samples" not in line]
            if result.code != 0 or said or not HEAD.match(result.out.splitlines()[0]):
                self.wrong.append(result)
                return

    def head(self, pid, rate):
        return HEAD.match(self.prof(pid, f"--rate={rate}").splitlines()[0])

    def test_nothing_is_lost_and_nothing_stays_behind(self):
        self.wrong, self.wrote = [], [0, 0]
        process = self.launch(program=TOGGLED)
        pid, place = int(process.words[1]), int(process.words[2], 16)
        before = seen_of(pid)
        # It is the place that the tool writes to.
        self.head(pid, 12345)
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(place)
            self.assertEqual(struct.unpack("=q", memory.read(8)), (12345,))
        shells = [threading.Thread(target=self.toggle, args=(pid, place, turn)) for turn in range(2)]
        for shell in shells:
            shell.start()
        for shell in shells:
            shell.join()
        self.assertEqual(self.wrong, [])
        self.assertEqual(self.wrote, [TIMES - TIMES // BY_TOOL] * 2)
        self.assertEqual(seen_of(pid), before)
        # The last rate may have been 0: samples come by and by.
        for _ in range(100):
            samples = int(self.head(pid, 4096)[5])
            if samples > 0:
                break
            time.sleep(0.1)
        self.assertGreater(samples, 0)
        process.stdin.write("\n")
        process.stdin.flush()
        word, forks = process.stdout.readline().split()
        self.assertEqual(word, "freed")
        self.assertGreater(int(forks), 100)
        # The buffers of its standard input and output may be samples, and what libc keeps of a thread.
        self.assertLess(int(self.head(pid, 4096)[5]), 5)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(sorted(os.listdir("/dev/shm")), before[2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
