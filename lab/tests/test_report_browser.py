"""The report in a real Chromium: it renders, sorts, opens, shows its data, asks for nothing."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from samples import COSTS, HOSTILE, PEAKS, ROUNDS, phases_csv, write_samples

from hakmem_lab.base.paths import Paths
from hakmem_lab.cli.scorecard import kept_version, usual_sources
from hakmem_lab.report.html import Soaks, read_soaks, render
from hakmem_lab.run.allocators import hakmem
from hakmem_lab.run.results import read_result

ROOT = Path(__file__).resolve().parents[2]
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.usefixtures("few_resamples"),
    pytest.mark.skipif(
        CHROMIUM is None, reason="chromium is not installed: scripts/setup.sh test-all"
    ),
]


@dataclass
class Files:
    page: Path
    result: dict[str, Any]


@pytest.fixture(scope="module")
def files(few_resamples: None, tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("report")
    result, soak = write_samples(directory)
    text = render([(result, read_result(result))], read_soaks([soak]))
    page = directory / "report.html"
    page.write_text(text, encoding="utf-8")
    return Files(page, json.loads(result.read_text()))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


TIMEOUT = 15.0  # seconds; of a machine that is busy with something else


@dataclass
class Watched:
    """A page, and what it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def until(self, condition: str) -> None:
        """Waits for an expression to hold. Playwright's own waiting is an eval, which the page's
        policy forbids."""
        end = time.monotonic() + TIMEOUT
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def plot(self, selector: str) -> list[dict[str, Any]]:
        """The data that plotly holds of a plot, once it is drawn."""
        place = self.page.locator(selector).first
        place.scroll_into_view_if_needed()
        self.page.wait_for_selector(f"{selector}.js-plotly-plot")
        traces = place.evaluate(
            """plot => plot.data.map(({x, y, text, name, error_x}) =>
                 ({x: [...x], y: y ? [...y] : null, text, name,
                   up: error_x ? [...error_x.array] : null}))"""
        )
        assert isinstance(traces, list)
        return traces

    def names(self, table: str) -> list[str]:
        """The heads of a table's rows, from top to bottom."""
        rows = self.page.locator(f"#{table} > .scroll > table > tbody > tr:first-child > th")
        return [str(text).strip() for text in rows.all_inner_texts()]


@pytest.fixture
def opened(browser: Any, files: Files) -> Iterator[Any]:
    contexts: list[Any] = []
    watched_pages: list[tuple[Watched, Path]] = []

    def open_page(file: Path = files.page, **options: Any) -> Watched:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        watched = Watched(page)
        watched_pages.append((watched, file))
        page.on("console", lambda message: watched.said.append(message.text))
        page.on("pageerror", lambda error: watched.said.append(str(error)))

        def refuse(dialog: Any) -> None:
            watched.said.append("dialog")
            dialog.dismiss()

        def decide(route: Any) -> None:
            watched.asked.append(route.request.url)
            if route.request.url.startswith("file:"):
                route.continue_()
            else:
                route.abort()

        page.on("dialog", refuse)
        context.route("**/*", decide)
        page.set_default_timeout(TIMEOUT * 1000)
        page.goto(file.as_uri())
        return watched

    yield open_page
    for watched, file in watched_pages:
        assert watched.said == []
        assert watched.asked == [file.as_uri()]
    for context in contexts:
        context.close()


