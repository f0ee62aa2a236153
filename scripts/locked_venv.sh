# Sourced by scripts/setup_lab.sh, setup_manifests.sh and setup_site.sh: a Python environment of locked packages. They set `root`, and `build`, their folder.
# shellcheck shell=bash

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# Two tests may ask at once. The lock is held until the script ends.
lock_build() {
  mkdir -p "$build"
  exec 9>"$build/lock"
  flock 9
}

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Prints the interpreter to use: PYTHON, or the system's before one that a user's tool put in front of it.
find_python() {
  local candidate
  for candidate in ${PYTHON:-/usr/bin/python3 python3 python3.13 python3.12 python3.11}; do
    if fits "$candidate" && "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "no Python 3.11 or newer with venv${PYTHON:+ (PYTHON=$PYTHON)}: on Debian, install python3 and python3-venv"
}

# venv_stamp PYTHON VENV FILE...: what an environment was made from. The path too: one that was moved or copied does not run.
venv_stamp() {
  {
    printf '%s\n' "$2" "$("$1" -c 'import sys; print(sys.version)')"
    cat "${@:3}"
  } | sha256sum
}

# make_venv PYTHON VENV LOCK LOG: the environment anew, with what the lock file names. Exit: 3 the packages could not be
# fetched. `pip` is set to the words that install into it.
make_venv() {
  rm -rf "$2"
  "$1" -m venv "$2"
  pip=("$2/bin/python" -m pip --quiet --disable-pip-version-check --no-input install)
  # What is used is compiled when it is used; all of it would take half of the time.
  if ! "${pip[@]}" --no-compile --require-hashes -r "$3" >"$4" 2>&1; then
    tail -n 10 "$4" >&2
    grep -qE 'NewConnectionError|NameResolutionError|Network is unreachable|timed out|ProxyError' "$4" &&
      { say "the packages could not be fetched: no network?" && exit 3; }
    die "pip failed (all of its output: ${4#"$root"/})"
  fi
}
