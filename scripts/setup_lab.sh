#!/usr/bin/env bash
# Makes the environment of the lab: build/lab/venv with the locked Python packages and the command
# hakmem-lab, and build/lab/launch, the program that starts what is measured. Does nothing, quickly,
# when both are up to date.
# Usage: scripts/setup_lab.sh        PYTHON=python3.12 names the interpreter, CC the compiler
# Exit: 1 something is missing or broken; 3 the packages could not be fetched
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
lab=$root/lab
build=$root/build/lab
venv=$build/venv

# shellcheck source=scripts/locked_venv.sh
. "$root/scripts/locked_venv.sh"

lock_build
python=$(find_python)
compiler=${CC:-cc}
command -v "$compiler" >/dev/null || die "$compiler is missing: install a C compiler, or name it with CC="

stamp=$(venv_stamp "$python" "$venv" "$lab/requirements.lock" "$lab/pyproject.toml")
if [ ! -x "$venv/bin/hakmem-lab" ] || [ "$(cat "$build/stamp" 2>/dev/null)" != "$stamp" ]; then
  say "installing the lab's Python packages into build/lab/venv"
  rm -f "$build/stamp"
  log=$build/pip.log
  make_venv "$python" "$venv" "$lab/requirements.lock" "$log"
  # Editable: a change of lab/hakmem_lab takes effect at once.
  "${pip[@]}" --no-index --no-deps --no-build-isolation --editable "$lab" >>"$log" 2>&1 || {
    tail -n 10 "$log" >&2
    die "hakmem-lab could not be installed (all of the output: build/lab/pip.log)"
  }
  printf '%s\n' "$stamp" >"$build/stamp"
fi

if [ ! -x "$build/launch" ] || [ "$lab/launch.c" -nt "$build/launch" ]; then
  compile=("$compiler" -std=gnu11 -O2 -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror "$lab/launch.c")
  # Static, so that it holds less memory than anything it starts; without a static libc as it goes.
  "${compile[@]}" -static -o "$build/launch.new" 2>/dev/null || "${compile[@]}" -o "$build/launch.new"
  mv "$build/launch.new" "$build/launch"
fi
