"""What leaders answer to transactions in wrong orders, epochs and states: as Apache Kafka, case by case.

A case is a sequence of requests on a topic, a group and transactional ids of its own; all that is answered is
compared, with producer ids by the order in which they were given out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import NodeProcess
from tests.compat.test_compaction import SETTINGS, apache_kafka_on
from tests.compat.transaction_talk import Producer, Talk

from barnabas.client.blocking import BlockingConnection
from barnabas.wire.schemas.groups import (
    FindCoordinatorRequest,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

pytestmark = pytest.mark.compat

Case = Callable[[Talk], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def both_ends(name: str, commit: bool, version: int) -> None:
    """A whole transaction: with the partition added by the client (11) or by the leader (12)."""

    def run(talk: Talk) -> None:
        who = talk.init()
        if version < 12:
            talk.add(who)
        talk.produce(who, "a", "b", version=version)
        talk.look()
        talk.produce(who, "c", version=version, sequence=2)
        talk.end(who, commit, 5 if version >= 12 else 3)
        talk.init()
        talk.look()

    CASES[name] = run


for _version in (3, 9, 11, 12):
    for _commit in (True, False):
        both_ends(f"whole_v{_version}_{'commit' if _commit else 'abort'}", _commit, _version)


@case
def not_added(talk: Talk) -> None:
    who = talk.init()
    for version in (3, 9, 10, 11):
        talk.produce(who, "a", version=version)
    talk.look()


@case
def not_added_while_another_partition_is(talk: Talk) -> None:
    who = talk.init()
    talk.add(who, 1)
    for version in (3, 10, 11):
        talk.produce(who, "a", version=version)
    talk.produce(who, "b", version=11, partition=1)
    talk.look()


@case
def another_id(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    for version in (10, 11, 12):
        talk.produce(who.but(id=who.id + 100_000), "a", version=version)
        talk.produce(who, "a", version=version, transactional_id="nobody" + talk.name)
        talk.produce(who, "a", version=version, transactional_id=None)
    talk.look()


@case
def another_epoch(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    for version in (10, 11, 12):
        talk.produce(who.but(epoch=who.epoch + 1), "a", version=version)
    talk.produce(who, "a")
    for version in (10, 11, 12):
        talk.produce(who.but(epoch=who.epoch + 1), "b", version=version, sequence=1)
        talk.produce(who.but(epoch=who.epoch + 1), "b", version=version)
    talk.look()


@case
def fenced_by_a_second_producer(talk: Talk) -> None:
    old = talk.init()
    talk.add(old)
    talk.produce(old, "a")
    talk.init()
    for version in (10, 11, 12):
        talk.produce(old, "late", version=version, sequence=1)
    talk.produce(old, "late", version=11, sequence=1, partition=1)
    talk.look()
    talk.end(old)


@case
def sequences(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    talk.produce(who, "gap", sequence=7)
    talk.produce(who, "gap again", sequence=9)
    talk.produce(who, "next", sequence=8)
    talk.produce(who, "next", sequence=8)
    talk.look()


@case
def sequences_of_the_new_protocol(talk: Talk) -> None:
    who = talk.init()
    talk.produce(who, "gap", sequence=7, version=12)
    talk.produce(who, "a", version=12)
    talk.produce(who, "a", version=12)
    talk.produce(who, "b", version=12, sequence=1)
    talk.end(who, version=5)
    talk.produce(who, "c", version=12, sequence=2)
    talk.produce(who, "c", version=12)
    talk.look()


@case
def outside_of_its_own_transaction(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    talk.produce(who, "a")
    talk.produce(who, "b", sequence=1, transactional=False)
    talk.produce(who, "b", sequence=1)
    talk.end(who)
    talk.init()
    talk.look()


@case
def a_late_batch_after_the_end(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    talk.produce(who, "a")
    talk.end(who)
    talk.settle()
    for version in (10, 11):
        talk.produce(who, "late", version=version, sequence=1)
    talk.look()


@case
def a_retry_after_the_end(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    talk.produce(who, "a")
    talk.end(who)
    talk.settle()
    talk.add(who)
    talk.produce(who, "a")
    talk.produce(who, "b", sequence=1)
    talk.look()


@case
def control_and_odd_batches(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    talk.produce(who, "a", control=True)
    talk.produce(who, "a", producer_epoch=-1)
    talk.produce(who, "a", producer_id=-1, producer_epoch=-1, base_sequence=-1)
    talk.produce(who, "a", partition=7)
    talk.produce(who, "a", codec=2)
    talk.look()


@case
def markers(talk: Talk) -> None:
    who = talk.init()
    talk.mark(who)
    talk.add(who)
    talk.produce(who, "a")
    talk.mark(who, epoch=who.epoch - 1 if who.epoch else 0, coordinator=-1)
    talk.mark(who, partition=7)
    talk.mark(who, topic="nowhere")
    talk.mark(who, coordinator=5)
    talk.look()
    talk.mark(who, coordinator=4)
    talk.mark(who, coordinator=5)
    talk.mark(who, False, coordinator=6)
    talk.look()


@case
def markers_with_epochs(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    talk.produce(who, "a")
    talk.mark(who, txn_version=2)
    talk.mark(who, txn_version=1)
    talk.mark(who, epoch=who.epoch + 1, txn_version=2)
    talk.look()
    talk.mark(who, epoch=who.epoch, txn_version=0)
    talk.mark(who, epoch=who.epoch + 1, txn_version=2)
    talk.mark(who, epoch=who.epoch + 3, txn_version=2)
    talk.mark(who, epoch=32767, txn_version=2)
    talk.mark(who, epoch=32767, txn_version=2)
    talk.look()


@case
def markers_by_version_1(talk: Talk) -> None:
    who = talk.init()
    talk.add(who)
    talk.produce(who, "a")
    talk.mark(who, False, version=1)
    talk.mark(who, False, version=1)
    talk.look()


@case
def a_marker_of_nobody(talk: Talk) -> None:
    who = Producer("x", 4_000_000, 3)
    talk.mark(who)
    talk.mark(who.but(epoch=2))
    talk.mark(who, txn_version=2)
    talk.look()


@case
def two_at_a_time(talk: Talk) -> None:
    one, two = talk.init(1), talk.init(2)
    talk.add(one)
    talk.add(two)
    talk.produce(one, "one")
    talk.produce(two, "two")
    talk.look()
    talk.end(two, False)
    talk.init(2)
    talk.look()
    talk.end(one)
    talk.init(1)
    talk.look()


@case
def positions(talk: Talk) -> None:
    who = talk.init()
    talk.commit(5)
    talk.keep(who, 10)
    talk.add_offsets(who)
    talk.keep(who, 10)
    talk.where()
    talk.where(False)
    talk.keep(who, 11)
    talk.end(who)
    talk.where(wait=True)


@case
def positions_of_the_new_protocol(talk: Talk) -> None:
    who = talk.init()
    talk.keep(who, 10, version=5)
    talk.where()
    talk.end(who, version=5)
    talk.where(wait=True)
    talk.keep(who, 20, version=5)
    talk.end(who, False, version=5)
    talk.where(wait=True)


@case
def positions_aborted_and_overtaken(talk: Talk) -> None:
    who = talk.init()
    talk.add_offsets(who)
    talk.keep(who, 10)
    talk.commit(7)
    talk.where()
    talk.where(False)
    talk.end(who)
    talk.where(wait=True)
    talk.add_offsets(who)
    talk.keep(who, 20)
    talk.end(who, False)
    talk.where(wait=True)


@case
def positions_of_wrong_senders(talk: Talk) -> None:
    who = talk.init()
    talk.add_offsets(who)
    for version in (0, 3, 4, 5):
        talk.keep(who.but(id=who.id + 100_000), 1, version=version)
        talk.keep(who.but(epoch=who.epoch + 1), 1, version=version)
        talk.keep(who, 1, version=version, transactional_id="nobody" + talk.name)
        talk.keep(who, 1, version=version, group_id="")
        talk.keep(who, 1, version=version, topic="nowhere")
    for version in (3, 4, 5):
        talk.keep(who, 1, version=version, generation_id_or_member_epoch=3, member_id="x")
    talk.commit(1)
    for version in (3, 4, 5):
        talk.keep(who, 1, version=version, generation_id_or_member_epoch=3)
        talk.keep(who, 1, version=version, generation_id_or_member_epoch=3, member_id="x")
        talk.keep(who, 1, version=version, member_id="x")
        talk.keep(who, 1, version=version, member_id="x", group_instance_id="y")
    talk.keep(who, 1, version=0)
    talk.where()


@case
def positions_with_much_beside(talk: Talk) -> None:
    who = talk.init()
    talk.add_offsets(who)
    talk.keep(who, -1)
    talk.keep(who, 1 << 60)
    talk.end(who)
    talk.where(wait=True)


def conversations(node: NodeProcess) -> Iterator[tuple[str, list[Any]]]:
    """All cases with the node that listens there."""
    with BlockingConnection("127.0.0.1", node.port) as connection:
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in CASES]
        connection.request(CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        for kind in (0, 1):
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
            while connection.request(asked, 4).coordinators[0].error_code:
                time.sleep(0.1)
        for name, talk_over in CASES.items():
            talk = Talk(connection, name)
            talk_over(talk)
            yield name, talk.heard


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_wrong_turn_is_answered_as_by_apache_kafka(apache: Path, tmp_path: Path) -> None:
    settings = {**SETTINGS, "log_roll_ms": "604800000", "offsets_topic_num_partitions": "1"}
    ours = NodeProcess(tmp_path / "ours", **settings)
    theirs = NodeProcess(tmp_path / "theirs", **settings)
    try:
        here = dict(conversations(ours.start()))
        assert ours.stop() == 0, ours.log.read_text()
        theirs.format()
        with apache_kafka_on(theirs, apache):
            there = dict(conversations(theirs))
    finally:
        ours.discard()
        theirs.discard()
    assert sum(map(len, there.values())) > 150
    differences = [
        f"{name} {number}: {one} here, {other} there"
        for name in CASES
        for number, (one, other) in enumerate(zip(here[name], there[name], strict=True))
        if one != other
    ]
    assert differences == []
