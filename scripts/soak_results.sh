#!/usr/bin/env bash
# Soaks in pairs, one process on each of two processors, and what they came to: CSV, tables, pictures.
# `make soak` is the first pair for a minute, `make soak-results` all of it (bench/soak.mk).
#
#   LONG_SEC=3600 SHORT_SEC=1200 CYCLES=50 scripts/soak_results.sh docs/results/soak-0.1.0
#
# LONG_SEC=60     seconds of hakmem's balanced profile with glibc beside it
# SHORT_SEC=0     seconds of each other pair: speed and lean with glibc beside each, mimalloc and jemalloc; 0: left out
# CYCLES=0        cycles of the fragmentation soak, on hakmem, glibc, mimalloc and jemalloc; 0: left out
# EPOCH_SEC=1 WS=400, MIB=256 and IDLE_MS=2000 of the fragmentation soak
# WARM_UP=5%      what the analysis leaves out at the start
# CPUS=0,1        the two processors (default: the first two there are; with one, all share it)
# RESUME=1        what DIRECTORY holds of finished runs with the same settings is not measured again: a pair whose
#                 two files are complete, the fragmentation soak; without it they are overwritten
# HAKMEM= MIMALLOC= JEMALLOC=   the libraries (default: build/standard and build/peers)
# BENCH_OUT=build/bench         where the programs random_mixed and phases are
#
# Exit code: 0, also when a limit is exceeded (the verdicts say so); 1 a run failed; 2 wrong input.
set -euo pipefail
tool=soak_results
# shellcheck source=scripts/soak_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/soak_common.sh"

answer_help "$@"
[ $# -eq 1 ] || die "one argument: the directory to write to (see --help)"
out=$1
long=$(number LONG_SEC 60 1 8640000)
short=$(number SHORT_SEC 0 0 8640000)
cycles=$(number CYCLES 0 0 1000000)
epoch=$(number EPOCH_SEC 1 1 8640000)
ws=$(number WS 400 1 1073741824)
mib=$(number MIB 256 1 1048576)
idle=$(number IDLE_MS 2000 0 3600000)
resume=$(number RESUME 0 0 1)
warm_up=${WARM_UP:-5%}
[ "$epoch" -le "$long" ] || die "EPOCH_SEC=$epoch is above LONG_SEC=$long"
[ "$short" = 0 ] || [ "$epoch" -le "$short" ] || die "EPOCH_SEC=$epoch is above SHORT_SEC=$short"
mixed=$(benchmark "${BENCH_OUT:-$root/build/bench}/random_mixed")
phases=$(benchmark "${BENCH_OUT:-$root/build/bench}/phases")
hakmem=${HAKMEM:-$root/build/standard/libhakmem.so}
mimalloc=${MIMALLOC:-$root/build/peers/libmimalloc3.so}
jemalloc=${JEMALLOC:-$root/build/peers/libjemalloc.so}
libraries=("$hakmem")
[ "$short$cycles" = 00 ] || libraries+=("$mimalloc" "$jemalloc")
for library in "${libraries[@]}"; do
  [ -r "$library" ] || die "no library at $library: make, make peers, or HAKMEM=, MIMALLOC=, JEMALLOC="
done
mkdir -p "$out" || die "$out: cannot be made"

if [ -n "${CPUS:-}" ]; then
  IFS=, read -ra cpus <<<"$CPUS"
else
  mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2], sep="\n")')
