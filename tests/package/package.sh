#!/usr/bin/env bash
# Installs the built tree into a temporary prefix and uses it as a stranger would.
# Usage: package.sh CASE SOURCE_DIR BUILD_DIR WORK_DIR VERSION, with CC, CXX and CMAKE in the environment.
set -euo pipefail

case_name=$1
source_dir=$2
build_dir=$3
work_dir=$4
version=$5
here=$source_dir/tests/package
prefix="$work_dir/a prefix with spaces"

fail() {
  echo "$*" >&2
  exit 1
}

use_pkg_config() {
  command -v pkg-config >/dev/null || {
    echo "pkg-config is not installed"
    exit 77
  }
  local file
  file=$(find "$prefix" -name hakmem.pc)
  [ -n "$file" ] || fail "hakmem.pc is not installed"
  PKG_CONFIG_PATH=$(dirname "$file")
  export PKG_CONFIG_PATH
  [ "$(pkg-config --modversion hakmem)" = "$version" ] ||
    fail "pkg-config says $(pkg-config --modversion hakmem), not $version"
}

# Sets flags to what pkg-config prints. It escapes spaces for a shell, which make and CMake understand.
read_flags() { eval "flags=($(pkg-config "$@" hakmem))"; }

case $case_name in
install)
  rm -rf "$work_dir"
  # Installed in one place and then moved: nothing in it may name the place.
  "$CMAKE" --install "$build_dir" --prefix "$work_dir/first" >/dev/null
  mv "$work_dir/first" "$prefix"
  for file in include/hakmem.h bin/hakmem; do
    [ -e "$prefix/$file" ] || [ ! -e "$source_dir/tools/CMakeLists.txt" ] ||
      fail "$file was not installed"
  done
  if grep -rIlF -e "$work_dir/first" -e "$build_dir" "$prefix"; then
    fail "the files above name the build tree or the first prefix"
  fi
  for file in bash-completion/completions/hakmem zsh/site-functions/_hakmem fish/vendor_completions.d/hakmem.fish; do
    [ -e "$prefix/share/$file" ] || [ ! -e "$build_dir/hakmem" ] || fail "share/$file was not installed"
  done
  page=$(find "$prefix" -name 'hakmem.1*')
  [ -n "$page" ] || ! command -v scdoc >/dev/null || fail "hakmem.1 was not installed"
  for link in libhakmem.so libhakmem-api.so; do
    library=$(find "$prefix" -name "$link")
    [ -L "$library" ] && [ -e "$library" ] || fail "$link is not a link to a library"
  done
  # In a build with libzstd.
  [ ! -e "$build_dir/libhakmem-trace.so" ] || [ -n "$(find "$prefix" -name 'libhakmem-trace.so.0')" ] ||
    fail "libhakmem-trace.so.0 was not installed"
  ;;
cmake)
  rm -rf "$work_dir/cmake"
  "$CMAKE" -S "$here/consumer" -B "$work_dir/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
    -DWANTED_VERSION="$version" -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_BUILD_TYPE=Release
  "$CMAKE" --build "$work_dir/cmake"
  "$CMAKE" -E chdir "$work_dir/cmake" "${CTEST:-ctest}" --output-on-failure --no-tests=error
  ;;
pkgconfig)
  use_pkg_config
  read_flags --cflags --libs
  libdir=$(dirname "$PKG_CONFIG_PATH")
  mkdir -p "$work_dir/pkgconfig"
  "$CC" -O2 -o "$work_dir/pkgconfig/c" "$here/consumer/replace.c" "${flags[@]}"
  "$CXX" -O2 -std=c++17 -o "$work_dir/pkgconfig/cpp" "$here/consumer/replace.cpp" "${flags[@]}" -pthread
  # Also with the flag that some distributions set by default.
  "$CXX" -O2 -std=c++17 -Wl,--as-needed -o "$work_dir/pkgconfig/new" "$here/consumer/new_only.cpp" \
    "${flags[@]}"
  "$CC" -O2 -Wl,--as-needed -o "$work_dir/pkgconfig/indirect" "$here/consumer/indirect.c" "${flags[@]}"
  for program in c cpp new indirect; do
    LD_LIBRARY_PATH=$libdir "$work_dir/pkgconfig/$program"
  done
  ;;
