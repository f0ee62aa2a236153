#!/usr/bin/env python3
"""The list of what hakmem consists of (scripts/sbom.py) is complete, right, and the same when made again.

Usage: test_sbom.py SOURCE_DIR BUILD_DIR
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
SKIP = 77
VALIDATE = """
import sys
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
messages = validate_full_spdx_document(parse_file(sys.argv[1]), "SPDX-2.3")
for message in messages:
    print(message.validation_message, message.context.spdx_id)
sys.exit(1 if messages else 0)
"""


def make(out: Path, source: Path = SOURCE, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-B", str(SOURCE / "scripts" / "sbom.py"), "--source", str(source), "-o", str(out)]
    command += ["--build", str(BUILD)]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True)


class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = Path(cls.directory.name, "hakmem.spdx.json")
        done = make(cls.path, SOURCE_DATE_EPOCH="1700000000")
        assert done.returncode == 0, done.stderr
        cls.document = json.loads(cls.path.read_text(encoding="utf-8"))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.directory.cleanup()

    def linked(self, name: str, how: str = "DYNAMIC_LINK") -> set[str]:
        """The names of the packages that a built file is linked to."""
        packages = {package["SPDXID"]: package for package in self.document["packages"]}
        return {
            packages[relation["relatedSpdxElement"]]["name"]
            for relation in self.document["relationships"]
            if relation["relationshipType"] == how
            and packages[relation["spdxElementId"]]["packageFileName"] == name
        }

    def test_valid(self) -> None:
        python = SOURCE / "build" / "lab" / "venv" / "bin" / "python"
        done = subprocess.run([str(python), "-c", VALIDATE, str(self.path)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_made_again_it_is_the_same(self) -> None:
        again = self.path.with_name("again.json")
        self.assertEqual(make(again, SOURCE_DATE_EPOCH="1700000000", TZ="Asia/Kathmandu", LC_ALL="C.UTF-8").stderr, "")
        self.assertEqual(again.read_bytes(), self.path.read_bytes())

    def test_date(self) -> None:
        self.assertEqual(self.document["creationInfo"]["created"], "2023-11-14T22:13:20Z")

    def test_another_date_is_another_document(self) -> None:
        later = self.path.with_name("later.json")
        make(later, SOURCE_DATE_EPOCH="1700000001")
        spaces = {json.loads(path.read_text(encoding="utf-8"))["documentNamespace"] for path in (later, self.path)}
        self.assertEqual(len(spaces), 2)

    def test_every_file_with_its_checksum(self) -> None:
        files = {file["fileName"]: file for file in self.document["files"]}
        for name in ("./src/api/override.c", "./include/hakmem.h", "./LICENSE", "./scripts/sbom.py"):
            self.assertIn(name, files)
        self.assertFalse([name for name in files if name.startswith(("./build/", "./.git/"))])
        for name, file in files.items():
            data = (SOURCE / name).read_bytes()
            sums = {entry["algorithm"]: entry["checksumValue"] for entry in file["checksums"]}
            self.assertEqual(sums["SHA1"], hashlib.sha1(data).hexdigest(), name)
            self.assertEqual(sums["SHA256"], hashlib.sha256(data).hexdigest(), name)

    def test_version_and_licence(self) -> None:
        header = (SOURCE / "include" / "hakmem.h").read_text(encoding="utf-8")
        version = re.findall(r'HAKMEM_VERSION_STRING "(.*)"', header)
        package = self.document["packages"][0]
        self.assertEqual([package["name"], package["licenseDeclared"]], ["hakmem", "MIT"])
        self.assertEqual([package["versionInfo"]], version)

    def test_what_was_built(self) -> None:
        built = {
            package["packageFileName"]: package["checksums"][1]["checksumValue"]
            for package in self.document["packages"]
            if "packageFileName" in package
        }
        self.assertLessEqual({"libhakmem.so", "libhakmem-api.so", "libhakmem.a", "hakmem"}, set(built))
        for name, checksum in built.items():
            self.assertEqual(checksum, hashlib.sha256((BUILD / name).read_bytes()).hexdigest(), name)

    def test_what_it_links_to(self) -> None:
        self.assertEqual(self.linked("libhakmem.so"), {"glibc"})
        self.assertEqual(self.linked("libhakmem.a"), set())
        command = ["readelf", "-dW", str(BUILD / "hakmem")]
        dynamic = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        of_soname = {"libdw.so": "elfutils-libdw", "libmicrohttpd.so": "libmicrohttpd", "libncursesw.so": "ncurses"}
        of_soname |= {"libprotobuf-c.so": "protobuf-c", "libz.so": "zlib", "libzstd.so": "zstd", "libc.so": "glibc"}
        for soname, name in of_soname.items():
            self.assertEqual(name in self.linked("hakmem"), f"[{soname}." in dynamic, soname)
        symbols = subprocess.run(["nm", str(BUILD / "hakmem")], check=True, capture_output=True, text=True).stdout
        self.assertEqual(self.linked("hakmem", "STATIC_LINK"), {"libiberty"} if " T rust_demangle" in symbols else set())

    def test_an_unpacked_archive_asks_for_its_date(self) -> None:
        tree = Path(self.directory.name, "tree")
        for name in ("include/hakmem.h", "LICENSE", "build/not-source"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((SOURCE / name).read_bytes() if (SOURCE / name).is_file() else b"")
        out = self.path.with_name("archive.json")
        self.assertIn("set SOURCE_DATE_EPOCH", make(out, tree).stderr)
        self.assertEqual(make(out, tree, SOURCE_DATE_EPOCH="1700000000").returncode, 0)
        names = [file["fileName"] for file in json.loads(out.read_text(encoding="utf-8"))["files"]]
        self.assertEqual(names, ["./LICENSE", "./include/hakmem.h"])


if __name__ == "__main__":
    validator = SOURCE / "build" / "lab" / "venv" / "bin" / "python"
    reader = [str(validator), "-c", "import spdx_tools"]
    if not validator.exists() or subprocess.run(reader, stderr=subprocess.DEVNULL).returncode != 0:
        print("build/lab/venv has no spdx-tools: run scripts/setup_lab.sh")
        sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1])
