"""Where hakmem stands: beside every peer of the same run, in words. The goals ask for more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hakmem_lab.analysis.statistics import Estimate
from hakmem_lab.run.results import Result
from hakmem_lab.scorecard.evidence import (
    INSTRUCTIONS,
    PROGRAMS,
    SERVERS,
    SUITE,
    Evidence,
    Source,
    peers,
    subject,
)
from hakmem_lab.scorecard.processes import pair_of
from hakmem_lab.scorecard.programs import memory_at_rest
from hakmem_lab.scorecard.rows import Figures, all_rows, costs, mean_part, peaks, rows_of
from hakmem_lab.scorecard.verdicts import Bar, Part

AHEAD, BEHIND = "Ahead of all peers", "Behind the best peer"
OPEN = "No certain difference from the best peer"
NO_BAR = Bar(1.0, "")


@dataclass(frozen=True)
class Field:
    """What is compared: a geometric mean over the rows of a result."""

    title: str
    purpose: str
    figures: Figures
    rows: Callable[[Evidence], Sequence[str]]
    of: str  # what its rows are


FIELDS = (
    Field("time on benchmarks", SUITE, costs, all_rows, "benchmarks"),
    Field("peak memory on benchmarks", SUITE, peaks, all_rows, "benchmarks"),
    Field("processor time of real programs", PROGRAMS, costs, rows_of(PROGRAMS), "programs"),
    Field("peak memory of real programs", PROGRAMS, peaks, rows_of(PROGRAMS), "programs"),
    Field(
        "time of a server's request, from its throughput",
        SERVERS,
        costs,
        rows_of(SERVERS),
        "servers",
    ),
    Field(
        "memory of servers after 10 s without load",
        SERVERS,
        memory_at_rest,
        rows_of(SERVERS),
        "servers",
    ),
)


@dataclass(frozen=True)
class Standing:
    word: str
    title: str
    best: str  # the peer that is hardest to beat
    ratio: Estimate  # hakmem's figure to that peer's: below 1, hakmem needs less
    beside: int  # how many peers
    basis: str


def word_of(ratios: Sequence[Estimate]) -> str:
    """Certain is what the whole 95% interval says; without one nothing is."""
    if all(ratio.high is not None and ratio.high < 1 for ratio in ratios):
        return AHEAD
    return BEHIND if any(ratio.low is not None and ratio.low > 1 for ratio in ratios) else OPEN


def ratios_of(
    field: Field, evidence: Evidence, result: Result, name: str
) -> dict[str, tuple[Estimate, str]]:
    """By peer, with the rows that the ratio is of."""
    ratios: dict[str, tuple[Estimate, str]] = {}
    for peer in peers(result):
        nothing = Part("", None, NO_BAR)
        part, rounds, incomplete = mean_part(
            result, field.rows(evidence), name, peer, field.figures, nothing
        )
        if part.estimate is not None:
            ratios[peer] = part.estimate, incomplete or f"{len(rounds)} {field.of}"
    return ratios


def standing_in(field: Field, evidence: Evidence, source: Source) -> Standing | None:
    name = subject(source.result)
    if name is None:
        return None
    ratios = ratios_of(field, evidence, source.result, name)
    if not ratios:
        return None
    best = max(ratios, key=lambda peer: ratios[peer][0].value)
    word = word_of([ratio for ratio, _ in ratios.values()])
    return Standing(word, field.title, best, ratios[best][0], len(ratios), ratios[best][1])


def standing_in_instructions(evidence: Evidence, source: Source) -> Standing | None:
    """A count: what is lower is lower."""
    ours = pair_of(evidence, "hakmem")
    theirs = {peer: pair[0] for peer in peers(source.result) if (pair := pair_of(evidence, peer))}
    if ours is None or not theirs:
        return None
    best = min(theirs, key=lambda peer: theirs[peer])
    ratio = ours[0] / theirs[best]
    word = AHEAD if ratio < 1 else BEHIND if ratio > 1 else OPEN
    title = "instructions of a malloc and its free"
    return Standing(word, title, best, Estimate(ratio, None, None, 1), len(theirs), "callgrind")


def standings(evidence: Evidence) -> list[Standing]:
    found: list[Standing | None] = []
    for field in FIELDS:
        source = evidence.of(field.purpose)
        found.append(standing_in(field, evidence, source) if source else None)
    source = evidence.of(INSTRUCTIONS)
    found.append(standing_in_instructions(evidence, source) if source else None)
    return [standing for standing in found if standing is not None]


def show_standing(standing: Standing) -> str:
    ratio = standing.ratio
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f" [{ratio.low:.3f}, {ratio.high:.3f}]"
    others = f"the best of {standing.beside} peers" if standing.beside > 1 else "the only peer"
    return (
        f"{standing.title}: {ratio.value:.3f}{interval} of {standing.best}'s, {others}"
        f" ({standing.basis})"
    )


def standing_lines(evidence: Evidence) -> list[str]:
    """In what hakmem is ahead, in what behind, and in what the run leaves it open."""
    found = standings(evidence)
    lines: list[str] = []
    for word in (AHEAD, OPEN, BEHIND):
        of_word = [standing for standing in found if standing.word == word]
        if of_word:
            lines += [f"**{word}** in:", "", *(f"- {show_standing(s)}" for s in of_word), ""]
    return lines or ["No result has a peer to compare with.", ""]
