#!/bin/sh
# Real programs under `ulimit -v`, with the library preloaded: where they run without it, they run
# with it, and their output is the same.
#
# usage: under_limit.sh <library> <small program> <limit in KB>...
set -u
library=$1
small=$2
shift 2
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3) || {
  echo "python3 is not installed"
  exit 77
}

script='
import json
rows = [{"id": i, "name": "row %d" % i, "list": list(range(i % 7))} for i in range(20000)]
text = json.dumps(rows)
again = json.loads(text)
assert again == rows
block = bytearray(20 * 1024 * 1024)
block[::4096] = b"x" * (len(block[::4096]))
try:
    too_much = bytearray(1 << 40)
    print("a terabyte was had")
except MemoryError:
    print("MemoryError")
more = [bytes(1000) for _ in range(20000)]
print(len(text), sum(map(len, more)), block.count(b"x"))
'
bad=0
# compare <limit> <what> <command...>
compare() {
  limit=$1
  what=$2
  shift 2
  want=$(ulimit -v "$limit" && exec "$@" 2>&1)
  if [ $? -ne 0 ]; then
    echo "$what with $limit KB: does not run without the library either: $want"
    bad=1
    return
  fi
  got=$(ulimit -v "$limit" && LD_PRELOAD=$library exec "$@" 2>&1)
  status=$?
  if [ $status -ne 0 ] || [ "$got" != "$want" ]; then
    echo "FAILED: $what with $limit KB: exit status $status, output: $got (without: $want)"
    bad=1
  else
    echo "$what with $limit KB: same output as without the library"
  fi
}

for limit in "$@"; do
  compare "$limit" python3 "$python" -c "$script"
  compare "$limit" bash bash -c 'x=$(seq 1 20000); echo ${#x}; (echo a; echo b) | sort -r'
  compare "$limit" sort sort --version
  got=$(ulimit -v "$limit" && LD_PRELOAD=$library exec "$small" 20000 2 2>&1)
  if [ "$got" != fine ]; then
    echo "FAILED: small program with $limit KB: $got"
    bad=1
  fi
done
exit $bad
