#!/bin/sh
# Writes the list of variables in hakmem.5.scd anew, from the option table in the tool.
# Usage: docs/man/update.sh [TOOL]         TOOL: build/standard/hakmem unless given
#        docs/man/update.sh --print TOOL   prints the page instead
set -eu
here=$(cd "$(dirname "$0")" && pwd)
print=0
if [ "${1:-}" = --print ]; then
  print=1
  shift
fi
tool=${1:-$here/../../build/standard/hakmem}
list=$(mktemp)
page=$(mktemp)
trap 'rm -f "$list" "$page"' EXIT
"$tool" options --format=scdoc >"$list"
awk -v list="$list" '
  /^# / { skip = 0 }
  !skip { print }
  /^# VARIABLES$/ {
    print ""
    while ((getline line < list) > 0) print line
    print ""
    skip = 1
  }' "$here/hakmem.5.scd" >"$page"
if [ "$print" = 1 ]; then cat "$page"; else cp "$page" "$here/hakmem.5.scd"; fi
