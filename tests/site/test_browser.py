"""The built site in a real Chromium, read from its folder: at a desk and on a phone, light and dark. Nothing overflows, nothing
is said on the console, nothing is asked for outside of the folder; the search finds, the plots are drawn."""

import os
import re
import shutil
import string
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

import pytest

from hakmem_lab.base.reading import read_json

SITE = Path(os.environ["SITE_TEST_FOLDER"])
ROOT = Path(__file__).resolve().parents[2]
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.usefixtures("built"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: scripts/setup.sh test-all"),
]
DESK = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
TIMEOUT = 30.0  # seconds; of a machine that is busy with something else
ALL = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html") if page.name != "404.html")
# Without those that show a file, which is as it is.
WRITTEN = [name for name in ALL if not name.startswith("repository/") or name.endswith(("CONTRIBUTING.html", "lab/README.html"))]
# One of each kind, where all would repeat each other.
SOME = ["index.html", "start.html", "symptoms.html", "faq.html", "lab.html", "options.html", "results/index.html", "repository/CHANGELOG.html"]
PLOTS = ["suite", "programs", "soak", "steady", "variants", "instructions", "startup", "campaigns"]


OWN = ("http://127.0.0.1:",)  # of a server that a test has started


class Watched:
    """A page, and what it said and asked for."""

    def __init__(self, context: Any) -> None:
        self.said: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(TIMEOUT * 1000)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("requestfailed", self.failed)

    def failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # the next page came before it
            self.said.append(f"{request.failure}: {request.url}")

    def open(self, page: str) -> None:
        self.page.goto((SITE / page).as_uri())

    def until(self, condition: str) -> None:
        end = time.monotonic() + TIMEOUT
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, (condition, self.said)
            time.sleep(0.05)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def watched(browser: Any) -> Iterator[Any]:
    contexts: list[Any] = []
    pages: list[Watched] = []

    def open_with(**options: Any) -> Watched:
        context = browser.new_context(**options)
        contexts.append(context)

        def decide(route: Any) -> None:
            if route.request.url.startswith((SITE.as_uri() + "/", *OWN, "data:", "blob:", "about:")):
                route.continue_()
            else:
                route.abort()  # and so it is said

        context.route("**/*", decide)
        pages.append(Watched(context))
        return pages[-1]

    yield open_with
    said = [page.said for page in pages]
    for context in contexts:
        context.close()
    assert said == [[] for _ in pages]


def too_wide(page: Watched) -> list[str]:
    """What reaches beyond the window and does not scroll by itself."""
    found = page.page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
             [...document.querySelectorAll("body *")]
               .filter(e => e.getBoundingClientRect().right > innerWidth + 1
                            && !e.closest("pre, .md-typeset__scrollwrap, .md-sidebar, .md-search, p:has(> img)"))
               .map(e => `${e.tagName} ${e.textContent.trim().slice(0, 60)}`)
               .concat([`${document.documentElement.scrollWidth} of ${innerWidth}`])"""
    )
    assert isinstance(found, list)
    return found


def cut_code(page: Watched, blocks: str) -> list[str]:
    """The longest line of each block of code in which lines go on beyond its edge."""
    found = page.page.evaluate(
        """(blocks) => [...document.querySelectorAll(`${blocks} pre > code`)]
             .filter(e => e.scrollWidth > e.clientWidth + 1)
             .map(e => e.textContent.split("\\n").sort((a, b) => b.length - a.length)[0])""",
        blocks,
    )
    assert isinstance(found, list)
    return found


def pages_that_are_too_wide(page: Watched, names: list[str]) -> dict[str, list[str]]:
    wide = {}
    for name in names:
        page.open(name)
        if found := too_wide(page):
            wide[name] = found
    return wide


def test_no_page_is_wider_than_a_phone(watched: Any) -> None:
    """All of them, as they stand before the theme's script runs, which takes most of a second a page."""
    page = watched(**PHONE, color_scheme="dark")
    page.page.route("**/bundle.*.js", lambda route: route.fulfill(body=""))
    assert len(ALL) > 60
    assert pages_that_are_too_wide(page, ALL) == {}


