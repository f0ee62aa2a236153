#!/usr/bin/env bash
# run_matrix.py without --work keeps its runs in a directory of its own, with no rights for others: removed after a
# run that was the same on both sides, kept after another. Usage: private_directory.sh PYTHON RUN_MATRIX LIBRARY OTHER
set -euo pipefail

python=$1 run_matrix=$2 library=$3 other=$4
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

"$python" "$run_matrix" --lib "$library" --case bash
[ -z "$(ls -A "$TMPDIR")" ] || { echo "left behind: $(ls -A "$TMPDIR")" >&2; exit 1; }

# A library that leaves malloc alone fails: what it did is kept, to be looked at.
! "$python" "$run_matrix" --lib "$other" --case bash || { echo "no failure with $other" >&2; exit 1; }
kept=$(find "$TMPDIR" -mindepth 1 -maxdepth 1 -name 'hakmem-programs-*' -perm 0700)
[ -f "$kept/bash/diff.txt" ] || { echo "nothing is kept of the failure" >&2; exit 1; }
