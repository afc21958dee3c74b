"""One directory, two programs: Apache Kafka goes on where our controller stopped, and the other way round."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, kafka_class

from barnabas.client.admin.admin import Admin

pytestmark = pytest.mark.compat


@contextmanager
def kafka_on(folder: Path, node: NodeProcess) -> Iterator[None]:
    """A real Apache Kafka on our node's directory, properties and ports."""
    properties = node.folder / "kafka.properties"
    properties.write_text(
        node.properties.read_text() + "offsets.topic.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "transaction.state.log.replication.factor=1\ninter.broker.listener.name=PLAINTEXT\n"
    )
    log = (node.folder / "kafka.log").open("ab")
    process = subprocess.Popen(
        [folder / "broker-class.sh", str(properties)],
        stdout=log,
        stderr=log,
        env={**os.environ, "KAFKA_HEAP": "512m"},
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            assert process.poll() is None, (node.folder / "kafka.log").read_text()[-4000:]
            try:
                socket.create_connection(("127.0.0.1", node.port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)
        log.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_apache_kafka_goes_on_with_our_metadata_and_we_go_on_with_its(
    apache: Path, one_node: NodeProcess, how: str
) -> None:
    node = one_node
    with Admin(node.bootstrap) as admin:
        admin.create_topic("ours", partitions=3, replication=1, configs={"retention.ms": "86400000"})
    if how == "stopped":
        assert node.stop() == 0
    else:
        node.kill()
    tool = "org.apache.kafka.tools.TopicCommand"
    with kafka_on(apache, node):
        shown = kafka_class(tool, "--bootstrap-server", node.bootstrap, "--describe", "--topic", "ours")
        assert "PartitionCount: 3" in shown and "retention.ms=86400000" in shown
        assert shown.count("Leader: 1") == 3
        make = ("--create", "--topic", "theirs", "--partitions", "2", "--replication-factor", "1")
        kafka_class(tool, "--bootstrap-server", node.bootstrap, *make)
        quorum = kafka_class(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            "--bootstrap-server",
            node.bootstrap,
            "describe",
            "--status",
        )
        assert "LeaderId:               1" in quorum
    node.start()
    with Admin(node.bootstrap) as admin:
        assert {"ours", "theirs"} <= {topic.name for topic in admin.topics()}
    shown = kafka_class(tool, "--bootstrap-server", node.bootstrap, "--describe", "--topic", "theirs")
    assert shown.count("Leader: 1") == 2
