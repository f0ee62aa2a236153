#!/usr/bin/env python3
"""Checks what built files carry against attacks, with binutils' readelf and objdump.

Usage: check_hardening.py [--objdump OBJDUMP] [--landing-pads] [--fast-path] [--fortified] FILE...

Of each shared library and program: all of RELRO, no lazy binding, no stack that can be executed, no segment
that can be written and executed, no relocations in code, and code that may lie anywhere. Of each file, archives
too: guards of the stack somewhere, and the mark for shadow stacks (x86-64) or for BTI and PAC (aarch64; on files
that the linker made only where the start files of the distribution have it, so archives are asked). riscv64 and
ppc64le have neither marks nor landing pads.

--landing-pads  every exported function begins with a landing pad for indirect calls
--fast-path     malloc and free have no landing pad (x86-64), no guard of the stack and no signed return address
--fortified     some functions of libc are called in their checking forms
"""
import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FAST = ("malloc", "free", "hak_malloc", "hak_free")
# What readelf calls a machine.
MACHINES = {"X86-64": "x86-64", "AArch64": "aarch64", "RISC-V": "riscv64", "PowerPC64": "ppc64le"}
MARKS = {"x86-64": {"SHSTK"}, "aarch64": {"BTI", "PAC"}, "riscv64": set(), "ppc64le": set()}
LANDING_PADS = {"x86-64": {"endbr64"}, "aarch64": {"bti", "paciasp"}, "riscv64": set(), "ppc64le": set()}
# How a function names its guard; on aarch64 and riscv64 the compiler reaches it over a register.
GUARD = {"x86-64": "%fs:0x28", "aarch64": "__stack_chk", "riscv64": "__stack_chk", "ppc64le": "-28688(r13)"}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}).stdout


@dataclass
class Elf:
    """What readelf says of a file."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> "Elf":
        return cls(path, output("readelf", "-hldnSsW", str(path)))

    @property
    def machine(self) -> str:
        said = re.search(r"Machine:\s+(.*)", self.text)
        for name, machine in MACHINES.items():
            if said and name in said[1]:
                return machine
        sys.exit(f"{self.path}: not known here: machine {said[1] if said else 'without a name'}")

    @property
    def linked(self) -> bool:
        return re.search(r"^\s*Type:\s+REL\b", self.text, re.MULTILINE) is None

    @property
    def features(self) -> set[str]:
        found = re.findall(r"(?:x86|AArch64) feature: (.*)", self.text)
        return {word for line in found for word in re.split(r"[,\s]+", line) if word}

    @property
    def undefined(self) -> set[str]:
        return {name.split("@")[0] for name in re.findall(r"\bUND (\S+)", self.text)}

    def exported(self) -> dict[str, tuple[int, int]]:
        """Address and size of the functions that it offers."""
        # In brackets: where a call from the same file goes to (ppc64le).
        line = re.compile(
            r"^\s*\d+: ([0-9a-f]+)\s+(\d+) FUNC\s+(?:GLOBAL|WEAK)\s+DEFAULT\s+(?:\[.*?\]\s+)?\d+ ([^\s@]+)"
        )
        return {
            m[3]: (int(m[1], 16), int(m[2])) for m in map(line.match, self.text.splitlines()) if m is not None
        }


def instructions(path: Path, objdump: str) -> dict[int, str]:
    """The code of a linked file by address."""
    line = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
    text = output(objdump, "-d", "--no-show-raw-insn", str(path))
    return {int(m[1], 16): m[2] for m in map(line.match, text.splitlines()) if m is not None}


def check_segments(elf: Elf) -> list[str]:
    found = []
    if re.search(r"^\s*Type:\s+EXEC\b", elf.text, re.MULTILINE):
        found.append("its code has fixed addresses (not built as PIE)")
    if "GNU_RELRO" not in elf.text:
        found.append("no RELRO")
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)", elf.text):
        found.append("binds lazily: the table of addresses stays writable")
    if "(TEXTREL)" in elf.text or re.search(r"\(FLAGS\).*TEXTREL", elf.text):
        found.append("has relocations in its code")
    # Kind, offset, two addresses, two sizes, what is allowed.
    segments = re.findall(r"^\s*(\w+)(?:\s+0x[0-9a-f]+){5} ([R ][W ][E ])\s", elf.text, re.MULTILINE)
    if [flags for kind, flags in segments if kind == "GNU_STACK"] != ["RW "]:
        found.append("may execute its stack")
    if any(kind == "LOAD" and flags[1:] == "WE" for kind, flags in segments):
        found.append("has a segment that can be written and executed")
    # Tools that add a segment sort all by load addresses (patchelf), the loader needs them sorted by the others.
    loads = [[int(text, 16) for text in pair] for pair in re.findall(r"^\s*LOAD\s+0x[0-9a-f]+ (0x[0-9a-f]+) (0x[0-9a-f]+)", elf.text, re.MULTILINE)]
    if any(abs(virtual - load) >= 0x1000 for virtual, load in loads):
        found.append("has a segment whose load address is far from its address")
    return found


def check(path: Path, options: argparse.Namespace) -> list[str]:
    elf = Elf.read(path)
    found = []
    if elf.linked:
        found += check_segments(elf)
    else:
        notes = re.findall(r"\.note\.GNU-stack\s+PROGBITS.*", elf.text)
        if not notes or any(re.search(r"\sAX?\s|\sX\s", note) for note in notes):
            found.append("asks for a stack that can be executed")
    wanted = set() if elf.linked and elf.machine != "x86-64" else set(MARKS[elf.machine])
    if options.landing_pads and elf.machine == "x86-64" and not elf.linked:
        wanted.add("IBT")
    if wanted - elf.features:
        found.append(f"is not marked {', '.join(sorted(wanted - elf.features))}")
    if not elf.undefined & {"__stack_chk_fail", "__stack_chk_guard"}:
        found.append("no function guards its stack")
    if options.fortified and not any(re.fullmatch(r"__\w+_chk", name) for name in elf.undefined):
        found.append("calls no function of libc in its checking form")
    if elf.linked and (options.landing_pads or options.fast_path):
        found += check_code(elf, options)
    return found


def check_code(elf: Elf, options: argparse.Namespace) -> list[str]:
    found = []
    code = instructions(elf.path, options.objdump)
    functions = elf.exported()
    for name, (address, size) in sorted(functions.items()):
        lands = code.get(address, "?").split()[0] in LANDING_PADS[elf.machine]
        if options.landing_pads and not lands:
            found.append(f"{name} begins with {code.get(address, 'nothing')!r}, not with a landing pad")
        if options.fast_path and name in FAST:
            body = [code[at] for at in range(address, address + size) if at in code]
            if not body:
                found.append(f"no code found of {name}")
            if lands and elf.machine == "x86-64":
                found.append(f"{name} has one instruction more: a landing pad")
            if any(GUARD[elf.machine] in line or line.startswith("paciasp") for line in body):
                found.append(f"{name} guards its stack or its return address")
    if options.fast_path and not any(name in functions for name in FAST):
        found.append(f"exports none of {', '.join(FAST)}")
    return found


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--landing-pads", action="store_true")
    parser.add_argument("--fast-path", action="store_true")
    parser.add_argument("--fortified", action="store_true")
    parser.add_argument("files", nargs="+", type=Path)
    return parser.parse_args(arguments)


def main() -> int:
    options = parse(sys.argv[1:])
    findings = [f"{path.name}: {what}" for path in options.files for what in check(path, options)]
    for finding in findings:
        print(finding)
    print(f"{len(options.files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
