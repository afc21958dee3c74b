"""Groups that only Apache Kafka serves, in a partition of __consumer_offsets that a broker of ours leads."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.broker.test_groups import OffsetsPartition, World

from barnabas.wire.coordinator import write_key, write_value
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas import share_group_records, streams_group_records
from barnabas.wire.schemas.groups import ListGroupsRequest


def records_of(module: ModuleType) -> list[Record]:
    """One record of each type that such a group has, and a tombstone of each."""
    told: list[tuple[bytes, bytes | None]] = []
    for name in [name.removesuffix("Key") for name in module.__all__ if name.endswith("Key")]:
        key = write_key(getattr(module, f"{name}Key")(group_id="theirs"))
        told += [(key, write_value(getattr(module, f"{name}Value")())), (key, None)]
    return [Record(offset, 0, key, value) for offset, (key, value) in enumerate(told)]


@pytest.mark.parametrize("module", [share_group_records, streams_group_records])
def test_records_of_share_and_streams_groups_are_passed_over_and_kept(module: ModuleType) -> None:
    """Their coordinator may be one of Apache Kafka again; the groups that lie beside them are served."""
    partition = OffsetsPartition()
    before = World(partition)
    before.commit(5)
    theirs = records_of(module)
    assert len(theirs) >= 12
    partition.append(bytearray(write_batch(theirs)))
    before.commit(6)
    left = bytes(partition.raw)

    world = World(partition)
    assert world.position() == 6
    listed = world.groups.list(world.context(5), ListGroupsRequest(), world.now)
    assert [group.group_id for group in listed.groups] == ["g"]
    world.run(8 * 86400.0)
    assert bytes(partition.raw)[: len(left)] == left and b"theirs" not in partition.raw[len(left) :]
