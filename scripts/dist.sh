#!/usr/bin/env bash
# What a release hands out, made of one commit in build/dist: the source as an archive, the list of what it consists
# of (scripts/sbom.py), and the checksums of both. Of the same commit and packages it is the same to the byte.
# Usage: scripts/dist.sh [REF]      a tag or commit; default HEAD
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ref=${1:-HEAD}

commit=$(git -C "$root" rev-parse --verify --quiet "$ref^{commit}") || {
  echo "dist: $ref is no tag or commit" >&2
  exit 1
}
version=$(git -C "$root" show "$commit:include/hakmem.h" | sed -n 's/.*HAKMEM_VERSION_STRING "\(.*\)"/\1/p')
[ -n "$version" ] || {
  echo "dist: include/hakmem.h of $ref states no version" >&2
  exit 1
}
tag=$(git -C "$root" describe --exact-match --match 'v[0-9]*' "$commit" 2>/dev/null) || tag=
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

# Built from the archive, as whoever gets it does, so that the list is of that and of nothing else here.
tar -xzf "$out/$name.tar.gz" -C "$work"
cmake -G Ninja -S "$work/$name" -B "$work/$name/build/standard" -DBUILD_TESTING=OFF >"$work/log" 2>&1 &&
  cmake --build "$work/$name/build/standard" --target hakmem_targets >>"$work/log" 2>&1 || {
  tail -n 40 "$work/log" >&2
  echo "dist: the archive does not build" >&2
  exit 1
}
python3 -B "$work/$name/scripts/sbom.py" --build "$work/$name/build/standard" -o "$out/$name.spdx.json" >/dev/null

cd "$out"
sha256sum "$name.spdx.json" "$name.tar.gz" >SHA256SUMS
cat SHA256SUMS
[ -n "$tag" ] || echo "dist: $ref has no tag v$version: this is no release yet" >&2
