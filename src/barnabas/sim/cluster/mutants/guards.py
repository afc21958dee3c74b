"""Mutants of the guards between an operator's mistake and a second quorum under one cluster id."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Change, Mutant, mutant

__all__ = ["GUARDS"]

GUARDS: tuple[Mutant, ...] = (
    mutant(
        "the format hears nobody",
        "`storage format --standalone` does not see that a quorum answers",
        "server.node.existing_quorum _of_a_quorum",
        "answer.epoch > 0 or answer.leader_id >= 0 or answer.origin != ZERO_UUID",
        "False",
        21,
    ),
    mutant(
        "no first look",
        "a node formatted to be a quorum of its own does not ask before it elects itself",
        "raft.identity.first_look begin",
        "core.is_sole_voter and core.config.bootstrap",
        "core.is_sole_voter and not core.config.bootstrap",
        34,
    ),
    Mutant(
        "a stranger ends the node",
        "a leader of another quorum is followed until the node stops",
        "raft.following",
        "_cut",
        "if end_offset >= core.committed:",
        "if True:",
        13,
        (
            Change(
                "raft.identity.origin", "is_stranger", "return theirs != core.origin and", "return False and"
            ),
        ),
    ),
)
