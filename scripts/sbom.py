#!/usr/bin/env python3
"""Writes down what hakmem consists of, in SPDX 2.3 (JSON): every file of the source with its checksums, what is
built of it, and the libraries that this asks for.

Usage: sbom.py [--source DIR] [--build DIR] [-o FILE]

Of the same tree, built alike, the document is the same to the byte. Its date is SOURCE_DATE_EPOCH, or that of the
commit; its name space is made of the checksums. What a built file is linked to is read from the file itself, so a
library that the table below does not know is an error, not a gap.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

sys.dont_write_bytecode = True
from source_files import source_files  # noqa: E402

LICENCE = "MIT"
ELEMENT = "SPDXRef-"
# Ours, by the name that the build gives it: what it is.
BUILT = {
    "libhakmem.so": "LIBRARY",
    "libhakmem-api.so": "LIBRARY",
    "libhakmem-trace.so": "LIBRARY",
    "libhakmem.a": "LIBRARY",
    "hakmem": "APPLICATION",
}


@dataclass(frozen=True)
class Library:
    """A project that others make, and how its version is found."""

    name: str
    licence: str
    pkg_config: str


GLIBC = Library("glibc", "LGPL-2.1-or-later", "")
NCURSES = Library("ncurses", "X11-distribute-modifications-variant", "ncursesw")
# By the name in DT_NEEDED, without the number of its interface.
LIBRARIES = {
    "libc.so": GLIBC,
    "libm.so": GLIBC,
    "ld-linux-x86-64.so": GLIBC,
    "ld-linux-aarch64.so": GLIBC,
    "libdw.so": Library("elfutils-libdw", "GPL-2.0-or-later OR LGPL-3.0-or-later", "libdw"),
    "libelf.so": Library("elfutils-libelf", "GPL-2.0-or-later OR LGPL-3.0-or-later", "libelf"),
    "libmicrohttpd.so": Library("libmicrohttpd", "LGPL-2.1-or-later", "libmicrohttpd"),
    "libncursesw.so": NCURSES,
    "libtinfo.so": NCURSES,
    "libprotobuf-c.so": Library("protobuf-c", "BSD-2-Clause", "libprotobuf-c"),
    "libz.so": Library("zlib", "Zlib", "zlib"),
    "libzstd.so": Library("zstd", "BSD-3-Clause OR GPL-2.0-only", "libzstd"),
}
# Of archives that become part of a file, by a function of theirs.
LINKED_IN = {
    "rust_demangle_callback": Library("libiberty", "LGPL-2.0-or-later", ""),
}


def output(*command: str, directory: Path | None = None) -> str:
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(
        command, cwd=directory, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


def created(source: Path) -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if seconds is None:
        if not (source / ".git").exists():
            sys.exit("sbom: this is no clone: set SOURCE_DATE_EPOCH to the date of the version")
        seconds = output("git", "log", "-1", "--format=%ct", directory=source)
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def version(source: Path) -> str:
    text = (source / "include" / "hakmem.h").read_text(encoding="utf-8")
    match = re.search(r'define HAKMEM_VERSION_STRING "([^"]+)"', text)
    if match is None:
        sys.exit("sbom: include/hakmem.h states no version")
    return match[1]


def checksums(data: bytes) -> list[dict[str, str]]:
    return [
        {"algorithm": name, "checksumValue": hashlib.new(name.lower(), data).hexdigest()} for name in ("SHA1", "SHA256")
    ]


def identifier(kind: str, name: str) -> str:
    """Two names that differ only in what an identifier may not have would become one: hence the hash."""
    readable = re.sub(r"[^a-zA-Z0-9.-]", "-", name)
    return f"{ELEMENT}{kind}-{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def describe_file(source: Path, name: str) -> dict[str, object]:
    return {
        "SPDXID": identifier("File", name),
        "fileName": f"./{name}",
        "checksums": checksums((source / name).read_bytes()),
        "licenseConcluded": LICENCE,
        "licenseInfoInFiles": ["NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }


def needed_by(file: Path) -> list[str]:
    """The shared libraries that a file asks the dynamic linker for. An archive asks for none."""
    if file.suffix == ".a":
        return []
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", str(file)))


def linked_into(file: Path) -> list[Library]:
    """The archives of others that are part of a file, which has its symbols where it was built."""
    if file.suffix == ".a":
        return []
    names = set(output("nm", "--defined-only", "--format=just-symbols", str(file)).splitlines())
    return [library for name, library in LINKED_IN.items() if name in names]


def library(soname: str) -> Library:
    base = re.sub(r"\.so\..*$", ".so", soname)
    if base not in LIBRARIES:
        sys.exit(f"sbom: {soname} is not in the table of scripts/sbom.py: add its name and licence")
    return LIBRARIES[base]


def version_of(of: Library) -> str | None:
    """Of what is installed where this runs; the name alone where it does not say."""
    if of is GLIBC:
        return output("getconf", "GNU_LIBC_VERSION").removeprefix("glibc ")
    if of.pkg_config == "" or shutil.which("pkg-config") is None:
        return None
    found = subprocess.run(["pkg-config", "--modversion", of.pkg_config], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def describe_library(of: Library) -> dict[str, object]:
    found = version_of(of)
    return {
        "SPDXID": identifier("Library", of.name),
        "name": of.name,
        **({"versionInfo": found} if found else {}),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": of.licence,
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "LIBRARY",
        "comment": "A part of the command-line tool: rust-demangle.o, whose licence has an exception for that, and safe-ctype.o."
        if of in LINKED_IN.values()
        else "Not shipped with hakmem: the version that it was built with; in use is the system's own.",
    }


def copyright_text(source: Path) -> str:
    text = (source / "LICENSE").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^Copyright .*$", text, re.MULTILINE))


def document(source: Path, build: Path | None) -> dict[str, object]:
    number, text = version(source), copyright_text(source)
    files = [describe_file(source, name) for name in source_files(source)]
    sha1s = sorted(str(file["checksums"][0]["checksumValue"]) for file in files)  # type: ignore[index]
    ours = {
        "versionInfo": number,
        "downloadLocation": "NOASSERTION",
        "licenseConcluded": LICENCE,
        "licenseDeclared": LICENCE,
        "copyrightText": text,
    }
    root = f"{ELEMENT}Package-hakmem"
    packages: list[dict[str, object]] = [
        {
            "SPDXID": root,
            "name": "hakmem",
            **ours,
            "filesAnalyzed": True,
            "packageVerificationCode": {
                "packageVerificationCodeValue": hashlib.sha1("".join(sha1s).encode()).hexdigest()
            },
            "licenseInfoFromFiles": ["NOASSERTION"],
            "primaryPackagePurpose": "SOURCE",
            "externalRefs": [
                {
                    "referenceCategory": "PACKAGE-MANAGER",
                    "referenceType": "purl",
                    "referenceLocator": f"pkg:generic/hakmem@{number}",
                }
            ],
        }
    ]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", root)]
    relations += [(root, "CONTAINS", str(file["SPDXID"])) for file in files]
    libraries: set[Library] = set()
    for name, purpose in BUILT.items() if build is not None else ():
        path = build / name
        if not path.exists():
            continue  # built without a package that it needs
        built = identifier("Built", name)
        packages.append(
            {
                "SPDXID": built,
                "name": name if purpose == "LIBRARY" else f"{name} (command-line tool)",
                **ours,
                "packageFileName": name,
                "filesAnalyzed": False,
                "checksums": checksums(path.read_bytes()),
                "primaryPackagePurpose": purpose,
            }
        )
        relations.append((built, "GENERATED_FROM", root))
        asked = {library(soname) for soname in needed_by(path)}
        relations += sorted((built, "DYNAMIC_LINK", identifier("Library", of.name)) for of in asked)
        parts = linked_into(path)
        relations += [(built, "STATIC_LINK", identifier("Library", of.name)) for of in parts]
        libraries |= asked | set(parts)
    packages += [describe_library(of) for of in sorted(libraries, key=lambda of: of.name)]

    body = {
        "packages": packages,
        "files": files,
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
            for one, kind, other in relations
        ],
    }
    content = json.dumps(body, sort_keys=True) + created(source)
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"hakmem-{number}",
        # No place in the network, which may come to have another owner.
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "creationInfo": {"created": created(source), "creators": [f"Tool: hakmem-sbom-{number}"]},
        **body,
    }


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=root, help="the tree (default: this one)")
    parser.add_argument("--build", type=Path, help="where it was built; without it the source alone is described")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    arguments = parser.parse_args()
    text = json.dumps(document(arguments.source.resolve(), arguments.build), indent=1) + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
        return
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text, encoding="utf-8")
    print(f"written: {arguments.output}")


if __name__ == "__main__":
    main()
