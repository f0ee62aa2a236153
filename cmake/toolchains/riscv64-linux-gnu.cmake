# 64-bit RISC-V with glibc, by the cross compiler of Debian (gcc- and g++-riscv64-linux-gnu). Programs of
# the build run under qemu-user where it is installed.
#
#   cmake -S . -B build/riscv64 -G Ninja -DBUILD_TESTING=OFF \
#         --toolchain cmake/toolchains/riscv64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)

set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)

set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(HAK_QEMU_RISCV64 NAMES qemu-riscv64 qemu-riscv64-static)
if(HAK_QEMU_RISCV64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${HAK_QEMU_RISCV64} -L /usr/riscv64-linux-gnu)
endif()
