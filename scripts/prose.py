#!/usr/bin/env python3
"""Plain English on the pages that people read: long sentences, and words that only this project uses.

Usage: scripts/prose.py             checks the pages that scripts/prose.toml holds to the rules; exit 1 on a finding in one
       scripts/prose.py --all       shows the findings of all other pages too
       scripts/prose.py --figures   a table: sentences, median and longest of each page
       scripts/prose.py FILE...     all findings of these pages, held or not

A sentence ends at a full stop, a question mark or an exclamation mark, and with its paragraph, list item or line of a definition.
A piece of code (`hakmem prof --peak`) is one word. Headings, tables and blocks of code are no sentences.
"""
from __future__ import annotations

import fnmatch
import re
import statistics
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s+")
CODE = re.compile(r"`[^`]+`")
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
TAG = re.compile(r"</?[a-zA-Z][^>]*>|<!--.*?-->")
# A full stop that a new sentence follows, not that of 0.95, e.g. or a file's name.
END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[\w`])")
NO_WORD = re.compile(r"^[^\w%]+$")


@dataclass(frozen=True)
class Sentence:
    line: int
    text: str

    @property
    def words(self) -> int:
        return sum(1 for word in self.text.split() if not NO_WORD.match(word))


@dataclass(frozen=True)
class Rules:
    longest: int
    long: int
    median: int
    held: tuple[str, ...]
    pages: tuple[str, ...]
    generated: tuple[str, ...]
    words: tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True)
class Page:
    path: str
    sentences: list[Sentence]

    @property
    def lengths(self) -> list[int]:
        return [sentence.words for sentence in self.sentences] or [0]

    @property
    def median(self) -> float:
        return statistics.median(self.lengths)


def read_rules(path: Path) -> Rules:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    words = tuple((re.compile(rf"\b{word['pattern']}\b", re.IGNORECASE), word["instead"]) for word in content["word"])
    lists = {name: tuple(content[name]) for name in ("held", "pages", "generated")}
    return Rules(content["longest"], content["long"], content["median"], words=words, **lists)


class Blocks:
    """Paragraphs and list items, each with the line on which it begins."""

    def __init__(self) -> None:
        self.closed: list[Sentence] = []
        self.begin, self.gathered = 0, ""

    def add(self, number: int, line: str) -> None:
        """Line `number` of the page, without its indentation. An item begins a block."""
        if ITEM.match(line):
            self.close()
            line = ITEM.sub("", line)
        if not self.gathered:
            self.begin = number
        self.gathered += line + " "

    def close(self) -> None:
        if self.gathered.strip():
            self.closed.append(Sentence(self.begin, self.gathered))
        self.gathered = ""


def markdown_blocks(text: str) -> list[Sentence]:
    blocks, fence = Blocks(), ""
    for number, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if found and (not fence or found[1].startswith(fence)):  # a longer one may hold shorter ones
            fence = "" if fence else found[1]
            blocks.close()
            continue
        line = (line.lstrip("> ") if line.startswith(">") else line).strip()
        if fence or not line or line.startswith(("#", "|")):
            blocks.close()
        else:
            blocks.add(number, line)
    blocks.close()
    return blocks.closed


def scdoc_blocks(text: str) -> list[Sentence]:
    """The same of a page in scdoc: its definitions begin with a line in bold or italics, its tables with [ | ] and :."""
    blocks, fenced, previous = Blocks(), False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip().startswith("```"):
            fenced = not fenced
            blocks.close()
            continue
        bare = line.strip()
        if fenced or not bare or re.match(r"^(#|;|[\[|\]:][ \t\[\]-]|const |hakmem\(\d\)$)", bare):
            blocks.close()
            previous = line
            continue
        # An indented line below one that is not: what was gathered is the term that is defined.
        if line.startswith("\t") and previous and not previous.startswith("\t"):
            blocks.gathered = ""
        blocks.add(number, bare.removesuffix("++"))
        previous = line
        if bare.endswith("++"):
            blocks.close()
    blocks.close()
    return blocks.closed


def plain(text: str, scdoc: bool) -> str:
    """What is read of a block: code as one word, links as their text, no marks."""
    if scdoc:
        text = re.sub(r"(?<!\w)_([^_]+)_(?!\w)", r"\1", text)
        text = re.sub(r"\*([^*]+)\*", r"`\1`", text)
        text = re.sub(r"\\(.)", r"\1", text)
    else:
        text = IMAGE.sub("", text)
    text = CODE.sub(lambda match: re.sub(r"\s+", "_", match.group(0)), text)
    return text if scdoc else TAG.sub("", LINK.sub(r"\1", text)).replace("*", "")


def read_page(path: Path, root: Path = ROOT) -> Page:
    scdoc = path.suffix == ".scd"
    text = path.read_text(encoding="utf-8")
    sentences = [
        Sentence(block.line, sentence.strip())
        for block in (scdoc_blocks(text) if scdoc else markdown_blocks(text))
        for sentence in END.split(plain(block.text, scdoc))
        if sentence.strip()
    ]
    return Page(str(path.relative_to(root)), [sentence for sentence in sentences if sentence.words])


def check(page: Page, rules: Rules) -> list[str]:
    """What to mend: sentences above `longest`, listed words, and a median that is too high with the longest sentences."""
    findings = []
    for sentence in page.sentences:
        if sentence.words > rules.longest:
            findings.append(f"{page.path}:{sentence.line}: {sentence.words} words: {sentence.text[:100]}")
        for pattern, instead in rules.words:
            for match in pattern.finditer(CODE.sub("`", sentence.text)):
                findings.append(f'{page.path}:{sentence.line}: "{match.group(0)}": rather: {instead}')
    if page.median > rules.median:
        findings.append(f"{page.path}: the median sentence has {page.median:g} words, at most {rules.median} are wanted")
    return findings


def long_ones(page: Page, rules: Rules) -> list[str]:
    """Reported, no failure: a reader can follow one of them now and then."""
    return [
        f"{page.path}:{sentence.line}: {sentence.words} words: {sentence.text[:100]}"
        for sentence in page.sentences
        if rules.long < sentence.words <= rules.longest
    ]


def find_pages(rules: Rules, root: Path = ROOT) -> list[Path]:
    found = {path for pattern in rules.pages for path in root.glob(pattern)}
    return sorted(path for path in found if str(path.relative_to(root)) not in rules.generated)


def is_held(page: Page, rules: Rules) -> bool:
    return any(fnmatch.fnmatch(page.path, pattern) for pattern in rules.held)


def print_figures(pages: list[Page], rules: Rules) -> None:
    print(f"{'page':<32}{'sentences':>10}{'median':>8}{'longest':>9}{f'> {rules.long}':>6}  held")
    for page in pages:
        print(figure_line(page.path, page.sentences, rules) + ("  yes" if is_held(page, rules) else ""))
    print(figure_line("all", [sentence for page in pages for sentence in page.sentences], rules))


def figure_line(name: str, sentences: list[Sentence], rules: Rules) -> str:
    lengths = [sentence.words for sentence in sentences] or [0]
    above = sum(length > rules.long for length in lengths)
    return f"{name:<32}{len(sentences):>10}{statistics.median(lengths):>8g}{max(lengths):>9}{above:>6}"


def lint(rules: Rules, root: Path, show_all: bool = False) -> int:
    pages = [read_page(path, root) for path in find_pages(rules, root)]
    held = [page for page in pages if is_held(page, rules)]
    others = [page for page in pages if not is_held(page, rules)]
    missing = [path for path in rules.held if not any(fnmatch.fnmatch(page.path, path) for page in pages)]
    findings = [finding for page in held for finding in check(page, rules)]
    findings += [f"scripts/prose.toml: holds {path}, which is no page" for path in missing]
    for finding in findings:
        print(finding, file=sys.stderr)
    reported = [line for page in held for line in long_ones(page, rules)]
    for page in others if show_all else []:
        reported += check(page, rules) + long_ones(page, rules)
    for line in reported:
        print(line)
    waiting = sum(bool(check(page, rules)) for page in others)
    print(f"prose: {len(held)} of {len(pages)} pages are held to the rules, {len(findings)} findings; {waiting} others have some")
    return 1 if findings else 0


def main(arguments: list[str]) -> int:
    rules = read_rules(ROOT / "scripts" / "prose.toml")
    if arguments == ["--figures"]:
        print_figures([read_page(path) for path in find_pages(rules)], rules)
        return 0
    if arguments and arguments != ["--all"]:
        pages = [read_page(Path(name).resolve()) for name in arguments]
        print(*(line for page in pages for line in check(page, rules) + long_ones(page, rules)), sep="\n")
        print_figures(pages, rules)
        return 0
    return lint(rules, ROOT, show_all=bool(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
