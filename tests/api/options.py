#!/usr/bin/env python3
"""Runs a program on the library under good, bad and unknown options and reads its stderr.

usage: options.py VARIANT LIBRARY PROGRAM STATIC_PROGRAM OPTIONS_DEF OWN_PROGRAM
LIBRARY is preloaded into PROGRAM; STATIC_PROGRAM is the same, linked with the archive; OWN_PROGRAM has a hakmem_options.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

variant, library, program, static_program, options_def, own_program = sys.argv[1:]
failures = 0


def run(options, command=None, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    env.update(LD_PRELOAD=library, API_TEST_EXPECT="hakmem", HAKMEM_CONF="")
    env.update(options)
    return subprocess.run(
        command or [program], env=env, capture_output=True, text=True, errors="replace", **more
    )


def check(name, good, result=None):
    global failures
    if good:
        return
    failures += 1
    print(f"FAILED: {name}")
    if result is not None:
        print(f"  exit code {result.returncode}, stdout {result.stdout[:300]!r}")
        print(f"  stderr {result.stderr[:3000]!r}")


def works(result):
    return result.returncode == 0 and result.stdout == "works\n"


NUMBERS = ("NUMBER", "BYTES", "KBYTES", "MBYTES")


def table():
    """name, type, low, high and accepted of each line of options.def."""
    text = open(options_def).read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    entry = re.compile(
        r'HAK_OPTION\(\s*\w+,\s*"(\w+)",\s*(\w+),\s*[^"]*?,\s*([\w]+),\s*([\w]+),\s*"([^"]*)"', re.S
    )
    return [(m[1], m[2], int(m[3], 0), int(m[4], 0), m[5]) for m in entry.finditer(text)]


def complaint(name, value):
    """The line that a bad value has to cost, as a pattern."""
    shown = re.escape(value) if len(value) <= 60 else re.escape(value[:60]) + r".{0,200}"
    return (
        rf"hakmem: {re.escape(name)}={shown}: not understood; "
        r"accepted: (?P<accepted>\S+( or with K, M, G)?)(, where %p stands for [^()]*)? \(using the default, (?P<default>\S+)\)\n"
    )


def silent_by_default():
    result = run({})
    check("no options: works and says nothing", works(result) and result.stderr == "", result)


def profiles():
    for profile in "speed balanced lean MIXED_TINYV3_C7_SAFE MIXED_TINYV3_C7_BALANCED".split():
        result = run({"HAKMEM_PROFILE": profile})
        check(f"profile {profile}", works(result) and result.stderr == "", result)


NO_GUARDS = "hakmem: HAKMEM_GUARD: only the hardened library has such checks; none are made"

NO_LEARNER = "hakmem: HAKMEM_LEARN: does nothing any more"


def expected_of(name, value):
    """What a good value has said on stderr."""
    if name == "HAKMEM_GUARD" and value.lower() != "off" and variant != "hardened":
        return [NO_GUARDS]
    return [NO_LEARNER] if name == "HAKMEM_LEARN" and value == "1" else []


def every_good_value(options):
    for name, kind, low, high, accepted in options:
        values = [str(low), str(high)] if kind in NUMBERS else accepted.split("|")
        values = {"PATH": ["/dev/null", "/dev/null%%"], "DIRECTORY": ["/nowhere", "some%where"], "SIGNAL": ["USR1", "12"]}.get(kind, values)
        for value in values:
            more = {"API_TEST_EXPECT": ""} if name == "HAKMEM_FORCE_LIBC_ALLOC" else {}
            result = run({name: value, **more})
            said = [s for s in result.stderr.splitlines() if s.startswith("hakmem:")]
            check(f"{name}={value} is accepted", works(result) and said == expected_of(name, value), result)


def values_in_any_case(options):
    for name, kind, _, _, accepted in options:
        words = accepted.split("|") if kind == "CHOICE" else []
        for value in [w.lower() for w in words] + [w.upper() for w in words] + [w.title() for w in words]:
            result = run({name: value})
            said = [s for s in result.stderr.splitlines() if s.startswith("hakmem:")]
            check(f"{name}={value} is accepted", works(result) and said == expected_of(name, value), result)
    for value in ("le\x01n", "LE@N", "\xccean"):
        result = run({"HAKMEM_PROFILE": value})
        check(f"HAKMEM_PROFILE={value!r} is not", "not understood" in result.stderr, result)


def names_that_were_told():
    """`hakmem run` has complained of them: the library does not, of all others it does."""
    bad = {"HAKMEM_FOO": "1", "HAKMEM_BAR": "1", "HAKMEM_PROFILE": "bogus", "HAKMEM_SS_HUGEPAGE": "no"}
    result = run({**bad, "HAKMEM_TOLD": "HAKMEM_FOO|HAKMEM_PROFILE"})
    lines = sorted(line.split(":")[1] for line in result.stderr.splitlines())
    check("names in HAKMEM_TOLD cost no line, others do",
          works(result) and lines == [" HAKMEM_BAR", " HAKMEM_SS_HUGEPAGE=no"], result)
    for value in ("", "|", "x" * 10000):
        result = run({"HAKMEM_TOLD": value})
        check(f"HAKMEM_TOLD={value[:10]!r} is no option", works(result) and result.stderr == "", result)


def every_bad_value(options):
    for name, kind, low, high, accepted in options:
        bad = ["bogus", "-1", "99999999999999999999999"]
        bad += [str(high + 1)] if kind in NUMBERS else [accepted.split("|")[0] + "x"]
        bad = {"PATH": ["%", "a%d"], "DIRECTORY": [""], "SIGNAL": ["bogus", "-1", "9"]}.get(kind, bad)
        for value in bad:
            result = run({name: value})
            match = re.fullmatch(complaint(name, value), result.stderr)
            check(f"{name}={value} costs one line, and the program runs on",
                  works(result) and match is not None, result)
            if match and kind in ("BOOL", "CHOICE"):
                check(f"{name}: the default is one of what is accepted",
                      match["default"] in match["accepted"].split("|"), result)


def several_bad_values_at_once():
    result = run({"HAKMEM_PROFILE": "quick", "HAKMEM_SS_HUGEPAGE": "maybe", "HAKMEM_FOO": "1"})
    lines = sorted(result.stderr.splitlines())
    check("three bad options cost three lines",
          works(result) and len(lines) == 3 and lines[0].startswith("hakmem: HAKMEM_FOO: ")
          and lines[1].startswith("hakmem: HAKMEM_PROFILE=quick: ")
          and lines[2].startswith("hakmem: HAKMEM_SS_HUGEPAGE=maybe: "), result)


def unpleasant_values():
    """One line each, whatever is in the value, and the line says what is accepted."""
    for value in ("x" * 300, "y" * 100000, "a\nb", "%s%n%s", "\x1b[31mred", "\xff\xfe"):
        result = run({"HAKMEM_PROFILE": value})
        check(f"HAKMEM_PROFILE={value[:10]!r}... ({len(value)} characters) costs one line",
              works(result) and result.stderr.count("\n") == 1 and result.stderr.endswith("\n")
              and result.stderr.startswith("hakmem: HAKMEM_PROFILE=")
              and "accepted: speed|balanced|lean" in result.stderr
              and "(using the default, balanced)" in result.stderr, result)


def unknown_names():
    unknown = "hakmem: HAKMEM_FOO: unknown option (see 'hakmem options')\n"
    result = run({"HAKMEM_FOO": "1"})
    check("an unknown name is told once, the child process included",
          works(result) and result.stderr == unknown, result)
    result = run({"HAKMEM_PROFIL": "lean", "HAKMEM_PROFILES": "lean"})
    check("names that only begin like a known one are unknown",
          works(result) and len(result.stderr.splitlines()) == 2
          and result.stderr.count("unknown option") == 2, result)
    result = run({"HAKMEM_" + "Z" * 5000: "1"})
    check("a very long unknown name costs one line",
          works(result) and result.stderr.count("\n") == 1, result)
    result = run({"HAKMEM_BENCH_MIN_SIZE": "16", "HAKMEM": "1", "HAKMEMX_A": "1", "XHAKMEM_A": "1"})
    check("names that are not the library's are none of its business",
          works(result) and result.stderr == "", result)


def raised_privileges():
    """In a setuid program the environment is not read at all."""
    if os.geteuid() != 0:
        print("raised privileges: skipped, a setuid program can be made by root only")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = os.path.join(folder, "setuid_program")
        shutil.copy(static_program, copy)
        os.chmod(copy, 0o4755)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            print("raised privileges: skipped, the temporary folder is mounted nosuid")
            return
        bad = {"HAKMEM_PROFILE": "bogus", "HAKMEM_FOO": "1", "HAKMEM_SS_OS_STATS": "1",
               "LD_PRELOAD": ""}
        control = run(bad, [static_program])
        check("the same program without the bit complains", "bogus" in control.stderr, control)
        result = run(bad, [copy], user=65534, group=65534, extra_groups=[])
        check("a setuid program does not read the options",
              works(result) and result.stderr == "", result)


def os_stats_line():
    result = run({"HAKMEM_SS_OS_STATS": "1"})
    fields = "alloc free madvise madvise_disabled mmap_total fallback_mmap huge_alloc huge_fail"
    pattern = r"\[SS_OS_STATS\] " + " ".join(rf"{f}=\d+" for f in fields.split()) + r"\n"
    check("HAKMEM_SS_OS_STATS=1 gives its line at exit",
          works(result) and re.fullmatch(pattern, result.stderr) is not None, result)


def all_statistics():
    """Under a whole program, libc's own calls included; tests/unit/exit_lines.py has the exact figures."""
    labels = ["SS_OS_STATS", "MEMORY_STATS", "WARM_POOL_STATS", "TINY_HEAP_STATS", "TINY_FRONT_CLASS_STATS"]
    labels += ["REFILL_STATS", "FREE_PIPELINE"] if variant == "observe" else []
    result = run({"HAKMEM_STATS": "all"})
    found = [line.split("]")[0].lstrip("[") for line in result.stderr.splitlines()]
    check("HAKMEM_STATS=all gives every kind of line, and nothing else",
          works(result) and list(dict.fromkeys(found)) == labels, result)
    for tier in ("large", "huge"):
        check(f"there is a line for class={tier}",
              re.search(rf"^\[TINY_FRONT_CLASS_STATS\] class={tier} alloc=[1-9]\d* free=[1-9]\d*$",
                        result.stderr, re.M), result)  # fmt: skip
    result = run({"HAKMEM_STATS": "json"})
    try:
        data = json.loads(result.stderr)
    except ValueError as error:
        check(f"HAKMEM_STATS=json gives one object ({error})", False, result)
        return
    check("JSON is one line", works(result) and result.stderr.count("\n") == 1, result)
    check("fast + slow = alloc in each class",
          all(c["fast"] + c["slow"] == c["alloc"] >= c["free"] for c in data["classes"]), result)
    check("the tiers are used", data["large"]["alloc"] > 0 and data["huge"]["alloc"] > 0, result)
    result = run({"HAKMEM_STATS": "json", "HAKMEM_FORCE_LIBC_ALLOC": "1", "API_TEST_EXPECT": ""})
    check("no class is used when every call goes to libc",
          works(result) and json.loads(result.stderr)["classes"] == [], result)


