#!/usr/bin/env bash
# Soak: one process of random_mixed for a long time, a line of CSV an epoch.
#
#   BENCH_BIN=./bench_random_mixed_hakmem DURATION_SEC=3600 EPOCH_SEC=2 WS=400 \
#     scripts/soak_mixed_single_process.sh >soak.csv
#   scripts/soak_mixed_single_process.sh 'build/standard/libhakmem.so HAKMEM_PROFILE=lean' >lean.csv
#
# Columns: epoch,elapsed_s,throughput_ops_s,rss_kb. The report goes to stderr. scripts/analyze_soak.py
# and scripts/analyze_epoch_tail_csv.py read the CSV.
#
# Variables: BENCH_BIN=./bench_random_mixed_hakmem (build/bench/random_mixed with a library to preload)
# DURATION_SEC=300 EPOCH_SEC=2 WS=400 SEED=1 THREADS=1, OUT=FILE instead of stdout, CPU=N to stay on
# one processor. The argument: VARIABLE=VALUE words for the program, and a library to preload or "system"
# for libc's malloc. The environment is cleaned as in run_mixed_10_cleanenv.sh (KEEP='NAME' keeps one).
set -euo pipefail
tool=soak_mixed_single_process
# shellcheck source=scripts/soak_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/soak_common.sh"

answer_help "$@"
[ $# -le 1 ] || die "at most one argument: '[LIBRARY] [VARIABLE=VALUE ...]' (see --help)"
mixed_settings

bin=$root/bench_random_mixed_hakmem
case " ${1:-} " in *" system "* | *.so\ * | *.so.*) bin=$root/build/bench/random_mixed ;; esac
bin=$(benchmark "${BENCH_BIN:-$bin}")

read_words "$bin" "${1:-}"
start+=("HAKMEM_BENCH_EPOCH_SEC=$epoch" "HAKMEM_BENCH_DURATION_SEC=$duration")
pin "${CPU:-}"
help=$("${start[@]}" --help 2>&1) || true
case $help in *HAKMEM_BENCH_EPOCH_SEC*) ;; *) die "$program is no random_mixed that knows epochs: build it anew" ;; esac
said=$(check_allocator)
write_to "${OUT:-}"
echo "$said" >&2
exec "${start[@]}" "$endless" "$ws" "$seed" "$threads"
