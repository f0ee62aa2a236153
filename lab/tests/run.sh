#!/usr/bin/env bash
# Runs one file of the lab's tests in the lab's own environment, which scripts/setup_lab.sh made.
# Usage: run.sh SOURCE_DIRECTORY FILE...
set -euo pipefail

source=$1
shift
cd "$source/lab"
# The tests start the command some hundred times: its modules are compiled once, and not into the source.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$source/build/lab/pycache
exec "$source/build/lab/venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
