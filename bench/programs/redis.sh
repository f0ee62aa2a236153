# Starts redis-server, loads it, stops it: redis.sh WORK. Output: what the data came to.
#
# This process becomes the server, so that its processor time and memory are the server's alone; the load comes
# from processes that nobody here waits for, and which run on libc's allocator.
set -eu
work=$1
server=$(command -v redis-check-rdb) # the same file as redis-server, which has a package with a service of its own
cd "$work" # the socket is named relative to it: its name may have 107 bytes, no more
exec 3>&1

load() {
  unset LD_PRELOAD
  cli() { redis-cli -s socket "$@"; }
  trap 'cli shutdown nosave >/dev/null 2>&1 || true' EXIT
  tries=0
  until [ "$(cli ping 2>/dev/null)" = PONG ]; do
    tries=$((tries + 1))
    [ $tries -lt 400 ] || exit 1
    sleep 0.02
  done
  # 50 requests to a key: its random numbers hit every key, so the data are the same each time.
  redis-benchmark -s socket -n 250000 -r 5000 -d 200 -c 20 -P 16 -t set,get,lpush,hset,sadd -q >/dev/null
  cli eval "for i = 1, 300000 do redis.call('append', 'k' .. i % 20011, string.rep('y', i % 90)) end return 1" 0
  cli eval "for i = 1, 60000 do redis.call('del', 'k' .. (i * 7) % 20011) end return 1" 0
  cli debug digest
  cli dbsize
}
(load >&3 2>&1 &)

# Debian links it with jemalloc; where nothing is preloaded, libc itself goes first, so that libc is measured.
[ -n "${LD_PRELOAD:-}" ] || export LD_PRELOAD=libc.so.6
ln -sf "$server" redis-server
exec ./redis-server --port 0 --unixsocket socket --save '' --appendonly no --enable-debug-command local >/dev/null
