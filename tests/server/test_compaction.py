"""A node that compacts while it serves: group positions among others."""

from __future__ import annotations

import time
from pathlib import Path

from tests.patience import PATIENCE_S

from barnabas.client.admin.admin import Admin
from barnabas.model import TopicPartition
from barnabas.testing import Cluster

PARTITIONS = 60
SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "1048576",
    "log.flush.interval.messages": "9223372036854775807",
}


def cleaned(data: Path) -> int:
    path = data / "cleaner-offset-checkpoint"
    for line in path.read_text().splitlines()[2:] if path.exists() else []:
        if line.startswith("__consumer_offsets "):
            return int(line.split()[2])
    return 0


def test_group_positions_are_all_there_after_their_log_was_compacted_and_the_node_was_killed(
    tmp_path: Path,
) -> None:
    with Cluster(SETTINGS, directory=str(tmp_path)) as kafka:
        with Admin(kafka.bootstrap) as admin:
            admin.create_topic("t", partitions=PARTITIONS)
            number = 0
            deadline = time.monotonic() + PATIENCE_S
            while cleaned(tmp_path / "data") < 2 * PARTITIONS:
                assert time.monotonic() < deadline, kafka.log()
                for group in ("a", "b", "c"):
                    number += 1
                    admin.set_group_offsets(
                        group,
                        {TopicPartition("t", index): number * 100 + index for index in range(PARTITIONS)},
                    )
            expected = {group: rows(admin, group) for group in "abc"}
        assert "not-compacted" not in kafka.log()
        size = sum(path.stat().st_size for path in (tmp_path / "data/__consumer_offsets-0").glob("*.log"))
        assert size < number * PARTITIONS * 60  # what was compacted is small
        kafka.kill()
        kafka.start()
        with Admin(kafka.bootstrap) as admin:
            assert {group: rows(admin, group) for group in "abc"} == expected
            assert len(expected["a"]) == PARTITIONS


def rows(admin: Admin, group: str) -> dict[int, int]:
    return {r.partition: r.committed for r in admin.group_offsets(group) if r.committed is not None}
