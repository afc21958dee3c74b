"""Classic members in the simulator: how their leader shares out, and what their group must not do."""

from __future__ import annotations

import random

import pytest

from barnabas.broker.groups.group import ClassicGroup, GroupState, Member
from barnabas.model import Now, Uuid
from barnabas.sim.cluster.clients.groups.classic import ClassicMember
from barnabas.sim.cluster.clients.groups.epochs import Epochs
from barnabas.sim.cluster.clients.groups.mixing import mixed_parts
from barnabas.sim.cluster.clients.groups.ownership import check_classic
from barnabas.sim.cluster.clients.groups.sharing import COOPERATIVE, EAGER, Claim, Part, share_out
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.codec.message import encode
from barnabas.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)

PLACE = (Uuid(b"flights".ljust(16, b"-")), 0)
TOPICS = frozenset({"t"})


def claim(*owned: int, generation: int = 1, topics: frozenset[str] = TOPICS) -> Claim:
    return Claim(topics, {("t", index) for index in owned}, generation)


def shares(claims: dict[str, Claim], partitions: int, assignor: str) -> dict[str, list[int]]:
    given = share_out(claims, {"t": partitions}, assignor)
    return {member: [index for _, index in share] for member, share in given.items()}


# -- sharing out --------------------------------------------------------------------------------------


def test_an_eager_leader_gives_out_everything() -> None:
    assert shares({"a": claim(), "b": claim()}, 5, EAGER) == {"a": [0, 2, 4], "b": [1, 3]}


def test_who_does_not_subscribe_gets_nothing() -> None:
    assert shares({"a": claim(), "b": claim(topics=frozenset())}, 2, EAGER) == {"a": [0, 1], "b": []}


def test_a_cooperative_leader_gives_nobody_what_another_one_owns() -> None:
    claims = {"a": claim(0, 1, 2, 3), "b": claim()}
    first = shares(claims, 4, COOPERATIVE)
    assert first == {"a": [0, 1], "b": []}
    claims["a"] = claim(*first["a"], generation=2)
    assert shares(claims, 4, COOPERATIVE) == {"a": [0, 1], "b": [2, 3]}


def test_of_two_who_say_that_they_own_a_partition_the_later_one_does() -> None:
    claims = {"a": claim(0, generation=3), "b": claim(0, generation=4)}
    assert shares(claims, 2, COOPERATIVE) == {"a": [1], "b": [0]}


@pytest.mark.parametrize("seed", range(20))
def test_after_two_rounds_everything_has_one_owner(seed: int) -> None:
    rng = random.Random(seed)
    counts = {"t": rng.randint(1, 6), "u": rng.randint(1, 6)}
    every: list[Part] = [(topic, index) for topic in counts for index in range(counts[topic])]
    members = "abc"[: rng.randint(1, 3)]
    claims = {member: Claim(set(counts), set(), 1) for member in members}
    for part in every:
        claims[rng.choice(members)].owned.add(part)  # type: ignore[attr-defined]
    for generation in (2, 3):
        given = share_out(claims, counts, COOPERATIVE)
        claims = {member: Claim(set(counts), set(share), generation) for member, share in given.items()}
    assert sorted(part for share in given.values() for part in share) == every


# -- G6 -----------------------------------------------------------------------------------------------


def test_two_owners_in_one_epoch_are_found() -> None:
    epochs = Epochs("g")
    epochs.told("a", PLACE, 5, 1.0, 4.0)
    epochs.told("a", PLACE, 5, 2.0, 5.0)
    epochs.told("b", PLACE, 6, 2.0, 5.0)
    assert epochs.has_later("a", PLACE, 5, 2.0) and not epochs.has_later("b", PLACE, 6, 2.0)
    with pytest.raises(InvariantViolation, match=r"G6: .* c and a own"):
        epochs.told("c", PLACE, 5, 4.0, 9.0)


@pytest.mark.parametrize("end", ["given up", "gone", "session over"])
def test_who_does_not_own_it_any_more_is_no_owner(end: str) -> None:
    epochs = Epochs("g")
    epochs.told("a", PLACE, 5, 1.0, 4.0)
    match end:
        case "given up":
            epochs.given_up("a", PLACE)
        case "gone":
            epochs.gone("a")
    epochs.told("c", PLACE, 5, 4.0 if end == "session over" else 2.0, 9.0)


# -- G2 -----------------------------------------------------------------------------------------------


def group(*assigned: int) -> ClassicGroup:
    found = ClassicGroup("g", Now(0.0, 0))
    for number, index in enumerate(assigned):
        rows = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[index])]
        raw = b"\0\3" + encode(ConsumerProtocolAssignment(assigned_partitions=rows), 3)
        found.add(
            Member(
                f"m{number}",
                instance_id=f"i{number}",
                client_id="",
                client_host="",
                session_timeout=1.0,
                rebalance_timeout=1.0,
                protocols=(),
                assignment=raw,
            )
        )
    found.state = GroupState.STABLE
    return found


def test_a_stable_group_is_in_order() -> None:
    check_classic(group(0, 1))


def test_a_partition_in_two_assignments_is_found() -> None:
    with pytest.raises(InvariantViolation, match="m0 and m1 own t-1"):
        check_classic(group(1, 1))


def test_a_leader_that_is_not_there_is_found() -> None:
    wrong = group(0)
    wrong.leader_id = "x"
    with pytest.raises(InvariantViolation, match="leads it"):
        check_classic(wrong)


def test_an_instance_id_of_nobody_is_found() -> None:
    wrong = group(0)
    wrong.static["i7"] = "m7"
    with pytest.raises(InvariantViolation, match="is not the member i7"):
        check_classic(wrong)


# -- who takes part -----------------------------------------------------------------------------------


def test_somebody_is_there_at_the_end_and_nobody_shares_an_instance_id_then() -> None:
    ends = set()
    for seed in range(200):
        parts = mixed_parts(random.Random(seed), ("t0", "t1"), 3.0)
        living = [part for part in parts if not part.mortal]
        names = [part.plan.instance_id for part in living if part.plan.instance_id is not None]
        assert living and len(names) == len(set(names))
        ends.add(frozenset(part.kind for part in living))
        assert any(part.kind is ClassicMember for part in parts)
    assert len(ends) == 3
