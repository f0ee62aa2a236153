#!/usr/bin/env bash
# Runs a random_mixed benchmark ten times in a cleaned environment and sums the runs up.
#
#   ITERS=20000000 WS=400 BENCH_BIN=./bench_random_mixed_hakmem scripts/run_mixed_10_cleanenv.sh
#
# Also: RUNS=10, SEED=1 (the same in every run), THREADS=1. Of the environment only PATH, HOME and
# HAKMEM_BENCH_* stay, and what KEEP names: KEEP='HAKMEM_PROFILE LD_PRELOAD'.
set -euo pipefail
export LC_ALL=C

die() {
  echo "run_mixed_10_cleanenv: $*" >&2
  exit 2
}

bin=${BENCH_BIN:-$(dirname "${BASH_SOURCE[0]}")/../bench_random_mixed_hakmem}
iters=${ITERS:-20000000}
ws=${WS:-400}
runs=${RUNS:-10}
seed=${SEED:-1}
threads=${THREADS:-1}

[ $# -eq 0 ] || die "takes no arguments; see the head of this script for its variables"
[ -x "$bin" ] && [ ! -d "$bin" ] || die "no benchmark at $bin: make $(basename "$bin")"
case $runs in '' | *[!0-9]* | 0*) die "RUNS=$runs: not a number above 0" ;; esac
case $bin in */*) ;; *) bin=./$bin ;; esac

clean=(env -i "PATH=$PATH" "HOME=${HOME:-/}")
dropped=
while IFS= read -r name; do
  case " ${KEEP:-} " in *" $name "*)
    clean+=("$name=${!name}")
    continue
    ;;
  esac
  case $name in
  HAKMEM_BENCH_*) clean+=("$name=${!name}") ;;
  HAKMEM_* | LD_PRELOAD | MALLOC_* | GLIBC_TUNABLES) dropped="$dropped $name" ;;
  esac
done < <(compgen -e)

echo "binary: $bin"
"${clean[@]}" "$bin" --version || die "$bin does not run"
echo "iters=$iters ws=$ws seed=$seed threads=$threads runs=$runs"
[ -z "$dropped" ] || echo "left out of the environment:$dropped (KEEP='...' keeps them)"

results=$(mktemp)
trap 'rm -f "$results"' EXIT
for ((run = 1; run <= runs; run++)); do
  out=$("${clean[@]}" "$bin" "$iters" "$ws" "$seed" "$threads") || die "run $run failed (code $?)"
  ops=$(sed -n 's|^Throughput = \([0-9]*\) ops/s$|\1|p' <<<"$out")
  [ -n "$ops" ] || die "run $run printed no 'Throughput = N ops/s'"
  printf 'run %2d  Throughput = %d ops/s\n' "$run" "$ops"
  echo "$ops" >>"$results"
done

sort -n "$results" | awk '
  { value[NR] = $1; sum += $1 }
  END {
    mean = sum / NR
    for (i = 1; i <= NR; i++) square += (value[i] - mean) ^ 2
    deviation = NR > 1 ? sqrt(square / (NR - 1)) : 0
    median = NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
    printf "mean    %.0f ops/s\nmedian  %.0f ops/s\nstddev  %.0f ops/s\n", mean, median, deviation
    printf "CV      %.2f %%\nmin     %.0f ops/s\nmax     %.0f ops/s\n",
           100 * deviation / mean, value[1], value[NR]
  }'
