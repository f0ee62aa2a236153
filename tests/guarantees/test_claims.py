"""What README, docs/symptoms.md and docs/faq.md claim of the standard build is what expected.toml promises, which run.py tries.

A claim ends with a comment that is not shown: the mode, then the programs with their promise for each kind of block,

    <!-- guarantees standard: double_free small=not covered big=stopped; free_foreign_stack all=stopped -->

and each of these pages has to say in the same paragraph what is claimed there (WORDS)."""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from guarantees import TIERS, load  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/symptoms.md", "docs/faq.md")
MARKER = re.compile(r"<!-- guarantees (\w+): (.*?) -->")
PROMISE = re.compile(r"(\w+)=([\w ]+?)(?=\s+\w+=|$)")
# What each page has to claim of `standard`, and what a reader sees of it.
WANTED = {"double_free", "free_interior", "free_foreign_stack", "free_foreign_data", "free_foreign_mapping"}
WORDS = {"not covered": "does not notice", "stopped": "stops at"}


def claims(text: str) -> list[tuple[str, str, dict[str, str], str]]:
    """Mode, program, promise by tier, and the paragraph that it stands in."""
    found = []
    for paragraph in text.split("\n\n"):
        for mode, body in MARKER.findall(paragraph):
            shown = " ".join(MARKER.sub("", paragraph).split())
            for part in body.split(";"):
                name, _, words = part.strip().partition(" ")
                tiers = {t: word for kind, word in PROMISE.findall(words) for t in TIERS.get(kind, [kind])}
                found.append((mode, name, tiers, shown))
    return found


class Claims(unittest.TestCase):
    def test_pages_say_what_is_tried(self) -> None:
        promises = {guarantee.name: guarantee for guarantee in load()}
        for page in PAGES:
            told = claims((ROOT / page).read_text(encoding="utf-8"))
            self.assertEqual({name for mode, name, _, _ in told if mode == "standard"}, WANTED, page)
            for mode, name, tiers, shown in told:
                with self.subTest(page=page, program=name):
                    wanted = promises[name].promises[mode]
                    if "all" in tiers:
                        tiers = dict.fromkeys(wanted, tiers["all"])
                    self.assertEqual(tiers, wanted)
                    self.assertNotIn(mode, promises[name].pending)
                    for word in set(wanted.values()):
                        self.assertIn(WORDS[word], shown)

    def test_a_wrong_claim_is_found(self) -> None:
        text = "It stops at all.\n<!-- guarantees standard: double_free small=stopped big=stopped; x all=not covered -->"
        (_, name, tiers, shown), (_, other, every, _) = claims(text)
        self.assertEqual((name, shown, other, every), ("double_free", "It stops at all.", "x", {"all": "not covered"}))
        self.assertNotEqual(tiers, {g.name: g for g in load()}["double_free"].promises["standard"])


if __name__ == "__main__":
    unittest.main()
