"""Every link of the built site leads to a file of it, and to a place in that file; nothing is loaded from elsewhere."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(os.environ["SITE_TEST_FOLDER"])
PAGES = sorted(SITE.rglob("*.html"))
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("built")
# What a reader may follow out of the site; the rest of the web is a mistake.
MAY_LEAD_TO = ("https://github.com/daanx/mimalloc-bench",)
LOADS = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "srcset")}


@dataclass
class Read(HTMLParser):
    """The links, loads and places of a page."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.places.add(value)
            elif (tag, name) in LOADS:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


@cache
def read(page: Path) -> Read:
    parser = Read()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def problem(page: Path, link: str) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None if link.startswith(MAY_LEAD_TO) else f"{link} is elsewhere"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if page.name == "404.html" and parts.path.startswith("/"):
        target = SITE / unquote(parts.path).lstrip("/")  # it is shown for any address
    if not target.is_file():
        return f"{link}: no such file"
    if parts.fragment and unquote(parts.fragment) not in read(target).places:
        return f"{link}: no such place"
    return None


def test_there_are_pages() -> None:
    names = {str(page.relative_to(SITE)) for page in PAGES}
    written = {str(file.relative_to(ROOT / "docs").with_suffix(".html")) for file in (ROOT / "docs").glob("*.md")}
    assert (written - {"README.html"}) <= names
    assert {"index.html", "options.html", "statistics.html", "results/index.html", "decisions/index.html"} <= names


def found_in(links_of: Callable[[Read], list[str]]) -> dict[str, list[str]]:
    """What is wrong with the links of each page."""
    wrong = {}
    for page in PAGES:
        if texts := [text for link in links_of(read(page)) if (text := problem(page, link))]:
            wrong[str(page.relative_to(SITE))] = texts
    return wrong


def test_links() -> None:
    assert found_in(lambda page: page.links) == {}


def test_nothing_is_loaded_from_elsewhere() -> None:
    loads = [load for page in PAGES for load in read(page).loads]
    assert [load for load in loads if urlsplit(load).netloc] == []
    assert found_in(lambda page: [load for load in page.loads if not load.startswith("data:")]) == {}


def test_every_option_has_its_place() -> None:
    """The page is made from the library's table; the table's source is read here."""
    table = (ROOT / "src/policy/options.def").read_text(encoding="utf-8")
    parts = re.split(r"^HAK_OPTION\(", table, flags=re.MULTILINE)[1:]
    names = [part.split('"')[1] for part in parts if '""' not in part]
    assert len(names) > 20
    assert {name.lower() for name in names} <= read(SITE / "options.html").places


def test_every_statistic_of_the_header_is_there() -> None:
    header = (ROOT / "include/hakmem.h").read_text(encoding="utf-8")
    text = (SITE / "statistics.html").read_text(encoding="utf-8")
    structs = re.findall(r"^struct (hak_\w*stats) \{(.*?)^\};", header, re.DOTALL | re.MULTILINE)
    assert len(structs) == 4
    for name, body in structs:
        assert name in read(SITE / "statistics.html").places
        fields = re.findall(r"\b(\w+);", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
        assert fields and [field for field in fields if f"<code>{field}</code>" not in text] == []
    families = re.findall(r"<code>(hakmem_\w+)</code>", text)
    assert "hakmem_resident_bytes" in families and len(families) > 15


def test_lists_are_lists() -> None:
    """The site wants an empty line before a list, and four blanks before what belongs to an item; else the items stay text."""
    texts = {page: re.sub(r"<pre.*?</pre>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL) for page in PAGES}
    found = {page.name: re.findall(r"^(?:\d+\.|-) .{0,40}", text, re.MULTILINE) for page, text in texts.items()}
    assert {name: items for name, items in found.items() if items} == {}


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<h2 id="there"></h2>', encoding="utf-8")
    assert [problem(page, link) for link in ("#there", "page.html#there", "page.html")] == [None] * 3
    for link in ("#not", "page.html#not", "other.html", "https://example.org/", "//example.org/page.html"):
        assert problem(page, link) is not None
