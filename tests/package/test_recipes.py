#!/usr/bin/env python3
"""What contrib/ has for package managers, containers and systemd, as far as it can be tried in a second: one version in all
of them, syntax, and the rules that docs/installing.md states.

Usage: test_recipes.py
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from distribution import ROOT, VERSION, run

CONTRIB = ROOT / "contrib"
PORT = CONTRIB / "vcpkg/ports/hakmem"
# The helpers of vcpkg that the port calls, as its manual describes their arguments; they write down what they are given.
HELPERS = r"""
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "SOURCE_PATH" "OPTIONS;OPTIONS_DEBUG;OPTIONS_RELEASE")
  if(given_UNPARSED_ARGUMENTS OR NOT EXISTS "${given_SOURCE_PATH}/CMakeLists.txt")
    message(FATAL_ERROR "vcpkg_cmake_configure(${ARGN})")
  endif()
  foreach(option IN LISTS given_OPTIONS)
    message("OPTION ${option}")
  endforeach()
endfunction()
function(vcpkg_cmake_install)
  file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/debug/include")
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "PACKAGE_NAME;CONFIG_PATH" "")
  message("CONFIG ${given_CONFIG_PATH}")
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "COMMENT" "FILE_LIST")
  file(INSTALL ${given_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}" RENAME copyright)
endfunction()
include("${PORTFILE}")
"""
UNIT = """[Unit]
Description=A service
[Service]
ExecStart=/bin/true
"""


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


class Recipes(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.work = Path(self.directory.name)

    def test_one_version(self) -> None:
        run(sys.executable, "-B", ROOT / "scripts/version.py", "--check")

    def test_a_new_version_is_written_into_all_of_them(self) -> None:
        tree = self.work / "tree"
        for name in ("scripts", "contrib", "debian"):
            shutil.copytree(ROOT / name, tree / name)
        if (ROOT / "bindings").exists():
            ignored = shutil.ignore_patterns("target", "build", ".*")
            shutil.copytree(ROOT / "bindings", tree / "bindings", symlinks=True, ignore=ignored)
        (tree / "docs").mkdir()
        for page in (ROOT / "docs").glob("*.md"):
            shutil.copy(page, tree / "docs")
        (tree / "lab/hakmem_lab").mkdir(parents=True)
        shutil.copy(ROOT / "lab/hakmem_lab/__init__.py", tree / "lab/hakmem_lab")
        (tree / "include").mkdir()
        header = (ROOT / "include/hakmem.h").read_text(encoding="utf-8")
        (tree / "include/hakmem.h").write_text(header.replace(f'"{VERSION}"', '"99.8.7"'), encoding="utf-8")
        command = [sys.executable, "-B", tree / "scripts/version.py"]
        found = subprocess.run([*command, "--check"], capture_output=True, text=True)
        self.assertEqual(found.returncode, 1)
        for name in ("debian/changelog", "contrib/rpm/hakmem.spec", "contrib/alpine/APKBUILD", "vcpkg.json"):
            self.assertIn(f"{name}: {VERSION}, include/hakmem.h: 99.8.7", found.stdout)
        run(*command, "--write")
        run(*command, "--check")
        self.assertEqual(json.loads((tree / PORT.relative_to(ROOT) / "vcpkg.json").read_text())["version"], "99.8.7")
        if shutil.which("dpkg-parsechangelog"):
            changelog = ["dpkg-parsechangelog", "-l", tree / "debian/changelog", "-S"]
            self.assertEqual(run(*changelog, "Version").strip(), "99.8.7")
            self.assertEqual(run(*changelog, "Distribution").strip(), "unstable")
        spec = (tree / "contrib/rpm/hakmem.spec").read_text(encoding="utf-8")
        self.assertRegex(spec, r"%changelog\n\* \w{3} \w{3} \d\d \d{4} .*> - 99\.8\.7-1\n- .*\n\n\* ")
        self.assertIn("image: hakmem:99.8.7\n", (tree / "contrib/kubernetes/agent.yaml").read_text(encoding="utf-8"))
        self.assertIn("hakmem 99.8.7 (standard)", (tree / "docs/looking-inside.md").read_text(encoding="utf-8"))
        self.assertIn("find_package(hakmem 99.8 REQUIRED)", (tree / "docs/installing.md").read_text(encoding="utf-8"))
        self.assertIn("make dist REF=v99.8.7", (tree / "docs/releasing.md").read_text(encoding="utf-8"))

    def test_a_tag_of_another_version_is_no_release(self) -> None:
        """Whether it has a message of its own, as a signed one, or not."""
        tree = self.work / "tree"
        for name in ("scripts/dist.sh", "include/hakmem.h"):
            (tree / name).parent.mkdir(parents=True)
            shutil.copy(ROOT / name, tree / name)
        git = ["git", "-C", tree, "-c", "user.name=nobody", "-c", "user.email=nobody@example.invalid"]
        run(*git, "init", "--quiet")
        run(*git, "add", "--all")
        run(*git, "commit", "--quiet", "-m", "all")
        for kind in ([], ["-a", "-m", "a release"]):
            run(*git, "tag", *kind, "v99.8.7")
            for ref in ("v99.8.7", "HEAD"):
                made = subprocess.run(["bash", tree / "scripts/dist.sh", ref, "source"], capture_output=True, text=True)
                self.assertEqual(made.returncode, 1, made.stderr)
                self.assertIn(f"dist: the tag is v99.8.7, include/hakmem.h says {VERSION}", made.stderr)
            run(*git, "tag", "-d", "v99.8.7")

    def test_a_program_depends_on_the_version_that_has_its_symbols(self) -> None:
        """What the last release, which the baseline describes, does not have came later: Debian's list says so."""
        text = (ROOT / "debian/libhakmem0.symbols").read_text(encoding="utf-8")
        for part in re.split(r"(?m)^(?=lib)", text)[1:]:
            library = part.partition(".so")[0]
            (baseline,) = (ROOT / "tests/package/abi").glob(f"{library}-[0-9]*.abi")
            released = re.findall(r"elf-symbol name='([^']+)'", baseline.read_text(encoding="utf-8"))
            last = baseline.stem.rpartition("-")[2]
            listed = dict(re.findall(r"(?m)^ (\S+)@Base (\S+)$", part))
            self.assertLessEqual(set(released), set(listed))
            for symbol, since in listed.items():
                self.assertEqual(numbers(since) > numbers(last), symbol not in released, f"{symbol} {since}")

    def test_vcpkg_port(self) -> None:
        """vcpkg itself is not there: its helpers are played, by what their manual says."""
        manifest = json.loads((PORT / "vcpkg.json").read_text(encoding="utf-8"))
        self.assertEqual((manifest["name"], manifest["version"], manifest["license"]), ("hakmem", VERSION, "MIT"))
        helpers = {"vcpkg-cmake", "vcpkg-cmake-config"}
        self.assertEqual({entry["name"] for entry in manifest["dependencies"] if entry["host"]}, helpers)
        script = self.work / "play.cmake"
        script.write_text(HELPERS, encoding="utf-8")
        package = self.work / "package"
        said = run(
            os.environ.get("CMAKE", "cmake"), f"-DCURRENT_PACKAGES_DIR={package}", "-DPORT=hakmem",
            f"-DPORTFILE={PORT}/portfile.cmake", "-P", script,
        )  # fmt: skip
        settings = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        options = re.findall(r"OPTION -D(\w+)=OFF", said)
        self.assertEqual(set(options), {"BUILD_TESTING", "HAK_TOOLS", "HAK_WERROR"})
        for option in options:
            self.assertIn(f"option({option} ", settings)
        self.assertIn("CONFIG lib/cmake/hakmem\n", said)
        left = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
        self.assertEqual(left, {"share/hakmem/copyright", "share/hakmem/usage"})
        self.assertFalse((package / "debug/include").exists() or (package / "share/doc").exists())

    def test_systemd_drop_in(self) -> None:
        text = (CONTRIB / "systemd/hakmem.conf").read_text(encoding="utf-8")
        self.assertEqual(
            [line for line in text.splitlines() if line and not line.startswith("#")],
            ["[Service]", "Environment=LD_PRELOAD=libhakmem.so.0"],
        )
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd is not installed")
        for name, line, accepted in (
            ("as_it_is", "", True),
            ("all_of_it", "\n".join(re.findall(r"(?m)^#(\w+=.*)$", text)), True),
            ("a_mistake", "Enviroment=X=1", False),
        ):
            units = self.work / name
            (units / "app.service.d").mkdir(parents=True)
            (units / "app.service").write_text(UNIT, encoding="utf-8")
            (units / "app.service.d/hakmem.conf").write_text(f"{text}\n{line}\n", encoding="utf-8")
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", units / "app.service"],
                env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            about_it = [told for told in done.stdout.splitlines() if "hakmem.conf" in told]
            self.assertEqual(about_it == [], accepted, done.stdout)

    def test_container_recipe(self) -> None:
        """The library is there and tried before anything is preloaded, for the service alone."""
        lines = (CONTRIB / "container/Containerfile").read_text(encoding="utf-8").splitlines()
        steps = [line for line in lines if re.match(r"[A-Z]+ ", line)]
        last = steps[max(at for at, line in enumerate(steps) if line.startswith("FROM ")) :]
        installs = next(at for at, line in enumerate(last) if line.startswith("RUN apt-get"))
        tried = last.index("RUN hakmem doctor")
        entry = last.index('ENTRYPOINT ["hakmem", "run", "--"]')
        self.assertTrue(installs < tried < entry, last)
        self.assertFalse([line for line in steps if "LD_PRELOAD" in line or "ld.so.preload" in line])
        left_out = (CONTRIB / "container/Containerfile.dockerignore").read_text(encoding="utf-8").split()
        self.assertLessEqual({"/build", "/.git"}, set(left_out))


if __name__ == "__main__":
    unittest.main(argv=[""], verbosity=2)
