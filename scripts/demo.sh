#!/usr/bin/env bash
# Real programs on hakmem and on glibc in turn: time, peak memory, same output? Under three minutes.
# Usage: scripts/demo.sh [--lib LIBRARY] [--only PROGRAM]... [--rounds N]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
case " $* " in
*" --lib"* | *" -h"* | *" --help"* | *" --list"*) ;;
*)
  # `make demo` has seen to both already; this is for a call by hand in a fresh clone.
  if [ ! -f build/standard/libhakmem.so ]; then
    bash scripts/setup.sh
    make
  fi
  ;;
esac
exec python3 -B scripts/demo/demo.py "$@"
