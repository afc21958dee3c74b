"""A decision about a thousand partitions takes many turns of the loop, and is what it would be in one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.controller.cluster import Cluster, assigned
from tests.server.quorum_node import formatted, make, run, until

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE
from barnabas.raft.effects import Accepted
from barnabas.raft.entries import Batch, Opaque
from barnabas.server.kraft.proposals import STEPS, Proposals, Submission
from barnabas.server.kraft.records import Encoded, encode_batch
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequest,
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

MANY = 1000
WIDE = CreateTopicsRequest(
    topics=[
        CreatableTopic(name="wide", num_partitions=MANY, replication_factor=3, assignments=[], configs=[])
    ]
)
MOST_TURNS = 100


class Line:
    """The line of requests in front of one controller; `turn` takes what one turn of the loop takes."""

    def __init__(self, *, steps: int = STEPS) -> None:
        self.cluster = Cluster(1, 2, 3)
        self.requests = Proposals(steps)
        self.requests.controller = self.cluster.controller

    def ask(self, request: Message) -> Submission:
        submission = Submission(request, request.VERSIONS[1])
        self.requests.add(submission)
        return submission

    def turn(self) -> list[Submission]:
        """What was appended in it."""
        cluster, appended = self.cluster, []
        self.requests.resting = False
        self.requests.begin_loop_step()
        while self.requests.waiting:
            decided = self.requests.decide_next(cluster.offset, 1, cluster.now)
            if decided is not None:
                last = cluster.offset + len(decided.payload) - 1
                self.requests.accepted(
                    Accepted(token=decided, base_offset=cluster.offset, last_offset=last, epoch=1),
                    cluster.now,
                )
                cluster.offset = last + 1
                appended.append(decided)
        return appended

    def turns_until(self, submission: Submission) -> int:
        for number in range(1, MOST_TURNS):
            if submission in self.turn():
                return number
        raise AssertionError("it is never decided")


def beat(cluster: Cluster, broker: int, **fields: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker,
        broker_epoch=cluster.epochs[broker],
        current_metadata_offset=cluster.offset,
        **fields,
    )


def test_a_thousand_partitions_take_many_turns_and_come_to_what_they_would_in_one() -> None:
    line = Line()
    turns = line.turns_until(line.ask(WIDE))
    assert turns > 2 * MANY / STEPS, "each partition is a step, and so is each record to encode"
    at_once = Cluster(1, 2, 3)
    at_once.commit(WIDE)
    assert line.cluster.image.topics == at_once.image.topics


def test_a_broker_that_leads_a_thousand_is_fenced_in_many_turns_and_in_one_batch() -> None:
    line = Line()
    line.cluster.assign(*([1, 2, 3] for _ in range(MANY)), name="wide")
    fencing = line.ask(beat(line.cluster, 1, want_fence=True))
    assert line.turns_until(fencing) > 2 * MANY / STEPS
    assert len(fencing.records) == MANY + 1
    assert all(line.cluster.state("wide", index).leader == 2 for index in range(MANY))


def test_many_requests_of_some_partitions_share_the_steps_of_a_turn() -> None:
    line = Line(steps=10)
    asked = [
        line.ask(CreateTopicsRequest(topics=[assigned(f"t{n}", *([1, 2, 3] for _ in range(4)))]))
        for n in range(9)
    ]
    turns = []
    while sum(map(len, turns)) < len(asked):
        turns.append(line.turn())
    assert [one for appended in turns for one in appended] == asked
    assert all(len(appended) <= 3 for appended in turns)


def test_few_partitions_are_decided_in_the_turn_that_asks() -> None:
    line = Line()
    few = line.ask(CreateTopicsRequest(topics=[assigned("few", [1, 2, 3], [2, 3, 1])]))
    assert line.turns_until(few) == 1
    assert not isinstance(few.payload, Encoded)


def test_who_comes_behind_a_decision_in_steps_waits_for_it() -> None:
    line = Line()
    wide = line.ask(WIDE)
    fencing = line.ask(beat(line.cluster, 1, want_fence=True))
    assert not line.turn()
    order: list[Submission] = []
    while len(order) < 2:
        order += line.turn()
    assert order == [wide, fencing]
    states = [line.cluster.state("wide", index) for index in range(MANY)]
    assert all(state.leader not in (1, NO_NODE) for state in states), "the fencing has seen the new topic"


def test_a_decision_under_which_the_log_grew_begins_again() -> None:
    line = Line()
    registered = line.cluster.offset
    wide = line.ask(WIDE)
    line.turn()
    line.cluster.offset += 1  # the quorum appended something of its own, voters or a note
    line.turns_until(wide)
    assert wide.expected == registered + 1
    topic = line.cluster.image.topic("wide")
    assert topic is not None and len(topic.partitions) == MANY


def test_a_decision_in_steps_is_refused_whole_when_another_leads() -> None:
    line = Line()
    line.ask(WIDE)
    line.turn()
    line.requests.refuse_all(KafkaError(ErrorCode.NOT_CONTROLLER, "another leads"))
    assert not line.turn()
    assert not line.cluster.image.topics


def test_what_is_due_waits_in_line_once_and_is_decided_at_its_turn() -> None:
    line = Line()
    wide = line.ask(WIDE)
    line.turn()
    line.cluster.time += 1000  # every session is over
    line.requests.add_due()
    line.requests.add_due()
    assert len(line.requests) == 2
    line.turns_until(wide)
    while len(line.requests._line):
        line.turn()
    fenced = [broker for broker in line.cluster.image.brokers.values() if broker.fenced]
    [gone] = fenced
    assert all(gone.id not in line.cluster.state("wide", index).isr for index in range(MANY))


def test_records_that_are_encoded_ahead_are_the_same_bytes() -> None:
    line = Line()
    wide = line.ask(WIDE)
    line.turns_until(wide)
    assert isinstance(wide.payload, Encoded)
    ahead = Batch(77, 5, (Opaque(wide.payload, len(wide.payload)),))
    plain = Batch(77, 5, (Opaque(tuple(wide.payload), len(wide.payload)),))
    assert encode_batch(ahead, timestamp_ms=9) == encode_batch(plain, timestamp_ms=9)
    assert encode_batch(ahead, timestamp_ms=9, metadata_version=18) == encode_batch(
        plain, timestamp_ms=9, metadata_version=18
    )


def test_a_quorum_takes_other_turns_between_the_steps_of_a_decision() -> None:
    async def story() -> None:
        node = make(formatted(), steps=3)
        await node.start()
        await node.broker()
        creating = asyncio.ensure_future(node.create("wide", 40))
        turns = 0
        while not creating.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await creating).error_code == 0
        assert turns > 80 / 3
        assert len(node.quorum.image.topics_by_name["wide"].partitions) == 40
        creating = asyncio.ensure_future(node.create("never", 4000))
        await asyncio.sleep(0)
        node.lifecycle.abandon()  # type: ignore[union-attr]
        await node.quorum.stop()
        with pytest.raises(KafkaError):
            await creating
        await until(lambda: not node.errors)

    run(story)


def test_a_node_that_does_not_know_a_level_of_the_cluster_is_told_once_where_the_leader_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asks again and again, and its own log may be far away."""
    told: list[str] = []
    monkeypatch.setattr(events, "emit", lambda event, **said: told.append(f"{event.name}: {said['reason']}"))
    line = Line()
    features = [ControllerRegistrationRequestFeature(name="metadata.version", max_supported_version=30)]
    for controller in (5, 5, 6):
        line.ask(ControllerRegistrationRequest(controller_id=controller, features=features))
        line.turn()
    assert [f"{said.partition(' supports')[0]}" for said in told] == [
        "controller.registration-refused: controller 5",
        "controller.registration-refused: controller 6",
    ]
    assert "30 (4.3-IV0), not 33 (4.4-IV2)" in told[0]
