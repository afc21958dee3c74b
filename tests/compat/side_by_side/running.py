"""Many sequences at both sides, with a topic for each that is there only meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.compat.side_by_side.listed import listed
from tests.compat.side_by_side.plan import sequence
from tests.compat.side_by_side.side import Side
from tests.compat.side_by_side.walking import Difference, Walk

__all__ = ["Outcome", "run_all"]

AT_A_TIME = 25


class Outcome(NamedTuple):
    sequences: int
    answers: int
    skipped: int
    differences: list[Difference]
    listed: Counter[str]
    """Name of a difference on purpose -> how often it was met."""
    codes: dict[tuple[str, str], int]
    """(API, code) -> how often Apache Kafka answered so."""


def run_all(
    ours: Side, theirs: Side, seeds: Sequence[int], say: Callable[[str], None] = lambda words: None
) -> Outcome:
    """`run_all(ours, theirs, range(1, 61)).differences` -> [] where both answer alike."""
    walk = Walk(ours, theirs)
    differences: list[Difference] = []
    on_purpose: Counter[str] = Counter()
    for at in range(0, len(seeds), AT_A_TIME):
        part = seeds[at : at + AT_A_TIME]
        names = [f"s{seed}-t" for seed in part]
        for side in (ours, theirs):
            side.create(names)
        for seed in part:
            found = walk.run(sequence(seed), f"s{seed}")
            if found is None:
                continue
            if (known := listed(found)) is not None:
                on_purpose[known] += 1
            else:
                differences.append(found)
                say(str(found))
        for side in (ours, theirs):
            side.delete(names)
        say(f"{at + len(part)} sequences, {walk.answers} answers, {len(differences)} differences")
    return Outcome(len(seeds), walk.answers, walk.skipped, differences, on_purpose, walk.codes)
