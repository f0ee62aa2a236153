# What the soak scripts share; sourced, with `tool` set to the script's name. $root is the repository.
# shellcheck shell=bash
export LC_ALL=C
# shellcheck disable=SC2034 # used where this file is sourced, as is the next one
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# More iterations than any run gets to: the duration ends it.
# shellcheck disable=SC2034
endless=1125899906842624

die() {
  # shellcheck disable=SC2154 # set by the script that sources this file
  echo "$tool: $*" >&2
  exit 2
}

# number NAME DEFAULT LOW HIGH: prints the variable's value, or the default when it is not set.
number() {
  local value=${!1:-$2}
  case $value in
  '' | *[!0-9]*) die "$1=$value: not a number; accepted: $3..$4" ;;
  esac
  # Length first: bash calculates with 64 bits.
  { [ ${#value} -le 18 ] && [ "$((10#$value))" -ge "$3" ] && [ "$((10#$value))" -le "$4" ]; } ||
    die "$1=$value: out of range; accepted: $3..$4"
  echo "$((10#$value))"
}

# mixed_settings: the variables of a run of random_mixed. Sets `duration` and `epoch`, both in seconds, `ws`,
# `seed` and `threads`.
# shellcheck disable=SC2034
mixed_settings() {
  duration=$(number DURATION_SEC 300 1 8640000)
  epoch=$(number EPOCH_SEC 2 1 8640000)
  ws=$(number WS 400 1 1073741824)
  seed=$(number SEED 1 0 999999999999999999)
  threads=$(number THREADS 1 1 1024)
  [ "$epoch" -le "$duration" ] || die "EPOCH_SEC=$epoch is above DURATION_SEC=$duration"
}

# benchmark PATH: prints it as something that can be started.
benchmark() {
  { [ -x "$1" ] && [ ! -d "$1" ]; } || die "no benchmark at $1: make $(basename "$1"), or make bench-build"
  case $1 in
  */*) echo "$1" ;;
  *) echo "./$1" ;;
  esac
}

# The environment of what is measured: PATH, HOME, HAKMEM_BENCH_* and what KEEP names.
clean=(env -i "PATH=$PATH" "HOME=${HOME:-/}")
while IFS= read -r name; do
  case " ${KEEP:-} " in *" $name "*) clean+=("$name=${!name}") && continue ;; esac
  case $name in HAKMEM_BENCH_*) clean+=("$name=${!name}") ;; esac
done < <(compgen -e)

# read_words BENCHMARK WORDS: what the words stand for. VARIABLE=VALUE sets a variable; another word is
# a library to preload into BENCHMARK, a program to run instead of it, or "system" for libc's malloc.
# Sets `start`, an array to which the program's arguments are appended, and `program` and `library`.
read_words() {
  local word words
  start=("${clean[@]}")
  program=$1
  library=
  read -ra words <<<"$2"
  for word in "${words[@]}"; do
    case $word in
    [A-Za-z_]*=*) start+=("$word") ;;
    system) ;;
    *.so | *.so.*)
      [ -r "$word" ] || die "no library at $word"
      library=$(realpath "$word")
      start+=("LD_PRELOAD=$library")
      ;;
    *) program=$(benchmark "$word") || exit ;;
    esac
  done
}

# pin CPU: the program of read_words runs on that processor only; none when it is empty.
pin() {
  if [ -n "$1" ]; then
    command -v taskset >/dev/null || die "CPU=$1: needs taskset (Debian: util-linux)"
    taskset -c "$1" true 2>/dev/null || die "CPU=$1: this process may not use it"
    start+=(taskset -c "$1")
  fi
  start+=("$program")
}

# A preloaded library that has no effect (a static program, another architecture) is an error.
check_allocator() {
  local said
  said=$("${start[@]}" --version) || die "$program does not run"
  if [ -n "$library" ] && [ "$said" != "allocator: $library (preloaded)" ]; then
    die "$library has no effect on $program, which says: $said"
  fi
  echo "$said"
}

# check_contestants BENCHMARK LABEL=WORDS...: ends the script unless all of them can be run. Sets
# `labels`.
check_contestants() {
  local contestant label benchmark=$1
  shift
  labels=()
  for contestant in "$@"; do
    label=${contestant%%=*}
    case $contestant in *=*) ;; *) die "'$contestant': wanted is LABEL=WORDS (see --help)" ;; esac
    case $label in '' | *[!A-Za-z0-9._-]*)
      die "'$contestant': a label is of letters, digits, '.', '_' and '-'"
      ;;
    esac
    case " ${labels[*]} " in *" $label "*) die "two runs are called $label" ;; esac
    labels+=("$label")
    read_words "$benchmark" "${contestant#*=}"
    start+=("$program")
    [ -z "$library" ] || check_allocator >/dev/null
  done
}

# write_to FILE: stdout of the script goes there; nothing to do without a file.
write_to() {
  [ -n "$1" ] || return 0
  (: >"$1") 2>/dev/null || die "OUT=$1: cannot be written"
  exec >"$1"
}

# answer_help ARGUMENTS...: when the first one asks for help, prints the head of the script and ends it.
answer_help() {
  case ${1:-} in -h | --help)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
  esac
}
