"""Conan recipe of hakmem, built from the tree that it lies in: conan create contrib/conan

A consumer's CMake finds what it finds without Conan, too: find_package(hakmem) with the targets hakmem::hakmem (replaces
malloc), hakmem::static (the same, static) and hakmem::api (hak_* beside another malloc). The tool `hakmem` is not built: it
is for the machine on which programs run, and comes from a package of the distribution or `make install`.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

required_conan_version = ">=2.0"


class Hakmem(ConanFile):
    name = "hakmem"
    description = "Drop-in memory allocator"
    license = "MIT"
    topics = ("allocator", "malloc")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"variant": ["standard", "hardened"]}
    default_options = {"variant": "standard"}

    def set_version(self) -> None:
        header = self._tree() / "include" / "hakmem.h"
        self.version = re.findall(r'HAKMEM_VERSION_STRING "(.*)"', header.read_text(encoding="utf-8"))[0]

    def _tree(self) -> Path:
        return Path(self.recipe_folder).resolve().parents[1]

    def export_sources(self) -> None:
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, src=str(self._tree()), dst=self.export_sources_folder)

    def validate(self) -> None:
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("hakmem is for Linux on x86-64 and 64-bit ARM")

    def layout(self) -> None:
        cmake_layout(self)

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update(
            {
                "BUILD_TESTING": False,
                "HAK_TOOLS": False,
                "HAK_WERROR": False,
                "HAK_VARIANT": str(self.options.variant),
                "HAK_INSTALL_BESIDE": False,  # a package has one variant, which is its library
            }
        )
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        copy(self, "LICENSE", src=self.source_folder, dst=str(Path(self.package_folder, "licenses")))
        CMake(self).install()

    def package_info(self) -> None:
        # The package's own files for CMake, which know how a linker is kept from leaving the library out.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/hakmem"]
        self.cpp_info.libs = ["hakmem"]
        self.cpp_info.system_libs = ["pthread"]
