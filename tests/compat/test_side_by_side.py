"""Requests about transactions and groups, right and wrong, are answered as by an Apache Kafka beside us."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.side_by_side.forms import form
from tests.compat.side_by_side.pair import pair_of_nodes
from tests.compat.side_by_side.plan import sequence
from tests.compat.side_by_side.requests import message
from tests.compat.side_by_side.running import run_all
from tests.compat.side_by_side.side import Side
from tests.compat.side_by_side.steps import Step

pytestmark = pytest.mark.compat

SEQUENCES = int(os.environ.get("SEQUENCES", "60"))
"""`make answers` has 2,000."""


def test_a_seed_is_always_the_same_sequence() -> None:
    assert all(sequence(seed) == sequence(seed) for seed in range(1, 50))
    families = Counter(sequence(seed).family for seed in range(1, 301))
    assert len(families) == 4 and min(families.values()) > 20


@pytest.fixture(scope="module")
def sides(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """(ours, theirs)."""
    with pair_of_nodes(tmp_path_factory.mktemp("sides"), apache) as both:
        yield both


@pytest.mark.timeout(900)
def test_drawn_sequences_are_answered_as_by_apache_kafka(sides: tuple[Side, Side]) -> None:
    outcome = run_all(*sides, range(1, SEQUENCES + 1))
    assert [str(found) for found in outcome.differences] == []
    assert outcome.answers > 10 * SEQUENCES
    assert outcome.sequences == SEQUENCES and len({code for _, code in outcome.codes}) > 15


def test_an_empty_group_that_a_stranger_wants_to_join_stays(sides: tuple[Side, Side]) -> None:
    """Both refuse a classic member that nobody knows; Kafka forgets the empty group of KIP-848 meanwhile."""
    seen = []
    for side in sides:
        side.begin("stranger", own_ids=True)

        def ask(api: str, version: int, side: Side = side, **how: Any) -> dict[str, Any]:
            answer = side.ask(message(side, Step(api, version, "admin", {"group": "g0", **how})), version)
            found: dict[str, Any] = form(answer, side)
            return found

        says = {"member": "c0", "topics": ["flights"], "regex": None, "owned": "empty", "timeout_ms": 300_000}
        assert ask("heartbeat", 1, epoch="0", **says)["error_code"] == "NONE"
        assert ask("heartbeat", 1, member="c0", epoch="-1", owned="none")["error_code"] == "NONE"
        stranger = {"member": "m0", "who": "nobody", "protocols": ["range"], "kind": "consumer"}
        refused = ask("join", 9, **stranger, session_ms=45_000, topics=["flights"], instance=None)
        assert refused["error_code"] == "UNKNOWN_MEMBER_ID"
        goes_on = ask("heartbeat", 1, member="c0", epoch="5", owned="none")
        seen.append(goes_on["error_code"])
    assert seen == ["UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"]
