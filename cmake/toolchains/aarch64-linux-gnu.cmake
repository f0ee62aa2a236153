# 64-bit ARM with glibc, by the cross compiler of Debian (gcc- and g++-aarch64-linux-gnu). Programs of
# the build run under qemu-user where it is installed.
#
#   cmake -S . -B build/aarch64 -G Ninja -DBUILD_TESTING=OFF \
#         --toolchain cmake/toolchains/aarch64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(HAK_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(HAK_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${HAK_QEMU_AARCH64} -L /usr/aarch64-linux-gnu)
endif()
