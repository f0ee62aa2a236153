#!/usr/bin/env bash
# Makes what the test of contrib/kubernetes reads manifests with: build/manifests/venv with the schemas of Kubernetes, and, where there is
# npm, build/manifests/node_modules with those of the Prometheus Operator. Does nothing, quickly, when it is up to date.
# Usage: scripts/setup_manifests.sh       PYTHON=python3.12 names the interpreter
# Exit: 1 something is missing or broken; 3 the packages could not be fetched
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=$root/tests/tools/manifests
build=$root/build/manifests
venv=$build/venv

# shellcheck source=scripts/locked_venv.sh
. "$root/scripts/locked_venv.sh"

lock_build
python=$(find_python)
stamp=$(venv_stamp "$python" "$venv" "$here/requirements.lock" "$here/package-lock.json")
[ "$(cat "$build/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
say "installing the schemas of Kubernetes into build/manifests"
rm -rf "$build/stamp" "$build/node_modules"
make_venv "$python" "$venv" "$here/requirements.lock" "$build/pip.log"
if command -v npm >/dev/null; then
  cp "$here/package.json" "$here/package-lock.json" "$build"
  (cd "$build" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1) || {
    tail -n 10 "$build/npm.log" >&2
    say "the packages of npm could not be fetched"
    exit 3
  }
fi
printf '%s\n' "$stamp" >"$build/stamp"
