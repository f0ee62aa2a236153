"""The manual pages say what the tool and the header say."""

import re

from common import *

PAGES = os.path.join(SOURCE, "docs/man")


def page(name):
    with open(os.path.join(PAGES, name), encoding="utf-8") as file:
        return file.read()


class Manual(TestCase):
    def test_pages_are_valid(self):
        if not shutil.which("scdoc"):
            self.skipTest("scdoc is not installed")
        for name in ("hakmem.1.scd", "hakmem.3.scd", "hakmem.5.scd"):
            done = subprocess.run(["scdoc"], input=page(name), text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=60, check=False)  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn("SEE ALSO", done.stdout)

    def test_list_of_variables_is_the_tools(self):
        printed = execute([os.path.join(PAGES, "update.sh"), "--print", TOOL])
        self.assert_code(printed, 0)
        self.assertEqual(page("hakmem.5.scd"), printed.out, "run docs/man/update.sh")

    def test_every_option_is_described(self):
        sections = dict(
            part.split("\n", 1) for part in page("hakmem.1.scd").split("\n## hakmem ") if "\n" in part
        )
        for command, expected in (
            ("run", "profile"), ("trace record", "output"), ("stats", "format"), ("top", "delay"), ("prof", "growth"), ("where", "core"), ("core", "root"),
            ("serve", "port"),
        ):  # fmt: skip
            result = hakmem(*command.split(), "--help")
            if "in this build" in result.err:
                continue
            options = re.findall(r"--([a-z]+(?:-[a-z]+)*)", result.out)
            self.assertIn(expected, options)
            for option in set(options) - {"help", "usage"}:
                self.assertIn(f"*--{option}*", sections[command])

    def test_every_function_is_described(self):
        with open(os.path.join(SOURCE, "include/hakmem.h"), encoding="utf-8") as file:
            functions = re.findall(r"HAK_API .*?\b(hak_\w+)\(", file.read())
        self.assertIn("hak_malloc", functions)
        name, synopsis = page("hakmem.3.scd").split("# DESCRIPTION")[0].split("# SYNOPSIS")
        for function in functions:
            self.assertRegex(name, rf"\b{function}\b")
            self.assertRegex(synopsis, rf"\b{function}\(")

    def test_example_works(self):
        example = re.search(r"# EXAMPLE\n\n```\n(.*?)```", page("hakmem.3.scd"), re.DOTALL).group(1)
        source = self.write("example.c", example.replace("\\\\", "\\"))
        built = execute([CC, "-Wall", "-Wextra", "-Werror", "-I", os.path.join(SOURCE, "include"),
                         source, "-o", self.path("example"), LIBRARY,
                         "-Wl,-rpath," + os.path.dirname(LIBRARY)])  # fmt: skip
        self.assert_code(built, 0)
        result = execute([self.path("example")])
        self.assert_code(result, 0)
        self.assertRegex(result.out, r"^hakmem [\d.]+: \d{4} bytes in the block, \d+ bytes mapped\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
