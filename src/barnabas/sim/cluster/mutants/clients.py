"""Mutants of the client's machines, which no simulated cluster runs: the test that `guard` names finds each.

A member that works through a rebalance stays in its group, and a broker without news is asked about.
"""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["CLIENTS"]

_MEMBERS = "tests/client/test_background_work.py::"
_SILENCE = "tests/client/test_silent_brokers.py::"

CLIENTS: tuple[Mutant, ...] = (
    mutant(
        "silent while it works",
        "a member sends no heartbeat from the first REBALANCE_IN_PROGRESS on",
        "client.group_member ClassicMember.heartbeat_request",
        "if not self.joined_in:",
        "if self.must_join:",
        guard=f"{_MEMBERS}test_a_member_that_works_through_a_rebalance_goes_on_with_its_heartbeats",
    ),
    mutant(
        "a rebalance takes all at once",
        "a member that hears of a rebalance takes its partitions for another member's",
        "client.group_member ClassicMember.heard",
        "self.lost = code != ErrorCode.REBALANCE_IN_PROGRESS",
        "self.lost = True",
        guard=f"{_MEMBERS}test_a_member_that_works_through_a_rebalance_goes_on_with_its_heartbeats",
    ),
    mutant(
        "silent until it gave up",
        "a member of KIP-848 sends no heartbeat while it still works on what it shall give up",
        "client.consumer_member ConsumerGroupMember.heartbeat_request",
        "if self.lost or not self.generation:",
        "if self.must_join:",
        guard=f"{_MEMBERS}test_a_member_of_kip_848_that_has_to_give_up_goes_on_with_its_heartbeats",
    ),
    mutant(
        "a rebalance is as short as a session",
        "a rebalance waits for a member's session only, not for as long as its application may work",
        "client.group_options make_member",
        "rebalance = options.max_poll_interval",
        "rebalance = options.session_timeout",
        guard=f"{_MEMBERS}test_a_rebalance_waits_for_as_long_as_an_application_may_work",
    ),
    mutant(
        "an application may work for ever",
        "a member whose application never polls again keeps its partitions",
        "client.waits.poll_interval PollInterval.is_over",
        "now - self._polled_at > self.limit",
        "False",
        guard=f"{_MEMBERS}test_an_application_may_work_for_its_whole_interval_and_no_longer",
    ),
    mutant(
        "a silent broker is waited for",
        "nobody is asked about a broker that does not answer",
        "client.metadata Metadata.is_out",
        "if not living or not missing:",
        "if True:",
        guard=f"{_SILENCE}test_a_broker_is_out_when_another_one_no_longer_names_it",
    ),
    mutant(
        "who lives is out",
        "a slow broker is left although the others say that it lives",
        "client.metadata Metadata.is_out",
        "if not living or not missing:",
        "if not living:",
        guard=f"{_SILENCE}test_a_broker_is_out_when_another_one_no_longer_names_it",
    ),
    mutant(
        "silence is borne for long",
        "another broker is asked after half a minute of silence only",
        "client.waits.silence patience",
        "return SILENCE",
        "return 30.0",
        guard=f"{_SILENCE}test_another_broker_is_asked_often_at_first_and_less_often_then",
    ),
    mutant(
        "an old leader is believed",
        "a cut-off broker that names itself the leader of an earlier epoch is believed",
        "client.metadata Metadata._latest",
        "told._replace(partitions=told.partitions | later)",
        "told",
        guard=f"{_SILENCE}test_an_answer_with_an_earlier_leader_changes_nothing",
    ),
    mutant(
        "what rests is not looked into",
        "nobody is asked about a leader that answers with nothing new",
        "client.waits.silence Resting.due",
        "elif now >= still.look_at:",
        "elif False:",
        guard=f"{_SILENCE}"
        "test_a_position_that_rests_is_looked_into_after_growing_pauses_and_anew_after_records",
    ),
)
