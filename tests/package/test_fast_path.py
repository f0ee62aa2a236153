#!/usr/bin/env python3
"""The counter of instructions on pieces of code as objdump shows them."""
import unittest

from fast_path import path_length


def code(*lines: str) -> dict[int, str]:
    """Of one byte each, from address 0x10 on."""
    return {0x10 + at: line for at, line in enumerate(lines)}


class PathLength(unittest.TestCase):
    def test_no_conditional_jump_is_taken(self) -> None:
        text = code("cmp    $0x1000,%rdi", "ja     15 <f+0x5>", "mov    (%rsi),%rax", "ret", "nop", "jmp    90 <slow>")
        self.assertEqual(path_length(text, 0x10, 6), 4)

    def test_a_jump_within_the_function_is_followed(self) -> None:
        text = code("jmp    12 <f+0x2>", "nop", "ret")
        self.assertEqual(path_length(text, 0x10, 3), 2)

    def test_what_is_no_fast_path(self) -> None:
        for lines, said in (
            (("call   90 <slow>", "ret"), "calls 90"),
            (("jmp    90 <slow>", "ret"), "leaves its function"),
            (("jmp    *%rax", "ret"), r"jumps to \*%rax"),
            (("jmp    10 <f>", "ret"), "circle"),
            (("nop", "nop"), "leaves its function"),
        ):
            with self.subTest(lines), self.assertRaisesRegex(ValueError, said):
                path_length(code(*lines), 0x10, len(lines))


if __name__ == "__main__":
    unittest.main()
