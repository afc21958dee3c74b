"""Requests of several partitions have one outcome, whether they are decoded or read straight from their bytes."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import pytest
from tests.broker.hostile_batches import hostile_batches
from tests.frames import frame, framed
from tests.server.fast_path import (
    NOW_MS,
    TOPICS,
    Kind,
    Run,
    batch,
    converse,
    create_topics,
    odd_batches,
    refuse_for_now,
    run,
)
from tests.server.harness import LOOPS, until

from barnabas.errors import ErrorCode, StorageError
from barnabas.model import Uuid
from barnabas.server.loop.sync_threads import Syncer
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire import walk
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Ids = dict[str, Uuid]
Part = tuple[str, int, Any]
VERSIONS = (8, 9, 10, 11, 12, 13)
BODY_AT = 4 + 8 + 2 + len("test") + 1
"""Where the body of a frame begins, behind its length and its header."""


def several(parts: list[Part], ids: Ids, version: int, *, number: int = 0, **more: Any) -> bytes:
    """A frame with these (topic, partition, records); neighbours of one topic share it."""
    data: list[TopicProduceData] = []
    names: list[str] = []
    for name, index, records in parts:
        if not names or names[-1] != name:
            names.append(name)
            made = TopicProduceData(name=name, partition_data=[])
            if version >= 13:
                made = TopicProduceData(topic_id=ids.get(name, Uuid(b"\x11" * 16)), partition_data=[])
            data.append(made)
        data[-1].partition_data.append(PartitionProduceData(index=index, records=records))
    fields = {"acks": -1, "timeout_ms": 30_000, **more}
    return frame(ProduceRequest(topic_data=data, **fields), version, number)


def good(count: int = 4, size: int = 20) -> list[Part]:
    places = [("plain", 0), ("plain", 1), ("other", 0), ("a-much-longer-name", 1)]
    return [(*place, batch(size)) for place in places[:count]]


def around(odd: Part) -> Callable[[Ids, int], list[bytes]]:
    """The odd one is first, in the middle and last in a request; a good request follows."""

    def frames(ids: Ids, version: int) -> list[bytes]:
        lists = [[odd, *good()], [*good(2), odd, *good(1)], [*good(), odd], good()]
        return [several(parts, ids, version, number=n) for n, parts in enumerate(lists)]

    return frames


def producers(ids: Ids, version: int) -> list[bytes]:
    """Sequences in order, repeated, with a gap, of older and newer epochs, in two partitions at once."""
    steps = [(0, 0), (0, 2), (0, 2), (0, 8), (0, 4), (1, 0), (0, 6), (1, 2), (2, 5), (2, 0)]
    frames = []
    for number, (epoch, sequence) in enumerate(steps):
        named = [
            batch(producer_id=700 + version, producer_epoch=epoch, base_sequence=at)
            for at in (sequence, sequence, sequence + 2)
        ]
        parts: list[Part] = [("plain", 0, named[0]), ("plain", 1, named[1]), ("plain", 1, named[2])]
        frames.append(several(parts, ids, version, number=number))
    return frames


def lies(ids: Ids, version: int) -> Iterator[bytes]:
    """Each byte of a request before and after its batches changed, and the request cut at each place."""
    whole = several([("plain", 0, batch()), ("other", 1, batch())], ids, version, number=3)
    chance = random.Random(version)
    for at in range(BODY_AT, len(whole)):
        if version < 9:
            return
        yield framed(whole[4:at])
        for value in {0, 1, 2, 0x7F, 0x80, 0xFF, whole[at] ^ 1 << chance.randrange(8)} - {whole[at]}:
            yield framed(whole[4:at] + bytes([value]) + whole[at + 1 :])
    yield framed(whole[4:] + b"\0")
    yield framed(whole[4:-1] + b"\x01\x63\x02ab")
    yield framed(whole[4:BODY_AT] + b"\x02t" + whole[BODY_AT + 1 :])
    yield framed(whole[4 : BODY_AT + 7] + b"\x83\x00" + whole[BODY_AT + 8 :])


def kinds() -> Iterator[Kind]:
    def kind(name: str, version: int, frames: Callable[[Ids, int], list[bytes]]) -> Kind:
        return Kind(f"v{version} {name}", lambda ids: frames(ids, version))

    for version in VERSIONS:
        for acks in (-1, 1, 0, 2):
            yield kind(
                f"acks {acks}", version, lambda ids, v, acks=acks: [several(good(), ids, v, acks=acks)] * 3
            )
        for size in (0, 60, 3000, 9000, 20_000, 1_100_000):
            yield kind(f"size {size}", version, lambda ids, v, size=size: [several(good(4, size), ids, v)])
        for name, odd in odd_batches().items():
            yield kind(name, version, around(("plain", 0, odd())))
        for topic in (*TOPICS, "nowhere"):
            yield kind(f"to {topic}", version, around((topic, 0, batch(200))))
        yield kind("no such partition", version, around(("plain", 7, batch())))
        yield kind("internal", version, around(("__consumer_offsets", 0, batch())))
        yield kind("work for a thread", version, around(("plain", 0, batch(count=4000))))
        yield kind("a partition twice", version, around(("other", 0, batch())))
        yield kind("producers", version, producers)
        yield kind("codecs", version, lambda ids, v: [
            several([("plain", 0, batch(300, codec=c)), ("zipped", 1, batch(300, codec=c))], ids, v)
            for c in range(5)
        ])  # fmt: skip
        yield kind("a transaction's name", version, lambda ids, v: [
            several(good(), ids, v, transactional_id="t"), several(good(), ids, v)
        ])  # fmt: skip
    for case in hostile_batches(NOW_MS):
        for topic in ("plain", "compacted", "bounded"):
            yield kind(f"hostile to {topic}: {case.name}", 9, around((topic, 0, bytes(case.batch))))


async def every_lie(node: ServerNode, result: Run, ids: Ids, version: int) -> None:
    """Each comes after a good request, from which it differs by the lie."""
    learned = several([("plain", 0, batch()), ("other", 1, batch())], ids, version, number=2)
    for number, lie in enumerate(lies(ids, version)):
        result.answers[f"v{version} lie {number}"] = await converse(node, [learned, lie])


class Runs(NamedTuple):
    """The same work with rows that are made of what the decoder runs, and with those of the bytes."""

    slow: Run
    fast: Run


def both(page_cache: bool, work: Callable[[ServerNode, Run], Any], *, compiled: bool = True) -> Runs:
    """The same work twice; `compiled`: batches are looked at by what may be compiled."""
    factory = LOOPS[min(LOOPS)]
    slow = run(factory, work, decoded=True, page_cache=page_cache)
    with mock.patch.object(walk, "COMPILED", compiled):
        fast = run(factory, work, page_cache=page_cache)
    assert fast.counted == slow.counted
    for name, answer in slow.answers.items():
        assert fast.answers[name] == answer, name
    assert fast.answers.keys() == slow.answers.keys()
    assert fast.logs.keys() == slow.logs.keys()
    for name, content in slow.logs.items():
        assert fast.logs[name] == content, name
    return Runs(slow, fast)


@pytest.mark.parametrize(("page_cache", "compiled"), [(True, True), (False, False)])
def test_every_kind_of_request_is_answered_and_logged_alike(page_cache: bool, compiled: bool) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        for kind in kinds():
            result.answers[kind.name] = await converse(node, kind.frames(ids))

    runs = both(page_cache, work, compiled=compiled)
    assert runs.fast.together > 100
    assert runs.fast.closer < runs.slow.closer if compiled else runs.fast.closer == runs.slow.closer


@pytest.mark.parametrize(("version", "compiled"), [(9, True), (13, False)])
def test_lies_and_cut_frames_are_answered_and_logged_alike(version: int, compiled: bool) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        await every_lie(node, result, await create_topics(node), version)

    both(True, work, compiled=compiled)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_request_with_lengths_of_more_than_two_bytes_is_left_to_the_decoder(compiled: bool) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        whole = several(good(), ids, 9)
        long = framed(whole[4 : BODY_AT + 7] + struct.pack("BBB", 0x84, 0x80, 0) + whole[BODY_AT + 8 :])
        result.answers["long"] = await converse(node, [long, whole])

    both(True, work, compiled=compiled)


def ten(ids: Ids, number: int, version: int = 9, **more: Any) -> bytes:
    """A batch for each of ten partitions."""
    names = ("plain", "other", "a-much-longer-name", "segments", "bounded")
    return several(
        [(name, n, batch(300)) for name in names for n in (0, 1)], ids, version, number=number, **more
    )


@pytest.mark.parametrize("version", [9, 13])
def test_what_begins_alike_is_read_at_once_whatever_its_partitions_and_their_order(version: int) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        chance, places = random.Random(version), [(name, n) for name in ("plain", "other") for n in (0, 1)]
        frames = [ten(ids, 0, version)]
        for number in range(1, 40):
            some = [
                (*place, batch(chance.randrange(200)))
                for place in chance.sample(places, chance.choice((2, 3, 4)))
            ]
            frames.append(several(some, ids, version, number=number))
        alone = [several([("plain", 1, batch())], ids, version, number=number) for number in range(40, 60)]
        mixed = [one for pair in zip(frames[20:], alone, strict=True) for one in pair]
        result.answers["all"] = await converse(node, frames[:20])
        result.answers["mixed"] = await converse(node, [frames[0], *mixed])

    fast = both(True, work).fast
    assert fast.together > 50 and not fast.closer


def test_producers_that_number_their_batches_are_read_at_once_while_these_are_in_order() -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)

        def named(number: int, *sequences: int) -> bytes:
            parts: list[Part] = [
                ("plain", n, batch(producer_id=77, producer_epoch=0, base_sequence=sequence))
                for n, sequence in enumerate(sequences)
            ]
            return several(parts, ids, 9, number=number)

        steps = [(0, 0), (2, 2), (4, 4), (4, 6), (6, 6), (6, 10), (8, 8), (10, 10), (10, 10)]
        result.answers["all"] = await converse(node, [named(n, *step) for n, step in enumerate(steps)])

    fast = both(True, work).fast
    assert fast.closer == 2 + 6, "the first of all, and those that are there already or too early"


@pytest.mark.parametrize("compiled", [True, False])
def test_what_was_on_its_way_behind_a_refused_batch_is_counted_once_alike(compiled: bool) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        named = {"producer_id": 7, "producer_epoch": 0}
        refuse_for_now(node, "plain", base_sequence=0, **named)
        sequences = [2, 4, 6, 8, 10, 0, 2, 4, 6, 8, 10]
        frames = [
            several(
                [("plain", 0, batch(base_sequence=sequence, **named)), ("other", 0, batch())],
                ids,
                9,
                number=n,
            )
            for n, sequence in enumerate(sequences)
        ]
        result.answers["behind"] = await converse(node, [ten(ids, 77), *frames])

    slow = both(True, work, compiled=compiled).slow
    code = int(ErrorCode.NOT_ENOUGH_REPLICAS).to_bytes(2, "big")
    assert slow.answers["behind"].count(code + b"\xff" * 8) == 5


def test_ten_partitions_whose_syncs_do_not_end_time_out_alike() -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        await converse(node, [ten(ids, n, timeout_ms=50) for n in range(3)])
        with mock.patch.object(Syncer, "submit", lambda self, job, done: None):
            result.answers["stuck"] = await converse(node, [ten(ids, n, timeout_ms=50) for n in range(3)])
        assert not node.broker.purgatory
        assert not any(len(partition.acknowledgements) for partition in node.broker.partitions())

    runs = both(False, work)
    code = int(ErrorCode.REQUEST_TIMED_OUT).to_bytes(2, "big")
    assert runs.slow.answers["stuck"].count(code + b"\xff" * 8) == 30


def test_a_leader_that_goes_takes_only_its_own_partition_with_it() -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        await converse(node, [ten(ids, n) for n in range(3)])
        partition = node.broker.partition("segments", 0)
        assert partition is not None
        with mock.patch.object(Syncer, "submit", lambda self, job, done: None):
            talk = asyncio.ensure_future(converse(node, [ten(ids, n) for n in range(3)]))
            await until(lambda: partition.log.log_end_offset == 12 and len(partition.acknowledgements) > 0)
            partition.dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for other in node.broker.partitions():
            other.dismiss(ErrorCode.NONE)
        result.answers["one is sent away"] = await talk

    runs = both(False, work)
    assert runs.slow.answers["one is sent away"].count(b"\x00\x06" + b"\xff" * 24) == 3


def test_a_connection_that_dies_leaves_nothing_of_ten_partitions() -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        await converse(node, [ten(ids, n) for n in range(3)])
        partition, room = node.broker.partition("bounded", 1), node.broker.purgatory
        assert partition is not None
        _, writer = await asyncio.open_connection(*node.address)
        with mock.patch.object(Syncer, "submit", lambda self, job, done: None):
            writer.write(b"".join(ten(ids, n) for n in range(4)))
            await until(lambda: partition.log.log_end_offset == 14 and len(room) > 0)
            writer.transport.abort()
            await until(lambda: not room)
            assert not any(len(one.acknowledgements) for one in node.broker.partitions())

    both(False, work)


@pytest.mark.parametrize("full", [True, False])
def test_a_disk_that_fails_for_one_of_ten_partitions_is_told_of_alike(full: bool) -> None:
    """Without room the others go on; another error takes the whole directory, and everybody is told."""
    original = MemoryDisk.take_space

    def take_space(self: MemoryDisk, path: str, size: int) -> None:
        if "/segments-0/" in path and path.endswith(".log"):
            raise StorageError(f"cannot append to {path}: it broke", full=full)
        original(self, path, size)

    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        await converse(node, [ten(ids, n) for n in range(3)])
        with mock.patch.object(MemoryDisk, "take_space", take_space):
            result.answers["broken"] = await converse(node, [ten(ids, n) for n in range(3)])
        result.answers["after"] = await converse(node, [ten(ids, n) for n in range(3)])

    runs = both(True, work)
    code = int(ErrorCode.KAFKA_STORAGE_ERROR).to_bytes(2, "big")
    assert code + b"\xff" * 8 in runs.slow.answers["broken"]