@pytest.mark.parametrize("shape, blocks", [(DESK, ".highlight"), (PHONE, ".language-sh")], ids=["desk", "phone"])
def test_no_line_of_code_is_cut(watched: Any, shape: dict[str, Any], blocks: str) -> None:
    """At a desk all, on a phone commands; output scrolls there, under a shade."""
    page = watched(**shape, color_scheme="light")
    page.page.route("**/bundle.*.js", lambda route: route.fulfill(body=""))
    cut = {}
    for name in WRITTEN:
        page.open(name)
        if found := cut_code(page, blocks):
            cut[name] = found
    assert cut == {}


def test_a_printed_table_keeps_its_columns_at_a_desk(watched: Any) -> None:
    """A line that wraps makes a table unreadable: each stands in one."""
    page = watched(**DESK, color_scheme="light")
    tables = [name for name in ALL if re.fullmatch(r"results/(suite|programs)-[\d.]+\.html", name)]
    assert len(tables) == 2
    for name in [*tables, "lab.html"]:
        page.open(name)
        broken = page.page.evaluate(
            """[...document.querySelectorAll(".language-text pre > code")].map(e =>
                 Math.round(e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight))
                 - e.textContent.trimEnd().split("\\n").length)"""
        )
        assert broken and max(broken) <= 3, (name, broken)  # its padding counts as two lines


def test_code_that_scrolls_has_a_shade(watched: Any) -> None:
    page = watched(**PHONE, color_scheme="light")
    page.open("symptoms.html")
    assert cut_code(page, ".highlight:not(.language-sh)") != []
    shade = 'getComputedStyle(document.querySelector(".highlight:not(.language-sh) pre > code")).backgroundImage'
    assert "gradient" in page.page.evaluate(shade)


@pytest.mark.parametrize("name", ["index.html", "symptoms.html"])
def test_a_table_that_scrolls_has_a_shade(watched: Any, name: str) -> None:
    """The theme's script wraps tables; nothing that is drawn above the shade hides it."""
    page = watched(**PHONE, color_scheme="light")
    page.open(name)
    page.until("document.querySelector('.md-typeset__scrollwrap') !== null")
    shown = page.page.evaluate(
        """[...document.querySelectorAll(".md-typeset__scrollwrap")].filter(e => e.scrollWidth > e.clientWidth + 1)
             .map(e => [getComputedStyle(e).backgroundImage, getComputedStyle(e.querySelector("table")).backgroundColor])"""
    )
    assert shown and all("gradient" in image and colour == "rgba(0, 0, 0, 0)" for image, colour in shown)


def test_the_name_of_an_option_is_one_line_on_a_phone(watched: Any) -> None:
    page = watched(**PHONE, color_scheme="light")
    page.open("options.html")
    lines = page.page.evaluate(
        """[...document.querySelectorAll("h2[id^=hakmem_]")].map(e =>
             [e.textContent, Math.round(e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight))])"""
    )
    assert len(lines) > 20 and [name for name, count in lines if count > 1] == []


