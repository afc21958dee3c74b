"""A broker's life with a controller that answers as told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from tests.controller.cluster import CLUSTER, Chance
from tests.server.quorum_node import run, until

from barnabas.controller.image import BrokerEndpoint, ImageDelta, MetadataImage
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Uuid
from barnabas.server.replication.lifecycle import BrokerLifecycle, Disks, LifecycleSettings, LifecycleState
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatRequestIncomplete,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

DISK = Uuid.of(1, 1000)


class Answers:
    """A controller that keeps what it was asked and answers by two functions."""

    def __init__(self) -> None:
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.on_register: Callable[[], BrokerRegistrationResponse] = lambda: BrokerRegistrationResponse(
            broker_epoch=7
        )
        self.on_heartbeat: Callable[[BrokerHeartbeatRequest], BrokerHeartbeatResponse] = lambda asked: (
            BrokerHeartbeatResponse(
                is_caught_up=True, is_fenced=asked.want_shut_down, should_shut_down=asked.want_shut_down
            )
        )

    async def submit(self, request: Message) -> Message:
        if isinstance(request, BrokerRegistrationRequest):
            self.registrations.append(request)
            return self.on_register()
        assert isinstance(request, BrokerHeartbeatRequest)
        self.heartbeats.append(request)
        return self.on_heartbeat(request)


def lifecycle(answers: Answers, disks: Callable[[], Disks] = Disks, **settings: float) -> BrokerLifecycle:
    return BrokerLifecycle(
        answers.submit,
        LifecycleSettings(
            broker_id=1,
            cluster_id=CLUSTER,
            listeners=(BrokerEndpoint("PLAINTEXT", "h", 9092, 0),),
            directories=(DISK,),
            previous_epoch=5,
            **settings,  # type: ignore[arg-type]
        ),
        metadata_offset=lambda: 11,
        random=Chance(),
        disks=disks,
    )


def test_it_registers_with_all_it_is_and_the_epoch_of_its_last_clean_life() -> None:
    async def story() -> None:
        answers = Answers()
        assert await lifecycle(answers).register() == 7
        [asked] = answers.registrations
        assert (asked.broker_id, asked.cluster_id, asked.previous_broker_epoch) == (1, CLUSTER, 5)
        assert asked.log_dirs == [DISK]
        assert {feature.name for feature in asked.features} >= {"metadata.version", "kraft.version"}

    run(story)


def test_it_tries_again_while_an_earlier_life_is_still_heard() -> None:
    async def story() -> None:
        answers = Answers()

        def first_refuse() -> BrokerRegistrationResponse:
            if len(answers.registrations) < 3:
                raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
            return BrokerRegistrationResponse(broker_epoch=9)

        answers.on_register = first_refuse
        assert await lifecycle(answers).register() == 9
        incarnations = {asked.incarnation_id for asked in answers.registrations}
        assert len(incarnations) == 1

    run(story)


def test_a_refusal_for_good_is_raised_and_a_controller_that_never_comes_is_a_fatal_error() -> None:
    async def story() -> None:
        answers = Answers()
        answers.on_register = lambda: BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        with pytest.raises(KafkaError, match="INCONSISTENT_CLUSTER_ID"):
            await lifecycle(answers).register()
        answers.on_register = lambda: BrokerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        with pytest.raises(KafkaError, match="does not know a level of the cluster") as unfit:
            await lifecycle(answers).register()
        assert "barnabas features describe" in (unfit.value.next_step or "")
        answers.on_register = lambda: BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)
        with pytest.raises(BarnabasError, match="did not register") as error:
            await lifecycle(answers, registration_timeout=0.01).register()
        assert error.value.fatal

    run(story)


def test_it_waits_until_it_is_unfenced_and_then_reports_by_itself() -> None:
    async def story() -> None:
        answers = Answers()
        usual = answers.on_heartbeat
        answers.on_heartbeat = lambda asked: (
            BrokerHeartbeatResponse(is_fenced=True) if len(answers.heartbeats) < 3 else usual(asked)
        )
        broker = lifecycle(answers, heartbeat_interval=0.005)
        await broker.register()
        await broker.unfence()
        assert (broker.state, broker.fenced) == (LifecycleState.RUNNING, False)
        assert answers.heartbeats[0].current_metadata_offset == 11
        await until(lambda: len(answers.heartbeats) > 5)
        broker.abandon()

    run(story)


@pytest.mark.parametrize(
    ("level", "directories", "registrations"),
    [(17, (), 2), (17, (DISK,), 1), (16, (), 1)],
    ids=["it knows directories now", "they are known", "it still knows none"],
)
def test_it_registers_again_as_the_same_incarnation_when_the_cluster_learns_of_directories(
    level: int, directories: tuple[Uuid, ...], registrations: int
) -> None:
    """KIP-858: below metadata.version 17 a registration cannot name directories."""

    async def story() -> None:
        answers = Answers()
        broker = lifecycle(answers, heartbeat_interval=0.005)
        await broker.register()
        await broker.unfence()
        image = MetadataImage()
        image.features["metadata.version"] = level
        image.brokers[1] = SimpleNamespace(directories=directories)  # type: ignore[assignment]
        delta = ImageDelta(image)
        delta.features.add("metadata.version")
        broker.metadata_changed(delta)
        reported = len(answers.heartbeats)
        await until(lambda: len(answers.heartbeats) > reported + 2)
        assert len(answers.registrations) == registrations
        assert len({asked.incarnation_id for asked in answers.registrations}) == 1
        assert not broker.fenced, "it serves on meanwhile"
        broker.abandon()

    run(story)


def test_it_leaves_when_it_is_let_go_and_reports_no_more() -> None:
    async def story() -> None:
        answers = Answers()
        broker = lifecycle(answers)
        await broker.register()
        await broker.unfence()
        await broker.leave()
        assert answers.heartbeats[-1].want_shut_down
        assert broker.state is LifecycleState.SHUTTING_DOWN
        count = len(answers.heartbeats)
        await asyncio.sleep(0)
        assert len(answers.heartbeats) == count

    run(story)


@pytest.mark.parametrize(("now_ms", "fences"), [(0, True), (1_000, False)], ids=["Apache Kafka", "Barnabas"])
def test_it_stands_down_for_one_report_where_the_controller_does_not_know_incomplete_replicas(
    now_ms: int, fences: bool
) -> None:
    lacks = [BrokerHeartbeatRequestIncomplete(topic_id=Uuid(b"a topic's own id"), partition_index=3)]

    async def story() -> None:
        answers = Answers()
        answers.on_heartbeat = lambda asked: BrokerHeartbeatResponse(
            is_fenced=asked.want_fence, now_ms=now_ms
        )
        broker = lifecycle(answers, disks=lambda: Disks(incomplete=lacks))
        await broker.register()
        await broker.unfence()
        reported = len(answers.heartbeats)
        broker.stand_down()
        await until(lambda: len(answers.heartbeats) > reported)
        broker.report_soon()
        await until(lambda: len(answers.heartbeats) >= reported + 2)
        sent = answers.heartbeats[reported : reported + 2]
        assert [asked.want_fence for asked in sent] == [fences, False]
        assert [asked.incomplete for asked in sent] == [lacks, lacks]
        assert (broker.state, broker.fenced) == (LifecycleState.RUNNING, False)
        broker.abandon()

    run(story)


def test_it_gives_up_leaving_when_nobody_lets_it_go() -> None:
    async def story() -> None:
        answers = Answers()
        answers.on_heartbeat = lambda asked: BrokerHeartbeatResponse(is_fenced=False)
        broker = lifecycle(answers)
        await broker.register()
        await broker.unfence()
        await broker.leave(patience=0.02)
        assert broker.state is LifecycleState.SHUTTING_DOWN

    run(story)


def test_a_failed_disk_is_told_at_once() -> None:
    async def story() -> None:
        answers = Answers()
        broker = lifecycle(answers)
        await broker.register()
        await broker.unfence()
        broker.directory_failed(DISK)
        await until(lambda: answers.heartbeats[-1].offline_log_dirs == [DISK])
        broker.abandon()

    run(story)


def test_it_reports_at_once_when_somebody_waits_for_what_it_has_replayed() -> None:
    async def story() -> None:
        answers = Answers()
        broker = lifecycle(answers, heartbeat_interval=60.0)
        await broker.register()
        await broker.unfence()
        before = len(answers.heartbeats)
        broker.report_soon()
        await until(lambda: len(answers.heartbeats) > before)
        assert answers.heartbeats[-1].current_metadata_offset == 11
        broker.abandon()

    run(story)


def stale_from(answers: Answers, number: int) -> None:
    """From this heartbeat on the controller does not know the broker's epoch: somebody unregistered it."""
    usual = answers.on_heartbeat

    def asked(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        if len(answers.heartbeats) >= number:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return usual(request)

    answers.on_heartbeat = asked


def test_a_broker_that_was_unregistered_stays_out_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        answers = Answers()
        stale_from(answers, 2)
        broker = lifecycle(answers, heartbeat_interval=0.001)
        await broker.register()
        await broker.unfence()
        await until(lambda: broker.fenced or len(answers.registrations) > 1)
        assert len(answers.registrations) == 1
        await broker.leave(patience=60.0)  # nobody has to let it go
        assert len(answers.registrations) == 1 and len(answers.heartbeats) == 2
        said = [record.fields for record in caplog.records if record.event == "broker.out"]  # type: ignore[attr-defined]
        assert len(said) == 1 and "restart" in said[0]["next"]

    run(story)


def test_a_broker_that_is_unregistered_while_it_starts_does_not_wait_for_ever() -> None:
    async def story() -> None:
        answers = Answers()
        stale_from(answers, 1)
        broker = lifecycle(answers, heartbeat_interval=0.001)
        await broker.register()
        with pytest.raises(BarnabasError, match="unregistered while it started"):
            await broker.unfence()

    run(story)


def test_a_report_that_dies_ends_the_wait_for_it_and_is_told() -> None:
    """Without reports a broker only looks alive: it is fenced, and nobody would know why."""

    def broken(asked: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        raise RuntimeError("a bug")

    async def story() -> None:
        answers, told = Answers(), []
        answers.on_heartbeat = broken
        subject = lifecycle(answers)
        subject._on_fatal = told.append
        await subject.register()
        with pytest.raises(RuntimeError, match="a bug"):
            await asyncio.wait_for(subject.unfence(), 20)
        assert [str(error) for error in told] == ["a bug"]

    run(story)
