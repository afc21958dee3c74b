"""A broker reads its segments in the background, and finds what the disk has changed."""

from __future__ import annotations

from tests.broker.harness import Node, batch
from tests.broker.test_damaged import WHERE, rolled

from barnabas.log.segments.damage import Damage
from barnabas.sim.kernel.disk import MemoryDisk

SEGMENTS, RECORD_BYTES = 4, 100_000
INTERVAL_S = 1000.0


def scrubbed(disk: MemoryDisk, **settings: str) -> Node:
    """A node with four sealed segments, of one record each."""
    node = Node(disk, barnabas_scrub_interval_ms=str(int(INTERVAL_S * 1000)), **settings)
    node.create("t")
    for _ in range(SEGMENTS):
        node.append(batch("x" * RECORD_BYTES))
        rolled(node)
    return node


def after(node: Node, seconds: int) -> None:
    for _ in range(seconds):
        node.after(1)
        node.broker.maintain(node.now)
        node.turn()


def test_every_segment_is_read_once_in_the_interval() -> None:
    node = scrubbed(MemoryDisk())
    after(node, int(INTERVAL_S * 1.5))
    scrubber = node.broker.maintenance.scrubber
    assert scrubber.rounds == 1
    assert SEGMENTS * RECORD_BYTES < scrubber.read_bytes < 2 * SEGMENTS * RECORD_BYTES
    assert node.outside.damages == []


def test_a_node_that_had_nothing_to_read_looks_again_soon_where_its_interval_is_short() -> None:
    node = Node(MemoryDisk(), barnabas_scrub_interval_ms="5000")
    after(node, 2)
    node.create("t")
    node.append(batch("first"))
    after(node, 12)
    assert node.broker.maintenance.scrubber.read_bytes


def test_a_bit_that_flips_is_told_of_before_anybody_reads_there() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    disk.corrupt("/data/t-0/00000000000000000002.log", 5_000, flip=1)
    after(node, int(INTERVAL_S * 1.5))
    assert node.outside.damages == [("/data/t-0", 2, 3)]
    assert node.logs.get(WHERE).damage == [  # type: ignore[union-attr]
        Damage(2, 3, "/data/t-0/00000000000000000002.log: the CRC of the batch at 0 is wrong")
    ]
    assert len(node.broker.lacking) == 1


def test_the_newest_segment_is_read_as_far_as_it_is_durable() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    node.append(batch("newest"))
    node.turn()
    disk.corrupt(f"/data/t-0/{SEGMENTS:020d}.log", 70, flip=1)
    after(node, int(INTERVAL_S * 1.5))
    assert node.outside.damages == [("/data/t-0", SEGMENTS, SEGMENTS + 1)]


def test_an_offset_that_no_crc_covers_is_checked_too() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    disk.corrupt("/data/t-0/00000000000000000002.log", 7, flip=1)
    after(node, int(INTERVAL_S * 1.5))
    assert [where for where, *_ in node.outside.damages] == ["/data/t-0"]


def test_a_segment_that_is_deleted_while_it_is_read_is_no_damage() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    log = node.logs.get(WHERE)
    assert log is not None
    scrub = None
    while scrub is None:
        node.after(60)
        scrub = node.broker.maintenance.scrubber.step(node.now)
    disk.corrupt(scrub.segment.path(".log"), 50)
    scrub.run()
    log.truncate_fully_and_start_at(9, node.now)
    node.broker.maintenance.scrubber.returned(scrub, node.now)
    assert scrub.reason and node.outside.damages == []


def test_the_scrubber_can_be_turned_off() -> None:
    node = scrubbed(MemoryDisk())
    node.broker.reconfigure(node.broker.config.with_changes({"barnabas.scrub.interval.ms": "-1"}))
    after(node, int(INTERVAL_S))
    assert node.broker.maintenance.scrubber.read_bytes == 0
