"""A node of ours and an Apache Kafka that began from one directory, so that their topics have the same ids."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.compat.conftest import NodeProcess
from tests.compat.side_by_side.side import Side
from tests.compat.side_by_side.steps import TOPICS
from tests.compat.test_compaction import apache_kafka_on
from tools.peer import RELEASE

from barnabas.client.blocking import BlockingConnection
from barnabas.wire.schemas.groups import FindCoordinatorRequest
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

__all__ = ["SETTINGS", "coordinators_answer", "pair_of_nodes"]

SETTINGS = {
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "1",
    "group_consumer_assignment_interval_ms": "0",
    "group_consumer_min_assignment_interval_ms": "0",
    "group_consumer_assignor_offload_enable": "false",
    "unstable_api_versions_enable": "true",
    "group_min_session_timeout_ms": "6000",
    # without a delay our first generation waits for members that were just given an id, Apache Kafka's does not
    "group_initial_rebalance_delay_ms": "20",
}


@contextmanager
def pair_of_nodes(
    folder: Path, scripts: Path, ports: range | None = None, **settings: str
) -> Iterator[tuple[Side, Side]]:
    """(ours, theirs), both ready. `ports` are for Apache Kafka."""
    ours = NodeProcess(folder / "ours", **{**SETTINGS, **settings})
    theirs = NodeProcess(folder / "theirs", **{**SETTINGS, **settings})
    if ports is not None:
        theirs.port, theirs.controller_port = ports[0], ports[1]
    for node in (ours, theirs):
        _fix_quorum(node)
    try:
        cluster = ours.barnabas("storage", "random-uuid").strip()
        ours.barnabas("storage", "format", "-t", cluster, "-c", str(ours.properties), *RELEASE)
        ours.start()
        _begin(ours.port)
        assert ours.stop() == 0, ours.log.read_text()
        shutil.copytree(ours.data, theirs.data)
        ours.start()
        with apache_kafka_on(theirs, scripts):
            sides = Side("ours", ours.port, {}), Side("theirs", theirs.port, {})
            for side in sides:
                coordinators_answer(side)
                side.shared = {name: id for name, id in side.topic_ids().items() if name in TOPICS}
            assert sides[0].shared == sides[1].shared
            yield sides
            for side in sides:
                side.close()
        assert ours.stop() == 0, ours.log.read_text()
    finally:
        ours.discard()


def _fix_quorum(node: NodeProcess) -> None:
    """Voters by the configuration: nothing in the directory then says where its node listened."""
    lines = {}
    for line in node.properties.read_text().splitlines():
        name, _, value = line.partition("=")
        lines[name] = value
    del lines["controller.quorum.bootstrap.servers"]
    lines["controller.quorum.voters"] = f"1@127.0.0.1:{node.controller_port}"
    lines["listeners"] = f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}"
    node.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))


def _begin(port: int) -> None:
    with BlockingConnection("127.0.0.1", port) as connection:
        topics = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in TOPICS.items()
        ]
        connection.request(CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        _coordinators(connection)


def _coordinators(connection: BlockingConnection) -> None:
    deadline = time.monotonic() + 60
    for kind in (0, 1):
        asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
        while connection.request(asked, 4).coordinators[0].error_code:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def coordinators_answer(side: Side) -> None:
    """Wait until both coordinators answer, and a block of producer ids is there."""
    from barnabas.wire.schemas.groups import OffsetFetchRequest, OffsetFetchRequestGroup
    from barnabas.wire.schemas.transactions import InitProducerIdRequest

    _coordinators(side.connection("admin"))
    deadline = time.monotonic() + 60
    init = InitProducerIdRequest(transactional_id="warm", transaction_timeout_ms=60_000)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="warm", topics=None)])
    while side.ask(init, 5).error_code or side.ask(fetch, 8).groups[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.1)
