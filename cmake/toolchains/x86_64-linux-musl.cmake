# x86-64 with musl, by Debian's musl-tools: the system's gcc with musl's headers and libc.
#
#   cmake -S . -B build/musl -G Ninja -DBUILD_TESTING=OFF \
#         --toolchain cmake/toolchains/x86_64-linux-musl.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

set(CMAKE_C_COMPILER musl-gcc)
# musl-tools brings no C++ library, but the gcc behind it compiles C++ that needs none: that is all
# the library itself asks for.
set(CMAKE_CXX_COMPILER musl-gcc)

set(CMAKE_FIND_ROOT_PATH /usr/lib/x86_64-linux-musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
