"""The cluster as planning and tasks see it: our own client, by the two interfaces that `plan` and `source` use.

One `Cluster` per process and address is kept open: Spark uses its Python workers again, and a connection
made once serves all tasks of a worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.connection import ConnectionFailed
from barnabas.client.fetching import RawBatch, fetch_range
from barnabas.client.group_offsets import commit_offsets
from barnabas.client.offsets import list_offsets_at
from barnabas.client.security.options import Security
from barnabas.errors import KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.pipeline.offsets import Offsets
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.plan import Range

__all__ = ["ClientView", "fetch", "shared_cluster"]

T = TypeVar("T")
log = logging.getLogger("barnabas.pipeline")

PAUSE = 0.25
PATIENCE_WITH_A_MISSING_TOPIC = 3.0
"""Seconds until we believe that a topic is gone: a broker that has just started may not know it yet."""
PATIENCE_WITH_A_GROUP = 5.0
"""Seconds that a micro-batch may wait for the group in which it is shown."""

_clusters: dict[tuple[str, str, Security], Cluster] = {}


def shared_cluster(options: SourceOptions) -> Cluster:
    """The connection of this process to the cluster of a source."""
    key = (options.bootstrap, options.client_id, options.security)
    if key not in _clusters:
        _clusters[key] = Cluster(
            options.bootstrap,
            client_id=options.client_id,
            timeout=options.timeout,
            security=options.security,
        )
    return _clusters[key]


class ClientView:
    """`plan.ClusterView` over a real cluster.  Every question is repeated until options.timeout is over.

    A cluster that was never reached is an error at once, unless `patient`: a wrong address should be said
    to the user who waits for a batch, while a stream that starts again must outlive a node that does.
    """

    def __init__(self, options: SourceOptions, *, patient: bool = False) -> None:
        self._options = options
        self._cluster = shared_cluster(options)
        if patient:
            patiently(self._cluster.cluster_id, options.timeout)

    def __repr__(self) -> str:
        return f"<ClientView {self._cluster!r}>"

    def topics(self, names: Sequence[str] | None) -> dict[str, tuple[Uuid, list[int]]]:
        deadline = time.monotonic() + PATIENCE_WITH_A_MISSING_TOPIC
        while True:
            if names is None:
                found = {name: info for name, info in self._cluster.topics().items() if not info.internal}
            else:
                found = self._cluster.find(names)
            if names is None or len(found) == len(set(names)) or time.monotonic() > deadline:
                return {name: (info.id, list(info.partitions)) for name, info in found.items()}
            time.sleep(PAUSE)

    def offsets(self, *questions: Mapping[TopicPartition, int]) -> list[Offsets]:
        answers = list_offsets_at(self._cluster, questions, isolation=self._options.isolation)
        return [{where: at.offset for where, at in answer.items()} for answer in answers]

    def commit(self, group: str, offsets: Offsets) -> None:
        deadline = time.monotonic() + PATIENCE_WITH_A_GROUP
        while True:
            try:
                return commit_offsets(self._cluster.coordinator(group), group, offsets)
            except (KafkaError, ConnectionFailed) as error:
                again = isinstance(error, ConnectionFailed) or error.code.retriable
                if not again or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE)


def fetch(options: SourceOptions, wanted: Range) -> Iterator[RawBatch]:
    """The batches of one range, CRC checked, without control batches and aborted transactions.

    A node that cannot be reached is tried again until kafkaConsumer.pollTimeoutMs: a task may start at the
    very moment when a node starts again.
    """
    cluster = shared_cluster(options)
    patiently(cluster.cluster_id, options.read_timeout)
    topic = wanted.where.topic
    if any(wanted.id) and cluster.topic(topic).id != wanted.id:
        cluster.forget(topic)  # what this worker knows may be older than the plan
    return iter(
        fetch_range(
            cluster,
            topic,
            wanted.where.partition,
            wanted.start,
            wanted.end,
            max_bytes=options.fetch_bytes,
            isolation=options.isolation,
            topic_id=wanted.id if any(wanted.id) else None,
            timeout=options.read_timeout,
            rack=options.rack,
        )
    )


def patiently(question: Callable[[], T], seconds: float) -> T:
    """Ask until there is an answer: a connection that fails is tried again for so many seconds."""
    deadline = time.monotonic() + seconds
    said = False
    while True:
        try:
            return question()
        except ConnectionFailed as error:
            if time.monotonic() > deadline:
                raise
            if not said:
                log.warning("%s; trying again for %.0f s", error, seconds)
                said = True
        time.sleep(PAUSE)
