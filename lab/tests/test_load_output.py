"""Load generators' output: as they wrote it, cut off, and garbled."""

import re

import pytest

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.load_output import (
    ANY,
    Expressions,
    Kinds,
    answered_requests,
    compile_expression,
    failed_requests,
    parse_load,
)

NO_EXPRESSIONS = Expressions()

# redis-benchmark 7.0.15 into a file: its progress ends in carriage returns.
REDIS = """\
 \rSET: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r          \r====== SET ======
  2000 requests completed in 0.78 seconds
  50 parallel clients
  3 bytes payload
  keep alive: 1
  host configuration "save": \n  multi-thread: no

Latency by percentile distribution:
0.000% <= 0.199 milliseconds (cumulative count 1)
50.000% <= 0.927 milliseconds (cumulative count 1001)
99.219% <= 124.095 milliseconds (cumulative count 1990)
99.951% <= 124.287 milliseconds (cumulative count 2000)
100.000% <= 124.287 milliseconds (cumulative count 2000)

Cumulative distribution of latencies:
0.000% <= 0.103 milliseconds (cumulative count 0)
100.000% <= 125.119 milliseconds (cumulative count 2000)

Summary:
  throughput summary: 2557.54 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
       16.240     0.192     0.927    59.743   124.031   124.287
 \rGET: rps=1920.5 (overall: 2497.5) avg_msec=17.117 (overall: 17.117)\r    \r====== GET ======
  2000 requests completed in 0.35 seconds

Latency by percentile distribution:
0.000% <= 0.231 milliseconds (cumulative count 1)
100.000% <= 32.639 milliseconds (cumulative count 2000)

Summary:
  throughput summary: 5714.29 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        8.497     0.224     1.007    28.047    32.399    32.639
"""
REDIS_QUIET = (
    " \rSET: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r      "
    "\rSET: 48780.49 requests per second, p50=0.631 msec\n"
    " \rLPUSH (needed to benchmark LRANGE): rps=1.0\r  "
    "\rLPUSH (needed to benchmark LRANGE): 42553.19 requests per second, p50=0.647 msec\n\n"
)
REDIS_CSV = """\
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","41666.67","0.828","0.168","0.663","1.183","6.943","7.135"
"MSET (10 keys)","48780.49","0.675","0.184","0.623","1.183","2.263","2.527"
"""
MEMTIER = """\
Writing results to stdout
[RUN #1] Preparing benchmark client...
[RUN #1 100%,   0 secs]  0 threads:        2000 ops,   67980 (avg:   67980) ops/sec

4         Threads
50        Connections per thread
10        Requests per client


ALL STATS
============================================================================================================================
Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency   p99.9 Latency       KB/sec 
----------------------------------------------------------------------------------------------------------------------------
Sets         3676.63          ---          ---         4.94465         4.95900         8.25500        10.04700       283.17 
Gets        36759.59         0.00     36759.59         4.94123         4.95900         8.25500        10.04700      1431.94 
Waits           0.00          ---          ---             ---             ---             ---             ---          --- 
Totals      40436.22         0.00     36759.59         4.94154         4.95900         8.25500        10.04700      1715.11 


Request Latency Distribution
Type     <= msec         Percent
------------------------------------------------------------------------
SET       0.271        0.000
"""  # noqa: E501
WRK = """\
Running 30s test @ http://127.0.0.1:8080/index.html
  12 threads and 400 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
    Req/Sec    56.20k     8.07k   62.00k    86.54%
  Latency Distribution
     50%  250.00us
     75%  491.00us
     90%    0.70ms
     99%    1.20s
  22464657 requests in 30.00s, 17.76GB read
Requests/sec: 748868.53
Transfer/sec:    606.33MB
"""
AB = """\
This is ApacheBench, Version 2.3 <$Revision: 1903618 $>
Concurrency Level:      10
Time taken for tests:   0.054 seconds
Complete requests:      1000
Failed requests:        3
   (Connect: 1, Receive: 0, Length: 2, Exceptions: 0)
Non-2xx responses:      5
Requests per second:    18422.17 [#/sec] (mean)
Time per request:       0.543 [ms] (mean)

Percentage of the requests served within a certain time (ms)
  50%      0
  99%      2
 100%      7 (longest request)
"""
HEY = """\

Summary:
  Total:\t0.2411 secs
  Slowest:\t0.0512 secs
  Requests/sec:\t829.5841

Response time histogram:
  0.001 [1]\t|

Latency distribution:
  10% in 0.0101 secs
  50% in 0.0502 secs
  99% in 0.0511 secs

Status code distribution:
  [200]\t190 responses
  [503]\t6 responses

Error distribution:
  [4]\tGet "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused
"""
PGBENCH = """\
pgbench (15.18 (Debian 15.18-0+deb12u1))
starting vacuum...end.
progress: 1.0 s, 7.0 tps, lat 1.0 ms stddev 1.0, 0 failed
transaction type: <builtin: TPC-B (sort of)>
number of transactions actually processed: 1000/1000
number of failed transactions: 2 (0.200%)
latency average = 12.345 ms
initial connection time = 20.123 ms
tps = 810.045678 (without initial connection time)
"""
PGBENCH_SHARES = f"{PGBENCH}latency p50 11.250 ms\nlatency p99.9 30.500 ms\n"
SYSBENCH = """\
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       4.910 |****************                         400
      30.260 |**************************************** 595
      95.810 |                                         4
     204.110 |                                         1
 
SQL statistics:
    queries performed:
        read:                            14000
    transactions:                        1000   (446.54 per sec.)
    queries:                             20000  (8930.80 per sec.)
    ignored errors:                      3      (1.34 per sec.)

Latency (ms):
         min:                                   16.36
         avg:                                   35.60
         max:                                  204.11
         95th percentile:                       51.02
"""
OWN = """\
load: rpc
requests: 3000
failed: 2
throughput: 1500.250 requests/s
latency p50 0.500000 ms
latency p99.9 4.250000 ms
latency max 5.000000 ms
"""
PGBENCH_OLD = """\
latency average = 0.5 ms
tps = 80.5 (including connections establishing)
tps = 90.5 (excluding connections establishing)
"""


