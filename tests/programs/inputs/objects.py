"""Many live Python objects of all sizes: dictionaries, JSON, regular expressions, growing buffers."""

import collections
import decimal
import hashlib
import io
import json
import pickle
import re
import zlib


def numbers(seed):
    """The same pseudo-random sequence on every machine and every Python."""
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


def digest(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()[:16]


def records(count):
    draw = numbers(1)
    return [
        {
            "id": i,
            "name": "user%d" % (next(draw) % 10**6),
            "tags": ["t%d" % (next(draw) % 50) for _ in range(next(draw) % 6)],
            "score": next(draw) / 7.0,
            "nested": {"a": [None, True, i], "text": "x" * (next(draw) % 300)},
        }
        for i in range(count)
    ]


rows = records(12000)
text = json.dumps(rows, sort_keys=True, indent=1)
assert json.loads(text) == rows
print("json", len(text), digest(text))

print("pickle", digest(pickle.dumps(rows, protocol=4)))

index = collections.defaultdict(list)
for row in rows:
    for tag in row["tags"]:
        index[tag].append(row["id"])
print("index", sorted((tag, len(ids), sum(ids)) for tag, ids in index.items())[:5])

words = re.findall(r"\b[a-z]+\d+\b", text)
print("regex", len(words), digest(re.sub(r"user(\d)(\d*)", r"\2-\1", text)))
print("sort", digest(",".join(sorted(words, key=lambda w: (w[-1], w)))))

# Growth by doubling and by small steps, the shapes realloc sees most.
growing = bytearray()
for size in numbers(2):
    growing += bytes([size % 256]) * (size % 9000)
    if len(growing) > 6_000_000:
        break
print("bytearray", digest(bytes(growing)))
stream = io.StringIO()
for i in range(60000):
    stream.write(str(i))
print("stringio", digest(stream.getvalue()))
print("zlib", len(zlib.compress(text.encode(), 6)), digest(zlib.decompress(zlib.compress(bytes(growing)))))

print("bigint", digest(hex(3**60000)), (7**9000) % 10**20)
decimal.getcontext().prec = 400
print("decimal", str(decimal.Decimal(2).sqrt())[-20:])

# A churning queue of strings: frees in another order than allocations.
draw = numbers(3)
queue = collections.deque()
total = 0
for i in range(120000):
    queue.append("q" * (next(draw) % 1500))
    if len(queue) > 500:
        queue.rotate(next(draw) % 7)
        total += len(queue.popleft())
print("queue", total)
