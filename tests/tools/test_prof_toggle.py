"""The sampler is turned on and off four hundred times under load, from two places at once, while the process forks.

Of a program with the library in it; and a hundred times of one that it is preloaded into, where each look takes six times as
long: the tool reads libc's debug information for it, where that is installed.
"""

import threading
import time

from common import *
from profiles import *

TOGGLED = os.environ.get("HAKMEM_TEST_TOGGLED", "")
RATES = ("0", "4096", "0", "1048576", "512")
TOGGLED_STATIC = os.environ.get("HAKMEM_TEST_TOGGLED_STATIC", "")


def pages():
    """Pages of statistics in /dev/shm, of whatever process: other tests have some, too."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("hakmem-")}


def files_of(pid):
    """Of all that stay open: the library opens one for a moment, before it starts its helper."""
    for _ in range(100):
        try:
            directory = f"/proc/{pid}/fd"
            return sorted(os.readlink(f"{directory}/{fd}") for fd in os.listdir(directory))
        except FileNotFoundError:
            time.sleep(0.01)
    raise AssertionError("its descriptors change all the time")


def names_of(pid):
    """Of its threads."""
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
            names.append(file.read())
    return names


def seen_of(pid):
    """What a tool might leave behind in a process; once its helper runs, which has its creator's name for a moment."""
    for _ in range(1000):
        names = names_of(pid)
        if "hakmem\n" in names:
            return files_of(pid), sorted(names)
        time.sleep(0.01)
    raise AssertionError(f"no helper among {names}")


class Toggle(ProfCase):
    def toggle(self, pid, turn, times):
        for i in range(times):
            result = hakmem("prof", str(pid), f"--rate={RATES[(i + turn) % len(RATES)]}", "--sites=1")
            # The other one may have turned it off meanwhile, which is told.
            said = [line for line in result.err.splitlines() if "takes no samples" not in line]
            if result.code != 0 or said or not HEAD.match(result.out.splitlines()[0]):
                self.wrong.append(result)
                return

    def head(self, pid, rate):
        return HEAD.match(self.prof(pid, f"--rate={rate}").splitlines()[0])

    def test_with_the_library_in_it(self):
        self.nothing_is_lost_and_nothing_stays_behind(TOGGLED_STATIC, 200)

    def test_preloaded(self):
        self.nothing_is_lost_and_nothing_stays_behind(TOGGLED, 50)

    def nothing_is_lost_and_nothing_stays_behind(self, program, times):
        self.wrong = []
        there = pages()
        process = self.launch(program=program)
        pid = int(process.words[1])
        before = seen_of(pid)
        shells = [threading.Thread(target=self.toggle, args=(pid, turn, times)) for turn in range(2)]
        for shell in shells:
            shell.start()
        for shell in shells:
            shell.join()
        self.assertEqual(self.wrong, [])
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
        word, *children = process.stdout.readline().split()
        self.assertEqual(word, "freed")
        self.assertGreater(len(children), times // 5)
        # The buffers of its standard input and output may be samples, and what libc keeps of a thread.
        self.assertLess(int(self.head(pid, 4096)[5]), 5)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual((pages() - there) & {f"hakmem-{number}" for number in (pid, *children)}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
