# 64-bit RISC-V with glibc, by the cross compiler of Debian (gcc- and g++-riscv64-linux-gnu). Programs of
# the build run under qemu-user where it is installed.
#
#   cmake -S . -B build/riscv64 -G Ninja -DBUILD_TESTING=OFF \
#         --toolchain cmake/toolchains/riscv64-linux-gnu.cmake
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(triplet riscv64-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/debian-cross.cmake)
