"""Planted bugs in the guards between an operator's mistake and a second quorum under one cluster id."""

from __future__ import annotations

from barnabas.sim.cluster.planted_bug import Bug
from barnabas.sim.cluster.planted_bug import planted_bug as _bug
from barnabas.sim.planted import Bug as Change
from barnabas.sim.planted_bugs import Change as Also

__all__ = ["GUARDS"]

GUARDS: tuple[Bug, ...] = (
    _bug(
        "the format hears nobody",
        "`storage format --standalone` does not see that a quorum answers",
        "server.existing_quorum _of_a_quorum",
        "answer.epoch > 0 or answer.leader_id >= 0 or answer.origin != ZERO_UUID",
        "False",
        6,
    ),
    _bug(
        "no first look",
        "a node formatted to be a quorum of its own does not ask before it elects itself",
        "raft.first_look begin",
        "core.is_sole_voter and core.config.bootstrap",
        "core.is_sole_voter and not core.config.bootstrap",
        34,
    ),
    Bug(
        Change(
            "a stranger ends the node",
            "a leader of another quorum is followed until the node stops",
            "raft.following",
            "_cut",
            "if end_offset >= core.committed:",
            "if True:",
            13,
            (Also("raft.origin", "is_stranger", "return theirs != core.origin and", "return False and"),),
        )
    ),
)