fi
[ ${#cpus[@]} -ge 2 ] || echo "$tool: one processor: the runs of a pair disturb each other" >&2

pids=()
stop_all() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# reported LABEL COUNT: as many runs wrote their report, which is their end.
reported() {
  [ "$(grep -c '^Throughput = ' "$out/$1.txt" 2>/dev/null)" = "$2" ]
}

# finished SECONDS LABEL: the run of random_mixed came to its end, with the settings of this one.
finished() {
  [ -r "$out/$2.csv" ] && reported "$2" 1 && grep -q "^iters=.* ws=$ws seed=1 threads=1 " "$out/$2.txt" || return 1
  awk -F, -v epoch="$epoch" -v last="$(($1 / epoch * epoch))" '
    NR == 2 { first = int($2 / epoch) }
    { elapsed = int($2 / epoch) * epoch }
    END { exit !(NR > 1 && first == 1 && elapsed == last) }' "$out/$2.csv"
}

# finished_phases LABELS: the same of the fragmentation soak.
finished_phases() {
  [ -r "$out/fragmentation.csv" ] && reported fragmentation "$#" || return 1
  awk -F, -v cycles="$cycles" -v kib=$((mib * 1024)) '
    NR == 2 { filled = $4 }
    { cycle = $1 }
    END { exit !(NR > 1 && cycle == cycles && filled >= kib && filled < kib * 1.01) }' "$out/fragmentation.csv"
}

# pair SECONDS LABEL=WORDS...: side by side, each to LABEL.csv, what it reports to LABEL.txt.
pair() {
  local seconds=$1 contestant label failed='' i
  shift
  pids=()
  check_contestants "$mixed" "$@"
  if [ "$resume" = 1 ] && finished "$seconds" "${labels[0]}" && finished "$seconds" "${labels[1]}"; then
    echo "$tool: $seconds s of ${labels[*]}: measured already" >&2
    return
  fi
  echo "$tool: $seconds s of ${labels[*]}" >&2
  for contestant in "$@"; do
    label=${contestant%%=*}
    DURATION_SEC=$seconds EPOCH_SEC=$epoch WS=$ws BENCH_BIN=$mixed CPU=${cpus[${#pids[@]} % ${#cpus[@]}]} \
      "$root/scripts/soak_mixed_single_process.sh" "${contestant#*=} HAKMEM_SS_OS_STATS=1" \
      >"$out/$label.csv" 2>"$out/$label.txt" &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    wait "${pids[$i]}" && continue
    failed=1
    echo "$tool: ${labels[$i]} failed:" >&2
    cat "$out/${labels[$i]}.txt" >&2
  done
  pids=()
  [ -z "$failed" ] || exit 1
}

analyse() {
  local code=0
  "$root/scripts/analyze_soak.py" "$@" || code=$?
  [ "$code" -le 1 ] || exit "$code"
}

long_pair=("balanced=$hakmem HAKMEM_PROFILE=balanced" glibc=system)
pair "$long" "${long_pair[@]}"
if [ "$short" != 0 ]; then
  for profile in speed lean; do
    pair "$short" "$profile=$hakmem HAKMEM_PROFILE=$profile" "glibc-$profile=system"
  done
  pair "$short" "mimalloc=$mimalloc" "jemalloc=$jemalloc"
fi
if [ "$cycles" != 0 ] && [ "$resume" = 1 ] && finished_phases hakmem glibc mimalloc jemalloc; then
  echo "$tool: fragmentation: measured already" >&2
elif [ "$cycles" != 0 ]; then
  BENCH_BIN=$phases CYCLES=$cycles MIB=$mib IDLE_MS=$idle OUT=$out/fragmentation.csv \
    "$root/scripts/soak_fragmentation.sh" "hakmem=$hakmem" glibc=system "mimalloc=$mimalloc" \
    "jemalloc=$jemalloc" 2>"$out/fragmentation.txt" || {
    cat "$out/fragmentation.txt" >&2
    exit 1
  }
fi

# What the runs said of themselves: the allocator by its file's name, and hakmem's system calls.
said() {
  local label
  for label in "$@"; do
    # The last of each: --version was asked before.
    sed -n "s|^allocator: \(.*/\)\{0,1\}|- $label: |p" "$out/$label.txt" | tail -n 1
    sed -n "s/^\[SS_OS_STATS\]/- $label: &/p" "$out/$label.txt" | tail -n 1
  done
}

version=$(sed -n 's/.*define HAKMEM_VERSION_STRING *"\(.*\)".*/\1/p' "$root/include/hakmem.h")
{
  echo "# Soak of $version"
  echo
  echo "\`random_mixed\`, WS=$ws, one process a run, the runs of a pair at the same time on a processor each, every"
  echo "allocator preloaded into the same program; epochs of $epoch s, the first $warm_up of the time left out."
  echo "Linux $(uname -r) $(uname -m), $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)," \
    "$(nproc) processors."
  echo "Command: \`LONG_SEC=$long SHORT_SEC=$short CYCLES=$cycles EPOCH_SEC=$epoch WS=$ws" \
    "scripts/soak_results.sh DIRECTORY\`."
  echo
  echo "## hakmem and glibc side by side"
  echo
  analyse --warm-up "$warm_up" --reference glibc --judge balanced --plot "$out/pair.png" \
    "$out/balanced.csv" "$out/glibc.csv"
  echo
  echo "![memory and throughput](pair.png)"
  echo
  said balanced glibc
  echo
  echo "### The slow tail"
  echo
  "$root/scripts/analyze_epoch_tail_csv.py" --warm-up "$warm_up" "$out/balanced.csv" "$out/glibc.csv"
  if [ "$short" != 0 ]; then
    for profile in speed lean; do
      echo
      echo "## \`$profile\` and glibc side by side"
      echo
      analyse --warm-up "$warm_up" --reference "glibc-$profile" --judge "$profile" --plot "$out/$profile.png" \
        "$out/$profile.csv" "$out/glibc-$profile.csv"
      echo
      echo "![memory and throughput]($profile.png)"
      echo
      said "$profile" "glibc-$profile"
    done
    echo
    echo "## Peers"
    echo
    analyse --warm-up "$warm_up" --plot "$out/others.png" "$out/"{mimalloc,jemalloc}.csv
    echo
    echo "![memory and throughput](others.png)"
    echo
    said mimalloc jemalloc
  fi
  if [ "$cycles" != 0 ]; then
    echo
    echo "## Fragmentation"
    echo
    echo "\`phases\`, two threads, $mib MiB, $cycles cycles: grow, shrink to a tenth, other sizes, drop to a tenth," \
      "$idle ms idle."
    echo
    analyse --plot "$out/fragmentation.png" "$out/fragmentation.csv"
    echo
    echo "![resident memory](fragmentation.png)"
  fi
} >"$out/analysis.md"
cat "$out/analysis.md"
echo "$tool: written: $out" >&2
