#!/usr/bin/env bash
# clang-format and clang-tidy over every C and C++ file of the tree, plain English on the pages (scripts/prose.py), and no file that
# is too large to be kept.
# Usage: scripts/lint.sh                      checks; exit 1 on the first kind of finding, all of them shown
#        scripts/lint.sh --changed [COMMIT]   clang-tidy for those that the change since COMMIT can affect (tests/runner/linted.py)
#        scripts/lint.sh --format             rewrites the files in place
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The versions of scripts/packages.txt: another version formats differently.
find_tool() {
  local name
  for name in "$1-14" "$1"; do
    if command -v "$name" >/dev/null; then
      printf '%s\n' "$name"
      return
    fi
  done
  echo "lint: $1 is missing: run scripts/setup.sh lint" >&2
  return 1
}

list_sources() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z -co --exclude-standard -- '*.c' '*.h' '*.cc' '*.cpp' '*.hpp' |
      xargs -0 -r ls -d 2>/dev/null || true # a file deleted but not committed yet is no file
  else
    find include src tools bench tests -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' -o -name '*.hpp'
  fi
}

clang_format=$(find_tool clang-format)
mapfile -t sources < <(list_sources | sort -u)

if [ "${1:-}" = --format ]; then
  "$clang_format" -i "${sources[@]}"
  exit 0
fi

failed=0
echo "lint: $clang_format, ${#sources[@]} files"
"$clang_format" --dry-run -Werror "${sources[@]}" || {
  echo "lint: not formatted; 'make format' does it" >&2
  failed=1
}

# By scripts/prose.toml. Python older than 3.11 has no reader for it.
if python3 -c 'import tomllib' 2>/dev/null; then
  python3 -B scripts/prose.py || failed=1
else
  echo 'lint: prose is not checked: Python 3.11 or newer is needed'
fi

# A generated file that was added by mistake stays in every clone for good. The example report has 4 MB.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  # A file deleted but not committed yet is no file.
  large=$(git ls-files -z | xargs -0 -r sh -c 'find "$@" -maxdepth 0 -size +8M' sh 2>/dev/null) || true
  [ -z "$large" ] || {
    printf 'lint: larger than 8 MiB, not to be kept in the repository: %s\n' "$large" >&2
    failed=1
  }
fi

# clang-tidy needs to know how each file is compiled: a configured tree of its own, every test folder
# in it, with clang as the compiler so that it knows all the flags.
clang_tidy=$(find_tool clang-tidy)
clang=$(find_tool clang)
mkdir -p build
CC=$clang CXX=${clang/clang/clang++} cmake --preset standard -B build/lint \
  -DHAK_VARIANT=check "-DHAK_TESTS=unit;api;guarantees;stress;fault;campaigns;fuzz;tools;trace;bench" >build/lint.log 2>&1 || {
  cat build/lint.log >&2
  exit 1
}
# Most sources are compiled into several targets; once is enough here.
mapfile -t compiled < <(python3 scripts/one_compile_command.py build/lint/compile_commands.json)
there_are=${#compiled[@]}
if [ "${1:-}" = --changed ]; then
  python3 tests/runner/linted.py ${2:+--base "$2"} build/lint >build/lint-files
  mapfile -t compiled <build/lint-files
fi
echo "lint: $clang_tidy, ${#compiled[@]} of $there_are files"
{ [ "${#compiled[@]}" = 0 ] || printf '%s\0' "${compiled[@]}"; } |
  xargs -0 -r -n 1 -P "$(nproc)" "$clang_tidy" -p build/lint --quiet 2>build/lint.log || {
  grep -v 'warnings generated' build/lint.log >&2 || true
  failed=1
}
[ "$failed" = 0 ] && echo "lint: clean"
exit "$failed"
