"""The pages of options and statistics, from what the tool and the header say of themselves."""

import re
from typing import Any

PROFILES = ("speed", "balanced", "lean")


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def code(text: str) -> str:
    """Code in a cell."""
    return f"`{cell(text)}`"


def defaults(option: dict[str, Any]) -> str:
    values = [option["defaults"][profile] for profile in PROFILES]
    if option["name"] == "HAKMEM_PROFILE":
        return "`balanced`"
    if values[0] is None:
        return "none"
    if len(set(values)) == 1:
        return f"`{values[0]}`"
    return ", ".join(f"`{value}` ({profile})" for profile, value in zip(PROFILES, values, strict=True))


def options_page(options: list[dict[str, Any]]) -> str:
    """`options` is what `hakmem options --format json` prints."""
    parts = [
        "# Options\n",
        "Every variable that the library reads, from its own table (`hakmem options`). They are read once, at start, and not in "
        "set-user-ID programs. A value that is not accepted costs a line on stderr, and the default holds.\n",
        "`SS` in a name is a SuperSlab: 2 MiB of address space, cut into slices of 64 KiB for slabs and large blocks. Names of the "
        "predecessor that are accepted too: [Machines](porting.md#names-of-the-predecessor).\n",
        "The same names stand in `/etc/hakmem.conf` and in the symbol `hakmem_options` of a program; the environment goes before "
        "both. `hakmem options --effective PID` says what a process runs with, and which of them won.\n",
        "| Option | In a word |\n|---|---|",
    ]
    parts += [f"| [`{o['name']}`](#{o['name'].lower()}) | {cell(first_words(o['help']))} |" for o in options]
    for option in options:
        parts.append(f"\n## {option['name']}\n")
        parts.append(option["help"][0].upper() + option["help"][1:].rstrip(".") + ".\n")
        parts.append(f"| Accepted | Default |\n|---|---|\n| {code(option['accepted'])} | {defaults(option)} |")
    return "\n".join(parts) + "\n"


def first_words(text: str) -> str:
    """Up to the first end of a part, for a table."""
    return re.split(r"[;:.(]\s|\s\(|, or |, in which", text, maxsplit=1)[0].rstrip(".,;:")


# --- statistics -----------------------------------------------------------------------------------------------------------

STRUCT = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s*struct (hak_\w*stats) \{(.*?)^\};", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"\b(uint(?:32|64)_t)\s+(\w+);[ \t]*(?:/\*(.*?)\*/)?", re.DOTALL)
FAMILY = re.compile(r"^# (TYPE|UNIT|HELP) (\S+) (.*)$", re.MULTILINE)


def unwrapped(comment: str) -> str:
    return re.sub(r"\s*\n\s*\*?\s*", " ", comment).strip()


def structs_of(header: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Name, comment and fields of each struct of statistics in hakmem.h. A field without a comment is of the kind of that
    before it."""
    found = []
    for comment, name, body in STRUCT.findall(header):
        fields: list[tuple[str, str]] = []
        for _, field, said in FIELD.findall(body):
            fields.append((field, unwrapped(said) or (f"as {fields[-1][0]}" if fields else "")))
        found.append((name, unwrapped(comment), fields))
    return found


def families_of(metrics: str) -> dict[str, dict[str, str]]:
    families: dict[str, dict[str, str]] = {}
    for what, name, text in FAMILY.findall(metrics):
        families.setdefault(name, {})[what] = text
    return families


def statistics_page(header: str, metrics: str) -> str:
    """`metrics` is what `hakmem stats --format openmetrics` prints of a process."""
    parts = [
        "# Statistics\n",
        "From the definitions in the library and the tool. What each means for an operator, and when to act: "
        "[every statistic](looking-inside.md#every-statistic).\n",
        "## As metrics\n",
        "`hakmem stats --format openmetrics PID`, and `hakmem serve` for Prometheus. Every sample has the labels `pid` and "
        "`program`; a counter's sample has `_total` behind its name.\n",
        "| Name | Kind | What it is |\n|---|---|---|",
    ]
    for name, said in families_of(metrics).items():
        parts.append(f"| `{name}` | {said['TYPE']} | {cell(said.get('HELP', ''))} |")
    parts.append("\n## In a program\n")
    parts.append("Of `hakmem.h`; the crates and the Python package have the same fields.")
    for name, comment, fields in structs_of(header):
        parts.append(f"\n### {name}\n\n{comment}\n\n| Field | What it is |\n|---|---|")
        parts += [f"| `{field}` | {cell(said)} |" for field, said in fields]
    return "\n".join(parts) + "\n"
