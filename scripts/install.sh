#!/bin/sh
# What `make install` and `make uninstall` do; DESTDIR is honoured.
# Usage: install.sh install PREFIX VARIANT BUILD_DIR
#        install.sh uninstall PREFIX [VARIANT]       without one: all that were installed
# The names of what was installed are kept in PREFIX/share/hakmem/installed-VARIANT, relative to PREFIX, so that the tree may be
# moved, and what is not named there is never removed.
set -eu

fail() {
  echo "make: $*" >&2
  exit 1
}

command=$1
[ -n "$2" ] || fail "PREFIX is empty"
prefix=$(realpath -sm -- "$2")
[ "$prefix" != / ] || prefix=
root=${DESTDIR:+$(realpath -sm -- "$DESTDIR")}
[ "$root" != / ] || root=
kept=$root$prefix/share/hakmem

# Where a name in a list is.
place() {
  case $1 in
  /*) printf '%s\n' "$root$1" ;;
  *) printf '%s\n' "$root$prefix/$1" ;;
  esac
}

is_there() { [ -e "$1" ] || [ -L "$1" ]; }

# Removes the directories of hakmem's own that nothing is left in.
remove_empty() {
  directory=$(dirname -- "$1")
  while :; do
    case ${directory#"$root$prefix"}/ in
    */hakmem/*) rmdir -- "$directory" 2>/dev/null || return 0 ;;
    *) return 0 ;;
    esac
    directory=$(dirname -- "$directory")
  done
}

install_variant() {
  variant=$1 build=$2
  DESTDIR=$root cmake --install "$build" --prefix "${prefix:-/}" ||
    fail "not everything was installed; is $root$prefix writable?"
  # A copied build folder installs, but lists what it installed in the folder that it is a copy of.
  [ -r "$build/install_manifest.txt" ] ||
    fail "there is no $build/install_manifest.txt, by which make uninstall goes: is $build a copy? 'make clean' and make install again"
  mkdir -p -- "$kept"
  list=$kept/installed-$variant
  {
    # What an older version put there, and this one has no more, is still to be removed.
    if [ -f "$list" ]; then
      while IFS= read -r name; do
        if is_there "$(place "$name")"; then printf '%s\n' "$name"; fi
      done <"$list"
    fi
    while IFS= read -r file || [ -n "$file" ]; do
      printf '%s\n' "${file#"$prefix"/}"
    done <"$build/install_manifest.txt"
  } | sort -u >"$list.new"
  chmod 644 -- "$list.new"
  mv -f -- "$list.new" "$list"
  [ "$variant" = standard ] || [ -e "$root$prefix/bin/hakmem" ] ||
    echo "make: the command hakmem is not in ${prefix:-/}/bin: 'make install PREFIX=${prefix:-/}' brings it, with the standard library"
}

uninstall_variant() {
  list=$kept/installed-$1
  removed=0
  while IFS= read -r name; do
    file=$(place "$name")
    is_there "$file" || continue
    if [ -d "$file" ] && [ ! -L "$file" ]; then continue; fi # somebody else's by now
    rm -f -- "$file" || fail "$file is not removed"
    removed=$((removed + 1))
    remove_empty "$file"
  done <"$list"
  rm -f -- "$list"
  remove_empty "$list"
  echo "removed: $removed files of the variant $1 from $root${prefix:-/}"
}

case $command in
install) install_variant "$3" "$4" ;;
uninstall)
  found=0
  for list in "$kept"/installed-*; do
    [ -f "$list" ] || continue
    name=${list##*/installed-}
    if [ -n "${3:-}" ] && [ "$name" != "$3" ]; then continue; fi
    uninstall_variant "$name"
    found=1
  done
  [ "$found" = 1 ] || fail "nothing${3:+ of the variant $3} to remove: 'make install' has left no list in $kept"
  ;;
*) fail "usage: install.sh install|uninstall PREFIX ..." ;;
esac
