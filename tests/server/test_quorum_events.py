"""What of the core's events an operator sees without looking closely."""

from __future__ import annotations

import logging

import pytest

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
