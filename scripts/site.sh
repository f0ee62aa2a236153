#!/usr/bin/env bash
# Builds the documentation site from docs/ into build/site: to be read from there, or served as it is. It asks for nothing on a
# network. A link that leads nowhere is an error.
# Exit: 1 a link leads nowhere, or something else is wrong; 3 the tools are not there
# Usage: scripts/site.sh [FOLDER]    needs build/standard/hakmem (make), build/lab (scripts/setup_lab.sh) and
#                                    build/site-tools (scripts/setup_site.sh); SITE_TOOL names another tool
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
site=${1:-$root/build/site}
work=$root/build/site-tools
export SITE_TOOL=${SITE_TOOL:-$root/build/standard/hakmem}
export SITE_FIGURES=$work/figures
export NO_MKDOCS_2_WARNING=1 # a notice of the theme's authors

say() { printf 'site: %s\n' "$*" >&2; }
[ -x "$work/venv/bin/mkdocs" ] || {
  say "build/site-tools has no mkdocs (scripts/setup_site.sh): the packages could not be fetched"
  exit 3
}
"$root/build/lab/venv/bin/python" -B "$root/docs/site/figures.py" "$root" "$SITE_FIGURES"

# Not --quiet: it hides the warnings that --strict counts.
log=$work/mkdocs.log
if ! PYTHONDONTWRITEBYTECODE=1 "$work/venv/bin/mkdocs" build --strict --clean \
  -f "$root/docs/site/mkdocs.yml" -d "$site" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
