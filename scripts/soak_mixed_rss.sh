#!/usr/bin/env bash
# Soak seen from outside: resident memory of running random_mixed processes, a line of CSV an epoch and
# process.
#
#   BENCH_BIN=./bench_random_mixed_system DURATION_SEC=600 EPOCH_SEC=5 WS=400 scripts/soak_mixed_rss.sh
#   CPUS=0,1 scripts/soak_mixed_rss.sh glibc=system 'lean=build/standard/libhakmem.so HAKMEM_PROFILE=lean'
#
# Each argument LABEL=WORDS is a process, all side by side: a library to preload into BENCH_BIN, or
# "system" for libc's malloc, or another program; and VARIABLE=VALUE words. Without arguments it is
# BENCH_BIN alone. A program is started as `BENCH_BIN ITERS WS SEED THREADS` with more iterations than
# it can do, and stopped in the end; one that knows HAKMEM_BENCH_DURATION_SEC ends by itself.
#
# Columns: epoch,elapsed_s,rss_kb,pss_kb,anon_huge_kb,label. The values are those of
# /proc/PID/smaps_rollup, which is exact; where it cannot be read, rss_kb is that of statm and the two
# others are empty.
#
# Variables: BENCH_BIN=build/bench/random_mixed DURATION_SEC=300 EPOCH_SEC=2 WS=400 SEED=1 THREADS=1,
# OUT=FILE instead of stdout, CPUS=0,1: the processors, one for each process in turn. KEEP='NAME' keeps
# a variable of the environment.
set -euo pipefail
tool=soak_mixed_rss
# shellcheck source=scripts/soak_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/soak_common.sh"

answer_help "$@"
mixed_settings
bin=$(benchmark "${BENCH_BIN:-$root/build/bench/random_mixed}")
IFS=, read -ra cpus <<<"${CPUS:-}"
[ $# -gt 0 ] || set -- "$(basename "$bin")="

pids=()
said=$(mktemp -d)
stop_all() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$said"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

check_contestants "$bin" "$@"
write_to "${OUT:-}"
echo "epoch,elapsed_s,rss_kb,pss_kb,anon_huge_kb,label"
for contestant in "$@"; do
  read_words "$bin" "${contestant#*=}"
  start+=("HAKMEM_BENCH_DURATION_SEC=$duration")
  pin "${cpus[0]:+${cpus[${#pids[@]} % ${#cpus[@]}]}}"
  "${start[@]}" "$endless" "$ws" "$seed" "$threads" >"$said/${contestant%%=*}" 2>&1 &
  pids+=($!)
done
begin=${EPOCHREALTIME/./}

# sample PID: sets rss, pss and huge; fails when the process is gone.
page_kb=$(($(getconf PAGESIZE) / 1024))
sample() {
  local key value _ pages
  rss='' pss='' huge=''
  while read -r key value _; do
    case $key in
    Rss:) rss=$value ;;
    Pss:) pss=$value ;;
    AnonHugePages:) huge=$value ;;
    esac
  done 2>/dev/null <"/proc/$1/smaps_rollup" || true
  [ -z "$rss" ] || return 0
  { read -r _ pages _ <"/proc/$1/statm"; } 2>/dev/null || return 1
  [ "${pages:-0}" -gt 0 ] || return 1
  rss=$((pages * page_kb))
}

for ((number = 1; number * epoch <= duration; number++)); do
  left=$((begin + number * epoch * 1000000 - ${EPOCHREALTIME/./}))
  # The last look is a little early: those that end by themselves end at that moment.
  [ $(((number + 1) * epoch)) -le "$duration" ] || left=$((left - 100000))
  [ "$left" -le 0 ] || sleep "$(printf '%d.%06d' $((left / 1000000)) $((left % 1000000)))"
  for ((i = 0; i < ${#pids[@]}; i++)); do
    if ! sample "${pids[$i]}"; then
      cat "$said/${labels[$i]}" >&2
      die "${labels[$i]} ended in epoch $number"
    fi
    elapsed=$(((${EPOCHREALTIME/./} - begin) / 1000))
    printf '%d,%d.%03d,%s,%s,%s,%s\n' "$number" $((elapsed / 1000)) $((elapsed % 1000)) \
      "$rss" "$pss" "$huge" "${labels[$i]}"
  done
done

# Two seconds to end by themselves and to print what they counted.
for ((wait = 0; wait < 20; wait++)); do
  running=
  for pid in "${pids[@]}"; do ! kill -0 "$pid" 2>/dev/null || running=1; done
  [ -n "$running" ] || break
  sleep 0.1
done
for label in "${labels[@]}"; do sed "s/^/$label: /" "$said/$label" >&2; done