static)
  use_pkg_config
  read_flags --static --cflags --libs
  mkdir -p "$work_dir/static"
  "$CC" -O2 -static -o "$work_dir/static/c" "$here/consumer/replace.c" "${flags[@]}"
  "$CXX" -O2 -std=c++17 -static -o "$work_dir/static/cpp" "$here/consumer/replace.cpp" "${flags[@]}"
  "$CXX" -O2 -std=c++17 -static -o "$work_dir/static/new" "$here/consumer/new_only.cpp" "${flags[@]}"
  "$CC" -O2 -static -o "$work_dir/static/indirect" "$here/consumer/indirect.c" "${flags[@]}"
  "$CC" -O2 -static-pie -o "$work_dir/static/pie" "$here/consumer/replace.c" "${flags[@]}"
  for program in c cpp new indirect pie; do
    if readelf -lW "$work_dir/static/$program" | grep -q INTERP; then
      fail "$program is not static"
    fi
    "$work_dir/static/$program"
  done
  ;;
tool)
  # The installed tool finds the library of its own tree, wherever that has gone: to a place without
  # spaces, because the dynamic linker preloads from no other.
  rm -rf "$work_dir/tool"
  mkdir -p "$work_dir/tool"
  cp -a "$prefix" "$work_dir/tool/prefix"
  "$CC" -O2 -o "$work_dir/tool/indirect" "$here/consumer/indirect.c"
  if "$work_dir/tool/indirect" 2>/dev/null; then
    fail "the program says that it runs on hakmem, and it does not"
  fi
  "$work_dir/tool/prefix/bin/hakmem" run -- "$work_dir/tool/indirect"
  if [ -e "$build_dir/libhakmem-trace.so" ]; then
    "$work_dir/tool/prefix/bin/hakmem" trace record -f -o "$work_dir/tool/trace" -- "$work_dir/tool/indirect"
    [ "$(head -c 5 "$work_dir/tool/trace" | tail -c 4)" = HTRC ] || fail "no trace was written"
  fi
  ;;
clang)
  clang=$(command -v clang-14 || command -v clang) || {
    echo "clang is not installed"
    exit 77
  }
  rm -rf "$work_dir/clang"
  # Without the tool: clang says of its files what it has to say in `make lint`.
  "$CMAKE" -G Ninja -S "$source_dir" -B "$work_dir/clang" -DCMAKE_C_COMPILER="$clang" \
    -DBUILD_TESTING=OFF -DHAK_TOOLS=OFF
  "$CMAKE" --build "$work_dir/clang" --target hakmem_targets
  "$CC" -O2 -I"$source_dir/include" -o "$work_dir/clang/preloaded" "$here/consumer/replace.c" \
    -L"$work_dir/clang" -lhakmem
  LD_LIBRARY_PATH=$work_dir/clang "$work_dir/clang/preloaded"
  # malloc itself, which the variants that clang compiles for the sanitizers do not have: preloaded and in a static program.
  override=$source_dir/tests/cross/override
  flags=(-O1 -D_GNU_SOURCE -I"$source_dir/include" -pthread)
  for name in malloc calloc realloc reallocarray free aligned_alloc memalign posix_memalign valloc strdup; do
    flags+=("-fno-builtin-$name")
  done
  for name in family quiet; do
    "$clang" "${flags[@]}" -DOVERRIDE_LINKED=0 -o "$work_dir/clang/$name" "$override/$name.c"
    "$clang" "${flags[@]}" -DOVERRIDE_LINKED=1 -static -o "$work_dir/clang/${name}_static" "$override/$name.c" \
      -Wl,--undefined=malloc "$work_dir/clang/libhakmem.a"
  done
  "${clang/clang/clang++}" "${flags[@]}" -std=c++17 -DOVERRIDE_LINKED=0 -o "$work_dir/clang/containers" "$override/containers.cpp"
  for name in family quiet containers; do
    LD_PRELOAD=$work_dir/clang/libhakmem.so "$work_dir/clang/$name" 2000
  done
  for name in family quiet; do
    "$work_dir/clang/${name}_static" 2000
  done
  python3 -B "$here/check_hardening.py" --fast-path "$work_dir/clang/libhakmem.so" "$work_dir/clang/libhakmem.a"
  # What else it names is loaded into every program, and allocates at load (libstdc++ does).
  more=$(readelf -dW "$work_dir/clang/libhakmem.so" | grep '(NEEDED)' | grep -v 'libc\.so\.6\|ld-linux') || true
  [ -z "$more" ] || fail "libraries that libhakmem.so does not need: $more"
  ;;
