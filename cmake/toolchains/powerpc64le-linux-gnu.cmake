# 64-bit PowerPC, little-endian, with glibc, by the cross compiler of Debian (gcc- and g++-powerpc64le-linux-gnu). Programs of
# the build run under qemu-user where it is installed.
#
#   cmake -S . -B build/ppc64le -G Ninja -DBUILD_TESTING=OFF \
#         --toolchain cmake/toolchains/powerpc64le-linux-gnu.cmake
set(CMAKE_SYSTEM_PROCESSOR ppc64le)
set(triplet powerpc64le-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/debian-cross.cmake)
