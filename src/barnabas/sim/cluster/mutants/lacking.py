"""Mutants of replicas that lack records, or may: who leads then, and what is fetched again."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["LACKING"]

LACKING: tuple[Mutant, ...] = (
    mutant(
        "a cut log counts as whole",
        "a broker whose log was cut at its start registers as one that lacks nothing",
        "server.replication.previous_epoch _may_lack",
        "return log.recovery.cut_at >= 0 or",
        "return",
        guard="tests/server/test_previous_epoch.py::test_a_directory_that_lacks_something_spoils_it",
    ),
    mutant(
        "the last known leader leads",
        "a replica that may lack records leads though others have more of them",
        "controller.decisions.partitions _longest",
        "return max(ends,",
        "return claim[0] or max(ends,",
        guard="tests/server/test_damaged_replicas.py"
        "::test_a_bit_in_the_newest_segment_of_one_replica_costs_nothing_when_all_are_killed",
    ),
    mutant(
        "a new controller believes the last known leader",
        "a replica that may lack records leads before it told a new controller what it has",
        "controller.decisions.partitions _longest",
        " and rules.heard(broker)",
        "",
        guard="tests/controller/test_doubted.py"
        "::test_a_new_controller_hears_the_last_leader_before_it_elects_it",
    ),
    mutant(
        "the last known leader does not wait",
        "a replica that may lack records leads before others could say what they have",
        "controller.decisions.partitions _longest",
        "any(map(rules.waits, claim))",
        "False",
        2,
    ),
    mutant(
        "an eligible replica leads whatever its disk lost",
        "an eligible replica leads after an unclean stop though the log of another goes further",
        "controller.view View._doubted",
        "contact.unclean_stop",
        "False",
        2,
    ),
    mutant(
        "eligible replicas are not compared",
        "where all eligible replicas were killed, nobody elects the one whose log goes furthest",
        "controller.decisions.partitions elect_reported",
        "state.leader != NO_NODE or not state.last_known_elr:",
        "state.leader != NO_NODE or not state.last_known_elr or state.elr:",
        7,
    ),
    mutant(
        "what is reported elects nobody",
        "the controller hears where the logs of a leaderless partition end, and elects no leader by that",
        "controller.decisions.brokers heartbeat",
        "records += yield from elect_reported(view.image, contact.log_ends, view.rules)",
        "pass",
        7,
    ),
    mutant(
        "an incomplete replica stays in sync",
        "the controller does not hear which replicas lack records",
        "controller.decisions.brokers heartbeat",
        "take_out(view.image, broker.id, contact.incomplete,",
        "take_out(view.image, broker.id, (),",
        8,
    ),
    mutant(
        "an incomplete replica is back at once",
        "a leader that has not heard of it yet takes a replica back that is fetched again",
        "controller.decisions.isr _alter",
        "if broker not in state.isr and view.is_incomplete(",
        "if False and view.is_incomplete(",
        guard="tests/controller/test_isr.py"
        "::test_a_replica_that_lacks_records_may_not_join_until_it_has_them",
    ),
    mutant(
        "cut is complete",
        "a replica counts as complete once what was unreadable is cut off",
        "broker.replicas.lacking Lacking.settle",
        "not log.damage and log.acknowledged_end_offset >= lack.end",
        "not log.damage",
        guard="tests/broker/test_damaged.py"
        "::test_a_leader_that_rots_while_it_runs_hands_over_and_is_fetched_again",
    ),
    mutant(
        "cut while it counts",
        "a replica in sync, or eligible, is cut to be fetched again",
        "broker.replicas.reconcile Reconciler._begin_anew",
        "if broker.node_id in (*state.isr, *state.elr) or",
        "if",
        guard="tests/broker/test_damaged.py"
        "::test_a_damaged_replica_is_kept_as_long_as_it_counts_for_what_is_committed",
    ),
    mutant(
        "nobody looks at what is read again and again",
        "a leader serves a bad batch of its newest segment for ever",
        "log.reading read",
        "if log.read_again(offset) == _STUCK:",
        "if False:",
        guard="tests/server/test_damaged_replicas.py"
        "::test_a_leader_whose_records_rot_while_it_runs_hands_over_and_fetches_them_again",
    ),
    mutant(
        "a follower asks in vain",
        "a leader sends a bad batch again and again to the follower that refuses it",
        "broker.requests.reading Reader.read",
        "if position.doubted:",
        "if False:",
        guard="tests/broker/test_damaged.py::test_a_leader_looks_at_all_that_a_follower_asks_for_again",
    ),
    mutant(
        "whatever the leader says is cut",
        "a replica that is in sync cuts what was committed at the word of a leader whose log is short",
        "broker.replicas.following.refusals Refusals.refuses",
        "if end >= committed:",
        "if True:",
        guard="tests/broker/test_damaged.py"
        "::test_nothing_that_was_committed_is_cut_at_the_word_of_a_leader_whose_log_is_short",
    ),
    mutant(
        "nobody deposes a short leader",
        "the controller does not hear that a leader lacks what was committed",
        "controller.decisions.brokers heartbeat",
        "if request.refused and not records:",
        "if False:",
        guard="tests/server/test_damaged_replicas.py"
        "::test_a_leader_whose_log_is_shorter_than_what_was_committed_is_deposed",
    ),
    mutant(
        "a lost index hides what was aborted",
        "a segment without its index of aborted transactions counts as one in which nothing was aborted",
        "log.recovery _transactions_good",
        "return wanted is None or table.checksum == wanted",
        "return True",
        guard="tests/log/test_log_recovery.py"
        "::test_aborted_transactions_stay_hidden_when_their_index_is_lost",
    ),
    mutant(
        "a missing file fails its disk",
        "a segment that somebody deleted takes all partitions of its directory offline",
        "broker.replicas.hosted_partitions HostedPartitions.storage_failed",
        "if isinstance(error, LostFileError) and",
        "if isinstance(error, ShortFileError) and",
        guard="tests/broker/test_scrubber.py::test_whoever_misses_a_file_tells_of_it_and_the_directory_stays",
    ),
    mutant(
        "nothing is read first",
        "the scrubber comes to what everybody reads within a week",
        "broker.replicas.maintenance.scrubber Scrubber.step",
        "scrub = scrub or self._lately.next(now)",
        "pass",
        guard="tests/broker/test_scrubber.py"
        "::test_what_is_read_or_written_lately_is_checked_within_half_a_minute",
    ),
    mutant(
        "the scrubber is blind",
        "the background pass reads segments and tells nobody what it finds",
        "broker.replicas.maintenance.scrubber Scrubber.returned",
        "elif part.reason:",
        "elif False:",
        8,
    ),
)
