#!/usr/bin/env python3
"""The check of built files finds what it is there for, on small libraries. CC in the environment."""
import os
import platform
import subprocess
import tempfile
import unittest
from pathlib import Path

from check_hardening import check, parse

X86 = platform.machine() == "x86_64"
SOURCE = """
#include <string.h>
void hak_free(void *pointer);
int hak_other(const char *text);
void hak_free(void *pointer) { (void)pointer; }
int hak_other(const char *text) { char copy[64]; strcpy(copy, text); return copy[3]; }
"""
COMPILED = ["-O2", "-fPIC", "-fstack-protector-strong"]
COMPILED += ["-fcf-protection=return"] if X86 else ["-mbranch-protection=standard"]
LINKED = ["-shared", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"] + (["-Wl,-z,shstk"] if X86 else [])


class CheckHardening(unittest.TestCase):
    def findings(self, *flags: str, without: str = "", options: tuple[str, ...] = ()) -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            source, library = Path(name, "x.c"), Path(name, "x.so")
            source.write_text(SOURCE, encoding="utf-8")
            kept = [flag for flag in COMPILED + LINKED if flag != without]
            command = [os.environ.get("CC", "cc"), *kept, *flags, "-o", str(library), str(source)]
            subprocess.run(command, check=True, capture_output=True)
            return check(library, parse([*options, str(library)]))

    def test_nothing_to_find(self) -> None:
        self.assertEqual(self.findings(), [])
        self.assertEqual(self.findings(options=("--fast-path",)), [])

    def assert_one(self, part: str, found: list[str]) -> None:
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_each_flag_of_the_linker(self) -> None:
        self.assert_one("no RELRO", self.findings("-Wl,-z,norelro"))
        self.assert_one("binds lazily", self.findings("-Wl,-z,lazy", without="-Wl,-z,now"))
        self.assert_one("execute its stack", self.findings("-Wl,-z,execstack", without="-Wl,-z,noexecstack"))

    def test_load_addresses(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            script = Path(name, "far.ld")
            script.write_text("SECTIONS { .text.far : AT(ADDR(.text.far) + 0x1000000) { *(.text.hak_free) } } INSERT BEFORE .data;", encoding="utf-8")
            far = f"-Wl,-T,{script}"
            self.assertIn("load address is far", " ".join(self.findings("-ffunction-sections", far)))

    def test_no_guard_of_the_stack(self) -> None:
        self.assert_one("guards its stack", self.findings("-fno-stack-protector"))

    def test_calls_in_their_checking_form(self) -> None:
        fortified = ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2")
        self.assertEqual(self.findings(*fortified, options=("--fortified",)), [])
        self.assert_one("checking form", self.findings("-U_FORTIFY_SOURCE", options=("--fortified",)))

    def test_a_guard_in_the_fast_path(self) -> None:
        found = self.findings("-fstack-protector-all", options=("--fast-path",))
        self.assert_one("hak_free guards its stack", found)

    @unittest.skipUnless(X86, "marks and landing pads of x86-64")
    def test_control_flow(self) -> None:
        self.assert_one("not marked SHSTK", self.findings(without="-Wl,-z,shstk"))
        found = self.findings(options=("--landing-pads",))
        self.assertEqual(len(found), 2, found)
        self.assertIn("not with a landing pad", found[0])
        self.assertEqual(self.findings("-fcf-protection=full", options=("--landing-pads",)), [])
        found = self.findings("-fcf-protection=full", options=("--fast-path",))
        self.assert_one("one instruction more", found)


if __name__ == "__main__":
    unittest.main()
