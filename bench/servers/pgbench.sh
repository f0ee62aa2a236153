#!/bin/sh
# pgbench.sh PORT TRANSACTIONS SECONDS DIRECTORY: pgbench with eight clients, and the percentiles of its latencies, which
# it writes to files only. pgbench knows no limit to both their number and the time: timeout sets the second.
set -eu
port=$1 transactions=$2 seconds=$3 directory=$4
clients=8
timeout "$seconds" pgbench -h 127.0.0.1 -p "$port" -U bench -n -c "$clients" -j 2 \
  -t $(((transactions + clients - 1) / clients)) -l --log-prefix="$directory/latencies" postgres
# Microseconds are the third of the fields.
cat "$directory"/latencies.* | awk '{ print $3 }' | sort -n | awk '
  { value[NR] = $1 }
  END {
    shares["p50"] = 0.5; shares["p99"] = 0.99; shares["p99.9"] = 0.999
    for (name in shares) {
      at = int(shares[name] * (NR - 1)) + 1
      printf "latency %s %.3f ms\n", name, value[at] / 1000
    }
  }'
