"""All goals: what each is, who set it, its bar, its rule, and what answers it. There is no other
place: the card has one line for each of these, in this order.
"""

from dataclasses import dataclass

from hakmem_lab.run.steady import IDLE_95, IDLE_100
from hakmem_lab.scorecard.evidence import (
    INSTRUCTIONS,
    PROGRAMS,
    SAMPLING,
    SERVERS,
    SOAK,
    STARTUP,
    STEADY_KIND,
    SUITE,
    VARIANTS,
    Evidence,
)
from hakmem_lab.scorecard.processes import (
    idle_memory,
    idle_wake_ups,
    instructions,
    memory_at_rest,
    startup_calls,
    startup_memory,
    steady_calls,
)
from hakmem_lab.scorecard.programs import (
    each_programs_peak,
    lean_programs_time,
    light_programs_time,
    light_servers_time,
    programs_against_glibc,
    programs_peak,
    programs_time,
    servers_against_best,
    servers_memory_at_rest,
    servers_with_the_lowest_memory,
)
from hakmem_lab.scorecard.rows import (
    LARSON,
    Find,
    against_mimalloc,
    all_rows,
    costs,
    field_rows,
    growth_against_glibc,
    guard_cost,
    lean_against_balanced,
    lean_against_glibc,
    memory_with_many_threads,
    peak_of,
    peaks,
    rows_against_best,
    rows_against_leanest,
    sampler_cost,
    scaling_against_peers,
    share_of_mimalloc,
)
from hakmem_lab.scorecard.soak import soak_rule
from hakmem_lab.scorecard.verdicts import (
    CERTAIN_MISS,
    COUNT,
    EPOCHS,
    EVERY_RUN,
    FIGURE,
    HIGHEST_END,
    INTERVAL,
    ROW_TIME,
    SURELY_OUTSIDE,
    UPPER_END,
    Bar,
    Found,
    Rule,
    Verdict,
    at_least,
    at_most,
    verdict_on,
)

TARGETS, OF_RULES, OF_NAMES = "targets", "rules", "goals by name"


@dataclass(frozen=True)
class Goal:
    section: str
    name: str
    source: str  # who set it: the table of targets, or docs/rules.md
    bar: Bar
    rule: Rule
    evidence: str  # the purpose of the file that answers
    find: Find
    digits: int = 2
    unit: str = ""
    scientific: bool = False
    all_parts: bool = False  # on the card: all of its parts, not only those that fall short


@dataclass(frozen=True)
class Line:
    """A goal, and what was found about it."""

    goal: Goal
    found: Found | None

    @property
    def verdict(self) -> Verdict:
        return verdict_on(self.found, self.goal.rule)


TIME, MEMORY, LEAN, PROGRAM = "Time", "Memory", "The profile lean", "Real programs"
COST, STILL, LONG = "What a call and a variant cost", "Idle and at rest", "Long runs"
CHECKS = "The project's own checks"
NOTHING_YET = ""  # evidence of goals that no command of the lab measures
EACH = Bar(1.0, "each row's own")
NO_MORE = at_most(1.0, "1.00")
R4 = Bar(1.0, "R4")


def not_yet(_evidence: Evidence, _bar: Bar) -> Found | None:
    """Nothing that the lab measures answers yet: the card says so instead of hiding the goal."""
    return None


