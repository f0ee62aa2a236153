"""Writes the demo's input files into the current folder. The same bytes each time: the seed is fixed,
and only random() is used, whose sequence Python promises to keep."""

import argparse
import json
import random

draw = random.Random(20240229).random


def upto(n):
    return int(draw() * n)


def word():
    return "".join("etaoinshrdlucmfgypwbvkxjqz"[int(26 * draw() ** 2)] for _ in range(2 + upto(9)))


def person():
    return {
        "name": f"{word().title()} {word().title()}",
        "age": upto(90),
        "balance": round(draw() * 1e6, 2),
        "active": draw() < 0.5,
        "note": " ".join(word() for _ in range(upto(30))),
        "tags": [word() for _ in range(upto(6))],
        "address": {"street": word(), "number": upto(300), "geo": [draw() * 90, draw() * 180], "extra": None},
    }


def write_json(name, megabytes):
    """People from a pool, each with an id of its own: a pool is quicker to write than 10^5 new ones."""
    pool = [json.dumps(person())[1:] for _ in range(4001)]
    size, i = 0, 0
    with open(name, "w") as file:
        file.write('{"people": [')
        while size < megabytes * 10**6:
            size += file.write('%s{"id": %d, %s' % (",\n" if i else "", i, pool[i % len(pool)]))
            i += 1
        file.write("]}\n")


def write_text(name, lines):
    words = [word() for _ in range(60000)]
    with open(name, "w") as file:
        for i in range(lines):
            start = upto(len(words) - 12)
            file.write("%07d %s\n" % (upto(10**7), " ".join(words[start : start + 3 + i % 9])))


def write_csv(name, rows):
    words = [word() for _ in range(60000)]
    with open(name, "w") as file:
        for i in range(rows):
            pick = upto(len(words))
            file.write("%d,%s %s,%d,%d\n" % (i, words[pick], words[(pick * 7) % len(words)], pick % 97, upto(10**6)))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # none is taken: any is refused, --help answered
    write_json("people.json", 32)
    write_json("few_people.json", 10)
    write_text("lines.txt", 600_000)
    write_csv("rows.csv", 1_000_000)
