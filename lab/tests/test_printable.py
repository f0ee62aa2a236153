"""Control characters of programs and files do not reach the terminal."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import good, in_this_process, lab
from samples import phases_csv, soak_csv, suite, write_samples

from hakmem_lab.base.paths import Paths
from hakmem_lab.base.printable import printable, with_printable_texts
from hakmem_lab.run.results import RowResult, write_result
from hakmem_lab.trace.info import show_command

Monkey = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]

BAD = "\x1b[2J\x1b]0;owned\x07\r\b\x9b31m\u202e\ud800[/b][red]"
SHOWN = r"\x1b[2J\x1b]0;owned\x07\r\x08\x9b31m\u202e\ud800[/b][red]"


def assert_clean(text: str) -> None:
    assert not [c for c in text if c not in "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)], repr(
        text
    )
    assert "\u202e" not in text


def test_printable() -> None:
    assert printable(BAD) == SHOWN
    assert printable("plain – text × µs 日本") == "plain – text × µs 日本"
    assert printable("a\tb\nc") == r"a\tb\nc"
    row = RowResult(BAD, "", "", "wall", 1.0, [BAD], {BAD: BAD})
    changed: RowResult = with_printable_texts(row)
    assert (changed.name, changed.command, changed.environment) == (SHOWN, [SHOWN], {SHOWN: SHOWN})
    assert row.name == BAD


def test_what_a_program_says_before_it_dies(repository: Paths, tmp_path: Path) -> None:
    program = tmp_path / "name\x1b[31m"
    program.write_text("#!/bin/sh\nprintf 'gone \\033[2J\\033]0;owned\\007 now' >&2\nexit 3\n")
    program.chmod(0o755)
    options = ("--allocators", "glibc,hakmem", "--rounds", "1", "--no-system-calls")
    done = lab(repository, "compare", *options, "--", str(program))
    assert done.returncode == 1
    assert_clean(done.stdout)
    assert_clean(done.stderr)
    for text in (done.stdout, done.stderr):
        assert r"exit code 3: gone \x1b[2J\x1b]0;owned\x07 now" in text
    assert r"name\x1b[31m" in done.stdout


def hostile_result(kind: str) -> Any:
    result = suite(2)
    result.kind = kind
    result.machine = {**result.machine, "cpu_model": BAD}
    result.settings = {**result.settings, "x" + BAD: BAD, "base": "glibc", "problems": [BAD]}
    row = result.rows[0]
    row.name = row.idea = BAD
    row.command = [BAD]
    row.system_calls = {"hakmem": {BAD: 3}}
    result.rows[1].missing = BAD
    text = json.dumps(json.loads(as_json(result)))
    text = text.replace('"lean"', json.dumps("lean" + BAD))
    content = json.loads(text)
    content["rows"][0]["runs"][1]["failure"] = BAD
    for allocator in content["allocators"]:
        allocator["version"] = allocator["source"] = BAD
    return content


def as_json(result: Any) -> str:
    from hakmem_lab.run.results import as_text

    return as_text(result)


@pytest.mark.parametrize("kind", ["suite", "programs", "ab", "compare", "replay", "steady"])
def test_what_stands_in_a_result(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(hostile_result(kind)))
    code, out, err = in_this_process(monkeypatch, capsys, "show", file)
    assert code == 0, err
    assert_clean(out + err)
    assert r"\x1b[2J" in out
    page = tmp_path / "page.html"
    code, out, err = in_this_process(monkeypatch, capsys, "report", file, "-o", page)
    assert code == 0, err
    assert_clean(out + err)
    text = page.read_text()
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "lean\\x1b[2J" in text.replace("\\\\", "\\")


def test_what_stands_in_a_scorecard_a_rank_and_what_is_published(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path
) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(hostile_result("suite")))
    code, out, err = in_this_process(monkeypatch, capsys, "rank", file, file)
    assert code == 0, err
    assert_clean(out + err)
    card = tmp_path / "card.md"
    code, _, err = in_this_process(monkeypatch, capsys, "scorecard", "--results", file, "-o", card)
    assert code == 0, err
    assert_clean(card.read_text())
    out_file = tmp_path / f"x{chr(27)}.json"
    code, out, err = in_this_process(
        monkeypatch, capsys, "publish", file, "-o", out_file, "--as-it-is"
    )
    assert code == 0 and r"x\x1b.json" in out
    assert_clean(out + err)


def test_labels_of_soaks_and_names_of_files(
    monkeypatch: Monkey, capsys: Captured, tmp_path: Path
) -> None:
    soak = tmp_path / "so\x1bak.csv"
    soak.write_text(soak_csv(30, 1))
    phases = tmp_path / "phases.csv"
    phases.write_text(phases_csv(4, 1.5).replace("hakmem", "hak\x1bmem"))
    for words in (("soak", soak), ("tail", soak), ("soak", phases), ("show", soak)):
        _, out, err = in_this_process(monkeypatch, capsys, *words)
        assert_clean(out + err)
        assert r"\x1b" in out + err
    page = tmp_path / "page.html"
    code, out, err = in_this_process(monkeypatch, capsys, "report", soak, phases, "-o", page)
    assert code == 0, err
    assert "\x1b" not in page.read_text()


def test_brackets_are_no_markup(monkeypatch: Monkey, capsys: Captured, tmp_path: Path) -> None:
    result = suite(2)
    result.rows[0].name = "[/red] [bold]row"
    write_result(result, tmp_path / "x.json")
    code, out, err = in_this_process(monkeypatch, capsys, "show", tmp_path / "x.json")
    assert code == 0, err
    assert "[/red] [bold]row" in out


def test_a_good_program_is_shown_as_it_is(repository: Paths, built: Path) -> None:
    options = ("--allocators", "glibc,hakmem", "--rounds", "1", "--no-system-calls")
    text, _ = good(repository, "compare", *options, "--", str(built / "ops"), "é – 10")
    assert "é – 10" in text
    result, _ = write_samples(repository.root)
    assert result.is_file()


def test_a_recorded_command_keeps_its_quotes() -> None:
    assert show_command({"command": ["sh", "-c", "echo a b"]}) == "sh -c 'echo a b'"
    assert show_command({"command": ["sh", "-c", "a\nb"]}) == "sh -c 'a ..."