def rates(kinds: Kinds) -> dict[str, float | None]:
    return {name: requests.throughput_per_s for name, requests in kinds.items()}


@pytest.mark.parametrize(
    ("text", "expected", "kind", "latencies"),
    [
        (
            *(REDIS, {"SET": 2557.54, "GET": 5714.29}, "SET"),
            {"avg": 16.24, "min": 0.192, "p50": 0.927, "p95": 59.743, "p99": 124.031}
            | {"max": 124.287, "p99.9": 124.287},
        ),
        (
            *(REDIS_QUIET, {"SET": 48780.49, "LPUSH (needed to benchmark LRANGE)": 42553.19}),
            *("SET", {"p50": 0.631}),
        ),
        (
            *(REDIS_CSV, {"SET": 41666.67, "MSET (10 keys)": 48780.49}, "MSET (10 keys)"),
            {"avg": 0.675, "min": 0.184, "p50": 0.623, "p95": 1.183, "p99": 2.263, "max": 2.527},
        ),
        (
            *(MEMTIER, {"Sets": 3676.63, "Gets": 36759.59, "Totals": 40436.22}, "Gets"),
            {"avg": 4.94123, "p50": 4.959, "p99": 8.255, "p99.9": 10.047},
        ),
        (
            *(WRK, {ANY: 748868.53}, ANY),
            {"avg": 0.63591, "p50": 0.25, "p75": 0.491, "p90": 0.7, "p99": 1200.0},
        ),
        (
            AB,
            {ANY: 18422.17},
            ANY,
            {"avg": 0.543, "p99": 2.0, "max": 7.0},
        ),  # ab says 0 for what is under 0.5 ms
        (HEY, {ANY: 829.5841}, ANY, {"p10": 10.1, "p50": 50.2, "p99": 51.1}),
        (PGBENCH, {ANY: 810.045678}, ANY, {"avg": 12.345}),
        (PGBENCH_OLD, {ANY: 90.5}, ANY, {"avg": 0.5}),
        (
            PGBENCH_SHARES,
            {ANY: 810.045678},
            ANY,
            {"avg": 12.345, "p50": 11.25, "p99.9": 30.5},
        ),
        (
            SYSBENCH,
            {ANY: 446.54},
            ANY,
            {"avg": 35.6, "max": 204.11, "p95": 51.02, "p50": 30.26, "p99": 30.26, "p99.9": 95.81},
        ),
        (OWN, {ANY: 1500.25}, ANY, {"p50": 0.5, "p99.9": 4.25, "max": 5.0}),
    ],
    ids=[
        *("redis", "quiet", "csv", "memtier", "wrk", "ab", "hey", "pgbench", "old-pgbench"),
        *("pgbench-shares", "sysbench", "own"),
    ],
)
def test_known_tools(
    text: str, expected: dict[str, float], kind: str, latencies: dict[str, float]
) -> None:
    kinds = parse_load(text, NO_EXPRESSIONS)
    assert rates(kinds) == expected
    assert kinds[kind].latency_ms == pytest.approx(latencies)


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        (AB, 6),  # a connection and five answers; another length is none
        (HEY, 10),
        (PGBENCH, 2),
        (WRK, 0),
        (f"{WRK}  Non-2xx or 3xx responses: 12\n", 12),
        (f"{WRK}  Socket errors: connect 1, read 2, write 0, timeout 4\n", 7),
        (REDIS, 0),
        (REDIS_CSV, 0),
        (MEMTIER, 0),
        (SYSBENCH, 3),
        (OWN, 2),
    ],
)
def test_failed_requests(text: str, failed: int) -> None:
    assert failed_requests(text) == failed