subproject)
  # Taken in with add_subdirectory, without package or install.
  subproject="$work_dir/sub project"
  rm -rf "$subproject"
  mkdir -p "$subproject"
  cat >"$subproject/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.21)
project(super LANGUAGES C)
add_subdirectory("$source_dir" hakmem EXCLUDE_FROM_ALL)
add_executable(program "$here/consumer/replace.c")
target_link_libraries(program PRIVATE hakmem::hakmem)
END
  "$CMAKE" -G Ninja -S "$subproject" -B "$subproject/build" \
    -DCMAKE_C_COMPILER="$CC"
  "$CMAKE" --build "$subproject/build"
  "$subproject/build/program"
  ;;
fetchcontent)
  # Fetched as an archive and built as a part of another project, all of it but what is not for others.
  command -v make >/dev/null || {
    echo "make is not installed"
    exit 77
  }
  fetching="$work_dir/fetch content"
  rm -rf "$fetching"
  mkdir -p "$fetching"
  python3 -B -c 'import sys; sys.path.insert(0, sys.argv[1]); import distribution, pathlib
print(distribution.archive(pathlib.Path(sys.argv[2])))' "$here" "$fetching"
  cat >"$fetching/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.21)
project(super LANGUAGES C CXX)
include(FetchContent)
FetchContent_Declare(hakmem URL "file://$fetching/hakmem-$version.tar.gz")
FetchContent_MakeAvailable(hakmem)
add_executable(program "$here/consumer/replace.c")
target_link_libraries(program PRIVATE hakmem::hakmem)
add_executable(static_program "$here/consumer/replace.c")
target_link_libraries(static_program PRIVATE hakmem::static)
add_executable(beside "$here/consumer/beside.c")
target_link_libraries(beside PRIVATE hakmem::api)
END
  # By make, which most get who name no generator.
  "$CMAKE" -G "Unix Makefiles" -S "$fetching" -B "$fetching/build" -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX"
  "$CMAKE" --build "$fetching/build" -j 2
  for program in program static_program beside; do
    "$fetching/build/$program"
  done
  [ -z "$(find "$fetching/build" -type f -name hakmem -perm -u+x)" ] || fail "the tool was built for another project"
  ;;
meson)
  command -v meson >/dev/null || {
    echo "meson is not installed"
    exit 77
  }
  use_pkg_config
  rm -rf "$work_dir/meson"
  mkdir -p "$work_dir/meson"
  cp "$here/consumer"/*.[ch]* "$here/consumer"/meson* "$work_dir/meson"
  CC=$CC CXX=$CXX CFLAGS='' CXXFLAGS='' LDFLAGS='' meson setup "$work_dir/meson/build" "$work_dir/meson" -Dversion="$version"
  meson test -C "$work_dir/meson/build" --print-errorlogs
  ;;
*)
  fail "unknown case $case_name"
  ;;
esac
