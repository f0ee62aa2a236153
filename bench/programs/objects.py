"""Objects of many sizes and life times; with PYTHONMALLOC=malloc every one of them is malloc's."""

import collections
import re


def numbers(seed):
    """The same pseudo-random sequence on every machine and every Python."""
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


class Node:
    """A node of an unbalanced search tree."""

    def __init__(self, key, value):
        self.key, self.value, self.left, self.right = key, value, None, None


def insert(root, key, value):
    while True:
        side = "left" if key < root.key else "right"
        child = getattr(root, side)
        if child is None:
            setattr(root, side, Node(key, value))
            return
        root = child


def main():
    draw = numbers(1)
    root = Node(2**30, "")
    for i in range(80_000):
        insert(root, next(draw), f"value {i}")

    # Sessions that are opened, grow and are closed in another order.
    sessions = collections.OrderedDict()
    closed = 0
    for i in range(600_000):
        user = next(draw) % 4000
        session = sessions.setdefault(user, {"user": f"user{user}", "events": []})
        session["events"].append((i, "x" * (next(draw) % 100)))
        if len(session["events"]) > 20 + user % 50:
            closed += sum(len(text) for _, text in sessions.pop(user)["events"])

    words = re.findall(r"\w+", " ".join(f"word{next(draw) % 20_000}" for _ in range(150_000)))
    counts = collections.Counter(words)
    print(closed, len(sessions), counts.most_common(3))


main()
