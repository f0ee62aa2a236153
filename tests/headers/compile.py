#!/usr/bin/env python3
"""The public headers under every standard that they promise, by every compiler that there is, without a warning; and in use.

usage: compile.py SOURCE_FOLDER LIBRARY WORK_FOLDER
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
C = ["c11", "c17", "c2x", "gnu11", "gnu2x"]
CXX = ["c++11", "c++14", "c++17", "c++20", "c++2b", "gnu++17"]


def main() -> int:
    source, library, work = Path(sys.argv[1]), Path(sys.argv[2]).resolve(), Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    folder = source / "tests" / "headers"
    jobs = [(c, std, "c_header.c") for c in ("gcc", "clang", "clang-14") for std in C]
    jobs += [(c, std, "cxx_header.cpp") for c in ("g++", "clang++", "clang++-14") for std in CXX]
    done: dict[str, int] = {}
    failed = []
    tried = set()
    for compiler, standard, name in jobs:
        path = shutil.which(compiler)
        # clang is clang-14 under another name, mostly: once.
        if path is None or (same := (os.path.realpath(path), standard)) in tried:
            continue
        tried.add(same)
        program = work / f"{compiler}-{standard}"
        compiled = subprocess.run(
            [compiler, f"-std={standard}", *WARNINGS, "-O1", f"-I{source / 'include'}", str(folder / name),
             str(library), f"-Wl,-rpath,{library.parent}", "-o", str(program)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        ran = compiled if compiled.returncode != 0 else subprocess.run([program], capture_output=True, text=True, check=False)
        done[compiler] = done.get(compiler, 0) + 1
        if ran.returncode != 0:
            failed.append(f"{compiler} -std={standard}: {ran.returncode}\n{ran.stdout}{ran.stderr}")
    print(", ".join(f"{compiler}: {count} standards" for compiler, count in done.items()))
    print("\n".join(failed))
    for missing in [name for name in ("gcc", "g++", "clang", "clang++") if not any(have.startswith(name) for have in done)]:
        print(f"{missing} is not there")
        failed.append(missing)
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    sys.exit(main())
