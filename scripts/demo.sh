#!/usr/bin/env bash
# Builds, then runs real programs on hakmem and on glibc in turn: time, peak memory, same output?
# Under three minutes, once everything is installed. With --lib nothing is installed or built.
# Usage: scripts/demo.sh [--lib LIBRARY] [--only PROGRAM]... [--rounds N] [--list]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
case " $* " in
*" --lib"* | *" -h"* | *" --help"* | *" --list"*) ;;
*)
  bash scripts/setup.sh build demo
  make --no-print-directory VARIANT=standard
  ;;
esac
exec python3 -B scripts/demo/demo.py "$@"
