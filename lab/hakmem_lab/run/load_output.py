"""What a load generator says of a server: requests a second and latencies, by kind of request.

Known are redis-benchmark (as it stands, -q, --csv), memtier_benchmark, wrk, ab, hey, pgbench,
sysbench (with --histogram) and the lines of bench/servers; for others the user gives regular
expressions.
"""

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hakmem_lab.base.errors import LabError

ANY = "requests"  # the kind where a tool names none
KNOWN_TOOLS = "redis-benchmark, memtier_benchmark, wrk, ab, hey, pgbench and sysbench"
NUMBER = r"\d+(?:\.\d+)?"
OWN_LATENCY = rf"latency (p{NUMBER}|max) ({NUMBER}) ms"  # of bench/servers
MILLISECONDS = {
    **{"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "usec": 1e-3, "ms": 1.0, "msec": 1.0},
    **{"milliseconds": 1.0, "s": 1e3, "sec": 1e3, "secs": 1e3, "seconds": 1e3, "m": 6e4},
}


@dataclass
class Requests:
    """One kind of request: how many a second, and latencies in ms (p50, p99.9, avg, max)."""

    throughput_per_s: float | None = None
    latency_ms: dict[str, float] = field(default_factory=dict)


Kinds = dict[str, Requests]


def kind_of(kinds: Kinds, name: str) -> Requests:
    return kinds.setdefault(name.strip() or ANY, Requests())


def positive(text: str) -> float | None:
    """A finite number above 0; tools print nan or 0 where they measured nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None


def add_latency(requests: Requests, name: str, text: str, unit: str = "ms") -> None:
    value = positive(text)
    if value is not None:
        requests.latency_ms[name] = value * MILLISECONDS[unit]


def lines_of(text: str) -> list[str]:
    """Lines as a terminal would show them in the end: what a carriage return wrote over is gone."""
    return [line.rstrip().rpartition("\r")[2] for line in text.split("\n")]


def redis_benchmark(text: str) -> Kinds:
    """Its usual report: a block a kind, with the distribution of latencies and a summary."""
    kinds: Kinds = {}
    current: Requests | None = None
    names: list[str] = []
    for line in lines_of(text):
        if found := re.fullmatch(r"====== (.+) ======", line):
            current = kind_of(kinds, found.group(1))
            names = []
        elif current is None:
            continue
        elif found := re.match(rf"({NUMBER})% <= ({NUMBER}) milliseconds", line):
            # Steps of a histogram: the first at or above a percentile is its upper bound.
            if float(found.group(1)) >= 99.9:
                current.latency_ms.setdefault("p99.9", float(found.group(2)))
        elif found := re.match(rf"\s*throughput summary: ({NUMBER}) requests per second", line):
            current.throughput_per_s = positive(found.group(1))
        elif re.match(r"\s+avg\s+min\s+p50", line):
            names = line.split()
        elif names:
            for name, value in zip(names, line.split(), strict=False):
                add_latency(current, name, value)
            names = []
    return kinds


def redis_benchmark_quiet(text: str) -> Kinds:
    kinds: Kinds = {}
    pattern = rf"(.+): ({NUMBER}) requests per second(?:, p50=({NUMBER}) msec)?"
    for line in lines_of(text):
        if found := re.fullmatch(pattern, line):
            requests = kind_of(kinds, found.group(1))
            requests.throughput_per_s = positive(found.group(2))
            if found.group(3):
                add_latency(requests, "p50", found.group(3))
    return kinds


def redis_benchmark_csv(text: str) -> Kinds:
    """Columns "test", "rps", "avg_latency_ms", "p50_latency_ms" and so on."""
    kinds: Kinds = {}
    header: list[str] = []
    for line in lines_of(text):
        if not line.startswith('"'):
            continue
        row = next(csv.reader([line]), [])
        if row[:2] == ["test", "rps"]:
            header = row
        elif header and len(row) == len(header):
            requests = kind_of(kinds, row[0])
            requests.throughput_per_s = positive(row[1])
            for name, value in zip(header[2:], row[2:], strict=True):
                add_latency(requests, name.removesuffix("_latency_ms"), value)
    return kinds


def memtier_benchmark(text: str) -> Kinds:
    """A table whose columns are two spaces apart; latencies are in ms."""
    kinds: Kinds = {}
    header: list[str] = []
    for line in lines_of(text):
        words = re.split(r"\s{2,}", line.strip())
        if words[:2] == ["Type", "Ops/sec"]:
            header = words
        elif header and len(words) == len(header) and words[0].isalpha():
            throughput = positive(words[1])
            if throughput is None:  # a kind that was not asked for
                continue
            requests = kind_of(kinds, words[0])
            requests.throughput_per_s = throughput
            for name, value in zip(header, words, strict=True):
                if name.endswith(" Latency"):
                    short = name.removesuffix(" Latency").replace("Avg.", "avg")
                    add_latency(requests, short, value)
    return kinds


def wrk(text: str) -> Kinds:
    requests = Requests()
    for line in lines_of(text):
        if found := re.fullmatch(rf"Requests/sec:\s+({NUMBER})", line):
            requests.throughput_per_s = positive(found.group(1))
        elif found := re.fullmatch(rf"\s+({NUMBER})%\s+({NUMBER})(us|ms|s|m)", line):
            share = f"p{float(found.group(1)):g}"
            add_latency(requests, share, found.group(2), found.group(3))
        elif found := re.match(rf"\s+Latency\s+({NUMBER})(us|ms|s|m)\s", line):
            add_latency(requests, "avg", found.group(1), found.group(2))
    return {ANY: requests}


def ab(text: str) -> Kinds:
    requests = Requests()
    for line in lines_of(text):
        if found := re.match(rf"Requests per second:\s+({NUMBER}) \[#/sec\]", line):
            requests.throughput_per_s = positive(found.group(1))
        elif found := re.fullmatch(rf"Time per request:\s+({NUMBER}) \[ms\] \(mean\)", line):
            add_latency(requests, "avg", found.group(1))
        elif found := re.fullmatch(rf"\s+(\d+)%\s+({NUMBER})(?: \(longest request\))?", line):
            name = "max" if found.group(1) == "100" else f"p{found.group(1)}"
            add_latency(requests, name, found.group(2))
    return {ANY: requests}


def hey(text: str) -> Kinds:
    requests = Requests()
    for line in lines_of(text):
        if found := re.fullmatch(rf"\s+Requests/sec:\s+({NUMBER})", line):
            requests.throughput_per_s = positive(found.group(1))
        elif found := re.fullmatch(rf"\s+(\d+)% in ({NUMBER}) secs", line):
            add_latency(requests, f"p{found.group(1)}", found.group(2), "secs")
    return {ANY: requests}


def pgbench(text: str) -> Kinds:
    """The last rate counts: old versions have a first one that includes connecting. Percentiles are
    in its log files only, out of which bench/servers/pgbench.sh makes lines."""
    requests = Requests()
    for line in lines_of(text):
        if found := re.match(rf"tps = ({NUMBER})", line):
            requests.throughput_per_s = positive(found.group(1))
        elif found := re.fullmatch(rf"latency average = ({NUMBER}) ms", line):
            add_latency(requests, "avg", found.group(1))
        elif found := re.fullmatch(OWN_LATENCY, line):
            add_latency(requests, found.group(1), found.group(2))
    return {ANY: requests}


def sysbench(text: str) -> Kinds:
    """Its transactions. Percentiles are the upper ends of the steps of --histogram, which are 5%
    apart; without that option it says one percentile."""
    requests = Requests()
    steps: list[tuple[float, int]] = []
    for line in lines_of(text):
        if found := re.match(rf"\s*transactions:\s+\d+\s+\(({NUMBER}) per sec\.\)", line):
            requests.throughput_per_s = positive(found.group(1))
        elif found := re.match(rf"\s*({NUMBER}) \|\**\s*(\d+)$", line):
            steps.append((float(found.group(1)), int(found.group(2))))
        elif found := re.match(rf"\s*avg:\s+({NUMBER})$", line):
            add_latency(requests, "avg", found.group(1))
        elif found := re.match(rf"\s*(\d+)th percentile:\s+({NUMBER})$", line):
            add_latency(requests, f"p{found.group(1)}", found.group(2))
        elif found := re.match(rf"\s*max:\s+({NUMBER})$", line):
            add_latency(requests, "max", found.group(1))
    total = sum(count for _, count in steps)
    for share in (50, 99, 99.9):
        seen = 0
        for milliseconds, count in steps:
            seen += count
            if seen * 100 >= total * share:
                requests.latency_ms[f"p{share:g}"] = milliseconds
                break
    return {ANY: requests}


def own_lines(text: str) -> Kinds:
    """Those of the load generators of bench/servers."""
    requests = Requests()
    for line in lines_of(text):
        if found := re.fullmatch(rf"throughput: ({NUMBER}) requests/s", line):
            requests.throughput_per_s = positive(found.group(1))
        elif found := re.fullmatch(OWN_LATENCY, line):
            add_latency(requests, found.group(1), found.group(2))
    return {ANY: requests}


# Each with what only its output has.
TOOLS: tuple[tuple[str, Callable[[str], Kinds]], ...] = (
    (r'^"test","rps"', redis_benchmark_csv),
    (r"====== .+ ======", redis_benchmark),
    (rf": {NUMBER} requests per second", redis_benchmark_quiet),
    (r"^Type\s+Ops/sec", memtier_benchmark),
    (r"^Running .+ test @ ", wrk),
    (r"^This is ApacheBench|^Requests per second:.*\[#/sec\]", ab),
    (r"^Summary:\s*\n\s+Total:", hey),
    (r"^throughput: .* requests/s$", own_lines),
    (r"^tps = ", pgbench),
    (r"^SQL statistics:", sysbench),
)

# Lines on requests that failed, as those tools write them: the sum of the groups is their number.
FAILED_REQUESTS = (
    r"^\s*Non-2xx(?: or 3xx)? responses:\s+(\d+)",  # ab, wrk
    r"^\s*Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)",  # wrk
    # ab counts answers of another length than the first one's, too: pages are like that.
    r"^\s+\(Connect: (\d+), Receive: (\d+), Length: \d+, Exceptions: (\d+)\)",
    r"^\s+\[[45]\d\d\]\s+(\d+) responses",  # hey
    r"^\s+\[(\d+)\]\s+[A-Z]\w+ ",  # hey, requests without an answer
    r"^number of failed transactions: (\d+)",  # pgbench
    r"^\s*ignored errors:\s+(\d+)",  # sysbench
    r"^failed: (\d+)$",  # bench/servers
)
# How many were answered: the sum over the kinds of requests.
ANSWERED_REQUESTS = (
    r"^\s*(\d+) requests completed in ",  # redis-benchmark
    r"^\s*(\d+) requests in ",  # wrk
    r"^Complete requests:\s+(\d+)",  # ab
    r"^number of transactions actually processed: (\d+)",  # pgbench
    r"^\s*transactions:\s+(\d+)",  # sysbench
    r"^requests: (\d+)$",  # bench/servers
)


@dataclass(frozen=True)
class Expressions:
    """How to read the output of another tool."""

    throughput: re.Pattern[str] | None = None
    latency: re.Pattern[str] | None = None


def compile_expression(option: str, text: str | None) -> re.Pattern[str] | None:
    """A pattern with a group for the number: the only one, or one named value."""
    if text is None:
        return None
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise LabError(f"{option} {text}: not a regular expression: {error}") from None
    names = set(pattern.groupindex)
    accepted = {"value", "kind"} | ({"percentile", "unit"} if option == "--latency" else set())
    if names - accepted:
        raise LabError(
            f"{option} {text}: unknown group {sorted(names - accepted)[0]!r};"
            f" there are: {', '.join(sorted(accepted))}"
        )
    if "value" not in names and (names or pattern.groups != 1):
        raise LabError(f"{option} {text}: wanted is one group, or one (?P<value>...)")
    return pattern


def part(found: re.Match[str], name: str, otherwise: str) -> str:
    """A named group's text; that of the only group for `value`."""
    if name in found.re.groupindex:
        return found.group(name) or otherwise
    return found.group(1) if name == "value" else otherwise


def apply_expressions(expressions: Expressions, text: str) -> Kinds:
    """The last match of a kind counts, as tools write their summary last."""
    kinds: Kinds = {}
    if expressions.throughput is not None:
        for found in expressions.throughput.finditer(text):
            requests = kind_of(kinds, part(found, "kind", ANY))
            requests.throughput_per_s = positive(part(found, "value", ""))
    if expressions.latency is not None:
        for found in expressions.latency.finditer(text):
            unit = part(found, "unit", "ms").lower()
            if unit not in MILLISECONDS:
                raise LabError(
                    f"--latency: unit {unit!r} in the load's output;"
                    f" accepted: {', '.join(MILLISECONDS)}"
                )
            name = part(found, "percentile", "")
            share = positive(name.removeprefix("p"))
            name = f"p{share:g}" if share is not None else name or "latency"
            requests = kind_of(kinds, part(found, "kind", ANY))
            add_latency(requests, name, part(found, "value", ""), unit)
    return kinds


def failed_requests(text: str) -> int:
    """How many requests failed, as far as the load's output says so."""
    return sum_of(FAILED_REQUESTS, text)


def answered_requests(text: str) -> int:
    """How many requests were answered; 0 where the load's output does not say it."""
    return sum_of(ANSWERED_REQUESTS, text)


def sum_of(patterns: Sequence[str], text: str) -> int:
    """Of all groups of all matches."""
    return sum(
        int(number)
        for pattern in patterns
        for found in re.finditer(pattern, text, re.MULTILINE)
        for number in found.groups()
    )


def parse_load(text: str, expressions: Expressions) -> Kinds:
    """Kinds of requests with their throughput; empty when nothing was understood."""
    kinds: Kinds = {}
    for mark, tool in TOOLS:
        if re.search(mark, text, re.MULTILINE):
            kinds = tool(text)
            break
    own = apply_expressions(expressions, text)
    if expressions.throughput is not None:
        kinds = own
    else:
        for name, requests in own.items():
            kind_of(kinds, name).latency_ms.update(requests.latency_ms)
    return {name: r for name, r in kinds.items() if r.throughput_per_s is not None}
