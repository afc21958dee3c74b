"""A broker reads its segments in the background, and finds what the disk has changed."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.test_damaged import WHERE, rolled
from tests.broker.test_list_offsets import ask

from barnabas.errors import ErrorCode
from barnabas.log.segments.damage import Damage
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import Record, write_batch

SEGMENTS, RECORD_BYTES = 4, 100_000
INTERVAL_S = 1000.0
EPOCH_BYTE = 15
"""The last byte of the leader epoch of a batch."""


def scrubbed(disk: MemoryDisk, **settings: str) -> Node:
    """A node with four sealed segments, of one record each."""
    node = Node(disk, barnabas_scrub_interval_ms=str(int(INTERVAL_S * 1000)), **settings)
    node.create("t")
    for n in range(SEGMENTS):
        node.append(write_batch([Record(0, node.now.wall_ms + n, b"%d" % n, b"x" * RECORD_BYTES, ())]))
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


def three_batches(disk: MemoryDisk) -> tuple[Node, int]:
    """A node with three batches of one size in its newest segment, and that size."""
    node = Node(disk, barnabas_scrub_interval_ms=str(int(INTERVAL_S * 1000)))
    node.create("t")
    [size] = {len(one) for n in range(3) if node.append(one := batch(f"{n}"))}
    node.turn()
    return node, size


def test_an_offset_that_rose_above_the_end_of_the_log_is_damage_where_its_batch_lies() -> None:
    disk = MemoryDisk()
    node, size = three_batches(disk)
    disk.corrupt("/data/t-0/00000000000000000000.log", size, flip=8)
    after(node, 70)
    assert node.outside.damages == [("/data/t-0", 1, 3)], "no row of an index leads behind it"


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_segment_that_begins_with_a_later_batch_lacks_records_unless_it_is_compacted(policy: str) -> None:
    disk = MemoryDisk()
    node, size = three_batches(disk)
    node.configure("t", cleanup_policy=policy)
    path = "/data/t-0/00000000000000000000.log"
    content = disk.peek(path)
    disk.put(path, content[size : 2 * size] * 2 + content[2 * size :])
    after(node, 70)
    [(_, first, _)] = node.outside.damages
    assert (first == 0) == (policy == "delete")


@pytest.mark.parametrize(
    ("start", "wrong", "found"),
    [(2, (0, 3), [3]), (1, (0, 1, 3), [1, 3]), (0, (0, 2), [0, 2]), (3, (2,), [])],
)
def test_a_bad_batch_hides_none_of_those_behind_it(
    start: int, wrong: tuple[int, ...], found: list[int]
) -> None:
    """Of deleted records nobody asks, so the first bad one is no damage; the same where nobody else has them."""
    disk = MemoryDisk()
    node = Node(disk, barnabas_scrub_interval_ms=str(int(INTERVAL_S * 1000)))
    node.create("t")
    size = len([node.append(one := batch(f"{n}")) for n in range(4)] and one)
    node.turn()
    node.logs.get(WHERE).increment_log_start(start)  # type: ignore[union-attr]
    for number in wrong:
        disk.corrupt("/data/t-0/00000000000000000000.log", (number + 1) * size - 1, flip=1)
    after(node, 70)
    assert node.outside.damages == [("/data/t-0", one, one + 1) for one in found]


@pytest.mark.parametrize("turned", [1, 2])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_epoch_that_no_crc_covers_is_checked_against_that_of_its_leader(number: int, turned: int) -> None:
    """One of three batches of epoch 1 says 0 or 3, also where no batch beside it could tell."""
    disk = MemoryDisk()
    node = Node(disk, barnabas_scrub_interval_ms=str(int(INTERVAL_S * 1000)))
    node.create("t")
    node.change("t", leader_epoch=1)
    [size] = {len(one) for n in range(3) if node.append(one := batch(f"{n}"))}
    node.turn()
    disk.corrupt("/data/t-0/00000000000000000000.log", number * size + EPOCH_BYTE, flip=turned)
    after(node, 70)
    assert node.outside.damages == [("/data/t-0", number, number + 1)]
    assert "is not the 1 of its leader" in node.logs.get(WHERE).damage[0].reason  # type: ignore[union-attr]


def test_a_segment_that_is_deleted_while_it_is_read_is_no_damage() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    log = node.logs.get(WHERE)
    assert log is not None
    scrub = None
    while scrub is None:
        node.after(60)
        scrub = node.broker.maintenance.scrubber.step(node.now)
    (part,) = scrub.parts
    disk.corrupt(part.segment.path(".log"), 50)
    scrub.run()
    log.truncate_fully_and_start_at(9, node.now)
    node.broker.maintenance.scrubber.returned(scrub, node.now)
    assert part.reason and node.outside.damages == []


def test_what_a_piece_waited_for_a_thread_is_no_work_to_rest_from() -> None:
    """A busy node would find no rot: 10 s of waiting made 990 s of rest."""
    for cpu_s, ran_s, rest_s in ((0.0, 0.0, 1), (0.1, 0.1, 10), (0.01, 2.0, 18)):
        node = scrubbed(MemoryDisk())
        scrubber, scrub = node.broker.maintenance.scrubber, None
        while scrub is None:
            node.after(60)
            scrub = scrubber.step(node.now)
        node.after(10)
        scrub.run()
        scrub.cpu_s, scrub.ran_s = cpu_s, ran_s
        scrubber.returned(scrub, node.now)
        scrubber.hasten(node.logs.get(WHERE))  # type: ignore[arg-type]
        node.after(rest_s - 0.5)
        assert scrubber.step(node.now) is None
        node.after(0.6)
        assert scrubber.step(node.now) is not None, (cpu_s, ran_s)


def test_many_small_segments_are_read_within_the_interval_and_not_one_a_second() -> None:
    node = Node(MemoryDisk(), barnabas_scrub_interval_ms="5000")
    node.create("t")
    for n in range(60):
        node.append(batch(f"{n}"))
        rolled(node)
    after(node, 16)
    assert node.broker.maintenance.scrubber.rounds == 1


def test_the_scrubber_can_be_turned_off() -> None:
    node = scrubbed(MemoryDisk())
    node.broker.reconfigure(node.broker.config.with_changes({"barnabas.scrub.interval.ms": "-1"}))
    after(node, int(INTERVAL_S))
    assert node.broker.maintenance.scrubber.read_bytes == 0


def test_what_is_read_or_written_lately_is_checked_within_half_a_minute() -> None:
    """A week would pass until the round through everything comes there."""
    for lately in ("read", "written"):
        disk = MemoryDisk()
        node = scrubbed(disk, log_segment_bytes=str(1 << 30))
        node.broker.reconfigure(node.broker.config.with_changes({"barnabas.scrub.interval.ms": "604800000"}))
        after(node, 15)
        disk.corrupt("/data/t-0/00000000000000000002.log", 5_000, flip=1)
        if lately == "read":
            node.fetch({WHERE: 2})
        else:
            node.append(batch("newest"))
            node.turn()
            disk.corrupt(f"/data/t-0/{SEGMENTS:020d}.log", 66, flip=1)
        after(node, 25)
        where = 2 if lately == "read" else SEGMENTS
        assert node.outside.damages == [("/data/t-0", where, where + 1)], lately


def test_of_a_large_segment_only_what_was_read_is_checked_first() -> None:
    disk = MemoryDisk()
    node = Node(disk, barnabas_scrub_interval_ms="604800000")
    node.create("t", segment_bytes=str(1 << 30))
    for n in range(20):
        node.append(batch(f"{n}" + "x" * 1_000_000))
    after(node, 60)
    scrubber = node.broker.maintenance.scrubber
    before = scrubber.read_bytes
    node.fetch({WHERE: 17})
    after(node, 25)
    assert 3_000_000 < scrubber.read_bytes - before < 5_000_000


def test_a_file_that_is_deleted_under_a_node_is_damage_of_that_log_alone() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    disk.remove("/data/t-0/00000000000000000001.log")
    after(node, int(INTERVAL_S * 1.5))
    assert node.outside.damages == [("/data/t-0", 1, 2)] and node.outside.failed == []
    assert node.fetch({WHERE: 1}).fetched.error_code == ErrorCode.CORRUPT_MESSAGE
    assert node.fetch({WHERE: 2}).fetched.error_code == ErrorCode.NONE


def test_a_log_whose_newest_file_is_deleted_goes_on_in_another_one() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    after(node, 15)
    node.append(batch("lost"))
    node.turn()
    disk.remove(f"/data/t-0/{SEGMENTS:020d}.log")
    after(node, 30)
    assert node.outside.damages == [("/data/t-0", SEGMENTS, SEGMENTS + 1)] and node.outside.failed == []
    node.append(batch("kept"))
    node.turn()
    log = node.logs.get(WHERE)
    assert log is not None and log.durable_end_offset == SEGMENTS + 2
    assert disk.exists(f"/data/t-0/{SEGMENTS + 1:020d}.log")
    assert node.fetch({WHERE: SEGMENTS + 1}).fetched.error_code == ErrorCode.NONE


def closed(node: Node) -> int:
    """Nothing of the log is in memory or open, as after a long rest.  Returns its first timestamp."""
    log = node.logs.get(WHERE)
    assert log is not None
    first = log.segments[0].largest_timestamp
    for segment in log.segments[:-1]:
        segment.drop_file()
        segment.release()
        segment.max_timestamp = -1
    return first


@pytest.mark.parametrize("reader", ["fetch", "retention", "search by time", "cleaner"])
def test_whoever_misses_a_file_tells_of_it_and_the_directory_stays(reader: str) -> None:
    disk = MemoryDisk()
    policy = "compact" if reader == "cleaner" else "delete"
    node = scrubbed(disk, log_retention_check_interval_ms="5000", log_cleanup_policy=policy)
    first, gone = closed(node), 0 if reader == "retention" else 1
    for kind in (".log", ".index", ".timeindex"):
        disk.remove(f"/data/t-0/{gone:020d}{kind}")
    if reader == "fetch":
        node.fetch({WHERE: 1})
    elif reader == "search by time":
        ask(node, first + 1)
    else:
        node.broker.reconfigure(node.broker.config.with_changes({"barnabas.scrub.interval.ms": "-1"}))
        after(node, 60)
    assert node.outside.damages == [("/data/t-0", gone, gone + 1)]
    assert node.outside.failed == [] and len(node.broker.lacking) == 1


def test_small_segments_are_read_several_at_once() -> None:
    disk = MemoryDisk()
    node = scrubbed(disk)
    after(node, 15)
    for base in (1, 3):
        disk.corrupt(f"/data/t-0/{base:020d}.log", 5_000, flip=1)
    for base in range(SEGMENTS):
        node.fetch({WHERE: base})
    scrub = None
    while scrub is None or len(scrub.parts) < SEGMENTS:
        node.after(1)
        scrub = node.broker.maintenance.scrubber.step(node.now)
        assert node.mono < 5_000
        if scrub is not None:
            scrub.run()
            node.broker.maintenance.scrubber.returned(scrub, node.now)
    assert node.outside.damages == [("/data/t-0", 1, 2), ("/data/t-0", 3, 4)]


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("harm", ["a bit", "rows swapped", "another segment's"])
@pytest.mark.parametrize("place", [1, -1], ids=["sealed", "newest"])
def test_index_files_that_rot_while_it_runs_are_made_again_and_told_of(
    place: int, harm: str, kind: str
) -> None:
    disk = MemoryDisk()
    node = Node(disk, barnabas_scrub_interval_ms=str(int(INTERVAL_S * 1000)), log_index_interval_bytes="0")
    node.create("t")
    for more in range(3):
        for n in range(6):
            node.append(write_batch([Record(0, node.now.wall_ms + n, None, b"x" * (100 + n + 7 * more), ())]))
            node.after(0.01)
        rolled(node)
    for n in range(6):
        node.append(write_batch([Record(0, node.now.wall_ms + n, b"%d" % n, b"x" * 100, ())]))
    after(node, 20)
    log = node.broker.partition("t", 0).log  # type: ignore[union-attr]
    segment = log.segments[place]
    segment.write_tables()
    path, width = segment.path(kind), 8 if kind == ".index" else 12
    good = disk.read(path)
    assert len(good) >= 3 * width
    bad = bytearray(good)
    if harm == "a bit":
        bad[2 * width - 1] ^= 1
    elif harm == "rows swapped":
        bad[: 2 * width] = bad[width : 2 * width] + bad[:width]
    else:
        bad[:] = disk.read(log.segments[0].path(kind))
    disk.put(path, bytes(bad))
    after(node, int(INTERVAL_S * 1.5))
    assert disk.read(path) == good
    assert [files for _, files in node.outside.remade if path in files] == [[path]]
    assert not log.damage
