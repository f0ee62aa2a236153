#!/usr/bin/env bash
# Compares random_mixed benchmarks in one interleaved run, so that a change of the machine's speed
# meets all of them: each round runs every binary once, starting with another one each time.
#
#   scripts/compare_mixed.sh ./bench_random_mixed_hakmem ./bench_random_mixed_mi [...]
#
# A name that holds ".so" is a library: it is preloaded into ./bench_random_mixed_system.
# Variables: ITERS=20000000 WS=400 RUNS=10 SEED=1 THREADS=1. BY=cpu compares operations per second of
# processor time instead of elapsed time: for a machine that has other work. With MIN_RATIO=0.90 the exit code is 1
# when the first binary's median is below 0.90 of the second's. The environment is cleaned as in
# run_mixed_10_cleanenv.sh (KEEP='HAKMEM_PROFILE' keeps a variable).
set -euo pipefail
export LC_ALL=C

die() {
  echo "compare_mixed: $*" >&2
  exit 2
}

[ $# -ge 2 ] || die "usage: compare_mixed.sh BINARY BINARY [BINARY...]"
root=$(dirname "${BASH_SOURCE[0]}")/..
iters=${ITERS:-20000000}
ws=${WS:-400}
runs=${RUNS:-10}
seed=${SEED:-1}
threads=${THREADS:-1}
by=${BY:-elapsed}
case $by in elapsed | cpu) ;; *) die "BY=$by: not elapsed or cpu" ;; esac
case $runs in '' | *[!0-9]* | 0*) die "RUNS=$runs: not a number above 0" ;; esac

clean=(env -i "PATH=$PATH" "HOME=${HOME:-/}")
while IFS= read -r name; do
  case " ${KEEP:-} " in *" $name "*) clean+=("$name=${!name}") && continue ;; esac
  case $name in HAKMEM_BENCH_*) clean+=("$name=${!name}") ;; esac
done < <(compgen -e)

# launch INDEX ARGUMENTS...: runs that contestant.
contestants=("$@")
launch() {
  local contestant=${contestants[$1]}
  shift
  case $contestant in
  *.so | *.so.*)
    "${clean[@]}" "LD_PRELOAD=$(realpath "$contestant")" "$root/bench_random_mixed_system" "$@"
    ;;
  */*) "${clean[@]}" "$contestant" "$@" ;;
  *) "${clean[@]}" "./$contestant" "$@" ;;
  esac
}

for contestant in "$@"; do
  case $contestant in
  *.so | *.so.*)
    [ -r "$contestant" ] || die "no library at $contestant"
    [ -x "$root/bench_random_mixed_system" ] || die "needs: make bench_random_mixed_system"
    ;;
  *) [ -x "$contestant" ] && [ ! -d "$contestant" ] ||
    die "no benchmark at $contestant: make $(basename "$contestant")" ;;
  esac
done

echo "iters=$iters ws=$ws threads=$threads rounds=$runs, interleaved, by $by time"
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for ((run = 0; run < runs; run++)); do
  line=
  for ((turn = 0; turn < $#; turn++)); do
    index=$(((run + turn) % $#))
    out=$(launch "$index" "$iters" "$ws" $((seed + run)) "$threads") ||
      die "${contestants[$index]} failed in round $((run + 1))"
    if [ "$by" = cpu ]; then
      ops=$(awk -F= '$1 == "cpu_ns_per_op" && $2 > 0 { printf "%.0f", 1e9 / $2 }' <<<"$out")
    else
      ops=$(sed -n 's|^Throughput = \([0-9]*\) ops/s$|\1|p' <<<"$out")
    fi
    [ -n "$ops" ] || die "${contestants[$index]} printed no throughput"
    echo "$run $index $ops" >>"$results"
    line="$line $(basename "${contestants[$index]}")=$ops"
  done
  printf 'round %2d %s\n' $((run + 1)) "$line"
done

for ((index = 0; index < $#; index++)); do
  printf '%s\t%s\n' "${contestants[$index]}" "$(launch "$index" --version)"
done | awk -v min_ratio="${MIN_RATIO:-0}" -v results="$results" '
  function sort(a, n,   i, j, t) {
    for (i = 2; i <= n; i++) {
      t = a[i]
      for (j = i - 1; j > 0 && a[j] > t; j--) a[j + 1] = a[j]
      a[j + 1] = t
    }
  }
  function median(a, n) {
    sort(a, n)
    return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
  }
  BEGIN { FS = "\t" }
  { name[NR - 1] = $1; sub(/.*\//, "", name[NR - 1]); allocator[NR - 1] = $2 }
  END {
    FS = " "
    while ((getline line < results) > 0) {
      split(line, field, " ")
      ops[field[2], field[1]] = field[3]
      if (field[1] + 1 > rounds) rounds = field[1] + 1
    }
    for (i = 0; i < NR; i++) {
      sum = square = 0
      for (r = 0; r < rounds; r++) { a[r + 1] = ops[i, r]; sum += a[r + 1] }
      for (r = 0; r < rounds; r++) square += (ops[i, r] - sum / rounds) ^ 2
      middle[i] = median(a, rounds)
      deviation = rounds > 1 ? sqrt(square / (rounds - 1)) : 0
      printf "%-36s median %11.0f ops/s  CV %5.2f %%  %s\n", name[i], middle[i],
             100 * deviation * rounds / sum, allocator[i]
    }
    for (i = 1; i < NR; i++) {
      for (r = 0; r < rounds; r++) a[r + 1] = ops[0, r] / ops[i, r]
      each = median(a, rounds)
      printf "%s / %s = %.3f (medians); per round: median %.3f, %.3f to %.3f\n", name[0], name[i],
             middle[0] / middle[i], each, a[1], a[rounds]
    }
    if (min_ratio > 0) {
      reached = middle[0] / middle[1] >= min_ratio + 0
      printf "%s: %.3f, wanted %.3f\n", reached ? "reached" : "MISSED", middle[0] / middle[1],
             min_ratio
      exit reached ? 0 : 1
    }
  }'
