"""Functions that the compiler has put into others: each has its own name and line in whatever shows a stack."""

import gzip
import json
import random
import re

from common import *
from cores import CoreCase
from profiles import PPROF

INLINED = os.environ.get("HAKMEM_TEST_INLINED", "")
PARSE = "(anonymous namespace)::Parser::parse"
HANDLE = "(anonymous namespace)::handle"
WORKER = "worker(int, bool)"
FUNCTIONS = [PARSE, HANDLE, WORKER, "main"]


def line(mark):
    """The line of the source that ends with the comment."""
    with open(f"{SOURCE}/tests/tools/inlined.cpp", encoding="utf-8") as file:
        return next(number for number, text in enumerate(file, 1) if text.rstrip().endswith(" // " + mark))


def place(name, mark):
    # What is seldom run may be put elsewhere.
    return re.compile(rf"{re.escape(name)}(\([^()]*\)|\.cold)? \(inlined\.cpp:{line(mark)}\)")


CALLS = [place(PARSE, "parse"), place(HANDLE, "handle"), place(WORKER, "worker"), place("main", "main")]


def fields(message):
    """Numbers and values of a message in protobuf's format."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 128:
                return value

    while at < len(message):
        key = number()
        value = number()
        if key & 7 == 2:
            value, at = message[at : at + value], at + value
        yield key >> 3, value


def of(message, field):
    return [value for key, value in fields(message) if key == field]


@unittest.skipUnless(NAMES, "libdw is not installed")
class Inlined(CoreCase):
    def run_it(self, program=INLINED, **changes):
        return self.launch("wait", program=program, **{"HAKMEM_PROF_RATE": "65536"} | changes)

    def assert_calls(self, names, wanted=CALLS):
        """The first of the names are those."""
        self.assertGreaterEqual(len(names), len(wanted), names)
        for name, expected in zip(names, wanted):
            self.assertRegex(name, r"\A" + expected.pattern + r"\Z", names)

    def assert_functions(self, names):
        self.assertEqual([re.sub(r"(parse|handle)\(.*", r"\1", name) for name in names], FUNCTIONS)

    def test_stacks(self):
        process = self.run_it()
        rows = self.rows(self.prof(process.pid))
        self.assert_calls(rows[0][2])
        self.assertNotRegex(rows[0][2][4], "inlined.cpp")
        # Of a template of the C++ library that is in the program; what calls it comes once.
        reserve = next(row[2] for row in rows if any("::reserve" in name for name in row[2]))
        at = next(i for i, name in enumerate(reserve) if name.startswith("fill()"))
        self.assertRegex(reserve[at - 1], r"^std::vector<int, std::allocator<int> ?>::reserve\(unsigned long\) \(\S+:\d+\)$")
        self.assert_calls(reserve[at:], [place("fill", "fill"), place("main", "main-fill")])
        told = json.loads(self.prof(process.pid, "--format=json"))
        self.assert_calls(told["groups"][0]["calls"])
        folded = [line.rpartition(" ")[0].split(";") for line in self.prof(process.pid, "--format=folded").splitlines()]
        self.assert_functions(folded[0][:-5:-1])
        page = self.prof(process.pid, "--format=html")
        data = json.loads(re.search(r'\{"title":.*?\]\]\}', page, re.DOTALL)[0])
        self.assert_functions([data["names"][number][0] for number in data["stacks"][0][:-5:-1]])
        self.assertEqual({data["names"][number][1] for number in data["stacks"][0][:-5:-1]}, {"inlined"})

    def test_groups(self):
        process = self.run_it()
        groups = json.loads(self.prof(process.pid, "--by=function", "--format=json"))["groups"]
        # What the C++ library's templates allocate is of the function that calls them.
        self.assertRegex(groups[0]["name"], re.escape(PARSE) + r"(\(.*\))? \(inlined\)")
        self.assert_estimate(groups[0]["bytes"], 4000 * 12000, groups[0]["samples"])
        self.assertEqual(groups[1]["name"], "fill() (inlined)")
        self.assert_estimate(groups[1]["bytes"], 1000 * 4024, groups[1]["samples"])
        self.assertFalse(any(group["name"].startswith("std::") for group in groups), groups)
        # A sample or two may be of main's own vectors.
        self.assertLess(sum(group["bytes"] for group in groups if group["name"].startswith("main")), 400_000, groups)
        groups = json.loads(self.prof(process.pid, "--by=file", "--format=json"))["groups"]
        self.assertEqual(os.path.basename(groups[0]["name"]), "inlined.cpp")
        self.assert_estimate(groups[0]["bytes"], 4000 * 12000 + 1000 * 4024, groups[0]["samples"])

    def test_libraries_that_are_in_the_program(self):
        """Rust's library and libc's headers allocate for what calls them."""
        inlined = "static inline __attribute__((always_inline)) char *"
        program = self.build("libraries", f"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *volatile last;
# 1 "/rustc/59807616e1fa/library/alloc/src/alloc.rs"
{inlined}rust_alloc(size_t bytes) {{ return malloc(bytes); }}
# 1 "/rust/deps/hashbrown-0.16.1/src/raw/mod.rs"
{inlined}rust_table(size_t bytes) {{ return rust_alloc(bytes); }}
# 1 "/usr/include/bits/string2.h"
{inlined}checked(size_t bytes) {{ return memset(malloc(bytes), 1, bytes); }}
# 1 "own.c"
{inlined}insert(size_t bytes) {{ return rust_table(bytes); }}
__attribute__((noinline)) void copy_all(void) {{ for (int i = 0; i < 1000; i++) last = checked(20000); }}
int main(void) {{
  for (int i = 0; i < 4000; i++) last = insert(10000);
  copy_all();
  printf("ready %d\\n", (int)getpid());
  fflush(stdout);
  getchar();
  _exit(0);
}}
""", "-g", "-O2")  # fmt: skip
        process = self.run_it(program)
        self.assertTrue(any("rust_alloc (alloc.rs:1)" in row[2] for row in self.rows(self.prof(process.pid))))
        groups = json.loads(self.prof(process.pid, "--by=function", "--format=json"))["groups"]
        self.assertEqual([group["name"] for group in groups][:2], ["insert (libraries)", "copy_all (libraries)"])
        groups = json.loads(self.prof(process.pid, "--by=file", "--format=json"))["groups"]
        self.assertEqual(os.path.basename(groups[0]["name"]), "own.c")
        self.assertRegex(hakmem("explain", str(process.pid)).out, r"(insert|copy_all) \(own.c:\d+\) < main")

    @unittest.skipUnless(PPROF, "libprotobuf-c-dev, protobuf-c-compiler or zlib1g-dev is not installed")
    def test_pprof(self):
        process = self.run_it()
        file = self.path("a.pb.gz")
        self.prof(process.pid, "--format=pprof", "-o", file)
        with gzip.open(file) as content:
            profile = content.read()
        texts = [text.decode() for text in of(profile, 6)]
        functions = {of(function, 1)[0]: texts[of(function, 2)[0]] for function in of(profile, 5)}
        found = []
        locations = of(profile, 4)
        for location in locations:
            lines = of(location, 4)
            names = [functions[of(one, 1)[0]] for one in lines]
            if names and PARSE in names[0]:
                found.append(([*names], [of(one, 2)[0] for one in lines]))
        # One location, which has a line for each function.
        self.assertEqual(len(found), 1, found)
        self.assert_functions(found[0][0])
        self.assertEqual(found[0][1], [line(mark) for mark in ("parse", "handle", "worker", "main")])
        numbers = [of(location, 1)[0] for location in locations]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.assertEqual(len({of(location, 3)[0] for location in locations}), len(locations))
        self.assertTrue(any(of(mapping, 10) == [1] for mapping in of(profile, 3)))
        # And back: nothing has changed; beside an empty profile all of it is new.
        self.assertIn("+0 B live", hakmem("prof", "diff", file, file).out)
        empty = self.path("empty.pb")
        with open(empty, "wb") as out:
            out.write(b"".join(bytes([10, 2, 8, n]) for n in range(1, 5)) + b"\x32\0" +
                      b"".join(b"\x32" + bytes([len(name)]) + name for name in (b"alloc_objects", b"alloc_space", b"inuse_objects", b"inuse_space")))  # fmt: skip
        difference = hakmem("prof", "diff", empty, file)
        self.assert_code(difference, 0)
        names = [text.strip() for text in difference.out.split("\n\n")[1].splitlines()[1:]]
        self.assert_calls(names)

    def test_one_line(self):
        process = self.run_it(HAKMEM_PROF_RATE="1")
        chain = " < ".join((CALLS[0].pattern, re.escape(HANDLE) + r"(\([^()]*\))?", re.escape(WORKER), "main"))
        self.assertRegex(hakmem("where", str(process.pid), process.words[2]).out, chain)
        told = json.loads(hakmem("where", "--format=json", str(process.pid), process.words[2]).out)[0]
        self.assertRegex(told["sample"]["allocated_by"], "^" + chain)
        # Samples that stand for others, so that there is rounding.
        self.assertRegex(hakmem("explain", str(self.run_it().pid)).out, chain)
        if hakmem("top", "--help").code == 0:
            shown = re.sub(r"\s+", " ", hakmem("top", "--once", str(process.pid)).out)
            self.assertRegex(shown, re.escape(PARSE) + r"(\([^()]*\))? < ")

    def named(self, program=INLINED):
        """What hakmem names says of each place in main."""
        symbols = [line.split() for line in execute(["nm", "-S", INLINED]).out.splitlines()]
        start, size = next((int(row[0], 16), int(row[1], 16)) for row in symbols if row[-1] == "main")
        given = "".join(f"{program}+{at:#x}\n" for at in range(start, start + size))
        done = subprocess.run([TOOL, "names"], input=given, capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return start, done.stdout.splitlines()

    def test_names_and_where_of_code(self):
        start, names = self.named()
        chain = " < ".join(call.pattern for call in CALLS)
        told = next((name for name in names if re.search("  " + chain + "$", name)), None)
        self.assertIsNotNone(told, names)
        self.assertTrue(any(re.search("  main \\(inlined.cpp:\\d+\\)$", name) for name in names), names)
        process = self.run_it()
        at = int(process.words[3], 16) - start + int(re.search(r"\+(0x\w+)", told)[1], 16)
        self.assertRegex(hakmem("where", str(process.pid), hex(at)).out, ", " + chain + "\n")
        self.assertEqual(json.loads(hakmem("where", "--format=json", str(process.pid), hex(at)).out)[0]["symbol"], "main")

    def test_core(self):
        core, _ = self.fall("abort", program=INLINED)
        wanted = [place(PARSE, "abort"), place(HANDLE, "handle"), place(WORKER, "worker"), place("main", "main-abort")]
        said = [text.strip() for text in hakmem("core", core).out.split("\n\n")[0].splitlines()]
        self.assert_calls(said[next(i for i, text in enumerate(said) if "Parser" in text):], wanted)
        told = json.loads(hakmem("core", "--format=json", core).out)
        calls = told["end"]["calls"]
        self.assert_calls(calls[next(i for i, text in enumerate(calls) if "Parser" in text):], wanted)
        self.assert_calls(told["places"][0]["calls"])

    def test_without_debug_information(self):
        program = self.path("inlined")
        self.assert_code(execute(["strip", "-g", "-o", program, INLINED]), 0)
        process = self.run_it(program)
        rows = self.rows(self.prof(process.pid))
        self.assertEqual(rows[0][2][0], "main (inlined)")
        self.assertFalse(any("Parser" in name for row in rows for name in row[2]), rows)
        groups = json.loads(self.prof(process.pid, "--by=function", "--format=json"))["groups"]
        self.assertEqual(groups[0]["name"], "main (inlined)")
        self.assertTrue(all(name.endswith("  main") for name in self.named(program)[1]))

    def test_damaged(self):
        """Whatever a file holds, hakmem names it or not, and ends."""
        sections = re.findall(r"\] \.debug_(\w+) +\w+ +\w+ +(\w+) +(\w+)", execute(["readelf", "-SW", INLINED]).out)
        where = {name: (int(start, 16), int(size, 16)) for name, start, size in sections}
        with open(INLINED, "rb") as file:
            whole = file.read()
        seed = int(os.environ.get("HAKMEM_TEST_SEED", "1"))
        rounds = int(os.environ.get("HAKMEM_TEST_ROUNDS", "40"))
        chance = random.Random(seed)
        kinds = [name for name in ("info", "abbrev", "rnglists", "ranges", "line", "str", "info") if name in where]
        for i in range(rounds):
            start, size = where[kinds[i % len(kinds)]]
            damaged = bytearray(whole)
            for _ in range(chance.choice((1, 10, 300))):
                damaged[start + chance.randrange(size)] = chance.choice((0, 255, chance.randrange(256)))
            path = self.write(f"damaged-{i}", bytes(damaged))
            self.assertGreater(len(self.named(path)[1]), 0, (seed, i))
            os.unlink(path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
