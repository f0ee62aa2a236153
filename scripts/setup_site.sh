#!/usr/bin/env bash
# Makes the environment of the documentation site: build/site-tools/venv with the locked Python packages. Does nothing,
# quickly, when it is up to date.
# Usage: scripts/setup_site.sh       PYTHON=python3.12 names the interpreter
# Exit: 1 something is missing or broken; 3 the packages could not be fetched
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
lock=$root/docs/site/requirements.lock
build=$root/build/site-tools
venv=$build/venv

# shellcheck source=scripts/locked_venv.sh
. "$root/scripts/locked_venv.sh"

lock_build
python=$(find_python)
stamp=$(venv_stamp "$python" "$venv" "$lock")
if [ ! -x "$venv/bin/mkdocs" ] || [ "$(cat "$build/stamp" 2>/dev/null)" != "$stamp" ]; then
  say "installing the site's Python packages into build/site-tools/venv"
  rm -f "$build/stamp"
  make_venv "$python" "$venv" "$lock" "$build/pip.log"
  printf '%s\n' "$stamp" >"$build/stamp"
fi
