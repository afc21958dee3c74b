"""Requests about transactions and groups, right and wrong, are answered as by an Apache Kafka beside us."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from tests.compat.side_by_side.pair import pair_of_nodes
from tests.compat.side_by_side.plan import sequence
from tests.compat.side_by_side.running import run_all

pytestmark = pytest.mark.compat

SEQUENCES = int(os.environ.get("SEQUENCES", "60"))
"""`make answers` has 2,000."""


def test_a_seed_is_always_the_same_sequence() -> None:
    assert all(sequence(seed) == sequence(seed) for seed in range(1, 50))
    families = Counter(sequence(seed).family for seed in range(1, 301))
    assert len(families) == 4 and min(families.values()) > 20


@pytest.mark.timeout(900)
def test_drawn_sequences_are_answered_as_by_apache_kafka(apache: Path, tmp_path: Path) -> None:
    with pair_of_nodes(tmp_path, apache) as sides:
        outcome = run_all(*sides, range(1, SEQUENCES + 1))
    assert [str(found) for found in outcome.differences] == []
    assert outcome.answers > 10 * SEQUENCES
    assert outcome.sequences == SEQUENCES and len({code for _, code in outcome.codes}) > 15