def test_letters_in_the_picture_can_be_read_on_a_phone(watched: Any) -> None:
    page = watched(**PHONE, color_scheme="light")
    page.open("index.html")
    width = "document.querySelector('img[src*=\"pictures/\"]').getBoundingClientRect().width"
    assert page.page.evaluate(width) / 96 > 7  # CSS pixels a column of the terminal; an eye needs some 6
    assert too_wide(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shape", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_overflows(watched: Any, shape: dict[str, Any], scheme: str) -> None:
    assert pages_that_are_too_wide(watched(**shape, color_scheme=scheme), SOME) == {}


# Each kind of text whose contrast to its ground is below what WCAG 2.2 asks for at level AA: 4.5, or 3 for large letters.
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = (e) => e === null ? [255, 255, 255, 1] : over(rgba(getComputedStyle(e).backgroundColor), ground(e.parentElement));
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const found = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest("svg, script, style, noscript, .md-search, .hak-plot") || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(e), back = ground(e), [a, b] = [light(over(rgba(style.color), back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) {
      const key = `${e.tagName}.${e.className} ${style.color}`;
      if (!found.has(key)) found.set(key, `${key}: ${ratio.toFixed(2)}, "${walk.currentNode.data.trim().slice(0, 40)}"`);
    }
  }
  return [...found.values()];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(watched: Any, scheme: str) -> None:
    page = watched(**DESK, color_scheme=scheme)
    faint = {}
    for name in [*SOME, "rust.html", "scorecard.html"]:
        page.open(name)
        if found := page.page.evaluate(FAINT):
            faint[name] = found
    assert faint == {}


def background(page: Watched) -> int:
    """How light the page's ground is: 0 to 255."""
    rgb = page.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    return int(sum(rgb) / 3)


def test_colours_follow_the_system_and_the_switch(watched: Any) -> None:
    light, dark = (watched(**DESK, color_scheme=scheme) for scheme in ("light", "dark"))
    for page in (light, dark):
        page.open("index.html")
    assert background(light) > 240 and background(dark) < 60
    for _ in range(2):  # as the system, light, dark
        light.page.locator("label[for^=__palette]:visible").click()
    light.until("document.body.dataset.mdColorScheme === 'slate'")
    assert background(light) < 60


@pytest.mark.parametrize("shape", [DESK, PHONE], ids=["desk", "phone"])
def test_search(watched: Any, shape: dict[str, Any]) -> None:
    """Also without a server, where a browser starts no workers."""
    page = watched(**shape)
    page.open("index.html")
    if shape is PHONE:
        page.page.locator("label.md-header__button[for=__search]").click()
    field = page.page.locator("input.md-search__input")
    field.focus()
    page.until("document.querySelector('.md-search-result__meta').textContent.includes('start searching')")
    field.press_sequentially("HAKMEM_WARM_POOL_DECAY")  # the theme listens for keys
    page.page.wait_for_selector(".md-search-result__item a")
    found = page.page.locator(".md-search-result__link").evaluate_all("links => links.map(link => link.href)")
    assert any("/options.html" in link for link in found)
    field.fill("")
    field.press_sequentially("leaks perhaps")
    page.until("[...document.querySelectorAll('.md-search-result__link')].some(e => e.href.includes('symptoms.html'))")


def test_search_of_each_letter(watched: Any) -> None:
    """No first letters of a word make the search fail (it says so in the console), with all that the pages say."""
    page = watched(**DESK)
    page.open("index.html")
    field = page.page.locator("input.md-search__input")
    field.focus()
    page.until("document.querySelector('.md-search-result__meta').textContent.includes('start searching')")
    for letters in string.ascii_lowercase:
        field.fill("")
        field.press_sequentially(letters)
        page.until("document.querySelector('.md-search-result__meta').textContent.includes('matching')")
    field.fill("")
    field.press_sequentially("decay ms")  # parts of the names of options are words, too
    page.until("[...document.querySelectorAll('.md-search-result__link')].some(e => e.href.includes('options.html'))")


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def test_search_where_the_site_is_served(watched: Any) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = watched(**DESK)
        page.page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        field = page.page.locator("input.md-search__input")
        field.focus()
        page.until("document.querySelector('.md-search-result__meta').textContent.includes('start searching')")
        field.press_sequentially("leaks perhaps")
        page.until("[...document.querySelectorAll('.md-search-result__link')].some(e => e.href.includes('symptoms.html'))")
        server.shutdown()


def traces(page: Watched, figures: str) -> list[dict[str, Any]]:
    """The data that plotly holds of the first plot of a file, once it is drawn."""
    place = f".hak-plot[data-figures='{figures}']"
    page.page.locator(place).first.scroll_into_view_if_needed()
    page.until(f"document.querySelector(\"{place}\").dataset.drawn === 'yes'")
    found = page.page.evaluate(
        f"""document.querySelector("{place} .js-plotly-plot").data
              .map(({{x, name, visible}}) => ({{x: [...x], name, visible: visible !== "legendonly"}}))"""
    )
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    "shape, scheme", [(DESK, "light"), (PHONE, "dark")], ids=["desk-light", "phone-dark"]
)
def test_plots(watched: Any, shape: dict[str, Any], scheme: str) -> None:
    page = watched(**shape, color_scheme=scheme)
    page.open("results/index.html")
    named = page.page.evaluate("[...new Set([...document.querySelectorAll('.hak-plot')].map(e => e.dataset.figures))]")
    assert set(PLOTS) <= set(named)
    for name in named:
        drawn = traces(page, name)
        assert any(trace["visible"] and len(trace["x"]) > 0 for trace in drawn), name
    page.until("[...document.querySelectorAll('.hak-plot')].every(e => e.dataset.drawn === 'yes')"
               " || (scrollBy(0, innerHeight), false)")
    assert page.page.evaluate("document.querySelectorAll('.hak-plot .main-svg').length") >= len(PLOTS)
    assert too_wide(page) == []


def test_the_suite_is_drawn_from_its_file(watched: Any) -> None:
    kept = read_json(next((ROOT / "docs/results").glob("suite-*.json.zst")))
    page = watched(**DESK)
    page.open("results/index.html")
    other = next(trace for trace in traces(page, "suite") if trace["name"] == "mimalloc3")
    assert len(other["x"]) == sum(
        {"hakmem", "mimalloc3"} <= {run["allocator"] for run in row["runs"] if run["failure"] is None}
        for row in kept["rows"]
    )
    row = kept["rows"][0]
    costs = {
        name: median(1 / run["throughput_per_s"] for run in row["runs"] if run["allocator"] == name)
        for name in ("hakmem", "mimalloc3")
    }
    assert row["measure"] == "throughput"
    assert other["x"][0] == pytest.approx(costs["mimalloc3"] / costs["hakmem"], rel=1e-3)


def test_another_row_and_other_colours_are_drawn_anew(watched: Any) -> None:
    page = watched(**DESK, color_scheme="light")
    page.open("results/index.html")
    place = ".hak-plot[data-figures='programs'][data-plot='row']"
    page.page.locator(place).scroll_into_view_if_needed()
    page.until(f"document.querySelector(\"{place}\").dataset.drawn === 'yes'")
    data = f'JSON.stringify(document.querySelector("{place} .js-plotly-plot").data[0].x)'
    before = page.page.evaluate(data)
    page.page.locator(f"{place} select").first.select_option("redis")
    page.until(f"{data} !== {before!r}")
    colour = f'document.querySelector("{place} .js-plotly-plot").layout.font.color'
    light = page.page.evaluate(colour)
    page.page.emulate_media(color_scheme="dark")
    page.until(f"{colour} !== {light!r}")


@pytest.fixture(scope="module")
def flame(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A flame graph of the tool: a program that allocates in two libraries."""
    made = tmp_path_factory.mktemp("flame") / "flame.html"
    program = "import sqlite3; c = sqlite3.connect(':memory:'); c.execute('create table t(a)');" \
        "c.executemany('insert into t values(?)', [('x' * 99,)] * 99999); held = [bytes(999) for _ in range(9999)]"
    command = [os.environ["HAKMEM_TEST_TOOL"], "prof", "--peak", "--format=html", f"--output={made}", "--", "python3", "-c", program]
    subprocess.run(command, env=os.environ | {"HAKMEM_PROF_RATE": "16384"}, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shape", [DESK, PHONE], ids=["desk", "phone"])
def test_flame_graph(watched: Any, flame: Path, shape: dict[str, Any], scheme: str) -> None:
    """A colour for each library, sizes in the frames, and all of it can be read."""
    page = watched(**shape, color_scheme=scheme)
    page.page.context.unroute("**/*")
    page.page.goto(flame.as_uri())
    frames = page.page.evaluate(
        """[...document.querySelectorAll(".frame")].map(e => [nodes[e.dataset.node].library, e.style.background.split(" ")[0], e.textContent])"""
    )
    hues: dict[str, set[str]] = {}
    for library, colour, _ in frames:
        hues.setdefault(library, set()).add(colour)
    assert len(hues) > 3 and any("sqlite3" in library for library in hues), hues
    assert all(len(found) == 1 for found in hues.values()), hues
    assert len(set.union(*hues.values())) == len(hues), hues
    assert all(re.search(r"  \d+(\.\d)? ([KMG]iB|B)$", text) for _, _, text in frames if text)
    legend = page.page.locator("#libraries button").all_inner_texts()
    assert set(hues) - {""} <= {entry.split(" ")[0] for entry in legend}
    assert page.page.evaluate(FAINT) == []
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.page.locator("#libraries button").first.click()
    assert "found: " in page.page.locator("#sum").inner_text()
