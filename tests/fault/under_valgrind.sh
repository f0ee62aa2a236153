#!/bin/sh
# A program under valgrind with the library preloaded: it runs, and valgrind has nothing to say.
#
# usage: under_valgrind.sh <library> <mode> <program> [arguments...]
#   mode  own      memcheck, malloc stays ours (what valgrind sees is memory of mmap)
#         plain    memcheck, which puts its own malloc in place of ours
#         callgrind
set -u
library=$1
mode=$2
shift 2
command -v valgrind >/dev/null || {
  echo "valgrind is not installed"
  exit 77
}
case $mode in
own) set -- valgrind -q --error-exitcode=9 --soname-synonyms=somalloc=nouserintercepts "$@" ;;
plain) set -- valgrind -q --error-exitcode=9 "$@" ;;
callgrind) set -- valgrind -q --tool=callgrind --callgrind-out-file=/dev/null "$@" ;;
*)
  echo "unknown mode $mode"
  exit 2
  ;;
esac
PYTHONMALLOC=malloc
export PYTHONMALLOC
output=$(LD_PRELOAD=$library "$@" 2>&1)
status=$?
echo "$output"
case $output in
*==*==*)
  echo "FAILED: valgrind has something to say"
  exit 1
  ;;
esac
exit $status
