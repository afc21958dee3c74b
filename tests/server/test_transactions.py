"""Transactions against a whole node, by a real client: commit, abort, offsets, fencing, and time that is over."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.server.harness import LOOPS

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.server.node.process import ServerNode
from barnabas.wire.schemas.transactions import DescribeTransactionsRequest

confluent_kafka = pytest.importorskip("confluent_kafka")


def with_node(folder: Path, work: Callable[[str], None], **settings: str) -> None:
    """Run blocking `work` in a thread, beside a node at the address that it gets."""

    async def whole() -> None:
        given = {
            "log.dirs": str(folder),
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        async with asyncio.timeout(PATIENCE_S), ServerNode(Config.load(given)) as node:
            await asyncio.to_thread(work, f"127.0.0.1:{node.address[1]}")

    with asyncio.Runner(loop_factory=LOOPS["uvloop"]) as runner:
        runner.run(whole())


def producer(address: str, **more: Any) -> Any:
    made = confluent_kafka.Producer(
        {"bootstrap.servers": address, "transactional.id": "x", "log_level": 0, "linger.ms": 0, **more}
    )
    made.init_transactions(PATIENCE_S)
    return made


def committed(address: str, count: int, topic: str = "t") -> list[bytes]:
    """The first `count` committed values of partition 0."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        found += [message.value() for message in consumer.consume(100, 1.0) if not message.error()]
    consumer.close()
    return found


def test_what_is_committed_is_read_and_what_is_aborted_is_not(tmp_path: Path) -> None:
    def work(address: str) -> None:
        client = producer(address)
        for value, end in ((b"1", "commit"), (b"2", "abort"), (b"3", "commit")):
            client.begin_transaction()
            client.produce("t", value, partition=0)
            client.flush()
            getattr(client, f"{end}_transaction")(PATIENCE_S)
        assert committed(address, 2) == [b"1", b"3"]

    with_node(tmp_path, work)


def test_offsets_of_a_group_are_part_of_the_transaction(tmp_path: Path) -> None:
    def work(address: str) -> None:
        client = producer(address)
        group = {"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False, "log_level": 0}
        consumer = confluent_kafka.Consumer({**group, "auto.offset.reset": "earliest"})
        for offset, end in ((1, "commit"), (2, "abort")):
            client.begin_transaction()
            client.produce("t", b"%d" % offset, partition=0)
            if offset == 1:
                consumer.subscribe(["t"])
                while not consumer.assignment():
                    consumer.poll(0.05)
            where = [confluent_kafka.TopicPartition("t", 0, offset)]
            client.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), PATIENCE_S)
            getattr(client, f"{end}_transaction")(PATIENCE_S)
            [position] = consumer.committed([confluent_kafka.TopicPartition("t", 0)], PATIENCE_S)
            assert position.offset == 1
        consumer.close()

    with_node(tmp_path, work)


def test_a_producer_that_comes_later_fences_the_one_before(tmp_path: Path) -> None:
    def work(address: str) -> None:
        former = producer(address)
        former.begin_transaction()
        former.produce("t", b"left open", partition=0)
        former.flush()
        later = producer(address)
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            former.commit_transaction(PATIENCE_S)
        assert refused.value.args[0].fatal()
        later.begin_transaction()
        later.produce("t", b"after", partition=0)
        later.commit_transaction(PATIENCE_S)
        assert committed(address, 1) == [b"after"]

    with_node(tmp_path, work)


def test_a_transaction_whose_time_is_over_is_aborted(tmp_path: Path) -> None:
    async def state(address: str) -> str:
        host, _, port = address.rpartition(":")
        async with await AsyncConnection.connect(host, int(port)) as connection:
            for _ in range(1000):
                answer = await connection.request(DescribeTransactionsRequest(transactional_ids=["x"]))
                found: str = answer.transaction_states[0].transaction_state
                if found == "CompleteAbort":
                    break
                await asyncio.sleep(0.01)
            return found

    def work(address: str) -> None:
        client = producer(address, **{"transaction.timeout.ms": 1000})
        client.begin_transaction()
        client.produce("t", b"left open", partition=0)
        client.flush()
        assert asyncio.run(state(address)) == "CompleteAbort"

    with_node(tmp_path, work, transaction_abort_timed_out_transaction_cleanup_interval_ms="50")
