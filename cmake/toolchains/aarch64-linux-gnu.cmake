# 64-bit ARM with glibc, by the cross compiler of Debian (gcc- and g++-aarch64-linux-gnu). Programs of
# the build run under qemu-user where it is installed.
#
#   cmake -S . -B build/aarch64 -G Ninja -DBUILD_TESTING=OFF \
#         --toolchain cmake/toolchains/aarch64-linux-gnu.cmake
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triplet aarch64-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/debian-cross.cmake)
