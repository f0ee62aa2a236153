#!/bin/sh
# Programs of this machine under qemu-user's emulation of it, with the library preloaded. Emulators
# hand out other addresses than a kernel and know fewer system calls.
#
# usage: under_qemu.sh <library> <probe> <override program>...
set -u
library=$1
probe=$2
shift 2

machine=$(uname -m)
qemu=$(command -v "qemu-$machine" || command -v "qemu-$machine-static") || {
  echo "not installed: qemu-$machine (package qemu-user)"
  exit 77
}
failed=0
# said <what> <status> <output> <expected output>
said() {
  if [ "$2" -eq 0 ] && [ "$3" = "$4" ]; then
    echo "$1: as expected"
  else
    echo "FAILED: $1: exit status $2, output: $3 (expected: $4)"
    failed=1
  fi
}

output=$("$qemu" -E LD_PRELOAD="$library" /bin/true 2>&1)
said /bin/true $? "$output" ""

# The interpreter itself: a wrapper script would be run by an emulator that cannot read it.
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))') || {
  echo "python3 is not installed"
  exit 77
}
script='
import json, re, threading
rows = [{"id": i, "name": "row %d" % i, "list": list(range(i % 7))} for i in range(3000)]
assert json.loads(json.dumps(rows)) == rows
results = []
def work(n):
    results.append(sum(len(str(i) * n) for i in range(2000)))
threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
big = bytearray(30 * 1024 * 1024)
print(sorted(results), len(big), len(re.findall("[0-9]+", json.dumps(rows))))
'
expected=$("$python" -c "$script" 2>&1)
output=$("$qemu" -E LD_PRELOAD="$library" "$python" -c "$script" 2>&1)
said python3 $? "$output" "$expected"

if ! "$qemu" "$probe" thread-in-child >/dev/null 2>&1; then
  echo "this emulator cannot start a thread in a forked child, with libc's malloc either: left out"
  # The helper thread is one as well.
  export OVERRIDE_NO_THREAD_IN_CHILD=1 HAKMEM_BACKGROUND=0
fi
for program in "$@"; do
  case $program in
  *_preload) output=$("$qemu" -E LD_PRELOAD="$library" "$program" 200 2>&1) ;;
  *) output=$("$qemu" "$program" 200 2>&1) ;;
  esac
  status=$?
  case $output in
  *": fine"*) said "${program##*/}" $status fine fine ;;
  *) said "${program##*/}" $status "$output" "fine" ;;
  esac
done
exit $failed
