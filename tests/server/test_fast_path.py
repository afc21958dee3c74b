"""Produce requests have one outcome, whatever makes rows of them: the same bytes out, and in the logs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from tests.frames import frame
from tests.server import fast_path
from tests.server.fast_path import Run, batch, converse, create_topics, kinds, plain, request, run
from tests.server.harness import LOOPS, Client, decoded, until

from barnabas.broker.ports import DirectorySpace
from barnabas.client.aio import AsyncConnection
from barnabas.errors import ErrorCode, StorageError
from barnabas.model import Uuid
from barnabas.server.loop.sync_threads import Syncer
from barnabas.server.net import produce_door
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire import walk
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from barnabas.wire.schemas.produce import TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest

Loop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=sorted(LOOPS))
def loop_factory(request: pytest.FixtureRequest) -> Loop:
    factory: Loop = LOOPS[request.param]
    return factory


@pytest.fixture(params=[True, False], ids=["page cache", "synced"])
def page_cache(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def both(factory: Loop, page_cache: bool, work: Callable[[ServerNode, Run], Any]) -> tuple[Run, Run]:
    """The same work with rows that are made of what the decoder reads, and with those of the bytes."""
    slow = run(factory, work, decoded=True, page_cache=page_cache)
    fast = run(factory, work, page_cache=page_cache)
    assert slow.together == 0
    assert fast.counted == slow.counted
    for name, answer in slow.answers.items():
        assert fast.answers[name] == answer, name
    assert fast.answers.keys() == slow.answers.keys()
    assert fast.logs.keys() == slow.logs.keys()
    for name, content in slow.logs.items():
        assert fast.logs[name] == content, name
    return slow, fast


def test_every_kind_of_request_is_answered_and_logged_alike_on_both_paths(
    loop_factory: Loop, page_cache: bool
) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        for kind in kinds():
            result.answers[kind.name] = await converse(node, kind.frames(ids))

    slow, _ = both(loop_factory, page_cache, work)
    assert len(slow.answers) > 400
    assert len(set(slow.answers.values())) > 300


@pytest.mark.parametrize("ahead", [1, 128])
def test_every_kind_of_request_is_answered_and_logged_alike_behind_one_that_is_known(
    page_cache: bool, ahead: int
) -> None:
    """The others arrive in one read: those that are alike and plain are looked at together."""

    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        for kind in kinds():
            for first in (1, 3):
                result.answers[f"{kind.name} {first}"] = await converse(node, kind.frames(ids), first=first)

    with mock.patch.object(produce_door, "FIRST_AHEAD", ahead):
        _, fast = both(LOOPS["uvloop"], page_cache, work)
    assert fast.together > 1000


@pytest.mark.parametrize("version", [8, 13])
def test_odd_requests_anywhere_among_many_that_are_alike_are_answered_alike(version: int) -> None:
    """Partitions, producers and topics in turn, a dozen requests a read, of which some are not like the others."""
    chance = random.Random(version)

    def drawn(ids: dict[str, Uuid], sequences: dict[tuple[int, str, int], int]) -> list[Message]:
        by_id, messages = ids if version >= 13 else None, list[Message]()
        for _ in range(chance.randrange(1, 16)):
            topic, index = chance.choice((("plain", 0),) * 4 + (("plain", 1),) * 3 + (("other", 0),))
            producer = chance.choice((-1, -1, 300, 301))
            more: dict[str, Any] = {"size": chance.choice((0, 20, 900))}
            if producer >= 0:
                at = sequences.get((producer, topic, index), 0)
                more |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": at}
                if chance.random() < 0.97:
                    sequences[producer, topic, index] = at + 2
            made: Any = batch(**more)
            if producer < 0 and chance.random() < 0.1:
                made = chance.choice(list(fast_path.odd_batches().values()))()
            messages.append(request(made, topic, index, ids=by_id))
        return messages

    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        chance.seed(version)
        sequences: dict[tuple[int, str, int], int] = {}
        client = Client(*await asyncio.open_connection(*node.address))
        number, said = 0, b""
        for _ in range(300):
            messages = drawn(ids, sequences)
            first = number
            number += len(messages)
            frames = [frame(message, version, first + n) for n, message in enumerate(messages)]
            client.writer.write(b"".join(frames))
            for n in range(first, number):
                correlation, body = await client.answer()
                assert correlation == n
                said += body
        client.close()
        result.answers["all"] = said

    with mock.patch.object(produce_door, "FIRST_AHEAD", 16):
        _, fast = both(LOOPS["uvloop"], True, work)
    assert fast.together > 200


def test_partitions_in_turn_are_all_recognized(loop_factory: Loop) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        where = [("plain", 0), ("plain", 1), ("other", 0), ("a-much-longer-name", 1)]
        frames = [frame(request(batch(), *place), 9, n) for n, place in enumerate(where * 10)]
        result.answers["all"] = await converse(node, frames)
        assert ids

    _, fast = both(loop_factory, True, work)
    assert fast.together > 30


@pytest.mark.parametrize("version", [8, 12])
def test_batches_of_all_sizes_are_recognized(loop_factory: Loop, version: int) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        frames = fast_path.sizes_of(version)(await create_topics(node))
        result.answers["all"] = await converse(node, frames)
        assert len(frames) == 24

    both(loop_factory, True, work)


def test_batches_of_an_open_transaction_are_recognized(loop_factory: Loop) -> None:
    """Not the first one of each, of which the coordinator may have to be asked."""

    async def work(node: ServerNode, result: Run) -> None:
        frames = fast_path.transactions(30)
        await create_topics(node)
        result.answers["all"] = await converse(node, frames)

    _, fast = both(loop_factory, True, work)
    assert fast.together > 60


def test_settings_and_topics_that_change_are_noticed_by_the_next_request(loop_factory: Loop) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        reader, writer = await asyncio.open_connection(*node.address)
        client = fast_path.Client(reader, writer)

        async def three(step: str, size: int = 100) -> None:
            for n in range(3):
                writer.write(frame(plain(9, ids, "other", size=size), 9, n))
                result.answers[f"{step} {n}"] = (await client.answer())[1]

        async with await AsyncConnection.connect(*node.address) as admin:
            await three("before")
            await admin.request(_setting("other", "max.message.bytes", "100"))
            await three("smaller")
            await admin.request(_setting("other", "max.message.bytes", "5000"))
            await three("larger")
            await admin.request(_setting("other", "message.timestamp.type", "LogAppendTime"))
            await three("append time")
            await admin.request(DeleteTopicsRequest(topic_names=["other"], timeout_ms=5000), 5)
            await three("deleted")
            again = CreatableTopic(name="other", num_partitions=1, replication_factor=1)
            await admin.request(CreateTopicsRequest(topics=[again], timeout_ms=5000))
            await three("made again")
        client.close()

    slow, _ = both(loop_factory, True, work)
    assert len(set(slow.answers.values())) > 8


@pytest.mark.parametrize("compiled", [True, False])
def test_what_was_on_its_way_behind_a_refused_batch_is_counted_once_alike(compiled: bool) -> None:
    """Five get its answer.  Counted twice, the third would be taken before the refused one comes again."""

    async def work(node: ServerNode, result: Run) -> None:
        await create_topics(node)
        named = {"producer_id": 7, "producer_epoch": 0}
        fast_path.refuse_for_now(node, "plain", base_sequence=0, **named)
        behind = [batch(base_sequence=2 * n, **named) for n in range(1, 6)]
        first = batch(base_sequence=0, **named)
        sent = [batch(), batch(), *behind, first, *behind]
        frames = [frame(request(one), 9, n) for n, one in enumerate(sent)]
        result.answers["behind"] = await converse(node, frames)

    with mock.patch.object(walk, "COMPILED", compiled):
        slow, _ = both(LOOPS[min(LOOPS)], True, work)
    code = int(ErrorCode.NOT_ENOUGH_REPLICAS).to_bytes(2, "big")
    assert slow.answers["behind"].count(code + b"\xff" * 8) == 5


def _setting(topic: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
    change = IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=2, resource_name=topic, configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def stuck_syncs() -> Any:
    """Syncs begin and never end."""
    return mock.patch.object(Syncer, "submit", lambda self, job, done: None)


def test_a_sync_that_does_not_end_times_out_alike(loop_factory: Loop) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        quick = plain(9, ids)
        quick.timeout_ms = 50  # type: ignore[attr-defined]
        await converse(
            node, [frame(quick, 9, n) for n in range(3)]
        )  # known from here on, whatever it answers
        with stuck_syncs():
            result.answers["stuck"] = await converse(node, [frame(quick, 9, n) for n in range(3)])

    slow, _ = both(loop_factory, False, work)
    assert slow.answers["stuck"].count(int(ErrorCode.REQUEST_TIMED_OUT).to_bytes(2, "big") + b"\xff" * 8) == 3


def test_a_leader_that_goes_sends_everybody_away_alike(loop_factory: Loop) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        result.answers["synced"] = await converse(node, [frame(plain(9, ids), 9, n) for n in range(3)])
        partition = node.broker.partition("plain", 0)
        assert partition is not None
        with stuck_syncs():
            talk = asyncio.ensure_future(converse(node, [frame(plain(9, ids), 9, n) for n in range(3)]))
            await until(lambda: partition.log.log_end_offset == 12 and len(partition.acknowledgements) > 0)
            partition.dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            result.answers["sent away"] = await talk

    slow, _ = both(loop_factory, False, work)
    assert slow.answers["sent away"].count(b"\x00\x06" + b"\xff" * 8) == 3


def test_a_connection_that_dies_leaves_nothing_behind(loop_factory: Loop) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        result.answers["synced"] = await converse(node, [frame(plain(9, ids), 9, n) for n in range(3)])
        partition, room = node.broker.partition("plain", 0), node.broker.purgatory
        assert partition is not None
        _, writer = await asyncio.open_connection(*node.address)
        frames = [frame(plain(9, ids), 9, n) for n in range(4)]
        writer.write(b"".join(frames))
        await asyncio.sleep(0)
        with stuck_syncs():
            writer.write(b"".join(frames))
            await until(lambda: partition.log.log_end_offset == 22 and len(room) > 0)
            writer.transport.abort()
            await until(lambda: not room)
            assert len(partition.acknowledgements) == 0

    both(loop_factory, False, work)


def test_requests_that_waited_behind_a_full_line_are_served_alike_and_so_is_who_comes_after(
    loop_factory: Loop,
) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        frames = [frame(plain(9, ids, ("plain", "other")[n % 2]), 9, n) for n in range(400)]
        client = Client(*await asyncio.open_connection(*node.address))
        said = b""
        for burst in (frames[:2], frames[2:390], frames[390:392], frames[392:]):
            client.writer.write(b"".join(burst))
            for _ in burst:
                correlation, body = await client.answer()
                said += correlation.to_bytes(4, "big") + body
        client.close()
        result.answers["all"] = said

    _, fast = both(loop_factory, False, work)
    assert fast.together > 300


def test_nothing_is_acknowledged_before_its_own_sync_when_it_comes_behind_a_full_line(
    loop_factory: Loop,
) -> None:
    """One partition's part of a line is safe, another's is not: who comes next waits for a sync of his own."""

    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        first, second = (plain(9, ids, topic) for topic in ("plain", "other"))
        await converse(node, [frame(first, 9, 0), frame(second, 9, 1)])
        client = Client(*await asyncio.open_connection(*node.address))
        client.writer.write(frame(first, 9, 0) + frame(second, 9, 1))
        for _ in range(2):
            await client.answer()
        held: list[Any] = []
        submit, log = Syncer.submit, node.broker.partition("other", 0)

        def only_plain(self: Syncer, job: Any, done: Any) -> None:
            if getattr(job, "partition", None) is log:
                held.append((job, done))
            else:
                submit(self, job, done)

        with mock.patch.object(Syncer, "submit", only_plain):
            limit = node.network.limits.max_pipelined
            client.writer.write(b"".join(frame(first, 9, 10 + n) for n in range(limit + 4)))
            client.writer.write(frame(second, 9, 7) + frame(first, 9, 8))
            for n in range(limit + 4):
                assert (await client.answer())[0] == 10 + n
            await until(lambda: len(held) == 1)
            durable = node.broker.partition("plain", 0)
            assert durable is not None
            await until(lambda: len(durable.acknowledgements) == 0)
            with stuck_syncs():
                client.writer.write(frame(first, 9, 9))
                await until(lambda: len(durable.acknowledgements) == 1)
        result.answers["held"] = b""
        client.close()

    both(loop_factory, False, work)


def test_a_request_that_names_a_topic_without_partitions_is_answered_alike(loop_factory: Loop) -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        odd = request(batch())
        odd.topic_data.insert(0, TopicProduceData(name="other", partition_data=[]))
        frames = [frame(plain(9, ids), 9, 0), frame(plain(9, ids), 9, 1)]
        result.answers["odd"] = await converse(node, [*frames, *[frame(odd, 9, n) for n in (2, 3)], *frames])
        assert b"closed" not in result.answers["odd"]

    both(loop_factory, True, work)


def room_for(appends: int, part: str) -> Any:
    """The disk takes so many appends more to files whose path has `part` in it, then it is full for them."""
    taken: list[str] = []

    def take_space(self: MemoryDisk, path: str, size: int) -> None:
        if part in path and not path.endswith(
            ".tmp"
        ):  # a checkpoint is written aside, whenever it is its turn
            if len(taken) == appends:
                raise StorageError(f"cannot append to {path}: No space left on device", full=True)
            taken.append(path)

    return mock.patch.object(MemoryDisk, "take_space", take_space)


@pytest.mark.parametrize(
    ("topic", "size", "fit"),
    [
        ("plain", 20_000, 0),  # written at the end of the turn
        ("plain", 140_000, 2),  # large enough to be written at once
        ("rolled", 140_000, 2),  # no room for the tables of the segment that ends before the next
    ],
)
def test_what_finds_no_room_is_to_be_tried_again_and_nothing_that_was_written_is_refused(
    topic: str, size: int, fit: int
) -> None:
    """A batch whose bytes are patched already is not checked anew: that would be INVALID_RECORD, for good."""

    def sent(first: int, count: int) -> list[bytes]:
        numbered = [
            batch(size, producer_id=9, producer_epoch=0, base_sequence=2 * n)
            for n in range(first, first + count)
        ]
        return [frame(request(one, topic), 9, n) for n, one in enumerate(numbered)]

    async def work(node: ServerNode, result: Run) -> None:
        await create_topics(node)
        broker = node.broker
        partition = broker.partition(topic, 0)
        assert partition is not None and partition.directory is not None
        client = Client(*await asyncio.open_connection(*node.address))

        async def exchange(frames: list[bytes]) -> list[tuple[int, int]]:
            client.writer.write(b"".join(frames))
            answers = [decoded(0, 9, (await client.answer())[1]) for _ in frames]
            found = [answer.responses[0].partition_responses[0] for answer in answers]
            return [(data.error_code, data.base_offset) for data in found]

        assert await exchange(sent(0, 1)) == [(0, 0)]
        with room_for(fit, f"/{topic}-0/"):
            answers = await exchange(sent(1, 5))
        no_room = (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert answers == [(0, 2 * n) for n in range(1, 1 + fit)] + [no_room] * (5 - fit)
        assert partition.log.log_end_offset == 2 + 2 * fit and not partition.offline
        broker.space._refused.clear()
        broker.space._became(partition.directory, DirectorySpace(1 << 40, 1 << 40, 0))
        assert await exchange(sent(fit + 2, 1)) == [no_room], "what it was sent behind comes first"
        assert await exchange(sent(0, 6)) == [(0, 2 * n) for n in range(6)]
        assert partition.log.log_end_offset == 12
        client.close()

    segments = {"segment.bytes": "1048576", "message.timestamp.type": "LogAppendTime"}
    with mock.patch.dict(fast_path.TOPICS, rolled=segments):
        run(asyncio.new_event_loop, work, page_cache=True)


def test_nothing_of_a_read_passes_a_batch_that_a_thread_checks() -> None:
    """Those behind it are plain; some come in the same read, and some in the next."""

    async def work(node: ServerNode, result: Run) -> None:
        await create_topics(node)
        much = batch(count=4000, codec=1)
        sent = [batch(), batch(), much, *[batch() for _ in range(5)]]
        frames = [frame(request(one), 9, n) for n, one in enumerate(sent)]
        client = Client(*await asyncio.open_connection(*node.address))
        offsets = []
        for some in (frames[:2], frames[2:5], frames[5:]):
            client.writer.write(b"".join(some))
            await client.writer.drain()
            if some is not frames[2:5]:
                await asyncio.sleep(0)
        for _ in frames:
            answer = decoded(0, 9, (await client.answer())[1])
            offsets.append(answer.responses[0].partition_responses[0].base_offset)
        client.close()
        assert offsets == [0, 2, 4, *range(4004, 4014, 2)]

    run(LOOPS[min(LOOPS)], work, page_cache=True)


def test_who_is_refused_hears_of_it_while_others_of_the_same_read_wait() -> None:
    async def work(node: ServerNode, result: Run) -> None:
        ids = await create_topics(node)
        good = frame(plain(9, ids), 9, 1)
        bad = frame(request(fast_path.odd_batches()["bad crc"]()), 9, 0)
        client = Client(*await asyncio.open_connection(*node.address))
        client.writer.write(good * 8)  # (then the node looks at several of a read together)
        for _ in range(8):
            await client.answer()
        with stuck_syncs():
            client.writer.write(bad + good)
            assert (await asyncio.wait_for(client.answer(), 10))[0] == 0
        client.close()

    run(LOOPS[min(LOOPS)], work, page_cache=False)
