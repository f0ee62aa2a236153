#!/usr/bin/env bash
# Runs the larson benchmark: threads whose blocks outlive them (bench/larson.c). See --list for the
# profiles.
#
#   scripts/larson.sh                       profile server, libc's malloc and hakmem
#   scripts/larson.sh mid 4                 another profile, in 4 threads
#   LIBRARIES='build/standard/libhakmem.so /usr/lib/x86_64-linux-gnu/libjemalloc.so.2' scripts/larson.sh
#
# LIBRARIES are preloaded, one run each; "system" stands for libc's malloc. OPERATIONS, SEED=1 and
# BENCH_BIN=build/bench/larson can be set too. For ratios with intervals: make bench.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
  echo "larson: $*" >&2
  exit 2
}

# name: operations, blocks of a thread, round, sizes, release
profiles='server     40000000  5000 100000 8    1000   free
sized      40000000  5000 100000 8    1000   delete
local      40000000  5000 0      8    1000   free
small      40000000  5000 100000 8    64     free
mid        4000000   500  10000  8192 32768  free
churn      4000000   500  5000   8    1000   free'

list() {
  echo "profile    operations blocks round  sizes       release"
  awk '{ printf "%-10s %-10s %-6s %-6s %-11s %s\n", $1, $2, $3, $4, $5 ".." $6, $7 }' <<<"$profiles"
}

case ${1:-} in
--list)
  list
  exit 0
  ;;
-h | --help)
  sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  list
  exit 0
  ;;
esac
[ $# -le 2 ] || die "at most two arguments: PROFILE THREADS (see --help)"
profile=${1:-server}
threads=${2:-2}
line=$(awk -v name="$profile" '$1 == name' <<<"$profiles")
[ -n "$line" ] || die "unknown profile '$profile'; accepted: $(awk '{ printf "%s ", $1 }' <<<"$profiles")"
read -r _ operations slots round low high release <<<"$line"

bin=${BENCH_BIN:-$root/build/bench/larson}
[ -x "$bin" ] || die "no benchmark at $bin: make bench-build"
hakmem=$root/build/standard/libhakmem.so
for library in ${LIBRARIES:-system $hakmem}; do
  preload=
  if [ "$library" != system ]; then
    [ -f "$library" ] || die "no library at $library"
    preload=$(realpath "$library")
  fi
  code=0
  LD_PRELOAD=$preload "$bin" "$threads" "${OPERATIONS:-$operations}" "$slots" "$round" "$low" "$high" \
    "$release" "${SEED:-1}" || code=$?
  # 2: the program has said which argument is wrong.
  [ "$code" = 0 ] || exit "$code"
done
