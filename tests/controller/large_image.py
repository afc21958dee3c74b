"""`python -m tests.controller.large_image TOPICS EACH`: what an image of so many partitions costs, as JSON.

In a process of its own, so that its memory is that of the image.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.controller.cluster import CLUSTER, Cluster

from barnabas.controller.image import MetadataImage
from barnabas.controller.replay import Replay
from barnabas.controller.snapshot import image_from, image_records
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.snapshot import SnapshotId
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.records import read_snapshot
from barnabas.server.kraft.snapshots import SnapshotJob
from barnabas.server.loop.system import SystemClock
from barnabas.wire.codec.message import MetadataRecord

T = TypeVar("T")
BROKERS = range(1, 7)


class Costs:
    """CPU seconds of steps, and the memory of what they leave."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    def of(self, name: str, step: Callable[[], T]) -> T:
        gc.collect()
        before, begun = resident_mb(), time.process_time()
        made = step()
        self.figures[f"{name}_cpu_s"] = time.process_time() - begun
        gc.collect()
        self.figures[f"{name}_mb"] = resident_mb() - before
        return made


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def measure(topics: int, each: int) -> dict[str, Any]:
    cluster, costs = Cluster(*BROKERS), Costs()
    costs.of("create", lambda: [cluster.create(f"t{n}", each, 3) for n in range(topics)] and None)
    image = cluster.image
    records = list(image_records(image))

    def replayed() -> MetadataImage:
        other = Replay(MetadataImage(CLUSTER))
        for first in range(0, len(records), 1000):
            part = records[first : first + 1000]
            other.apply(part, offset=first + len(part) - 1, epoch=1, timestamp_ms=0)
        return other.image

    again = costs.of("replay", replayed)
    copied = costs.of("copy", image.copy)
    with tempfile.TemporaryDirectory(prefix="barnabas-image-") as folder:
        job = SnapshotJob(OsDisk(), SystemClock(), folder, copied, VoterSet(()), 1)
        costs.of("write", job.run)
        path = Path(folder) / SnapshotId(*job.snapshot).file_name
        content = costs.of("read", lambda: read_snapshot(path.read_bytes()))
    loaded = costs.of("load", lambda: loaded_from(content.records))
    cluster.time += 1
    costs.of("heartbeat", lambda: cluster.beat(1))
    costs.of("one_more", lambda: cluster.create("one", 1, 3))
    return {
        "partitions": sum(len(topic.partitions) for topic in again.topics.values()),
        "records": len(records),
        "snapshot_mb": job.size / 1e6,
        "same_replayed": list(image_records(again)) == records,
        "same_loaded": list(image_records(loaded)) == records,
        **costs.figures,
    }


def loaded_from(records: list[MetadataRecord]) -> MetadataImage:
    return image_from(records, cluster_id=CLUSTER, end_offset=1, epoch=1, timestamp_ms=0)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
