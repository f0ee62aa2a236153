"""What mkdocs does not do by itself: pages that are made from something else, and links out of docs/.

The pages are written for a reader of the repository, too, so they link to files outside of docs/. Of these, texts become
pages under repository/, other files and folders pages that show them.
"""

import json
import os
import posixpath
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
from statistics_pages import options_page, statistics_page  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUTSIDE = "repository/"
HOME = {"README.md": "docs/README.md"}  # the site has one front page, and it shows the text of README.md
OUTSIDE_TEXTS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "lab/README.md")
LINK = re.compile(r"(\]\()([^)\s#]+)?(#[^)\s]*)?(\))")
FENCE = re.compile(r"^ *(`{3,})")
LANGUAGES = {".h": "c", ".c": "c", ".json": "json", ".yml": "yaml", ".toml": "toml", ".py": "python", ".sh": "sh"}
# Pages that were once there: what a link from outside to one of them finds.
MOVED = {"operators.md": "This page is a part of [By symptom](symptoms.md) and of the [reference](looking-inside.md) now."}
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


# --- links --------------------------------------------------------------------------------------------------------------


def outside_fences(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a page, and whether each is text, not part of a fenced block."""
    fence = ""
    for line in text.split("\n"):
        mark = FENCE.match(line)
        yield line, not (fence or mark)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""


def is_elsewhere(target: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*:|/", target) is not None


def repository_path(source: str, target: str) -> str:
    """The file that `target` names in the file `source`; both from the repository's root."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def site_path(path: str) -> str:
    """Where the site has a file or folder of the repository."""
    path = HOME.get(path, path)
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        if inside == "decisions":
            return "decisions/index.md"
        if (ROOT / path).is_dir():
            return inside + "/README.md"
        return inside
    if (ROOT / path).is_dir():
        return f"{OUTSIDE}{path}/index.md"
    return OUTSIDE + path if path.endswith(".md") else f"{OUTSIDE}{path}.md"


def source_of(page: str) -> str | None:
    """The file of the repository that a page shows; None for a page that is made here."""
    if page == "README.md":
        return "README.md"
    if not page.startswith(OUTSIDE):
        return "docs/" + page if (DOCS / page).is_file() else None
    path = page.removeprefix(OUTSIDE)
    return path if (ROOT / path).is_file() else None


def links_of(source: str, text: str) -> Iterator[str]:
    """The files and folders of the repository that a text links to."""
    for line, is_text in outside_fences(text):
        for link in LINK.finditer(line) if is_text else ():
            if link[2] and not is_elsewhere(link[2]):
                yield repository_path(source, link[2])


def relinked(source: str, page: str, text: str) -> str:
    """The text with its links as the site has the files."""

    def moved(link: re.Match[str]) -> str:
        if not link[2] or is_elsewhere(link[2]):
            return link[0]
        target = site_path(repository_path(source, link[2]))
        return link[1] + posixpath.relpath(target, posixpath.dirname(page) or ".") + (link[3] or "") + link[4]

    return "\n".join(LINK.sub(moved, line) if is_text else line for line, is_text in outside_fences(text))


def plain_pipes(text: str) -> str:
    """In a table's code a pipe is escaped for the repository's readers; here it would show its backslash."""
    return "\n".join(
        re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), line)
        if is_text and line.startswith("|")
        else line
        for line, is_text in outside_fences(text)
    )


# --- pages that are made ------------------------------------------------------------------------------------------------


def shown_file(path: str) -> str:
    file = ROOT / path
    text = file.read_text(encoding="utf-8")
    language = LANGUAGES.get(file.suffix, "text")
    return f"{UNSEARCHED}# {path}\n\n``````{language}\n{text.rstrip()}\n``````\n"


def shown_folder(path: str) -> str:
    files = sorted(file for file in (ROOT / path).iterdir() if file.is_file())
    parts = [
        f"## {file.name}\n\n``````{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text(encoding='utf-8').rstrip()}\n``````\n"
        for file in files
    ]
    return f"{UNSEARCHED}# {path}/\n\n" + "\n".join(parts)


def decision_title(file: Path) -> tuple[str, str]:
    """Number and title of a decision, as its first line has them."""
    first = file.read_text(encoding="utf-8").split("\n", 1)[0]
    found = re.fullmatch(r"# (\d{4}): (.+)", first)
    if not found:
        raise PluginError(f"{file}: the first line is not '# NNNN: title'")
    return found[1], found[2]


def decisions() -> list[Path]:
    return sorted((DOCS / "decisions").glob("[0-9]*.md"))


