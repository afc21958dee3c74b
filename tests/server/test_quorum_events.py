"""What of the core's events an operator sees without looking closely."""

from __future__ import annotations

import logging

import pytest

from barnabas.model import ReplicaKey, Uuid
from barnabas.raft.effects import Event
from barnabas.server.kraft.quorum_events import tell


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("raft.snapshot.rejected", logging.WARNING),
        ("raft.snapshot.unreadable", logging.ERROR),
        ("raft.incarnation.refused", logging.WARNING),
        ("raft.incarnation.foreign", logging.WARNING),
        ("raft.incarnation.superseded", logging.WARNING),
        ("raft.vote", logging.DEBUG),
    ],
)
def test_what_needs_a_hand_is_loud_and_the_rest_is_for_debugging(
    name: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        tell(Event(name, (("node", 3), ("own", 1))))
    assert [record.levelno for record in caplog.records] == [level]


def test_a_voter_without_the_controller_role_is_named_with_a_next_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        tell(Event("raft.voter.without-role", (("voter", ReplicaKey(3, Uuid.of(1, 1))),)))
    said = caplog.records[0].fields  # type: ignore[attr-defined]
    assert said["voter"].id == 3 and "remove-controller -i 3" in said["next"]
