#!/usr/bin/env bash
# Runs one file of the lab's tests in the lab's own environment, which is made first if need be.
# Usage: run.sh SOURCE_DIRECTORY FILE...
set -euo pipefail

source=$1
shift
status=0
bash "$source/scripts/setup_lab.sh" || status=$?
if [ "$status" = 3 ]; then
  echo "skipped: the lab's Python packages could not be fetched"
  exit 77
elif [ "$status" != 0 ]; then
  exit "$status"
fi
cd "$source/lab"
exec "$source/build/lab/venv/bin/python" -B -m pytest -q -p no:cacheprovider "$@"
