#!/usr/bin/env bash
# What a release hands out, made of one commit in build/dist: the source as an archive and the list of what it consists
# of (scripts/sbom.py), Debian packages, the Python package, the Rust crates, and the checksums of all. Of the same commit
# and packages source, list and Debian packages are the same to the byte.
# Usage: scripts/dist.sh [REF [PART...]]      REF: a tag or commit; default HEAD
# Parts: source (always made), deb, python, rust. Without any, all that this machine can make, and a word on each that it cannot;
# one that is named has to be made.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ref=${1:-HEAD}
parts=("${@:2}")
for part in "${parts[@]}"; do
  case $part in
  source | deb | python | rust) ;;
  *)
    echo "dist: no part $part; there are source, deb, python, rust" >&2
    exit 1
    ;;
  esac
done

commit=$(git -C "$root" rev-parse --verify --quiet "$ref^{commit}") || {
  echo "dist: $ref is no tag or commit" >&2
  exit 1
}
version=$(git -C "$root" show "$commit:include/hakmem.h" | sed -n 's/.*HAKMEM_VERSION_STRING "\(.*\)"/\1/p')
[ -n "$version" ] || {
  echo "dist: include/hakmem.h of $ref states no version" >&2
  exit 1
}
tag=$(git -C "$root" describe --tags --exact-match --match 'v[0-9]*' "$commit" 2>/dev/null) || tag=
[ -z "$tag" ] || [ "$tag" = "v$version" ] || {
  echo "dist: the tag is $tag, include/hakmem.h says $version" >&2
  exit 1
}
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH

name=hakmem-$version
out=$root/build/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

# -n: without the time at which it was compressed.
git -C "$root" archive --format=tar --prefix="$name/" "$commit" | gzip -9n >"$out/$name.tar.gz"

# All else is made from the archive, as whoever gets it does, so that it is of that and of nothing else here.
tree=$work/$name
tar -xzf "$out/$name.tar.gz" -C "$work"

# step WORDS COMMAND...: says what it says only when it fails.
step() {
  local what=$1
  shift
  "$@" >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    echo "dist: $what" >&2
    exit 1
  }
}

# wanted PART PROGRAM...: is the part to be made, and can it be?
wanted() {
  local part=$1 program missing=
  shift
  [ ${#parts[@]} -eq 0 ] || [[ " ${parts[*]} " == *" $part "* ]] || return 1
  for program in "$@"; do
    command -v "$program" >/dev/null || missing="$program is not installed"
  done
  [ -n "$missing" ] || [ "$part" != deb ] || missing=$(cd "$tree" && dpkg-checkbuilddeps 2>&1) || true
  [ -n "$missing" ] || return 0
  echo "dist: without the part $part: $missing" >&2
  [ ${#parts[@]} -eq 0 ] || exit 1
  return 1
}

build_tree() {
  cmake -G Ninja -S "$tree" -B "$tree/build/standard" -DBUILD_TESTING=OFF &&
    cmake --build "$tree/build/standard" --target hakmem_targets
}
step "the archive does not build" build_tree
python3 -B "$tree/scripts/sbom.py" --build "$tree/build/standard" -o "$out/$name.spdx.json" >/dev/null

if [ -d "$tree/debian" ] && wanted deb dpkg-buildpackage dpkg-checkbuilddeps; then
  # In a folder of its own: what is built comes beside the tree.
  mkdir "$work/deb"
  tar -xzf "$out/$name.tar.gz" -C "$work/deb"
  build_debs() { (cd "$work/deb/$name" && dpkg-buildpackage -b -us -uc); }
  step "the Debian packages do not build" build_debs
  cp "$work"/deb/*.deb "$out"
fi

# The bindings, each by its own means.
if [ -f "$tree/bindings/python/release.py" ] && wanted python python3; then
  step "the Python package does not build" python3 -B "$tree/bindings/python/release.py" --out "$work/python"
  cp "$work"/python/*.whl "$out" # its sdist has the name of the source archive
fi
if [ -f "$tree/bindings/rust/Cargo.toml" ] && wanted rust cargo; then
  # Not compared by building it: the tests do that. --allow-dirty: there is no repository here.
  step "the Rust crates cannot be packed" cargo package --manifest-path "$tree/bindings/rust/Cargo.toml" \
    --target-dir "$work/rust" --no-verify --allow-dirty
  cp "$work"/rust/package/*.crate "$out"
fi

cd "$out"
find . -maxdepth 1 -type f -printf '%f\n' | LC_ALL=C sort | xargs sha256sum >"$work/sums"
mv "$work/sums" SHA256SUMS
cat SHA256SUMS
[ -n "$tag" ] || echo "dist: $ref has no tag v$version: this is no release yet" >&2
