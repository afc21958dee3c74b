"""What brokers ask of the controller of another quorum under the same cluster id: it is not done."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.controller.cluster import CLUSTER, Cluster, registration
from tests.server.quorum_node import formatted, run, running
from tests.server.test_quorum_channel import CONTEXT, CREATE

from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.model import ZERO_UUID, Uuid
from barnabas.raft.effects import Accepted
from barnabas.server.api.envelope import EnvelopeApi
from barnabas.server.kraft.codec.envelope import wrap
from barnabas.server.kraft.proposals import Proposals, Submission
from barnabas.wire.codec.message import Message, decode, encode, replace
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    EnvelopeRequest,
)
from barnabas.wire.schemas.reassignment import AssignReplicasToDirsRequest
from barnabas.wire.schemas.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.schemas.transactions import AllocateProducerIdsRequest

OURS = Uuid(b"this one's origin"[:16])
THEIRS = Uuid(b"of another quorum"[:16])
NAMING: tuple[type[Message], ...] = (
    AlterPartitionRequest,
    EnvelopeRequest,
    BrokerRegistrationRequest,
    BrokerHeartbeatRequest,
    AllocateProducerIdsRequest,
    ControllerRegistrationRequest,
    AssignReplicasToDirsRequest,
)
TAG = 10_643


def refused(future: asyncio.Future[Message]) -> bool:
    """Whether its sender is told to look for the controller elsewhere."""
    error = future.exception()
    return isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER


# ------------------------------------------------------------------ by a whole controller


@pytest.mark.parametrize("kind", [kind for kind in NAMING if kind is not EnvelopeRequest])
def test_a_controller_does_nothing_for_a_node_of_another_quorum(kind: type[Message]) -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            broker = await node.broker()
            request = kind()
            for name, value in (("broker_id", 1), ("broker_epoch", broker.epoch), ("cluster_id", CLUSTER)):
                if hasattr(request, name):
                    request = replace(request, **{name: value})
            before = node.quorum.statistics().raft.end_offset
            asked = node.quorum.submit(replace(request, origin=THEIRS))
            await asyncio.wait([asked])
            assert refused(asked)
            assert node.quorum.statistics().raft.end_offset == before
            asked = node.quorum.submit(replace(request, origin=node.quorum.origin))
            await asyncio.wait([asked])
            assert not refused(asked), "a node of this quorum may ask it"

    run(story)


@pytest.mark.parametrize("named", ["its own", "none"])
def test_a_broker_that_names_this_quorum_or_none_is_registered(named: str) -> None:
    """Apache Kafka's brokers name none, and so do ours before they know it."""

    async def story() -> None:
        async with running(formatted()) as node:
            assert node.quorum.origin != ZERO_UUID
            origin = ZERO_UUID if named == "none" else node.quorum.origin
            answer = await node.quorum.submit(replace(registration(7), origin=origin))
            assert not answer.error_code and 7 in node.quorum.image.brokers

    run(story)


# ------------------------------------------------------------------ at which moment


class Line:
    """The requests of a controller that learns late of which quorum it is."""

    def __init__(self) -> None:
        self.cluster = Cluster(1)
        self.ours = ZERO_UUID
        self.requests = Proposals(is_stranger=self.is_stranger)
        self.requests.controller = self.cluster.controller
        self.loop = asyncio.new_event_loop()

    def is_stranger(self, request: Message | None) -> bool:
        theirs = getattr(request, "origin", ZERO_UUID)
        return theirs != self.ours and ZERO_UUID not in (theirs, self.ours)

    def ask(self, request: Message) -> asyncio.Future[Message]:
        future: asyncio.Future[Message] = self.loop.create_future()
        self.requests.add(Submission(request, request.VERSIONS[1], future))
        return future

    def decide(self) -> Submission | None:
        return self.requests.decide_next(self.cluster.offset, 1, self.cluster.now)

    def append(self, decided: Submission) -> None:
        first = self.cluster.offset
        last = first + len(decided.payload) - 1
        accepted = Accepted(token=decided, base_offset=first, last_offset=last, epoch=1)
        self.requests.accepted(accepted, self.cluster.now)
        self.cluster.offset = last + 1


def test_a_request_that_waits_in_the_line_is_refused_when_its_turn_comes() -> None:
    line = Line()
    asked = line.ask(replace(registration(7), origin=THEIRS))
    line.ours = OURS
    assert line.decide() is None
    assert refused(asked) and not line.requests


def test_a_request_that_was_decided_before_the_quorum_is_known_is_not_answered_as_done() -> None:
    line = Line()
    asked = [
        line.ask(replace(registration(id_), origin=origin)) for id_, origin in ((7, THEIRS), (8, ZERO_UUID))
    ]
    for _ in asked:
        decided = line.decide()
        assert decided is not None
        line.append(decided)
    line.ours = OURS
    line.requests.committed(line.cluster.offset)
    assert refused(asked[0])
    assert not asked[1].exception(), "who does not say of which quorum it is may be of this one"


def test_an_envelope_of_another_quorum_is_not_opened_and_one_decided_too_early_is_not_answered() -> None:
    line, decided = Line(), []

    def decide(context: Any, request: Message) -> asyncio.Future[Message]:
        decided.append(line.loop.create_future())
        return decided[-1]

    row = SimpleNamespace(low=7, high=7, applied=False)
    routes = {19: SimpleNamespace(row=row, request_class=CreateTopicsRequest, decide=decide)}
    quorum = SimpleNamespace(is_active_controller=True, is_stranger=line.is_stranger)
    runtime = SimpleNamespace(loop=line.loop, config=SimpleNamespace(int=lambda name: 100))
    api = EnvelopeApi(cast("Any", runtime), cast("Any", quorum), cast("Any", None), cast("Any", routes))
    client = SimpleNamespace(for_another=lambda *who: None)
    here = cast("Any", SimpleNamespace(client=client, request_id=1, received=0.0))
    envelope = replace(wrap(CONTEXT, CREATE), origin=THEIRS)

    early = api.serve(here, envelope)
    assert isinstance(early, asyncio.Future)
    line.ours = OURS
    decided[0].set_result(CreateTopicsResponse(topics=[CreatableTopicResult(name="flights")]))
    line.loop.run_until_complete(asyncio.wait([early]))
    assert refused(early)
    with pytest.raises(KafkaError) as caught:
        api.serve(here, envelope)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER and len(decided) == 1
    assert isinstance(api.serve(here, replace(envelope, origin=OURS)), asyncio.Future) and len(decided) == 2


# ------------------------------------------------------------------ bytes


@pytest.mark.parametrize("kind", NAMING)
def test_a_request_names_the_quorum_in_every_version_and_is_as_kafkas_without(kind: type[Message]) -> None:
    for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1):
        plain, named = encode(kind(), version), encode(replace(kind(), origin=THEIRS), version)
        assert decode(kind, named, version)[0] == replace(kind(), origin=THEIRS)
        assert len(named) == len(plain) + 2 + 1 + len(THEIRS), "a tag, a length and the origin"


@pytest.mark.parametrize("length", [0, 1, 15, 17, 200])
def test_an_origin_of_another_length_is_no_request(length: int) -> None:
    whole = bytes(encode(replace(AllocateProducerIdsRequest(), origin=THEIRS), 0))
    tagged = bytes(uvarint(TAG) + uvarint(len(THEIRS))) + THEIRS
    assert whole.endswith(tagged)
    lying = whole.removesuffix(tagged) + bytes(uvarint(TAG) + uvarint(length)) + bytes(length)
    with pytest.raises(WireError):
        decode(AllocateProducerIdsRequest, lying, 0)
