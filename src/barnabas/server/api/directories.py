"""What lies in which log directory of this node, and moving it to another one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, StorageError
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.model import TopicPartition
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.context import RequestContext
from barnabas.wire.schemas.reassignment import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["DirectoryApi"]


class DirectoryApi:
    """The log directories of this broker."""

    __slots__ = ("_broker", "_runtime")

    def __init__(self, runtime: Runtime, broker: Broker) -> None:
        self._runtime = runtime
        self._broker = broker

    def describe_log_dirs(
        self, context: RequestContext, request: DescribeLogDirsRequest
    ) -> DescribeLogDirsResponse:
        """DescribeLogDirs (key 35; KIP-113, KIP-827, KIP-1066): directories, the replicas in them, sizes, room.

        Directories are named by their absolute paths; one that is offline is named with its error.
        """
        wanted: set[TopicPartition] | None = None
        if request.topics is not None:
            wanted = {
                TopicPartition(asked.topic, index) for asked in request.topics for index in asked.partitions
            }
        logs = self._broker.logs
        described = [self._described(directory, wanted) for directory in logs.online()]
        results = [result for result in described if result is not None]
        here = {result.log_dir for result in results}
        failed = dict.fromkeys(map(os.path.abspath, (*logs.missing(), *(d.path for d in logs.directories))))
        return DescribeLogDirsResponse(
            results=[
                *results,
                *(
                    DescribeLogDirsResult(error_code=int(ErrorCode.KAFKA_STORAGE_ERROR), log_dir=path)
                    for path in failed
                    if path not in here
                ),
            ]
        )

    def _described(
        self, directory: LogDirectory, wanted: set[TopicPartition] | None
    ) -> DescribeLogDirsResult | None:
        """One directory; None when it cannot be looked at."""
        try:
            usable = directory.disk.free_bytes(directory.path)
            total = directory.disk.total_bytes(directory.path)
        except StorageError:
            return None
        registered = self._broker.image.brokers.get(self._runtime.node_id)
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for logs, future in ((directory.logs, False), (directory.futures, True)):
            for key, log in sorted(logs.items()):
                if wanted is not None and key not in wanted:
                    continue
                lag = log.high_watermark - log.log_end_offset
                if future:
                    current = self._broker.logs.get(key)
                    lag = 0 if current is None else current.log_end_offset - log.log_end_offset
                topics.setdefault(key.topic, []).append(
                    DescribeLogDirsPartition(
                        partition_index=key.partition,
                        partition_size=log.size,
                        offset_lag=max(0, lag),
                        is_future_key=future,
                    )
                )
        return DescribeLogDirsResult(
            log_dir=os.path.abspath(directory.path),
            total_bytes=total,
            usable_bytes=usable,
            is_cordoned=registered is not None and directory.directory_id in registered.cordoned,
            topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )

    def alter_replica_log_dirs(
        self, context: RequestContext, request: AlterReplicaLogDirsRequest
    ) -> AlterReplicaLogDirsResponse:
        """AlterReplicaLogDirs (key 34; KIP-113): replicas of this node move to other directories of it.

        The answer says that the moves began; DescribeLogDirs shows how far they are.
        """
        broker, now = self._broker, self._runtime.clock.now()
        logs = broker.logs
        known = (*(directory.path for directory in logs.directories), *logs.missing())
        paths = {os.path.abspath(path): path for path in known}
        topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for asked in request.dirs:
            path = paths.get(os.path.abspath(asked.path), asked.path)
            for topic in asked.topics:
                for index in topic.partitions:
                    code = broker.moves.alter(TopicPartition(topic.name, index), path, now)
                    topics.setdefault(topic.name, []).append(
                        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=int(code))
                    )
        self._runtime.step.soon()
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(topic_name=name, partitions=rows)
                for name, rows in topics.items()
            ]
        )
