"""hakmem prof --format=html in a real browser."""

import html
import re

from common import *
from profiles import *

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = """</script><b>"'&amp;\\u003c@DATA@"""


@unittest.skipIf(BROWSER is None, "chromium is not installed")
@unittest.skipUnless(NAMES, "libdw-dev is not installed")
class Page(ProfCase):
    def save(self, program=SITES):
        pid, _ = self.start(HAKMEM_PROF_RATE="65536", program=program)
        self.prof(pid, "--format=html", "-o", self.path("page.html"))

    def show(self, place=""):
        """Name, left edge and width of each box, in percent, and all of the page, when its script has run."""
        result = execute([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                          "--user-data-dir=" + self.path("browser"), "--dump-dom",
                          "file://" + self.path("page.html") + place], env=environment(HOME=self.directory))  # fmt: skip
        self.assert_code(result, 0)
        boxes = {}
        for box in re.findall(r"<button type=\"button\" class=\"frame[^>]*>", result.out):
            left, width = (float(re.search(edge + r": ([\d.]+)%", box)[1]) for edge in ("left", "width"))
            name = html.unescape(re.search(r'title="([^"]*?)(?: \([^()"]+\))?: [\d.]+ ', box)[1])
            boxes[name] = left, width, re.search(r'data-node="(\d+)"', box)[1]
        return boxes, result.out

    def test_boxes_are_as_wide_as_what_they_hold(self):
        self.save()
        boxes, page = self.show()
        self.assertEqual(boxes["all of it"][:2], (0, 100))
        self.assertEqual(boxes["main"][:2], (0, 100))
        self.assertAlmostEqual(boxes["held_in_small"][1], 80, delta=10)
        self.assertAlmostEqual(boxes["held_in_small"][1] + boxes["held_in_large"][1], 100, delta=0.1)
        self.assertAlmostEqual(boxes["held_in_large"][0], boxes["held_in_small"][1], delta=0.01)
        self.assertRegex(page, r"<title>hakmem prof: sites \(\d+\): ")
        self.assertRegex(page, r'<p id="covers">covers ')
        # One of them alone: what calls it stays, the other one goes.
        boxes, page = self.show("#" + boxes["held_in_large"][2])
        self.assertEqual(boxes["held_in_large"][:2], (0, 100))
        self.assertEqual(boxes["filled"][:2], (0, 100))
        self.assertEqual(boxes["main"][:2], (0, 100))
        self.assertNotIn("held_in_small", boxes)
        self.assertRegex(page, r"class=\"frame above\"[^>]*title=\"main \(sites\): ")

    def test_names_are_text(self):
        program = self.path("evil")
        self.assert_code(execute(["objcopy", "--redefine-sym", "held_in_large=" + EVIL, SITES, program]), 0)
        self.save(program)
        boxes, page = self.show()
        self.assertIn(EVIL, boxes)
        self.assertNotIn("<b>", page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
