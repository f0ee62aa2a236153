"""The commands of docs/post-mortem.md, run as they stand: what the page shows is what they print."""

import re

from common import *
from cores import *

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shape(line):
    """A line without its figures, which differ from run to run: so do plurals, as samples are drawn."""
    line = re.sub(r"\b(place|sample|block)s\b", r"\1", line)
    line = re.sub(r"0x[0-9a-f]{4,}", "ADDRESS", line)
    line = re.sub(r"\d+-\d+-\d+ \d+:\d+:\d+", "DATE", re.sub(r"hakmem-\d+-", "hakmem-N-", line))
    return re.sub(r"\d+(\.\d+)? ([KM]iB|B)\b|\b\d+(\.\d+)?\b", "N", " ".join(line.split()))


class PostMortem(CoreCase):
    def test_the_page(self):
        if not NAMES:
            self.skipTest("libdw is not installed")
        with open(os.path.join(SOURCE, "docs/post-mortem.md"), encoding="utf-8") as file:
            blocks = BLOCK.findall(file.read())
        self.write("server.cc", next(text for kind, text in blocks if kind == "cpp"))
        commands = [part.split("\n", 1) for kind, text in blocks if kind == "" for part in text.split("$ ")[1:]]
        self.assertGreater(len(commands), 6)
        self.assert_code(execute(["sh", "-c", commands[0][0]], cwd=self.directory), 0)
        core, done = self.fall("", program="./server", HAKMEM_BACKGROUND="0", HAKMEM_PROF_RATE=None)
        os.rename(core, self.path("core"))
        address = commands[1][1].split()[0]
        env = environment(PATH=os.path.dirname(TOOL) + ":" + os.environ["PATH"])
        for command, shown in commands[2:]:
            command = command.replace(address, done.out.strip())
            result = execute(["sh", "-c", command], cwd=self.directory, env=env)
            self.assertEqual(result.code, 0, (command, result))
            self.assertIn(result.err, ("", "Aborted\n"), command)  # some shells say so
            printed = {shape(line) for line in result.out.splitlines()}
            for line in shown.splitlines():
                if line.strip() not in ("", "..."):
                    # Few samples are told at the line's end.
                    self.assertTrue(any(told.startswith(shape(line)) for told in printed), (command, line, result))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
