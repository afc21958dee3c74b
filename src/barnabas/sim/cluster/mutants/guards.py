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
    mutant(
        "a stranger's brokers are registered",
        "the controller takes requests of nodes that are of another quorum",
        "server.kraft.driver Quorum.is_stranger",
        "return is_stranger(self._driver.node.core, request)",
        "return False",
        guard="tests/server/test_requests_of_strangers.py"
        "::test_a_controller_does_nothing_for_a_node_of_another_quorum",
    ),
    mutant(
        "a life without an answer is forgotten",
        "a broker that died before its registration was answered registers as another life",
        "server.replication.previous_epoch PreviousEpoch.incarnation",
        "return before",
        "return fresh",
        guard="tests/server/test_previous_epoch.py"
        "::test_a_life_that_had_no_answer_is_registered_again_as_the_same_one",
    ),
    Mutant(
        "a stranger ends the node",
        "a leader of another quorum is followed until the node stops",
        "raft.following",
        "_cut",
        "if end_offset >= core.committed:",
        "if True:",
        53,
        (
            Change(
                "raft.identity.origin", "is_stranger", "return theirs != core.origin and", "return False and"
            ),
        ),
    ),
)
