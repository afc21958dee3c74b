"""What lies in the log directories of brokers, and who else may lead a partition: `log_dirs(cluster, 3).sizes()`.

Both are what tools ask to say how much a move of replicas costs and what is safe to stop.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition
from barnabas.wire.schemas.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from barnabas.wire.schemas.reassignment import DescribeLogDirsRequest

__all__ = ["BrokerDirs", "Eligible", "eligible_replicas", "log_dirs"]


ANSWER_SECONDS = 5.0
"""A broker that hangs is not waited for: what it has is asked for only to be shown."""


class ReplicaOnDisk(NamedTuple):
    """A replica in a log directory; `size` in bytes, `future`: it is being copied there (KIP-113)."""

    topic: str
    partition: int
    size: int
    future: bool


class BrokerDirs(NamedTuple):
    """The log directories of one broker.  Bytes are -1 where the broker does not say."""

    broker: NodeId
    paths: tuple[str, ...]
    offline: tuple[str, ...]
    cordoned: tuple[str, ...]
    replicas: tuple[ReplicaOnDisk, ...]
    total_bytes: int
    usable_bytes: int

    @property
    def wholly_cordoned(self) -> bool:
        """Whether no directory takes new replicas (KIP-1066)."""
        return bool(self.paths) and set(self.paths) <= {*self.cordoned, *self.offline} and bool(self.cordoned)

    def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of each replica that serves."""
        return {TopicPartition(r.topic, r.partition): r.size for r in self.replicas if not r.future}


class Eligible(NamedTuple):
    """Who may lead a partition beside those in sync (KIP-966); None where the cluster does not say."""

    elr: tuple[NodeId, ...] | None
    last_known_elr: tuple[NodeId, ...] | None


@for_both
async def log_dirs(cluster: AnyCluster, broker: NodeId) -> BrokerDirs:
    """`log_dirs(cluster, 3).sizes()` -> bytes of each replica in the log directories of one broker.

    It is asked once, for at most 5 s.  Raises KafkaError BROKER_NOT_AVAILABLE when it does not serve.
    """
    request = DescribeLogDirsRequest(topics=None)
    connection = await cluster.connection(broker)
    response = await connection.request(request, timeout=min(ANSWER_SECONDS, cluster.timeout))
    if response.error_code:
        code = ErrorCode(response.error_code)
        raise KafkaError(code, f"broker {broker} does not describe its log directories: {code.name}")
    found = response.results
    replicas = tuple(
        ReplicaOnDisk(topic.name, row.partition_index, row.partition_size, row.is_future_key)
        for directory in found
        for topic in directory.topics
        for row in topic.partitions
    )
    known = [d for d in found if d.total_bytes >= 0]
    return BrokerDirs(
        broker,
        tuple(d.log_dir for d in found),
        tuple(d.log_dir for d in found if d.error_code),
        tuple(d.log_dir for d in found if d.is_cordoned),
        replicas,
        sum(d.total_bytes for d in known) if known else -1,
        sum(d.usable_bytes for d in known) if known else -1,
    )


@for_both
async def eligible_replicas(cluster: AnyCluster, topic: str) -> dict[int, Eligible]:
    """`eligible_replicas(cluster, "orders")[0].elr` -> who may lead beside those in sync (KIP-966).

    Empty where the brokers do not serve that request.
    """
    if not (await cluster.any()).serves(DescribeTopicPartitionsRequest):
        return {}
    found: dict[int, Eligible] = {}
    cursor: DescribeTopicPartitionsRequestCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)], cursor=cursor)
        response = await cluster.ask(request)
        for page in response.topics:
            if page.error_code:
                code = ErrorCode(page.error_code)
                raise KafkaError(code, f"topic {topic}: {code.name}")
            for row in page.partitions:
                found[row.partition_index] = Eligible(
                    _ids(row.eligible_leader_replicas), _ids(row.last_known_elr)
                )
        after = response.next_cursor
        if after is None:
            return found
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=after.topic_name, partition_index=after.partition_index
        )


def _ids(found: list[int] | None) -> tuple[NodeId, ...] | None:
    return None if found is None else tuple(found)
