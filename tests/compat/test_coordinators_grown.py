"""__consumer_offsets that gets more partitions: both kinds take it, and find the same groups from then on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess
from tests.compat.test_compaction import apache_kafka_on
from tests.server.quorum_processes import eventually

from barnabas.client.admin.admin import Admin
from barnabas.client.admin.groups import set_group_offsets
from barnabas.client.both.awaited import at_once
from barnabas.client.group_offsets import committed_offsets
from barnabas.model import OFFSETS_TOPIC, TopicPartition
from barnabas.wire.java_hash import java_hash

pytestmark = pytest.mark.compat

BEFORE, AFTER = 4, 6
GROUPS = [f"group-{number}" for number in range(12)]
STAY = {name for name in GROUPS if java_hash(name) % BEFORE == java_hash(name) % AFTER}
T = TopicPartition("t", 0)
ONE = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": str(BEFORE)}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    running = NodeProcess(tmp_path / "node", **ONE)
    try:
        with life(running, None):
            running.barnabas("topics", "create", "t", "--bootstrap-server", running.bootstrap)
        yield running
    finally:
        running.discard()


@contextmanager
def life(node: NodeProcess, apache: Path | None) -> Iterator[Admin]:
    """One of ours, or of Apache Kafka in its place."""
    if apache is not None:
        with apache_kafka_on(node, apache), Admin(node.bootstrap, timeout=60) as admin:
            yield admin
        return
    node.start()
    with Admin(node.bootstrap, timeout=60) as admin:
        yield admin
    assert node.stop() == 0, node.log.read_text()


def positions(admin: Admin) -> dict[str, int | None]:
    def of(group: str) -> int | None:
        at = admin.cluster.awaited.at_coordinator
        return at_once(at(group, lambda coordinator: committed_offsets(coordinator, group))).get(T)

    return {group: of(group) for group in GROUPS}


@pytest.mark.parametrize("whose", ["ours", "Apache Kafka's"])
def test_groups_that_belong_elsewhere_by_the_new_count_have_no_positions(
    request: pytest.FixtureRequest, node: NodeProcess, whose: str
) -> None:
    assert 0 < len(STAY) < len(GROUPS)
    apache = None if whose == "ours" else request.getfixturevalue("apache")
    with life(node, apache) as admin:
        for number, group in enumerate(GROUPS):
            set_group_offsets(admin.cluster, group, {T: number})
        admin.add_partitions(OFFSETS_TOPIC, AFTER)
        eventually(lambda: len(admin.describe_topic(OFFSETS_TOPIC).partitions) == AFTER, 30)
    kept = {group: number if group in STAY else None for number, group in enumerate(GROUPS)}
    with life(node, apache) as admin:
        assert positions(admin) == kept
        moved = next(group for group in GROUPS if group not in STAY)
        set_group_offsets(admin.cluster, moved, {T: 99})
    with life(node, apache) as admin:
        assert positions(admin) == {**kept, moved: 99}