def malloc_info_is_xml(options, counts):
    # Without samples: a class whose one block is a sample has a block, but no slab.
    result = run({"HAKMEM_PROF_RATE": "0", **options}, [program, "malloc_info"])
    try:
        root = xml.etree.ElementTree.fromstring(result.stdout)
    except xml.etree.ElementTree.ParseError as error:
        check(f"malloc_info parses as XML ({error})", False, result)
        return
    check("malloc_info: the root is <malloc version=...>",
          root.tag == "malloc" and "version" in root.attrib, result)
    classes = root.findall("class")
    tiers = {c.get("tier") for c in classes}
    if variant != "fast":
        check("malloc_info: classes, Large and Huge", len(classes) >= 15 and {"large", "huge"} <= tiers, result)
        check("malloc_info: slabs", all(int(c.get("hits")) + int(c.get("misses")) for c in classes), result)
    small = [c for c in classes if c.get("tier") is None]
    check("malloc_info: sizes ascend", sorted(small, key=lambda c: int(c.get("size"))) == small, result)
    check("malloc_info: blocks are counted when that was asked for",
          all((c.get("alloc") is not None) == counts for c in classes), result)
    if counts:
        check("malloc_info: fast + slow = alloc",
              all(int(c.get("fast")) + int(c.get("slow")) == int(c.get("alloc")) for c in small), result)


