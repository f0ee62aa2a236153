#!/usr/bin/env bash
# Fragmentation soak: phases that grow, shrink to a tenth, change sizes and idle, over and over
# (bench/phases.c), on one allocator after the other.
#
#   scripts/soak_fragmentation.sh >fragmentation.csv
#   scripts/soak_fragmentation.sh glibc=system 'lean=build/standard/libhakmem.so HAKMEM_PROFILE=lean'
#
# Each argument LABEL=WORDS is a run: a library to preload into BENCH_BIN, or "system" for libc's malloc,
# and VARIABLE=VALUE words. Default: hakmem and glibc.
#
# Columns: cycle,phase,elapsed_s,live_kb,rss_kb,ratio,label. scripts/analyze_soak.py sums them up.
#
# Variables: BENCH_BIN=build/bench/phases THREADS=2 MIB=256 CYCLES=20 IDLE_MS=2000 KEEP_PERCENT=10 SEED=1,
# SIZES='16 512 512 8192' (smallest and largest block of either range), OUT=FILE instead of stdout,
# CPU=0-1: processors of the program. KEEP='NAME' keeps a variable of the environment.
set -euo pipefail
tool=soak_fragmentation
# shellcheck source=scripts/soak_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/soak_common.sh"

answer_help "$@"
threads=$(number THREADS 2 1 1024)
mib=$(number MIB 256 1 1048576)
cycles=$(number CYCLES 20 1 1000000)
idle=$(number IDLE_MS 2000 0 3600000)
keep=$(number KEEP_PERCENT 10 0 100)
seed=$(number SEED 1 0 999999999999999999)
read -ra sizes <<<"${SIZES:-16 512 512 8192}"
[ ${#sizes[@]} = 4 ] || die "SIZES=$SIZES: wanted are four numbers"
bin=$(benchmark "${BENCH_BIN:-$root/build/bench/phases}")
[ $# -gt 0 ] || set -- "hakmem=$root/build/standard/libhakmem.so" glibc=system

check_contestants "$bin" "$@"
write_to "${OUT:-}"
echo "cycle,phase,elapsed_s,live_kb,rss_kb,ratio,label"
for contestant in "$@"; do
  label=${contestant%%=*}
  read_words "$bin" "${contestant#*=}"
  pin "${CPU:-}"
  echo "$label" >&2
  # -u: each phase's line at once, not when a block of output is full.
  "${start[@]}" "$threads" "$mib" "$cycles" "${sizes[@]}" "$keep" "$idle" "$seed" |
    sed -u "1d; s/\$/,$label/"
done
