"""Mutants of replicas that may lack records after an unclean stop, and of who leads then."""

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
        "return last or max(ends,",
        guard="tests/server/test_damaged_replicas.py"
        "::test_a_bit_in_the_newest_segment_of_one_replica_costs_nothing_when_all_are_killed",
    ),
    mutant(
        "a new controller believes the last known leader",
        "a replica that may lack records leads before it told a new controller what it has",
        "controller.decisions.partitions _longest",
        " or not rules.heard(last)",
        "",
        guard="tests/controller/test_brokers.py"
        "::test_a_new_controller_hears_the_last_leader_before_it_elects_it",
    ),
    mutant(
        "the last known leader does not wait",
        "a replica that may lack records leads before others could say what they have",
        "controller.decisions.partitions _longest",
        "if rules.waits(last) and",
        "if False and",
        guard="tests/controller/test_brokers.py"
        "::test_a_last_leader_waits_half_a_minute_for_replicas_that_are_away",
    ),
)