def decisions_page() -> str:
    rows = [(*decision_title(file), file.name) for file in decisions()]
    table = "\n".join(f"| {number} | [{title}]({name}) |" for number, title, name in rows)
    return (
        "# Decisions\n\nWhy hakmem is as it is: each page has the question, the options, what was measured, and the verdict. "
        f"What was tried and dropped is there, too.\n\n| Number | Decision |\n|---|---|\n{table}\n"
    )


def outside_pages(files: Files) -> dict[str, str]:
    """All that the pages link to outside of docs/, and what that links to: path in the repository -> text."""
    waiting = [("docs/" + file.src_uri, (DOCS / file.src_uri).read_text(encoding="utf-8"))
               for file in files.documentation_pages() if (DOCS / file.src_uri).is_file()]
    waiting += [(path, (ROOT / path).read_text(encoding="utf-8")) for path in OUTSIDE_TEXTS]
    found = {path: text for path, text in waiting if not path.startswith("docs/")}
    waiting.append(("README.md", (ROOT / "README.md").read_text(encoding="utf-8")))
    while waiting:
        source, text = waiting.pop()
        for path in links_of(source, text):
            if path in found or path in HOME or path.startswith("docs/") or not (ROOT / path).exists():
                continue
            if (ROOT / path).is_dir():
                found[path] = shown_folder(path)
            elif path.endswith(".md"):
                found[path] = (ROOT / path).read_text(encoding="utf-8")
                waiting.append((path, found[path]))
            else:
                found[path] = shown_file(path)
    return found


def tool(*arguments: str) -> str:
    """What the command hakmem says; the library that is beside it serves."""
    done = subprocess.run([os.environ["SITE_TOOL"], *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PluginError(f"hakmem {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def metrics_of_a_process() -> str:
    """All statistics of a program that does nothing, in OpenMetrics: names, kinds, units and help."""
    sleeper = subprocess.Popen([os.environ["SITE_TOOL"], "run", "--", "sleep", "60"])
    try:
        end = time.monotonic() + 20
        while True:
            try:
                return tool("stats", "--format", "openmetrics", str(sleeper.pid))
            except PluginError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)  # it has not started yet
    finally:
        sleeper.terminate()
        sleeper.wait()


# --- what mkdocs calls --------------------------------------------------------------------------------------------------


def on_files(files: Files, config: MkDocsConfig) -> Files:
    header = (ROOT / "include/hakmem.h").read_text(encoding="utf-8")
    made = {
        "decisions/index.md": decisions_page(),
        "options.md": options_page(json.loads(tool("options", "--format", "json"))),
        "statistics.md": statistics_page(header, metrics_of_a_process()),
    }
    made |= {uri: f"{UNSEARCHED}# Moved\n\n{text}\n" for uri, text in MOVED.items()}
    outside = outside_pages(files)
    made |= {site_path(path): text for path, text in outside.items()}
    for uri, text in sorted(made.items()):
        files.append(File.generated(config, uri, content=text))
    for name in sorted(os.listdir(figures := os.environ["SITE_FIGURES"])):
        files.append(File.generated(config, f"results/figures/{name}", abs_src_path=f"{figures}/{name}"))

    named = re.findall(r"repository/[^\s'\"\]}]+", json.dumps(config.nav))
    rest = sorted(uri for uri in map(site_path, outside) if uri not in named)
    reports = sorted(f"results/{file.relative_to(DOCS / 'results')}" for file in (DOCS / "results").rglob("*.md"))
    lists: dict[str, Any] = {
        "DECISIONS": [{"Decisions": ["decisions/index.md", *(
            {" ".join(decision_title(file)): f"decisions/{file.name}"} for file in decisions())]}],
        "REPORTS": [uri for uri in reports if not uri.endswith("README.md")],
        "FILES": rest,
    }
    config.nav = filled(config.nav, lists)
    return files


def filled(nav: Any, lists: dict[str, Any]) -> Any:
    """The navigation with the lists in the places that are named after them."""
    if isinstance(nav, dict):
        return {title: filled(inner, lists) for title, inner in nav.items()}
    if isinstance(nav, str):
        return lists.get(nav, nav)
    out: list[Any] = []
    for entry in nav:
        done = filled(entry, lists)
        out += done if isinstance(entry, str) and isinstance(done, list) else [done]
    return out


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = source_of(page.file.src_uri)
    if page.file.src_uri == "README.md":
        markdown = (ROOT / "README.md").read_text(encoding="utf-8")
    if source is not None:
        markdown = relinked(source, page.file.src_uri, markdown)
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation", "toc"]
    page.meta["figures"] = 'class="hak-plot"' in markdown
    return plain_pipes(markdown)