# A table, a goal in a few lines.
# fmt: off
GOALS = (
    Goal(TIME, "geometric mean of time / mimalloc 3: the field's 18 rows", TARGETS,
         at_most(0.70, "0.70"), INTERVAL, SUITE, against_mimalloc(costs, field_rows), 3),
    Goal(TIME, "geometric mean of time / mimalloc 3: all rows", TARGETS,
         at_most(0.70, "0.70"), INTERVAL, SUITE, against_mimalloc(costs, all_rows), 3),
    Goal(TIME, "each row's time / its best peer's", TARGETS,
         EACH, ROW_TIME, SUITE, rows_against_best()),
    Goal(TIME, "8 and 64 threads, throughput kept of that with few: median peer / hakmem",
         TARGETS, NO_MORE, ROW_TIME, SUITE, scaling_against_peers()),
    Goal(TIME, "growth by realloc: time / glibc's", TARGETS,
         NO_MORE, ROW_TIME, SUITE, growth_against_glibc(),
         all_parts=True),
    Goal(TIME, "M1 to M4: random_mixed's throughput / mimalloc 3's", OF_NAMES,
         at_least(70, "70% (M4)"), INTERVAL, SUITE, share_of_mimalloc(), 1, "%"),
    Goal(MEMORY, "geometric mean of peak / mimalloc 3: the field's 18 rows", TARGETS,
         at_most(0.47, "0.47"), INTERVAL, SUITE, against_mimalloc(peaks, field_rows), 3),
    Goal(MEMORY, "geometric mean of peak / mimalloc 3: all rows", TARGETS,
         at_most(0.48, "0.48"), INTERVAL, SUITE, against_mimalloc(peaks, all_rows), 3),
    Goal(MEMORY, "each row's peak / the leanest peer's that caches for threads", TARGETS,
         at_most(1.15, "1.15"), INTERVAL, SUITE, rows_against_leanest(all_rows)),
    Goal(MEMORY, "64, 256 and 1,024 threads: peak / the leanest peer's that caches for threads",
         TARGETS, at_most(1.10, "1.10"), INTERVAL, SUITE, memory_with_many_threads(),
         all_parts=True),
    Goal(MEMORY, "larson's peak", TARGETS,
         at_most(14, "14 MB"), INTERVAL, SUITE, peak_of(LARSON), 1, " MB"),
    Goal(LEAN, "lean: geometric mean of peak / mimalloc 3: the field's 18 rows", TARGETS,
         at_most(0.44, "0.44"), INTERVAL, SUITE, against_mimalloc(peaks, field_rows, "lean"), 3),
    Goal(LEAN, "lean: geometric mean of peak / mimalloc 3: all rows", TARGETS,
         at_most(0.47, "0.47"), INTERVAL, SUITE, against_mimalloc(peaks, all_rows, "lean"), 3),
    Goal(LEAN, "lean: geometric mean of peak / glibc: all rows", TARGETS,
         NO_MORE, INTERVAL, SUITE, lean_against_glibc(), 3),
    Goal(LEAN, "lean: geometric mean of time / balanced", TARGETS,
         at_most(1.1, "1.10"), INTERVAL, SUITE, lean_against_balanced(), 3,
         all_parts=True),
    Goal(PROGRAM, "programs: geometric mean of CPU time / mimalloc 3", TARGETS,
         at_most(0.97, f"0.97, upper end ≤ {HIGHEST_END:g}"), UPPER_END, PROGRAMS,
         programs_time(), 3),
    Goal(PROGRAM, "programs that are slower than on glibc with certainty", TARGETS,
         Bar(1.0, "none"), CERTAIN_MISS, PROGRAMS, programs_against_glibc()),
    Goal(PROGRAM, "programs: geometric mean of peak / glibc", TARGETS,
         at_most(1.0, "1.00"), INTERVAL, PROGRAMS, programs_peak(), 3),
    Goal(PROGRAM, "programs: each one's peak / glibc's", TARGETS,
         at_most(1.10, "1.10"), INTERVAL, PROGRAMS, each_programs_peak()),
    Goal(PROGRAM, "lean, programs: geometric mean of peak / glibc", TARGETS,
         at_most(0.95, "0.95"), INTERVAL, PROGRAMS, programs_peak("lean"), 3),
    Goal(PROGRAM, "lean, programs: each one's peak / glibc's", TARGETS,
         at_most(1.10, "1.10"), INTERVAL, PROGRAMS, each_programs_peak("lean")),
    Goal(PROGRAM, "lean, programs: geometric mean of CPU time / balanced", TARGETS,
         at_most(1.10, "1.10"), INTERVAL, PROGRAMS, lean_programs_time(), 3),
    Goal(PROGRAM, "servers that are slower than on their best peer with certainty", TARGETS,
         Bar(1.0, "none"), SURELY_OUTSIDE, SERVERS, servers_against_best()),
    Goal(PROGRAM, "servers whose memory is the lowest after 10 s without load", TARGETS,
         at_least(70, "70% (7 of 10)"), FIGURE, SERVERS, servers_with_the_lowest_memory(),
         0, "%"),
    Goal(PROGRAM, "servers: each one's memory after 10 s without load / the lowest", TARGETS,
         at_most(1.10, "1.10"), INTERVAL, SERVERS, servers_memory_at_rest()),
    Goal(COST, "instructions of a malloc and its free: fast, without the sampler", TARGETS,
         at_most(36, "36"), COUNT, INSTRUCTIONS, instructions("fast"), 2),
    Goal(COST, "instructions of a malloc and its free: standard, with its countdown", TARGETS,
         at_most(38, "38"), COUNT, INSTRUCTIONS, instructions("hakmem"), 2),
    Goal(COST, "standard / fast, instructions of a malloc and its free", OF_NAMES,
         at_most(1.01, "1.01"), COUNT, INSTRUCTIONS, instructions("hakmem", "fast"), 3),
    Goal(COST, "sampling profiler at its default rate: time / without", TARGETS,
         at_most(1.005, "1.005"), INTERVAL, SAMPLING, sampler_cost(costs), 3),
    Goal(COST, "sampling profiler at its default rate: peak / without", TARGETS,
         at_most(1.002, "1.002"), INTERVAL, SAMPLING, sampler_cost(peaks), 3),
    Goal(COST, "hardened, light: geometric mean of time / standard", TARGETS,
         at_most(1.25, "1.25"), INTERVAL, VARIANTS, guard_cost("light"), 3),
    Goal(COST, "hardened, full: geometric mean of time / standard", TARGETS,
         at_most(2.4, "2.40"), INTERVAL, VARIANTS, guard_cost("full"), 3),
    Goal(COST, "hardened, light, programs: geometric mean of CPU time / standard", TARGETS,
         at_most(1.05, "1.05"), INTERVAL, PROGRAMS, light_programs_time(), 3),
    Goal(COST, "hardened, light, servers: geometric mean of CPU time / standard", TARGETS,
         at_most(1.05, "1.05"), INTERVAL, SERVERS, light_servers_time(), 3),
    Goal(COST, "start-up: peak beyond an empty library's", TARGETS,
         at_most(50, "50 KB"), INTERVAL, STARTUP, startup_memory(), 0, " KB"),
    Goal(COST, "start-up: system calls beyond an empty library's", TARGETS,
         at_most(2, "2"), COUNT, STARTUP, startup_calls(), 0),
    Goal(COST, "start-up and one block of each class: peak beyond an empty library's", TARGETS,
         at_most(200, "200 KB"), INTERVAL, NOTHING_YET, not_yet, 0, " KB"),
    Goal(COST, "longest wait that the allocator causes", TARGETS,
         at_most(1, "1 ms"), INTERVAL, NOTHING_YET, not_yet, 2, " ms"),
    Goal(STILL, "95% of 512 MiB freed, resident 5 s later", TARGETS,
         at_most(65, "65 MB"), INTERVAL, STEADY_KIND, idle_memory(IDLE_95), 1, " MB"),
    Goal(STILL, "all of 512 MiB freed, resident 5 s later", TARGETS,
         at_most(8, "8 MB"), INTERVAL, STEADY_KIND, idle_memory(IDLE_100), 1, " MB"),
    Goal(STILL, "wake-ups in the minute after that", TARGETS,
         at_most(0, "0"), EVERY_RUN, STEADY_KIND, idle_wake_ups(), 0,
         all_parts=True),
    Goal(STILL, "300 MB that others freed, that spans cache, that heaps park: 5 s later", TARGETS,
         at_most(40, "40 MB"), INTERVAL, STEADY_KIND, memory_at_rest(), 1, " MB",
         all_parts=True),
    Goal(STILL,
         "half freed in any of five shapes: gone 5 s later, and under a memory limit it lives",
         TARGETS, Bar(1.0, "all five"), EVERY_RUN, NOTHING_YET, not_yet),
    Goal(STILL, "40 sleeping threads that used all classes: resident, each", TARGETS,
         at_most(0.35, "0.35 MB"), INTERVAL, NOTHING_YET, not_yet, 2, " MB"),
    Goal(LONG, "R3: mmap, munmap and madvise an operation, in each profile", OF_RULES,
         at_most(1e-8, "1e-8"), INTERVAL, STEADY_KIND, steady_calls(),
         scientific=True,
         all_parts=True),
    *(
        Goal(LONG, f"R4: soak of {profile}: memory and throughput hold", OF_RULES,
             R4, EPOCHS, SOAK, soak_rule(profile),
             all_parts=True)
        for profile in ("balanced", "speed", "lean")
    ),
    *(
        Goal(CHECKS, f"`{command}`", TARGETS,
             at_most(minutes, f"{minutes} min"), FIGURE, NOTHING_YET, not_yet, 0, " min")
        for command, minutes in ((".ci/run", 20), ("make test", 6), ("make demo", 2))
    ),
)
# fmt: on


def lines(evidence: Evidence) -> list[Line]:
    return [Line(goal, goal.find(evidence, goal.bar)) for goal in GOALS]
