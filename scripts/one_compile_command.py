#!/usr/bin/env python3
"""Reduces a compile_commands.json to one command per source file, in place, and prints the files.

A source that goes into several targets has a command for each, and clang-tidy would check it as often.
The last command is kept. Flags that only gcc knows are taken out.
"""
import json
import sys

GCC_ONLY = {"-fno-allocation-dce"}


def main() -> None:
    path = sys.argv[1]
    with open(path, encoding="utf-8") as stream:
        commands = json.load(stream)
    by_file = {command["file"]: command for command in commands}
    for command in by_file.values():
        words = command["command"].split(" ")
        command["command"] = " ".join(word for word in words if word not in GCC_ONLY)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(list(by_file.values()), stream, indent=1)
    for name in sorted(by_file):
        print(name)


if __name__ == "__main__":
    main()