def profile_of(result):
    try:
        return json.loads(result.stderr.splitlines()[-1])["profile"]
    except (ValueError, KeyError, IndexError):
        return None


def from_a_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "hakmem.conf")

        def with_file(text, options=None, command=None):
            with open(path, "w") as file:
                file.write(text)
            return run({"HAKMEM_CONF": path, **(options or {})}, command)

        text = "# of the system\n\n \tHAKMEM_PROFILE=lean\t \r\nHAKMEM_STATS=json"
        for command in ([program], [static_program]):
            result = with_file(text, {} if command == [program] else {"LD_PRELOAD": ""}, command)
            check(f"a file's options count in {command[0]}", works(result) and profile_of(result) == "lean", result)
        result = with_file(text, {"HAKMEM_PROFILE": "speed"})
        check("the environment goes before the file", works(result) and profile_of(result) == "speed", result)
        result = with_file(text + "\nHAKMEM_PROFILE=balanced\n")
        check("of two lines the last one counts", works(result) and profile_of(result) == "balanced", result)
        result = with_file("HAKMEM_PROFILE=quick\nHAKMEM_FOO=1\nlean\n")
        lines = sorted(result.stderr.splitlines())
        check("a file's mistakes are told, with their place",
              works(result) and len(lines) == 3 and all("(in the system's file of options)" in line for line in lines)
              and "HAKMEM_FOO" in lines[0] and "not understood" in lines[1] and "lean" in lines[2], result)
        result = with_file("# long\n" * 1000 + "HAKMEM_PROFILE=lean\n")
        check("a long file is cut at a line", works(result) and result.stderr == "", result)
        result = with_file("x" * 10000)
        check("a file that is one long line says nothing", works(result) and result.stderr == "", result)
        os.mkfifo(os.path.join(folder, "pipe"))
        for other in (folder, "/nowhere/at/all", os.path.join(folder, "pipe"), "/dev/null", ""):
            result = run({"HAKMEM_CONF": other})
            check(f"HAKMEM_CONF={other} is no file, and says nothing", works(result) and result.stderr == "", result)


