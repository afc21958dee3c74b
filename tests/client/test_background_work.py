"""What waits for a thread or a task hears at once when that ends; bad arguments are the error of their `send`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.fake_broker import FakeBroker

from barnabas import Admin, Consumer, Producer
from barnabas.aio import Producer as AsyncProducer
from barnabas.client.aio.connection import AsyncConnection
from barnabas.client.aio.membership import AsyncMembership
from barnabas.client.both.awaited import at_once, awaited
from barnabas.client.connection import ConnectionFailed, RequestTimedOut
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.group_member import ClassicMember, GroupTimes
from barnabas.client.group_options import GroupOptions, make_member
from barnabas.client.membership import Membership
from barnabas.client.producing import dispatch
from barnabas.client.producing.placement import Partitions
from barnabas.client.security.options import Security
from barnabas.client.waits import clock
from barnabas.client.waits.background import died
from barnabas.client.waits.poll_interval import PollInterval
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetCommitResponse,
    SyncGroupResponse,
)

PATIENCE_S = 20.0
BAD: list[dict[str, Any]] = [
    {"value": {"a": 1}},
    {"value": b"v", "key": 5},
    {"value": b"v", "headers": {"a": {"b": 1}}},
    {"value": b"v", "headers": {b"a": b"1"}},
    {"value": b"v", "headers": {"\ud800": b"1"}},
    {"value": b"v", "headers": "text"},
    {"value": b"v", "timestamp": 1.5},
    {"value": b"v", "timestamp": "1"},
    {"value": b"v", "timestamp": 2**70},
    {"value": b"v", "timestamp": -2},
    {"value": b"v", "partition": "0"},
    {"value": "\ud800"},
]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(t=1) as found:
        yield found


@pytest.mark.parametrize("words", BAD, ids=str)
def test_what_no_record_can_hold_is_the_error_of_its_own_send(
    broker: FakeBroker, words: dict[str, Any]
) -> None:
    with Producer(broker.address) as producer:
        with pytest.raises((TypeError, ValueError)):
            producer.send("t", **words)
        producer.send("t", b"good").result(PATIENCE_S)


@pytest.mark.parametrize("words", BAD[:3], ids=str)
def test_asyncio_refuses_it_as_well(broker: FakeBroker, words: dict[str, Any]) -> None:
    async def story() -> None:
        async with AsyncProducer(broker.address) as producer:
            with pytest.raises((TypeError, ValueError)):
                await producer.send("t", **words)
            await asyncio.wait_for(await producer.send("t", b"good"), PATIENCE_S)

    asyncio.run(story())


def test_bytes_that_their_owner_changes_are_sent_as_they_were(broker: FakeBroker) -> None:
    value = bytearray(b"first")
    with Producer(broker.address, linger=PATIENCE_S) as producer:
        producer.send("t", value, headers={"h": "text"})
        value[:] = b"later"
    assert broker.values("t") == [b"first"]


def test_a_callback_that_fails_is_shown_and_the_producer_goes_on(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    with Producer(broker.address) as producer:
        producer.send("t", b"one", on_delivery=lambda _: 1 / 0)
        producer.flush(PATIENCE_S)
        producer.send("t", b"two").result(PATIENCE_S)
    assert [type(args.exc_value) for args in shown] == [ZeroDivisionError]


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a bug")


def test_a_thread_that_dies_fails_what_waits_and_what_comes_later(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch.Dispatch, "encode", broken)
    producer = Producer(broker.address)
    delivery = producer.send("t", b"x")
    with pytest.raises(BarnabasError, match="a bug"):
        delivery.result(PATIENCE_S)
    for call in (lambda: producer.send("t", b"y"), producer.flush, producer.close):
        with pytest.raises(BarnabasError, match="a bug"):
            call()


def test_an_asyncio_task_that_dies_does_the_same(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch.Dispatch, "encode", broken)

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        producer = AsyncProducer(broker.address)
        delivery = await producer.send("t", b"x")
        with pytest.raises(BarnabasError, match="a bug"):
            await asyncio.wait_for(delivery, PATIENCE_S)
        with pytest.raises(BarnabasError, match="a bug"):
            await producer.send("t", b"y")
        await asyncio.wait_for(producer.close(flush=False), PATIENCE_S)

    asyncio.run(story())


def test_a_producer_of_another_event_loop_says_so_and_does_not_wait_for_ever(broker: FakeBroker) -> None:
    told: list[Any] = []

    async def first() -> AsyncProducer:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        producer = AsyncProducer(broker.address, linger=PATIENCE_S)
        await producer.send("t", b"never sent")
        return producer

    producer = asyncio.run(first())
    assert "1 records were not acknowledged" in told[0]
    with pytest.raises(BarnabasError, match="event loop"):
        asyncio.run(producer.send("t", b"x"))  # type: ignore[arg-type]


def test_a_heartbeat_that_dies_of_a_bug_is_told_to_the_reader() -> None:
    cluster: Any = SimpleNamespace(metadata=SimpleNamespace(max_age=300.0), retrying=broken)
    cluster.awaited = cluster
    member = ClassicMember("g", ["t"], GroupTimes(heartbeat=0.001))
    member.generation, member.must_join = 3, False
    membership = Membership(cluster, member)
    membership._start_heartbeats()
    until = time.monotonic() + PATIENCE_S
    while membership.failure is None and time.monotonic() < until:
        time.sleep(0.001)
    membership._ended.set()
    assert "a bug" in str(membership.failure)
    assert member.lost and member.must_join


def test_the_reason_of_a_death_keeps_its_cause() -> None:
    cause = KeyError("x")
    assert died("the thread", cause).__cause__ is cause


# -- groups --------------------------------------------------------------------------------------


def test_a_member_that_works_through_a_rebalance_goes_on_with_its_heartbeats() -> None:
    member = ClassicMember("g", ["t"], GroupTimes())
    member.generation, member.member_id, member.must_join = 3, "m", False
    member.heard(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert member.must_join and not member.lost
    request = member.heartbeat_request()
    assert request is not None and (request.generation_id, request.member_id) == (3, "m")
    member.heard(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert member.heartbeat_request() is None


def test_a_member_of_kip_848_that_has_to_give_up_goes_on_with_its_heartbeats() -> None:
    topic = Uuid.of(7, 7)
    member = ConsumerGroupMember("g", Subscription(("t",)), member_id="m")

    def heard(epoch: int, *partitions: int) -> None:
        owned = [SimpleNamespace(topic_id=topic, partitions=list(partitions))]
        member.heard(
            SimpleNamespace(
                error_code=0,
                error_message=None,
                member_id="m",
                member_epoch=epoch,
                heartbeat_interval_ms=5000,
                assignment=SimpleNamespace(topic_partitions=owned),
            )
        )

    member.join_request(1)
    heard(1, 0, 1)
    member.learn_names({topic: "t"})
    member.acquired(member.change())
    heard(1, 0)
    assert member.change().release == {(topic, 1)} and member.must_join
    request = member.heartbeat_request()
    assert request is not None and request.member_epoch == 1


def test_a_rebalance_waits_for_as_long_as_an_application_may_work() -> None:
    for protocol in ("classic", "consumer"):
        member: Any = make_member("g", ("t",), GroupOptions(protocol, max_poll_interval=77.0), Uuid.of(1, 1))
        request = member.join_request() if protocol == "classic" else member.join_request(1)
        assert request.rebalance_timeout_ms == 77_000


def test_an_application_may_work_for_its_whole_interval_and_no_longer() -> None:
    interval = PollInterval(300.0)
    assert not interval.is_over(1_000_000.0), "it has not polled yet: it may still build what it needs"
    interval.polled(100.0)
    assert not interval.is_over(400.0)
    assert interval.is_over(400.1)
    interval.polled(401.0)
    assert not interval.is_over(402.0)


def test_a_member_whose_application_works_for_too_long_leaves_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[Any] = []
    heard = awaited(lambda request, **_: asked.append(request))
    line = SimpleNamespace(closed=False, version_of=lambda _: 4, request=heard)
    cluster: Any = SimpleNamespace(
        metadata=SimpleNamespace(max_age=300.0),
        coordinator=awaited(lambda _: line),
        ask_coordinator=lambda coordinator, talk: talk(coordinator),
        retrying=lambda work, **_: work(),
    )
    cluster.awaited = cluster
    member = ClassicMember("g", ["t"], GroupTimes())
    member.generation, member.member_id, member.must_join = 3, "m", False
    membership = Membership(cluster, member, interval=PollInterval(10.0))
    membership.interval.polled(clock.monotonic() - 11.0)
    at_once(membership._stay())
    assert [request.NAME for request in asked] == ["LeaveGroupRequest"]
    assert member.lost and member.must_join
    assert "max_poll_interval" in caplog.text
    at_once(membership._stay())
    assert len(asked) == 1


def test_with_asyncio_a_member_that_leaves_while_it_joins_does_not_join_again() -> None:
    """Its leaving closes the connection behind whose join it would wait for the other members."""

    async def story() -> None:
        asked: list[str] = []
        gone = asyncio.Event()

        async def answer(request: Any, *_: Any, **__: Any) -> Any:
            asked.append(request.NAME)
            if request.NAME == "JoinGroupRequest":
                await gone.wait()
            gone.set()
            raise ConnectionFailed("closed", address="")

        async def retrying(work: Any, **_: Any) -> Any:
            while True:
                with contextlib.suppress(ConnectionFailed):
                    return await work()
                await asyncio.sleep(0)

        line: Any = SimpleNamespace(AWAITED=True, closed=False, version_of=lambda _: 4, request=answer)
        cluster: Any = SimpleNamespace(
            metadata=SimpleNamespace(max_age=300.0),
            coordinator=awaited(lambda _: line),
            ask_coordinator=lambda coordinator, talk: talk(coordinator),
            retrying=retrying,
        )
        member = ClassicMember("g", ["t"], GroupTimes())
        member.generation, member.member_id = 3, "m"
        membership = AsyncMembership(cluster, member)
        join = asyncio.create_task(membership._join(member))
        await asyncio.sleep(0)
        await asyncio.wait_for(membership.leave(), PATIENCE_S)
        with pytest.raises(BarnabasError, match="has left group g"):
            await asyncio.wait_for(join, PATIENCE_S)
        assert asked == ["JoinGroupRequest", "LeaveGroupRequest"]

    asyncio.run(story())


def test_with_asyncio_nothing_is_sent_behind_a_join_that_waits_for_the_other_members() -> None:
    """Answers come in order: a heartbeat would time out behind the join, and close the connection for both."""

    async def story() -> None:
        asked: list[str] = []
        others = asyncio.Event()
        answers = {
            "JoinGroupRequest": JoinGroupResponse(generation_id=4, leader="other", member_id="m"),
            "SyncGroupRequest": SyncGroupResponse(),
            "HeartbeatRequest": HeartbeatResponse(),
            "OffsetCommitRequest": OffsetCommitResponse(),
        }

        async def answer(request: Any, *_: Any, **__: Any) -> Any:
            asked.append(request.NAME)
            if request.NAME == "JoinGroupRequest":
                await others.wait()
            return answers[request.NAME]

        line: Any = SimpleNamespace(AWAITED=True, closed=False, version_of=lambda _: 4, request=answer)

        async def found(_: Any) -> Any:
            return line

        async def once(work: Any, **_: Any) -> Any:
            return await work()

        cluster: Any = SimpleNamespace(
            metadata=SimpleNamespace(max_age=300.0),
            coordinator=found,
            ask_coordinator=lambda coordinator, talk: talk(coordinator),
            retrying=once,
        )
        member = ClassicMember("g", ["t"], GroupTimes())
        member.generation, member.member_id = 3, "m"
        membership = AsyncMembership(cluster, member, interval=PollInterval(10.0))
        membership.interval.polled(clock.monotonic() - 11.0)
        join = asyncio.create_task(membership._join(member))
        await asyncio.sleep(0)
        stay = asyncio.create_task(membership._stay())
        commit = asyncio.create_task(membership.commit({TopicPartition("t", 0): 5}))
        for _ in range(20):
            await asyncio.sleep(0)
        assert asked == ["JoinGroupRequest"]
        others.set()
        await asyncio.wait_for(asyncio.gather(join, stay, commit), PATIENCE_S)
        assert asked[:2] == ["JoinGroupRequest", "SyncGroupRequest"]
        assert sorted(asked[2:]) == ["HeartbeatRequest", "OffsetCommitRequest"]

    asyncio.run(story())


def test_the_leader_of_a_classic_group_joins_again_when_a_topic_grows() -> None:
    member = ClassicMember("g", ["t", "later"], GroupTimes())
    member.leads, member.generation = True, 1
    member.sync_request(SimpleNamespace(protocol_name="range"), {"m": ["t", "later"]}, {"t": 2, "later": 0})
    member.must_join = False
    assert member.counted_topics == ["later", "t"]
    member.counted({"t": 2})
    assert not member.must_join
    member.counted({"t": 2, "later": 1})
    assert member.must_join


# -- growth --------------------------------------------------------------------------------------


def test_a_consumer_alone_reads_partitions_that_are_added_from_their_beginning(broker: FakeBroker) -> None:
    with Consumer(broker.address, "t", metadata_max_age=0.0) as consumer:
        assert consumer.position("t", 0) == 0
        broker.partitions["t", 1], broker.leaders["t", 1] = bytearray(), 1
        with Producer(broker.address) as producer:
            producer.send("t", b"early", partition=1).result(PATIENCE_S)
        assert [m.value for m in consumer.poll(PATIENCE_S)] == [b"early"]


def test_a_partition_that_is_not_known_is_asked_for_before_it_is_refused() -> None:
    known = Partitions(300.0)
    info: Any = SimpleNamespace(name="t", partitions={0: SimpleNamespace(partition=0, leader=1)})
    known.take(info, 0.0)
    assert known.of("t", 10.0, 0) == (1, [0])
    assert known.of("t", 10.0, 1) is None
    assert known.of("t", 0.5, 1) == (1, [0]), "it was asked for a moment ago"


# -- processes and clocks ------------------------------------------------------------------------


def test_a_client_made_before_a_fork_says_so_in_the_child_and_serves_the_parent(broker: FakeBroker) -> None:
    producer, consumer = Producer(broker.address), Consumer(broker.address, "t", start="earliest")
    admin = Admin(broker.address)
    producer.send("t", b"parent").result(PATIENCE_S)
    assert consumer.poll(PATIENCE_S)
    admin.topics()
    child = os.fork()
    if child == 0:
        said = 0
        for call in (
            lambda: producer.send("t", b"x"),
            producer.flush,
            lambda: consumer.poll(0),
            admin.topics,
        ):
            try:
                call()
            except BarnabasError as error:
                said += "before a fork" in error.message
        producer.close()
        consumer.close()
        os._exit(0 if said == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0
    producer.send("t", b"still").result(PATIENCE_S)
    assert [m.value for m in consumer.poll(PATIENCE_S)] == [b"still"]
    for client in (producer, consumer, admin):
        client.close()


def test_the_clock_of_waits_goes_on_while_a_test_has_frozen_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    assert clock.monotonic() != 5.0
    assert clock.monotonic() <= clock.monotonic()


def test_a_program_that_ends_without_close_has_sent_its_records(broker: FakeBroker) -> None:
    program = (
        "import sys; from barnabas import Producer\n"
        "Producer(sys.argv[1], linger=60).send('t', b'last words', partition=0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, broker.address], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert broker.values("t") == [b"last words"]


# -- errors --------------------------------------------------------------------------------------


def test_security_that_is_a_file_name_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="a mapping of options, not str"):
        Security.parse("client.properties")  # type: ignore[arg-type]


def test_a_kind_of_settings_that_there_is_not_is_refused_in_words(broker: FakeBroker) -> None:
    with Admin(broker.address) as admin, pytest.raises(ValueError, match="one of topic, broker"):
        admin.alter_configs("topics", "t", {"retention.ms": "5"})  # type: ignore[arg-type]


def test_a_number_is_a_setting_and_a_list_is_not(broker: FakeBroker) -> None:
    with Admin(broker.address) as admin:
        with pytest.raises(TypeError, match=r"retention\.ms is a str, a number or a bool, not list"):
            admin.alter_configs("topic", "t", {"retention.ms": [5]})  # type: ignore[dict-item]
        with pytest.raises(KafkaError, match="IncrementalAlterConfigs"):  # the fake broker does not serve it
            admin.alter_configs("topic", "t", {"retention.ms": 5, "preallocate": True})  # type: ignore[dict-item]


def test_a_refused_connection_is_told_with_few_frames() -> None:
    with Producer("127.0.0.1:1") as producer:
        try:
            producer.send("t", b"x")
        except BarnabasError as error:
            frames, trace = 0, error.__traceback__
            while trace is not None:
                frames, trace = frames + 1, trace.tb_next
            assert frames <= 8
            assert error.__suppress_context__
        else:
            pytest.fail("it was not refused")


# -- waits without an end ------------------------------------------------------------------------


def test_heartbeats_begin_before_a_listener_is_told_of_its_first_partitions() -> None:
    """on_assigned may load a state for minutes; without heartbeats the session ends meanwhile."""
    member = ClassicMember("g", ["t"], GroupTimes())
    cluster: Any = SimpleNamespace(metadata=SimpleNamespace(max_age=300.0))
    cluster.awaited = cluster
    membership = Membership(cluster, member)
    membership._join = awaited(lambda _: [])  # type: ignore[method-assign, assignment]
    beating: list[bool] = []
    reader: Any = SimpleNamespace(
        release=awaited(lambda *_, **__: None),
        acquire=awaited(lambda _: beating.append(membership._thread is not None)),
    )
    at_once(membership.rebalance(reader))
    membership._ended.set()
    assert beating == [True]


def test_asyncio_gives_up_a_broker_that_takes_no_more_bytes() -> None:
    """What waits to be written has no end by itself, and neither has a close that waits for that."""

    async def story() -> None:
        with FakeBroker(t=1) as deaf:
            line = await AsyncConnection.connect("127.0.0.1", deaf.port, timeout=0.05)
            line.pause_writing()
            with pytest.raises(RequestTimedOut):
                await asyncio.wait_for(line.request(MetadataRequest(topics=[])), PATIENCE_S)
            await asyncio.wait_for(line.close(), PATIENCE_S)

    asyncio.run(story())
