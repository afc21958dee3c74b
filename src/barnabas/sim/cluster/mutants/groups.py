"""Mutants of consumer groups (KIP-848), which the seeds of groups must find (`kernel.mutants`)."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Change, Mutant, mutant

__all__ = ["GROUPS"]


def _not_written(name: str, says: str, kind: str, seed: int = 0, guard: str = "") -> Mutant:
    """A kind of record that is replayed and not written: the next coordinator does not know it."""
    return mutant(
        name,
        says,
        "broker.groups.consumer.writing GroupWriting.append",
        "[*before, *written]",
        "[*before, *(record for change, record in zip(changes, written, strict=True)"
        f" if type(change.key).__name__ != 'ConsumerGroup{kind}Key')] or written",
        seed,
        guard,
    )


_CONSUMER: tuple[Mutant, ...] = (
    mutant(
        "given before it was revoked",
        "a member gets a partition of its target that another one still owns",
        "broker.groups.consumer.reconciliation _next_assignment",
        "if aim.epoch_of(topic, index) == NOBODY or index in member.revoking.get(topic, {}):",
        "if True:",
        2,
    ),
    mutant(
        "taken without a word",
        "a partition is free as soon as its owner shall give it up",
        "broker.groups.consumer.reconciliation _next_assignment",
        "if revoking and _owns_any(reported, revoking):",
        "if False:",
        2,
    ),
    mutant(
        "an old epoch commits",
        "a member commits a position of what it gave up in an earlier epoch",
        "broker.groups.consumer.checks stale_commit",
        "if member is None or epoch == member.epoch:",
        "if True:",
        2,
    ),
    mutant(
        "anybody commits",
        "a commit of a member that is out of the group counts",
        "broker.groups.consumer.checks commit_refusal",
        "return ErrorCode.UNKNOWN_MEMBER_ID",
        "return None",
        11,
    ),
    mutant(
        "sessions are lost with their coordinator",
        "a new coordinator puts nobody out who is silent from then on",
        "broker.groups.consumer.groups ConsumerGroups.watch",
        "self._sessions.alive(group.id, member.id, session_s, now)",
        "pass",
        1,
    ),
    mutant(
        "sessions are too short",
        "a member is out after half of its session",
        "broker.groups.consumer.sessions Sessions.alive",
        "now.mono + seconds",
        "now.mono + seconds / 2",
        4,
    ),
    mutant(
        "heartbeats do not count",
        "the session of a member begins when it joins, and never anew",
        "broker.groups.consumer.sessions Sessions.alive",
        "session.expires = now.mono + seconds",
        "session.expires = min(session.expires, now.mono + seconds)",
        2,
    ),
    _not_written(
        "epochs of members are not written",
        "the next coordinator does not know what a member owns, or in which epoch",
        "CurrentMemberAssignment",
        33,
    ),
    _not_written(
        "targets are not written",
        "a target is computed, and the next coordinator does not know it",
        "TargetAssignmentMember",
        5,
    ),
    _not_written(
        "epochs are used twice",
        "the next coordinator counts the group's epoch from an older one",
        "Metadata",
        1,
    ),
    mutant(
        "tombstones are forgotten",
        "what is removed comes back with the next coordinator",
        "broker.groups.consumer.writing GroupWriting.append",
        "[*before, *written]",
        "[*before, *(record for record in written if record.value is not None)] or written",
        3,
    ),
    mutant(
        "answered before it is committed",
        "a heartbeat is answered when its records are written, not when they are committed",
        "broker.groups.consumer.writing GroupWriting.when_safe",
        "if write is None:",
        "if True:",
        guard="tests/broker/test_consumer_groups_written.py::test_nobody_hears_of_what_is_not_committed",
    ),
    mutant(
        "an instance id is taken over",
        "a member with an instance id takes the place of one that has not left",
        "broker.groups.consumer.checks check_unreleased",
        "if member.epoch != LEFT_FOR_NOW:",
        "if False:",
        2,
    ),
    Mutant(
        "the fenced keep what they have",
        "the partitions of a member that is out are not free",
        "broker.groups.consumer.group",
        "ConsumerGroup.remove",
        "self._release(member)",
        "pass",
        1,
        (Change("broker.groups.consumer.records", "_replay_current", "if member is not None:", "if False:"),),
    ),
    mutant(
        "nobody is fenced",
        "a heartbeat is taken whatever its epoch",
        "broker.groups.consumer.checks check_epoch",
        "if epoch in (0, member.epoch):",
        "if True:",
        guard="tests/broker/test_consumer_groups.py::test_a_lost_answer_costs_nothing",
    ),
    mutant(
        "new topics match no pattern",
        "patterns are resolved by the metadata that were there when they were resolved first",
        "broker.groups.consumer.patterns search_wanted",
        "or last.version < topics_version",
        "",
        20,
    ),
    mutant(
        "a topic that grows is not seen",
        "a group does not look at its topics anew when they change",
        "broker.groups.consumer.groups ConsumerGroups.topics_changed",
        "if not group.topics.isdisjoint(changed):",
        "if False:",
        2,
    ),
    mutant(
        "a deleted topic counts",
        "a group keeps the partitions of a topic that was deleted, and has those of the next one of that name too",
        "broker.groups.consumer.groups ConsumerGroups.topics_changed",
        "changed |= {topic.name for topic in delta.topics_deleted.values()}",
        "pass",
        guard="tests/broker/test_consumer_groups.py::test_a_topic_that_is_deleted_is_given_up",
    ),
    mutant(
        "shared out twice",
        "the uniform assignor gives the same partitions to several members",
        "broker.groups.consumer.assignors _assign_same_topics",
        "del free[:quota]",
        "pass",
        1,
    ),
    mutant(
        "the range has no rest",
        "the range assignor leaves out what does not divide",
        "broker.groups.consumer.assignors assign_range",
        "end = start + least + (rank_in_topic < extra)",
        "end = start + least",
        5,
    ),
)

_JOINS = "broker.groups.consumer.classic_members ClassicMembers"
_MOVES = "broker.groups.consumer.migration"
_TESTS = "tests/broker/test_consumer_migration.py"

_CLASSIC: tuple[Mutant, ...] = (
    mutant(
        "an old generation commits",
        "a classic member commits a position in a generation that is over",
        "broker.groups.offsets GroupOffsets._check_commit",
        "if generation != group.generation:",
        "if False:",
        31,
    ),
    mutant(
        "an upgrade begins with epoch 0",
        "a member gets the epoch of one that joins, and can never say what it owns",
        f"{_MOVES} upgraded",
        "epoch = max(classic.generation, 1)",
        "epoch = classic.generation",
        guard=f"{_TESTS}::test_a_new_member_in_the_place_of_a_classic_one_before_the_first_rebalance_ended_is_in_epoch_1",
    ),
    mutant(
        "an upgrade is not written",
        "the next coordinator knows the members of an upgraded group, and nothing of what they own",
        f"{_MOVES} upgraded",
        "return group, changes",
        "return group, changes[:1]",
        9,
    ),
    mutant(
        "an upgrade forgets who owns what",
        "what classic members read from is free when the first member of KIP-848 comes",
        f"{_MOVES} _upgraded_member",
        "assigned[topic.id] = dict.fromkeys(one.partitions, epoch)",
        "pass",
        198,
    ),
    mutant(
        "nobody is called to join again",
        "a classic member in a group of KIP-848 does not hear that it gets or gives up something",
        f"{_JOINS}.heartbeat",
        "return ErrorCode.REBALANCE_IN_PROGRESS",
        "return ErrorCode.NONE",
        13,
    ),
    mutant(
        "told its target",
        "a classic member gets partitions of its target that others still own",
        f"{_JOINS}.sync",
        "assignment_bytes(member.assigned, metadata",
        "assignment_bytes(group.target.get(member.id, {}), metadata",
        3,
    ),
    mutant(
        "a classic member waits for its share for ever",
        "it is not called to join again when others gave up what it shall get",
        f"{_JOINS}.heartbeat",
        "(member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))",
        "False",
        122,
    ),
    mutant(
        "nobody knows that it leads",
        "the rebalance of a group that is classic again is lost with its coordinator",
        "broker.groups.consumer.groups ConsumerGroups._downgrade",
        "rebalances=True",
        "rebalances=False",
        guard=f"{_TESTS}::test_another_coordinator_goes_on_with_the_rebalance_of_a_group_that_is_classic_again",
    ),
    mutant(
        "a downgrade counts from zero",
        "a group that is classic again begins with generation 0",
        f"{_MOVES} downgraded",
        "classic.generation = generation",
        "classic.generation = 0",
        guard=f"{_TESTS}::test_it_is_a_classic_group_again_when_the_last_new_member_leaves",
    ),
    mutant(
        "heartbeats of classic members do not count",
        "the session of a classic member in a group of KIP-848 ends though it is heard",
        f"{_JOINS}.heartbeat",
        "self.consumers.alive(group, member, metadata.session_timeout_ms, now)",
        "pass",
        guard=f"{_TESTS}::test_a_classic_member_that_is_silent_or_does_not_come_again_is_out",
    ),
    mutant(
        "who does not join again stays",
        "a classic member that is called to join again, and does not, keeps what it has",
        f"{_JOINS}.heartbeat",
        "self.consumers.rejoin_within(group, member, now)",
        "pass",
        guard=f"{_TESTS}::test_a_classic_member_that_is_silent_or_does_not_come_again_is_out",
    ),
)

GROUPS: tuple[Mutant, ...] = _CONSUMER + _CLASSIC
