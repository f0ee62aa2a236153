"""Results whose figures are known, for the tests of reports and scorecards."""

from pathlib import Path
from typing import Any

from hakmem_lab.run.allocators import Allocator
from hakmem_lab.run.measure import Run
from hakmem_lab.run.results import Result, RowResult, write_result

MACHINE: dict[str, Any] = {
    "kernel": "Linux 6.1 x86_64",
    "cpu_model": "CPU <of> a test",
    "cpus": 2,
    "memory_mib": 1000,
    "transparent_huge_pages": "madvise",
    "load_average": 0.5,
}
# A name that would be markup, would run, and would end the script that holds the data.
HOSTILE = "<b>bold</b><img src=x onerror=alert(1)></script><script>alert(2)</script>"
ROUNDS = 6
# Nanoseconds an operation by allocator, in the first row; KiB at the peak.
COSTS = {"hakmem": 8.0, "glibc": 11.0, "mimalloc3": 10.0, "lean": 9.0}
PEAKS = {"hakmem": 2000, "glibc": 1800, "mimalloc3": 5000, "lean": 1900}


def allocators() -> list[Allocator]:
    library = "/home/jane/hakmem/build/standard/libhakmem.so"
    return [
        Allocator("hakmem", "0.1.0", "here", library),
        Allocator("glibc", "2.36", "the system's C library"),
        Allocator("mimalloc3", "3.4.3", "a crate", "/home/jane/hakmem/build/peers/libmi.so"),
        Allocator("lean", "0.1.0", "here", library, {"HAKMEM_PROFILE": "lean"}),
        Allocator("away", "1", "nowhere", missing="no compiler"),
    ]


def run_of(name: str, round_: int, factor: float, peak: int) -> Run:
    # Each round differs by a percent, the same on all: ratios within a round are exact.
    cost = COSTS[name] * factor * (1 + round_ / 100)
    return Run(
        name,
        round_,
        1,
        wall_s=0.2,
        user_s=0.1,
        system_s=0.01,
        peak_rss_kb=peak + round_,
        minor_faults=100 + round_,
        throughput_per_s=1e9 / cost,
    )


def row_of(name: str, factor: float, command: list[str]) -> RowResult:
    row = RowResult(name, "single", "what it <is>", "throughput", 1.0, command, {})
    for round_ in range(1, ROUNDS + 1):
        row.runs += [run_of(a, round_, factor, PEAKS[a]) for a in COSTS]
    row.system_calls = {"hakmem": {"mmap": 4, "munmap": 1}, "glibc": {"brk": 7}}
    return row


def suite(rows: int = 14) -> Result:
    """The first row is random_mixed; later ones slower; the last has a hostile name."""
    bench = "/home/jane/hakmem/build/bench"
    result = Result(
        "suite",
        ["hakmem-lab", "suite"],
        {
            **{"rounds": ROUNDS, "cpus": [0], "peers": ["glibc", "mimalloc3"]},
            "commit": "v0.1.0",
        },
        MACHINE,
        allocators(),
        created="2026-01-02T03:04:05+00:00",
    )
    result.rows.append(row_of("mixed400", 1, [f"{bench}/random_mixed", "20000000", "400", "1"]))
    for number in range(2, rows):
        result.rows.append(row_of(f"row-{number}", number, [f"{bench}/tree", str(number)]))
    result.rows.append(row_of(HOSTILE, 1.5, [f"{bench}/tree", HOSTILE]))
    return result


def steady(calls: int, resident_kb: int, mib: int = 512) -> Result:
    result = Result("steady", ["hakmem-lab", "steady"], {"peers": ["glibc"]}, MACHINE, allocators())
    mixed = RowResult("steady", "single", "", "wall", 1.0, ["b/random_mixed", "9", "400", "1"], {})
    words = ["b/idle", "4", str(mib), "16", "4096", "95", "5", "60", "0"]
    idle = RowResult("idle-95", "single", "", "wall", 1.0, words, {})
    for round_ in range(1, ROUNDS + 1):
        called = {"os_calls": float(calls), "operations": 5e8}
        kept = {"resident_kb": float(resident_kb), "quiet_cpu_ms": 0.0, "wake_ups": 0.0}
        mixed.runs.append(Run("hakmem", round_, 1, wall_s=4.0, figures=called))
        idle.runs.append(Run("hakmem", round_, 1, wall_s=70.0, figures=kept))
    result.rows = [mixed, idle]
    return result


def soak_csv(epochs: int, seconds: float, growth: float = 0.0) -> str:
    """Epochs of a steady run whose memory grows by a share, evenly."""
    lines = ["epoch,elapsed_s,throughput_ops_s,rss_kb"]
    for epoch in range(1, epochs + 1):
        rss = 2000 * (1 + growth * epoch / epochs)
        throughput = 100_000_000 + epoch % 7 * 100_000
        lines.append(f"{epoch},{epoch * seconds:.3f},{throughput},{rss:.0f}")
    return "\n".join(lines) + "\n"


def phases_csv(cycles: int, kept: float) -> str:
    """Two allocators in cycles of two phases; what is resident is `kept` times what is live."""
    lines = ["cycle,phase,elapsed_s,live_kb,rss_kb,ratio,label"]
    for label, factor in (("hakmem", kept), ("glibc", 2 * kept)):
        for cycle in range(1, cycles + 1):
            for phase, live in (("grow", 32768), ("drop", 4096)):
                elapsed = cycle + (phase == "drop") / 2
                rss = live * factor
                lines.append(f"{cycle},{phase},{elapsed},{live},{rss:.0f},{factor:.3f},{label}")
    return "\n".join(lines) + "\n"


def write_samples(directory: Path) -> tuple[Path, Path]:
    """A suite's result and a soak's CSV."""
    result, soak = directory / "suite.json", directory / "balanced.csv"
    write_result(suite(), result)
    soak.write_text(soak_csv(1800, 2.0))
    return result, soak