DESK = {"viewport": {"width": 1200, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
TIME = "result-0-table-1"  # after the geometric means


def test_the_only_row_stands_open(opened: Any, files: Files, tmp_path: Path) -> None:
    """Its figures are a line for each allocator there. Of several rows none is open."""
    result = tmp_path / "one.json"
    kept = json.loads(json.dumps(files.result))
    kept["rows"] = kept["rows"][:1]
    result.write_text(json.dumps(kept), encoding="utf-8")
    one = tmp_path / "one.html"
    one.write_text(render([(result, read_result(result))], read_soaks([])), encoding="utf-8")
    expanded = "[...document.querySelectorAll('button.open')].map(e => e.ariaExpanded)"
    assert opened(one, **DESK).page.evaluate(expanded) == ["true"]
    assert set(opened(**DESK).page.evaluate(expanded)) == {"false"}


def test_a_table_that_goes_on_has_a_shade(opened: Any) -> None:
    page = opened(**PHONE).page
    wider = page.evaluate(
        """[...document.querySelectorAll(".table > .scroll")]
             .filter(e => e.scrollWidth > e.clientWidth + 1)
             .map(e => getComputedStyle(e).backgroundImage)"""
    )
    assert wider and all("gradient" in image for image in wider)


def test_tables_sort(opened: Any) -> None:
    watched = opened(**DESK)
    assert watched.names(TIME)[:3] == ["mixed400", "row-2", "row-3"]
    memory = "result-0-table-4"
    head = watched.page.locator(f"#{memory} thead th").nth(0)
    head.locator("button").click()
    rising = watched.names(memory)
    # As a reader counts: row-2 before row-10. The hostile name begins with a sign.
    assert rising == [HOSTILE, "mixed400", *(f"row-{number}" for number in range(2, 14))]
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert watched.names(memory) == rising[::-1]
    assert head.get_attribute("aria-sort") == "descending"


def test_figures_sort_by_value(opened: Any) -> None:
    watched = opened(**DESK)
    means = "result-0-table-0"
    button = watched.page.locator(f"#{means} thead th").nth(1).locator("button")
    button.click()
    assert watched.names(means) == ["hakmem", "lean", "mimalloc3", "glibc"]
    button.click()
    assert watched.names(means) == ["glibc", "mimalloc3", "lean", "hakmem"]


def test_what_is_open_goes_along_when_sorted(opened: Any) -> None:
    watched = opened(**DESK)
    watched.page.get_by_role("button", name="row-3", exact=True).click()
    for _ in range(2):
        watched.page.locator(f"#{TIME} thead").first.locator("th").nth(0).locator("button").click()
    bodies = watched.page.locator(f"#{TIME} > .scroll > table > tbody")
    opened_in = bodies.filter(has=watched.page.locator(".detail.shown"))
    assert opened_in.count() == 1
    assert opened_in.get_attribute("data-name") == "row-3"


def test_rows_are_filtered(opened: Any) -> None:
    watched = opened(**DESK)
    watched.page.locator(f"[data-filter={TIME}]").fill("row-1")
    shown = watched.page.locator(f"#{TIME} > .scroll > table > tbody:visible")
    names = [shown.nth(at).get_attribute("data-name") for at in range(shown.count())]
    assert names == ["row-10", "row-11", "row-12", "row-13"]


@pytest.mark.parametrize("number", [0, 5])
def test_plots_of_a_row_show_the_runs_of_the_file(opened: Any, files: Files, number: int) -> None:
    watched = opened(**DESK)
    row = files.result["rows"][number]
    watched.page.get_by_role("button", name=row["name"], exact=True).click()
    values: dict[str, Callable[[dict[str, Any]], float]] = {
        "cost": lambda run: 1e9 / float(run["throughput_per_s"]),
        "memory": lambda run: float(run["peak_rss_kb"]) / 1024,
    }
    for figure, value in values.items():
        selector = f'.shown [data-plot=runs][data-figure="{figure}"]'
        points, middle = watched.plot(selector)
        by_name = {a: [value(r) for r in row["runs"] if r["allocator"] == a] for a in COSTS}
        wanted = [run for runs in by_name.values() for run in runs]
        assert points["x"] == pytest.approx(wanted)
        assert middle["x"] == pytest.approx([median(runs) for runs in by_name.values()])
        # The interval reaches up to one of the upper values, and not beyond the highest.
        for up, runs in zip(middle["up"], by_name.values(), strict=True):
            assert 0 < up <= max(runs) - median(runs) + 1e-9
        assert [text.split(",")[0] for text in points["text"][::ROUNDS]] == list(COSTS)


def test_the_overview_shows_every_row(opened: Any, files: Files) -> None:
    watched = opened(**DESK)
    for figure, values in (("cost", COSTS), ("memory", PEAKS)):
        points, middle = watched.plot(f'[data-plot=means][data-figure="{figure}"]')
        rows = len(files.result["rows"])
        others = [name for name in values if name != "mimalloc3"]
        assert len(points["x"]) == rows * len(others)
        # Peaks differ by a KiB from round to round, costs by the same share on all.
        wanted = [values[name] / values["mimalloc3"] for name in others]
        assert middle["x"] == pytest.approx(wanted, rel=3e-3)
        for at, ratio in enumerate(wanted):
            assert points["x"][at * rows : (at + 1) * rows] == pytest.approx([ratio] * rows, 3e-3)


def test_every_run_is_listed(opened: Any, files: Files) -> None:
    watched = opened(**DESK)
    watched.page.get_by_role("button", name="mixed400", exact=True).click()
    table = watched.page.locator(".shown [data-runs] table")
    assert table.locator("tbody tr").count() == len(COSTS) * ROUNDS
    heads = table.locator("thead th").all_inner_texts()
    first = table.locator("tbody tr").first.locator("th, td").all_inner_texts()
    run = files.result["rows"][0]["runs"][0]
    assert first[heads.index("allocator")] == run["allocator"]
    assert first[heads.index("peak rss kb")] == str(run["peak_rss_kb"])
    shown = watched.page.locator(".shown").inner_text()
    assert "build/bench/random_mixed 20000000 400 1" in shown
    assert "mmap 4, munmap 1" in shown


def test_soaks_over_time(opened: Any) -> None:
    watched = opened(**DESK)
    (memory,) = watched.plot("[data-plot=rss]")
    assert (memory["name"], len(memory["x"])) == ("balanced", 1800)
    assert memory["x"][-1] == pytest.approx(60)  # minutes
    assert set(memory["y"]) == {2000 / 1024}
    (throughput,) = watched.plot("[data-plot=throughput]")
    assert throughput["y"][:2] == pytest.approx([100.1, 100.2])
    (spread,) = watched.plot("[data-plot=spread]")
    assert sorted(spread["x"]) == pytest.approx(sorted(throughput["y"]))
    assert "PASS balanced: resident memory" in watched.page.locator("#soaks").inner_text()


def test_phases_by_cycle(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "fragmentation.csv").write_text(phases_csv(5, 1.25))
    page = tmp_path / "phases.html"
    page.write_text(render([], read_soaks([tmp_path / "fragmentation.csv"])), encoding="utf-8")
    watched = opened(page, **DESK)
    ours, glibc, live = watched.plot("[data-plot=cycles]")
    assert [trace["name"] for trace in (ours, glibc, live)] == ["hakmem", "glibc", "live"]
    assert ours["x"] == glibc["x"] == live["x"] == [k / 2 for k in range(1, 11)]
    assert (ours["y"][:2], glibc["y"][:2], live["y"][:2]) == ([40, 5], [80, 10], [32, 4])


def test_names_are_shown_as_text(opened: Any) -> None:
    watched = opened(**DESK)
    assert HOSTILE in watched.names(TIME)
    watched.page.get_by_role("button", name=HOSTILE, exact=True).click()
    points, _ = watched.plot(".shown [data-plot=runs]")
    assert len(points["x"]) == len(COSTS) * ROUNDS
    assert HOSTILE in watched.page.locator(".shown .facts").first.inner_text()
    assert watched.page.locator("img, main b").count() == 0
    overview, _ = watched.plot("[data-plot=means]")
    assert any("&lt;b&gt;bold" in text for text in overview["text"])


def background(watched: Watched) -> str:
    return str(watched.page.evaluate("getComputedStyle(document.body).backgroundColor"))


def text_of_plot(watched: Watched) -> str:
    watched.plot("[data-plot=means]")
    return str(
        watched.page.evaluate("document.querySelector('[data-plot=means]').layout.font.color")
    )


LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"


def test_dark_and_light(opened: Any) -> None:
    light, dark = opened(**DESK, color_scheme="light"), opened(**DESK, color_scheme="dark")
    assert (background(light), background(dark)) == (LIGHT, DARK)
    on_light, on_dark = text_of_plot(light), text_of_plot(dark)
    assert on_light != on_dark
    light.page.get_by_label("dark").check()
    assert (background(light), text_of_plot(light)) == (DARK, on_dark)
    light.page.get_by_label("as the system").check()
    assert (background(light), text_of_plot(light)) == (LIGHT, on_light)
    light.page.emulate_media(color_scheme="dark")
    assert (background(light), text_of_plot(light)) == (DARK, on_dark)


def overflow(watched: Watched) -> list[int]:
    found = watched.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert isinstance(found, list)
    return found


def test_a_phone_does_not_scroll_sideways(opened: Any) -> None:
    watched = opened(**PHONE)
    assert overflow(watched) == [390, 390]
    watched.page.get_by_role("button", name="Open all rows").click()
    watched.plot(".shown [data-plot=runs]")
    watched.plot("[data-plot=rss]")
    assert overflow(watched) == [390, 390]
    widest = watched.page.evaluate(
        "Math.max(...[...document.querySelectorAll('.shown > td > .inner, .plot')]"
        ".map(e => e.getBoundingClientRect().width))"
    )
    assert 300 < widest <= 390
    # The tables themselves are wider, and scroll inside.
    assert watched.page.evaluate(
        f"(e => e.scrollWidth > e.clientWidth)(document.querySelector('#{TIME} > .scroll'))"
    )


def test_print(opened: Any, tmp_path: Path) -> None:
    watched = opened(**DESK, color_scheme="dark")
    watched.page.get_by_label("dark", exact=True).check()
    watched.page.get_by_role("button", name="row-2", exact=True).click()
    watched.plot(".shown [data-plot=runs]")
    screen = text_of_plot(watched)
    watched.page.emulate_media(media="print")
    assert background(watched) == LIGHT
    watched.until("document.querySelector('.shown .plot').layout.width === 660")
    assert text_of_plot(watched) != screen
    assert watched.page.locator(".control:visible").count() == 0
    assert watched.page.locator(".shown .inner:visible").count() == 1
    height = watched.page.evaluate(
        "(e => [e.scrollHeight, e.clientHeight])(document.querySelector('.shown .every-run'))"
    )
    assert height[0] == height[1]  # nothing of it is cut off
    # A head with a button's box in it would stand on the table's first page only.
    head = "getComputedStyle(document.querySelector('thead button')).display"
    assert watched.page.evaluate(head) == "contents"
    watched.page.pdf(path=str(tmp_path / "report.pdf"))
    watched.page.emulate_media(media="screen")
    watched.until("document.querySelector('.shown .plot').layout.width === undefined")


def test_keyboard_and_roles(opened: Any) -> None:
    watched = opened(**DESK)
    button = watched.page.get_by_role("button", name="mixed400", exact=True)
    assert button.get_attribute("aria-expanded") == "false"
    button.focus()
    watched.page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert button.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    assert watched.page.locator("table:not(:has(thead th[scope=col]))").count() == 0
    assert watched.page.locator("[role=img]:not([aria-label])").count() == 0
    ids = watched.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened: Any, scheme: str) -> None:
    watched = opened(**DESK, color_scheme=scheme)
    colours = watched.page.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement("span"));
          const of = name => (probe.style.color = `var(--${name})`, getComputedStyle(probe).color);
          return Object.fromEntries(
            ["ground", "raised", "text", "quiet", "accent", ...Array(8).keys()]
              .map(name => [name, of(typeof name === "number" ? `s${name}` : name)]));
        }"""
    )
    for ground in ("ground", "raised"):
        for name in set(colours) - {"ground", "raised"}:
            high, low = sorted([luminance(colours[ground]), luminance(colours[name])])[::-1]
            # WCAG AA for text; lines of plots need 3, and have more.
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ground, name)


def test_a_report_of_the_kept_results(opened: Any, tmp_path: Path) -> None:
    kept = ROOT / "docs/results"
    results, soaks = usual_sources(kept, kept_version(kept, hakmem(Paths(ROOT)).version))
    read = [(file, read_result(file)) for file in results[:2]]
    page = tmp_path / "report.html"
    page.write_text(render(read, read_soaks(soaks)), encoding="utf-8")
    watched = opened(page, **PHONE)
    assert overflow(watched) == [390, 390]
    first = read[0][1]
    assert watched.names(TIME) == [row.name for row in first.rows]
    # The rows of other results in the report have the same names.
    table = watched.page.locator(f"#{TIME}")
    table.get_by_role("button", name="mixed400", exact=True).click()
    points, _ = watched.plot(".shown [data-plot=runs]")
    assert len(points["x"]) == len(first.rows[0].runs)
    assert overflow(watched) == [390, 390]


def test_without_scripts_everything_is_open(browser: Any, files: Files) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files.page.as_uri())
    assert page.locator(".detail").first.is_visible()
    context.close()


def test_an_empty_soak_list_leaves_no_section(tmp_path: Path) -> None:
    result, _ = write_samples(tmp_path)
    assert 'id="soaks"' not in render([(result, read_result(result))], Soaks())
