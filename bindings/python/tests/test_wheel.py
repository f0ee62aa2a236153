"""The files that are handed out. HAKMEM_TEST_DIST is their folder (run.py)."""

import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

DIST = Path(os.environ.get("HAKMEM_TEST_DIST", "/nowhere"))
NATIVE = "hakmem/_native/"


def only(pattern: str) -> Path:
    if not DIST.is_dir():
        pytest.skip("HAKMEM_TEST_DIST is not set")
    (found,) = DIST.glob(pattern)
    return found


def test_one_wheel_for_every_python() -> None:
    _, _, _, tags = parse_wheel_filename(only("*.whl").name)
    assert {(tag.interpreter, tag.abi) for tag in tags} == {("py3", "none")}
    assert all("linux" in tag.platform for tag in tags)


def test_what_a_wheel_carries() -> None:
    with zipfile.ZipFile(only("*.whl")) as wheel:
        names = {info.filename for info in wheel.infolist()}
        programs = {
            info.filename for info in wheel.infolist() if info.external_attr >> 16 & stat.S_IXUSR
        }
        native = {name: wheel.read(name) for name in names if name.startswith(NATIVE)}
    assert {
        "hakmem/py.typed",
        f"{NATIVE}bin/hakmem",
        f"{NATIVE}lib/libhakmem.so.0",
        f"{NATIVE}hardened/libhakmem.so.0",
    } <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert f"{NATIVE}bin/hakmem" in programs
    for name, content in native.items():
        assert content.startswith(b"\x7fELF"), name
        assert b".debug_info" not in content, f"{name} is not stripped"
        assert b"/source/src/" not in content, f"{name} names a folder it was built in"
    elsewhere = [name for name in names if ".so" in name and not name.startswith(NATIVE)]
    assert all(name.startswith("hakmem.libs/") for name in elsewhere), elsewhere


def test_an_sdist_has_the_sources_and_no_links() -> None:
    with tarfile.open(only("*.tar.gz")) as sdist:
        members = sdist.getmembers()
    root = members[0].name.split("/")[0]
    names = {member.name[len(root) + 1 :] for member in members}
    assert {
        "pyproject.toml",
        "CMakeLists.txt",
        "LICENSE",
        "source/CMakeLists.txt",
        "source/cmake/library.cmake",
        "source/include/hakmem.h",
        "source/src/api/override.c",
        "source/tools/main.c",
        "source/docs/man/hakmem.1.scd",
        "src/hakmem/py.typed",
    } <= names
    assert all(member.isfile() for member in members)
    assert not [name for name in names if name.endswith(".pyc") or "/build/" in name]