def from_the_program():
    result = run({}, [own_program])
    check("a program's own options count, and its mistakes are told",
          works(result) and profile_of(result) == "speed"
          and result.stderr.splitlines()[0] == "hakmem: HAKMEM_FOO (in the program's hakmem_options): unknown option (see 'hakmem options')", result)
    result = run({"HAKMEM_PROFILE": "lean"}, [own_program])
    check("the environment goes before the program", works(result) and profile_of(result) == "lean", result)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("HAKMEM_PROFILE=balanced\n")
        file.flush()
        result = run({"HAKMEM_CONF": file.name}, [own_program])
        check("so does the file", works(result) and profile_of(result) == "balanced", result)


options = table()
check("options.def was understood", len(options) > 5)
silent_by_default()
malloc_info_is_xml({}, variant == "observe")
if variant == "fast":
    print("options: skipped, the fast variant has them fixed at compile time")
else:
    profiles()
    every_good_value(options)
    every_bad_value(options)
    values_in_any_case(options)
    names_that_were_told()
    several_bad_values_at_once()
    unpleasant_values()
    unknown_names()
    from_a_file()
    from_the_program()
    raised_privileges()
    os_stats_line()
    all_statistics()
    malloc_info_is_xml({"HAKMEM_TINY_HEAP_STATS": "1"}, True)
print("failed" if failures else "passed")
sys.exit(1 if failures else 0)