@pytest.mark.parametrize(
    ("text", "answered"),
    [(PGBENCH, 1000), (SYSBENCH, 1000), (OWN, 3000), (REDIS_QUIET, 0), (MEMTIER, 0), ("", 0)],
)
def test_answered_requests(text: str, answered: int) -> None:
    assert answered_requests(text) == answered


@pytest.mark.parametrize(
    "text", [REDIS, REDIS_QUIET, REDIS_CSV, MEMTIER, WRK, AB, HEY, PGBENCH, SYSBENCH, OWN]
)
def test_cut_off_anywhere_no_figure_is_invented(text: str) -> None:
    """What a cut leaves is a figure of the whole, but for the one that was cut itself."""
    whole = parse_load(text, NO_EXPRESSIONS)
    for end in range(len(text)):
        cut = parse_load(text[:end], NO_EXPRESSIONS)
        for name, requests in cut.items():
            if requests.throughput_per_s == whole.get(name, requests).throughput_per_s:
                continue
            left = re.findall(r"[0-9.]+\Z", text[:end].rstrip('",'))
            assert left or name not in whole, (text[:end][-80:], name, requests)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\xff\x1b[2J",
        "hello\nworld\n",
        "====== SET ======\n",
        "====== SET ======\n  throughput summary: nan requests per second\n",
        "SET: 0.00 requests per second, p50=0.000 msec\n",
        '"test","rps"\n"SET"\n',
        '"test","rps"\n"SET","many"\n',
        '"test","rps"\n"SET","1","2"\n',
        '"test","rps\n',
        "Type         Ops/sec     Avg. Latency\nTotals  1.0\n",
        "Running 1s test @ http://x\nRequests/sec:      0.00\n",
        "Requests per second:    inf [#/sec] (mean)\n",
        "tps = -nan (without initial connection time)\n",
        "\nSummary:\n  Total:\t0 secs\n",
    ],
)
def test_damaged_output_says_nothing(text: str) -> None:
    assert parse_load(text, NO_EXPRESSIONS) == {}


def test_own_expressions() -> None:
    text = "read: 100.5 ops\nwrite: 7 ops\nread p99=2 us\nread p50=1 us\nread: 200.5 ops\n"
    expressions = Expressions(
        compile_expression("--throughput", r"^(?P<kind>\w+): (?P<value>\S+) ops"),
        compile_expression(
            "--latency", r"^(?P<kind>\w+) (?P<percentile>p\d+)=(?P<value>\d+) (?P<unit>\w+)"
        ),
    )
    kinds = parse_load(text, expressions)
    assert rates(kinds) == {"read": 200.5, "write": 7.0}  # the last line of a kind counts
    assert kinds["read"].latency_ms == pytest.approx({"p99": 0.002, "p50": 0.001})

    one = Expressions(compile_expression("--throughput", r"(\d+) ops$"))
    assert rates(parse_load("4 ops\n5 ops", one)) == {ANY: 5.0}
    assert parse_load("no figure, many ops", one) == {}


def test_own_latency_joins_a_known_tools_throughput() -> None:
    latency = Expressions(latency=compile_expression("--latency", r"^slowest (\d+)$"))
    kinds = parse_load(f"{WRK}slowest 31\n", latency)
    assert kinds[ANY].throughput_per_s == 748868.53
    assert kinds[ANY].latency_ms["latency"] == 31.0


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("--throughput", "(", "not a regular expression"),
        ("--throughput", r"\d+ ops", "wanted is one group"),
        ("--throughput", r"(\d+) (\w+)", "wanted is one group"),
        ("--throughput", r"(?P<kind>\w+) \d+", "wanted is one group, or one (?P<value>...)"),
        ("--throughput", r"(?P<rate>\d+)", "unknown group 'rate'; there are: kind, value"),
        ("--throughput", r"(?P<value>\d+)(?P<unit>s)", "unknown group 'unit'"),
    ],
)
def test_bad_expressions(option: str, text: str, problem: str) -> None:
    with pytest.raises(LabError, match=re.escape(f"{option} {text}: ") + ".*" + re.escape(problem)):
        compile_expression(option, text)


def test_an_unknown_unit() -> None:
    latency = compile_expression("--latency", r"(?P<value>\d+) (?P<unit>\w+)")
    with pytest.raises(LabError, match="unit 'fortnights' in the load's output; accepted: ns, us"):
        parse_load("3 fortnights", Expressions(latency=latency))
