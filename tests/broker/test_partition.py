"""The leader's view of a partition with followers: who is in sync, what is committed."""

from __future__ import annotations

from tests.broker.harness import PAGE_CACHE, Node, batch

from barnabas.errors import ErrorCode
from barnabas.sim.kernel.disk import MemoryDisk


def two(disk: MemoryDisk, **configs: str) -> Node:
    """A node that leads `t`, which node 2 follows."""
    node = Node(disk)
    node.create("t", replicas=(1, 2), **configs)
    return node


def test_acks_all_waits_until_every_in_sync_replica_fetched_beyond_the_record(disk: MemoryDisk) -> None:
    node = two(disk)
    produced = node.produce(batch("a"))
    node.turn()
    assert not produced.here
    first = node.fetch(replica=2, version=15)
    node.turn()
    assert len(first.fetched.records) > 0
    assert not produced.here
    node.fetch({("t", 0): 1}, replica=2, version=15)
    node.turn()
    assert produced.error == ErrorCode.NONE
    assert node.broker.partition("t", 0).high_watermark == 1  # type: ignore[union-attr]


def test_acks_1_does_not_wait_for_followers(disk: MemoryDisk) -> None:
    node = two(disk)
    assert node.append(batch("a"), acks=1).error_code == ErrorCode.NONE


def test_consumers_see_nothing_above_the_high_watermark_and_followers_do(disk: MemoryDisk) -> None:
    node = two(disk)
    node.append(batch("a"), acks=1)
    assert len(node.fetch().fetched.records) == 0
    assert len(node.fetch(replica=2).fetched.records) > 0


def test_a_follower_too_sees_nothing_that_is_not_durable_here(disk: MemoryDisk) -> None:
    node = two(disk)
    node.produce(batch("a"))
    node.write()
    assert len(node.fetch(replica=2).fetched.records) == 0
    parked = node.fetch(replica=2, max_wait_ms=500)
    node.sync()
    assert len(parked.fetched.records) > 0


def test_a_fetch_from_a_node_that_is_no_replica_is_refused(disk: MemoryDisk) -> None:
    node = two(disk)
    assert node.fetch(replica=3).fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.fetch(replica=3, epoch=0).fetched.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_smaller_in_sync_set_lets_waiting_producers_go(disk: MemoryDisk) -> None:
    node = two(disk)
    produced = node.produce(batch("a"))
    node.turn()
    node.after(40)
    late = node.produce(batch("b"), timeout_ms=60_000)
    node.turn()
    node.change("t", isr=(1,))
    node.turn()
    assert produced.error == ErrorCode.REQUEST_TIMED_OUT
    assert late.error == ErrorCode.NONE


def test_a_replica_that_keeps_up_counts_before_it_is_in_sync(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("t", replicas=(1, 2), isr=(1,))
    node.append(batch("a"))
    partition = node.broker.partition("t", 0)
    assert partition is not None
    assert partition.high_watermark == 1
    node.fetch({("t", 0): 1}, replica=2)
    produced = node.produce(batch("b"))
    node.turn()
    assert not produced.here, "node 2 keeps up and will be in sync: what is committed must be there too"
    node.fetch({("t", 0): 2}, replica=2)
    node.turn()
    assert produced.error == ErrorCode.NONE


def test_too_few_in_sync_replicas_hold_the_high_watermark(disk: MemoryDisk) -> None:
    node = two(disk, min_insync_replicas="2")
    produced = node.produce(batch("a"))
    node.turn()
    node.change("t", isr=(1,))
    node.turn()
    assert not produced.here
    assert node.broker.partition("t", 0).high_watermark == 0  # type: ignore[union-attr]


def test_an_in_sync_set_that_became_too_small_is_told_after_the_append(disk: MemoryDisk) -> None:
    node = two(disk, min_insync_replicas="2")
    numbered = batch("a", producer_id=1, producer_epoch=0, base_sequence=0)
    node.produce(numbered[:])
    node.turn()
    node.fetch({("t", 0): 1}, replica=2)
    node.turn()
    again = node.produce(numbered[:])
    node.change("t", isr=(1,))
    node.turn()
    assert again.error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_the_high_watermark_never_falls_while_this_node_leads(disk: MemoryDisk) -> None:
    node = two(disk)
    node.append(batch("a"), acks=1)
    node.fetch({("t", 0): 1}, replica=2)
    node.turn()
    partition = node.broker.partition("t", 0)
    assert partition is not None
    node.fetch({("t", 0): 0}, replica=2)
    node.turn()
    assert partition.high_watermark == 1


def test_a_new_leader_epoch_is_known_before_its_first_record(disk: MemoryDisk) -> None:
    node = two(disk)
    node.append(batch("a"), acks=1)
    node.change("t", leader=1, leader_epoch=8)
    partition = node.broker.partition("t", 0)
    assert partition is not None
    assert (partition.leading.epoch_start, partition.log.latest_epoch) == (1, 8)
    assert partition.log.end_offset_for_epoch(0) == (0, 1)


def test_an_older_state_of_the_metadata_changes_nothing(disk: MemoryDisk) -> None:
    node = two(disk)
    partition = node.broker.partition("t", 0)
    assert partition is not None
    old = node.image.topics_by_name["t"].partitions[0]
    node.change("t", leader=1, leader_epoch=8)
    assert partition.lead(old, node.now) is False
    assert partition.leader_epoch == 8


def test_replication_from_the_page_cache(disk: MemoryDisk) -> None:
    node = Node(disk, log_flush_interval_messages=PAGE_CACHE)
    node.create("t", replicas=(1, 2))
    produced = node.produce(batch("a"))
    parked = node.fetch(replica=2, max_wait_ms=500)
    node.write()
    assert len(parked.fetched.records) > 0
    node.fetch({("t", 0): 1}, replica=2, max_wait_ms=500)
    node.write()
    assert produced.error == ErrorCode.NONE


def test_a_partition_describes_itself(disk: MemoryDisk) -> None:
    node = two(disk)
    node.append(batch("a"), acks=1)
    partition = node.broker.partition("t", 0)
    assert repr(partition) == "<Partition t-0 leader epoch=0 start=0 hw=0 end=1 isr=1·2>"
    assert partition is not None
    numbers = partition.statistics()
    assert (numbers.topic, numbers.leads, numbers.in_sync, numbers.log_end) == ("t", True, 2, 1)
