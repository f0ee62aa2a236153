"""The commands of docs/symptoms.md and docs/faq.md, each run as it stands; what the start pages promise.

Those of the start pages themselves are run by ecosystem.*, python.install and bindings.rust.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOOL = os.environ["HAKMEM_TEST_TOOL"]
LIBRARY = os.environ["HAKMEM_TEST_LIBRARY"]
PAGES = ("symptoms.md", "faq.md")
MOST_COMMANDS = 5  # to a measured comparison

# Holds some MiB with holes in it and goes on allocating; with no argument it ends at once.
YOUR_PROGRAM = """#!/usr/bin/perl
$| = 1;
my @kept = map { "x" x (100 + $_ % 900) } 1 .. 20000;
undef $kept[$_] for grep { $_ % 16 } 0 .. $#kept;
if (@ARGV) {
    push @kept, map { "z" x 60000 } 1 .. 1000; # some 30 samples: that there is none has a chance of one in 10^12
    print "ready\\n";
    while (1) { push @kept, "y" x 3000; select undef, undef, undef, 0.02 }
}
print "done\\n";
"""

PLACES = r"^covers (0 B|\S+ \wi?B) of .* live bytes, by \d+ samples? \(one in .*\)$"
SUM = r"^resident \d+ = live \d+ \+ slack \d+ \+ caches \d+ \+ fragmentation \d+ \+ metadata \d+ \+ not ours \d+$"
STARTED = r"^done$"
# What each command prints, by a pattern of lines of standard output.
FORMS = {
    "PID=$(pgrep -n your-program)": r"\A\Z",
    "hakmem stats $PID | head -2": SUM + r"\nyour-program \(\d+\), hakmem \d\S* \(\w+\)$",
    "hakmem stats $PID | head -1": SUM,
    "hakmem stats $PID | head -1; sleep 5; hakmem stats $PID | head -1": SUM + "\n" + SUM[1:],
    "hakmem stats $PID | head -10": SUM
    + r"\n.*\n  live .*\n    asked for .*\n    rounding .*\n  slack .*\n  caches .*\n  fragmentation .*\n  metadata .*\n  not ours .*$",
    "hakmem stats": r"\A +PID +resident +live +waste .*(\n.*)*\n +\d+ .* \S*perl ",  # the line is cut within its path
    "hakmem doctor -- your-program": r"^ok    library: .*(\n(ok   |skip ).*)+$",
    "hakmem prof -n 3 $PID": PLACES + r"\nyour-program \(\d+\): .* live, at \d+ places?",
    "hakmem prof --growth=5 $PID": PLACES + r"\nyour-program \(\d+\): .* grown in \d+ s, at \d+ places?",
    "hakmem explain $PID": r"^(Of|hakmem keeps little: of) .* that are resident the program holds .* in blocks.*free or lost.*$",
    # The sum after the trim, not the first line, which is the one before.
    "hakmem explain --trim $PID | tail -2": r"\Atrim: done, resident \S+ \wi?B -> \S+ \wi?B; .*\n" + SUM[1:-1] + r"\n\Z",
    "hakmem prof --rate=65536 $PID > /dev/null": r"\A\Z",
    "hakmem prof --rate=2097152 $PID > /dev/null": r"\A\Z",
    "hakmem prof --leaks -n 3 $PID": PLACES + r"\nyour-program \(\d+\): .* live, at \d+ places?, of which \d+ may leak",
    "hakmem stats --format openmetrics $PID | grep -E '^hakmem_(limit|system_calls_refused|swapped)'":
        r"^hakmem_swapped_bytes\{.*\} \d+\nhakmem_system_calls_refused_total\{.*\} \d+$",
    "hakmem stats --format openmetrics $PID | grep '^hakmem_system_calls_total'": r'call="madvise"\} \d+$',
    "HAKMEM_GUARD_SAMPLE=1 HAKMEM_PROF_RATE=10000 HAKMEM_PROF_MOST=0 hakmem run -- your-program": STARTED,
    "HAKMEM_FORCE_LIBC_ALLOC=1 hakmem run -- your-program": STARTED,
    "hakmem run --variant hardened -- your-program": STARTED,
    "HAKMEM_GUARD=full hakmem run --variant hardened -- your-program": STARTED,
    "build/lab/venv/bin/hakmem-lab compare --allocators glibc,hakmem -- your-program": r"^  tested: .*\(1 run\)$",
    "hakmem prof --allocated -n 3 $PID": PLACES + r"\nyour-program \(\d+\): .* allocated since the start, at \d+ places?",
    "hakmem options --effective $PID | head -3": r"\A(HAKMEM_\w+=\S+ \(\w.*\)\n){3}\Z",
    "hakmem options --current | head -3": r"\A(HAKMEM_\w+=\S+ \(\w.*\)\n){3}\Z",
    "hakmem options HAKMEM_PROFILE": r"^HAKMEM_PROFILE=speed\|balanced\|lean.*\n    .*\n    default: balanced$",
}


def blocks(page: str, language: str = "sh") -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    lines = "".join(blocks(page)).replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if line]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with the command, the lab and `your-program`."""
    place = tmp_path_factory.mktemp("bin")
    (place / "hakmem").symlink_to(TOOL)
    (place / "hakmem-lab").symlink_to(Path(sys.executable).parent / "hakmem-lab")
    program = place / "your-program"
    program.write_text(YOUR_PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


def environment(path: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_PRELOAD"))}
    return kept | {"PATH": path, "HAKMEM_LAB_WARM_MIB": "0"} | more


@pytest.fixture(scope="module")
def process(path: str) -> Iterator[int]:
    held = subprocess.Popen(
        ["hakmem", "run", "--", "your-program", "hold"], env=environment(path), stdout=subprocess.PIPE, text=True
    )
    try:
        assert held.stdout is not None and held.stdout.readline() == "ready\n"
        yield held.pid
    finally:
        held.send_signal(signal.SIGTERM)
        held.wait()


def test_every_command_has_its_form() -> None:
    assert {command for page in PAGES for command in commands(page)} == set(FORMS)


@pytest.mark.parametrize("command", FORMS, ids=lambda text: re.sub(r"\W+", "-", text)[:60])
def test_command(command: str, path: str, process: int, tmp_path: Path) -> None:
    typed = command.replace("sleep 5", "sleep 1").replace("--growth=5", "--growth=1")
    if "hakmem-lab" in command:
        options = f"--rounds 1 --warmup 0 --no-system-calls -o {shlex.quote(str(tmp_path / 'out.json'))}"
        typed = typed.replace("build/lab/venv/bin/", "").replace("glibc,hakmem", f"glibc,tested={LIBRARY} {options}")
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", typed],
        env=environment(path, PID=str(process)),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "hardened" in command and done.returncode == 2:
        assert "hardened" in done.stderr  # says which library is not there
        return
    # `head` may end before what writes to it.
    assert done.returncode == 0 or ("| head" in command and done.returncode == 128 + signal.SIGPIPE), done.stderr
    assert re.search(FORMS[command], done.stdout, re.MULTILINE), done.stdout + done.stderr


def cells(page: str, head: str) -> list[str]:
    """The code in the first column of the table that begins with this head."""
    text = (DOCS / page).read_text(encoding="utf-8")
    table = text.split(f"| {head} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)


def said(*folders: str) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for folder in folders for file in (ROOT / folder).rglob("*.[ch]"))


def test_messages_are_those_of_the_library() -> None:
    sources = said("src")
    wanted = [re.sub(r" \.\.\.$|\.\.\.\)$", "", line) for line in cells("symptoms.md", "Line")]
    assert len(wanted) == 10
    assert [line for line in wanted if line not in sources] == []
    # None is left out that ends a program.
    assert set(re.findall(r'#define REPORT_\w+ "(.*)"', sources)) <= set(wanted)


def test_answers_are_those_of_the_tool() -> None:
    sources = said("tools")
    answers = cells("symptoms.md", "Answer")
    assert len(answers) == 3
    for answer in answers[1:]:
        assert re.sub(r" (but on )?\.\.\.$", "", answer) in sources


def test_parts_are_those_of_the_sum() -> None:
    example = re.search(SUM, (DOCS / "symptoms.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert example is not None
    named = [re.sub(r" \d+$", "", part) for part in example[0].split(" = ")[1].split(" + ")]
    assert set(named) == set(cells("symptoms.md", "The largest part"))


def start_pages() -> list[str]:
    return re.findall(r"\]\((\S+?\.md)\) \|$", (DOCS / "start.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_there_is_a_page_for_each_ecosystem() -> None:
    wanted = ["preload", "c-cpp", "rust", "python", "node", "java", "ruby", "php", "dotnet", "go"]
    assert start_pages() == [f"{name}.md" for name in wanted]


@pytest.mark.parametrize("page", start_pages())
def test_few_commands_lead_to_a_comparison(page: str) -> None:
    first = blocks(page)[0].replace("\\\n", " ")
    lines = [line for line in first.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= MOST_COMMANDS
    assert any("compare" in line for line in lines)


def test_the_program_lives_until_the_end(process: int) -> None:
    """Nothing that the pages tell to type has ended it."""
    time.sleep(0.1)
    assert "your-program" in Path(f"/proc/{process}/comm").read_text()
