"""What this release does not serve is refused at once, in words, by every client alike: nobody waits for ever."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, run_kafka_class

pytestmark = pytest.mark.compat

SOON = 10.0
"""Seconds in which a refusal must reach the program."""


def test_librdkafka_is_told_that_there_are_no_transactions(one_node: NodeProcess) -> None:
    from confluent_kafka import KafkaException, Producer

    producer = Producer({"bootstrap.servers": one_node.bootstrap, "transactional.id": "t", "log_level": 0})
    began = time.monotonic()
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(30)
    assert time.monotonic() - began < SOON
    assert refused.value.args[0].name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert "transactions are not served by this release" in refused.value.args[0].str()


def test_kafka_python_is_told_that_there_are_no_transactions(one_node: NodeProcess) -> None:
    from kafka import KafkaProducer
    from kafka.errors import TransactionalIdAuthorizationFailedError

    producer = KafkaProducer(bootstrap_servers=one_node.bootstrap, transactional_id="t")
    began = time.monotonic()
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    assert time.monotonic() - began < SOON
    producer.close(timeout=1)


def test_aiokafka_is_told_that_there_are_no_transactions(one_node: NodeProcess) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import TransactionalIdAuthorizationFailed

    async def main() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=one_node.bootstrap, transactional_id="t")
        try:
            async with asyncio.timeout(SOON):
                with pytest.raises(TransactionalIdAuthorizationFailed):
                    await producer.start()
        finally:
            await producer.stop()

    asyncio.run(main())


def test_apache_kafka_is_told_that_there_are_no_transactions(apache: object, one_node: NodeProcess) -> None:
    code, printed = run_kafka_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "t", "--num-records", "10", "--record-size", "10", "--throughput", "-1"),
        *("--bootstrap-server", one_node.bootstrap, "--transactional-id", "t"),
        timeout=30,
    )
    assert code != 0
    assert "TransactionalIdAuthorizationException" in printed


def test_apache_kafka_is_told_where_the_new_group_protocol_is_not_in_force(
    apache: object, tmp_path: Path
) -> None:
    """KIP-848: the client names the setting that helps."""
    node = NodeProcess(tmp_path / "node", group_coordinator_rebalance_protocols="classic")
    try:
        node.start().barnabas("topics", "create", "t", "--bootstrap-server", node.bootstrap)
        _, printed = run_kafka_class(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", node.bootstrap, "--topic", "t", "--timeout-ms", "20000"),
            *("--command-property", "group.protocol=consumer"),
            timeout=60,
        )
        node.stop()
    finally:
        node.discard()
    assert "Set group.protocol=classic" in printed
