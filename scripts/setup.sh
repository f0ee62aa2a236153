#!/usr/bin/env bash
# Installs the Debian packages that are missing; does nothing, quickly, when none is.
# Usage: scripts/setup.sh [--list] [group...]      groups: see scripts/packages.txt; default all but `servers`
# SKIP_SETUP=1 leaves the machine alone.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
table=$here/packages.txt

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

list_only=0
groups=()
for argument in "$@"; do
  case $argument in
  --list) list_only=1 ;;
  -*) die "unknown option $argument (usage: scripts/setup.sh [--list] [group...])" ;;
  *)
    grep -qxF "[$argument]" "$table" || die "no group '$argument' in scripts/packages.txt"
    groups+=("$argument")
    ;;
  esac
done

wanted=()
group=
while read -r name _; do
  case $name in
  '' | '#'*) continue ;;
  '['*']')
    group=${name#[}
    group=${group%]}
    continue
    ;;
  esac
  if { [ ${#groups[@]} -eq 0 ] && [ "$group" != servers ]; } || [[ " ${groups[*]:-} " == *" $group "* ]]; then
    wanted+=("$name")
  fi
done <"$table"

if [ "$list_only" = 1 ]; then
  printf '%s\n' "${wanted[@]}"
  exit 0
fi
[ "${SKIP_SETUP:-0}" = 1 ] && exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  # Another distribution: the names differ, so only look for what a build cannot do without.
  for tool in cc cmake ninja python3; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing, and this is not Debian: install the equivalents of: ${wanted[*]}"
  done
  say "not Debian: tests may need the equivalents of: ${wanted[*]}"
  exit 0
fi

# Prints the wanted packages that are not installed. (dpkg-query fails when one is unknown.)
missing_packages() {
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
      sed -n 's/^installed //p' | sort -u)
}

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    die "missing: ${missing[*]}; become root or install sudo, then: apt-get install ${missing[*]}"
  fi
  if [ -t 0 ]; then
    as_root=(sudo)
  elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    die "missing: ${missing[*]}; sudo asks for a password: sudo apt-get install ${missing[*]}"
  fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# RUNLEVEL=1: a package must not start its service (redis) on the user's machine.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" </dev/null >>"$log" 2>&1
}

run_apt() {
  apt "$@" && return
  tail -n 20 "$log" >&2
  die "apt-get $1 failed; the last lines of its output are above"
}

run_apt update

# Another release may not have all of them: what needs these is skipped, or another version serves.
installable=()
absent=()
for name in "${missing[@]}"; do
  if [ -n "$(apt-cache madison "$name" 2>/dev/null)" ]; then
    installable+=("$name")
  else
    absent+=("$name")
  fi
done
[ ${#absent[@]} -eq 0 ] || say "not in this machine's package sources: ${absent[*]}"
[ ${#installable[@]} -gt 0 ] || exit 0

say "installing ${#installable[@]} packages: ${installable[*]}"
run_apt install --no-install-recommends "${installable[@]}"

wanted=("${installable[@]}")
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] || die "still missing after apt-get: ${missing[*]}"
say "done"
