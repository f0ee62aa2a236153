# 64-bit PowerPC, little-endian, with glibc, by the cross compiler of Debian (gcc- and g++-powerpc64le-linux-gnu). Programs of
# the build run under qemu-user where it is installed.
#
#   cmake -S . -B build/ppc64le -G Ninja -DBUILD_TESTING=OFF \
#         --toolchain cmake/toolchains/powerpc64le-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ppc64le)

set(CMAKE_C_COMPILER powerpc64le-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER powerpc64le-linux-gnu-g++)

set(CMAKE_FIND_ROOT_PATH /usr/powerpc64le-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(HAK_QEMU_PPC64LE NAMES qemu-ppc64le qemu-ppc64le-static)
if(HAK_QEMU_PPC64LE)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${HAK_QEMU_PPC64LE} -L /usr/powerpc64le-linux-gnu)
endif()
