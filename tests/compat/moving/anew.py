"""Records that a producer wrote again by itself, under its next epoch: read from the segments of the leaders.

librdkafka's idempotent producer takes a new epoch when a broker refuses a sequence number, as happens when leaders
change while its requests are under way.  Then it sends again what it has no answer for, everywhere.  A part of
that was written before.  No broker can recognise it; beside Apache Kafka alone the same happens.
"""

from __future__ import annotations

from collections import defaultdict

from tests.compat.moving.nodes import Six

from barnabas.client.admin.admin import Admin
from barnabas.wire.records import batches, read_records

__all__ = ["written_anew"]


def written_anew(six: Six, topic: str) -> int:
    """Return how many records of a topic stand under more than one epoch of their producer, each counted once."""
    with Admin(six.bootstrap, timeout=30) as admin:
        leaders = {row.partition: row.leader for row in admin.describe_topic(topic).partitions.values()}
    found = 0
    for partition, leader in leaders.items():
        epochs: dict[tuple[int, bytes], set[int]] = defaultdict(set)
        data = six.nodes[leader].data / f"{topic}-{partition}"
        for segment in sorted(data.glob("*.log")):
            content = segment.read_bytes()
            for position, header in batches(content):
                for record in read_records(content, position, header):
                    epochs[header.producer_id, record.value or b""].add(header.producer_epoch)
        found += sum(len(several) - 1 for several in epochs.values())
    return found
