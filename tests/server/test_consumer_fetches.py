"""A consumer's fetches are answered with the same bytes whether they are read from theirs, or decoded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.frames import frame
from tests.server.alike import counting, decoding_fetches, node_of
from tests.server.fast_path import batch, request
from tests.server.harness import LOOPS, Client, decoded, until
from tests.topics import creation_of

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.model import Uuid
from barnabas.server.net.fetch_door import FetchDoor
from barnabas.server.node.process import ServerNode
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.wire.schemas.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.schemas.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from barnabas.wire.schemas.topics import DeleteTopicsRequest
from barnabas.wire.schemas.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


class Talk:
    """One consumer on a connection of its own, beside a producer; `said` is all that the consumer was told."""

    def __init__(self, node: ServerNode, admin: AsyncConnection, version: int, said: list[bytes]) -> None:
        self.node, self.admin, self.version, self.said = node, admin, version, said
        self.ids: dict[str, Uuid] = {}
        self.client: Client
        self.correlation = 100
        self.session, self.epoch = 0, -1

    async def begin(self) -> None:
        self.client = Client(*await asyncio.open_connection(*self.node.address))

    async def learn_ids(self) -> None:
        names = [MetadataRequestTopic(name=name) for name in ("t", "u")]
        answer: Any = await self.admin.request(MetadataRequest(topics=names), 12)
        self.ids = {topic.name: topic.topic_id for topic in answer.topics}

    async def produce(self, topic: str = "t", index: int = 0, size: int = 100, **more: Any) -> None:
        await self.admin.request(request(batch(size, **more), topic, index, **_transactional(more)), 9)

    def frame(self, *places: tuple[str, int, int], **more: Any) -> bytes:
        """A fetch of (topic, partition, offset), in this order."""
        topics: list[FetchTopic] = []
        row = {
            name: more.pop(name) for name in ("current_leader_epoch", "last_fetched_epoch") if name in more
        }
        for name, index, offset in places:
            if not topics or topics[-1].topic != name:
                topics.append(FetchTopic(topic=name, topic_id=self.ids.get(name, Uuid(b"x" * 16))))
                topics[-1].partitions = []
            topics[-1].partitions.append(
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000, **row)
            )
        usual = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics}
        if self.session or self.epoch >= 0:
            usual |= {"session_id": self.session, "session_epoch": self.epoch}
            self.epoch += 1
        fetch = FetchRequest(**{**usual, **more})  # type: ignore[arg-type]
        self.correlation += 1
        return frame(fetch, self.version, self.correlation)

    async def answers(self, *frames: bytes) -> Any:
        """Send these at once; returns the last answer."""
        self.client.writer.write(b"".join(frames))
        for _ in frames:
            correlation, body = await self.client.answer()
            self.said.append(correlation.to_bytes(4, "big") + body)
        return decoded(1, self.version, body)

    async def fetch(self, *places: tuple[str, int, int], times: int = 2, **more: Any) -> None:
        """The same fetch, again and again."""
        for _ in range(times):
            answer = await self.answers(self.frame(*places, **more))
            self.session = self.session or answer.session_id


def _transactional(more: dict[str, Any]) -> dict[str, Any]:
    return {"transactional_id": "tx"} if more.get("transactional") else {}


async def walk(talk: Talk) -> None:
    """What a consumer may meet, each twice: the first fetch of its kind may teach, the second is recognized."""
    both = ("t", 0, 0), ("t", 1, 0)
    for n in range(6):
        await talk.produce(index=n % 2)
    await talk.fetch(*both, times=4)
    for offset in range(8):
        await talk.fetch(("t", 0, offset), ("u", 0, 0), times=1)
    await talk.fetch(("t", 1, 2), ("t", 0, 2))
    await talk.fetch(("t", 0, 2), ("t", 0, 0))  # twice the same partition
    await talk.fetch(("t", 0, 2), ("u", 0, 0), ("t", 1, 0))  # a topic named twice
    for offset in (-1, 99, 6):
        await talk.fetch(("t", 0, offset))
    await talk.fetch(("t", 9, 0), ("t", 0, 0))
    await talk.fetch(("nowhere", 0, 0), ("t", 0, 0))
    await talk.fetch(*both)
    for epoch in (0, 7) if talk.version >= 9 else ():
        await talk.fetch(*both, current_leader_epoch=epoch)
    for epoch in (0, 7) if talk.version >= 12 else ():
        await talk.fetch(*both, last_fetched_epoch=epoch)
    await talk.fetch(*both, max_bytes=200)
    await talk.fetch(*both, max_bytes=0)
    await talk.fetch(*both, isolation_level=1)
    await talk.answers(*(talk.frame(*both) for _ in range(3)))
    await talk.answers(*(talk.frame(*both, times_out) for times_out in [("u", 0, 0)] * 3))


async def wait(talk: Talk) -> None:
    """Fetches that have nothing to say yet."""
    await talk.fetch(("t", 0, 6), ("u", 0, 0), max_wait_ms=20, times=3)
    for n in range(4):
        answer = asyncio.ensure_future(talk.answers(talk.frame(("u", 0, n * 2), max_wait_ms=30_000)))
        await asyncio.sleep(0)
        await talk.produce("u")
        await answer
    await talk.fetch(("u", 0, 0), max_wait_ms=20, min_bytes=5000, times=3)
    for _ in range(3):  # who comes behind one that waits
        await talk.answers(talk.frame(("u", 1, 0), max_wait_ms=20), talk.frame(("u", 0, 0), max_wait_ms=20))
    await talk.fetch(("u", 0, 0), max_wait_ms=30_000, min_bytes=100, times=3)


async def transactions(talk: Talk) -> None:
    """One that is open, then aborted, then another that is committed."""
    end = WritableTxnMarkerTopic(name="u", partition_indexes=[0])
    for commit in (False, True):
        for n in range(2):
            await talk.produce(
                "u", transactional=True, producer_id=77, producer_epoch=0, base_sequence=n * 2 + 4 * commit
            )
        for offset in (0, 8, 12):
            await talk.fetch(("u", 0, offset), isolation_level=1, times=3)
        marker = WritableTxnMarker(producer_id=77, transaction_result=commit, topics=[end])
        await talk.admin.request(WriteTxnMarkersRequest(markers=[marker]), 1)
        for offset in range(0, 20, 3):
            await talk.fetch(("u", 0, offset), isolation_level=1, times=1)
        await talk.fetch(("u", 0, 0), times=3)


async def changes(talk: Talk) -> None:
    """The log start moves; a quota comes and goes; the topic goes, and there is another of its name."""
    both = ("t", 0, 2), ("t", 1, 2)
    await talk.fetch(*both, times=3)
    place = DeleteRecordsPartition(partition_index=0, offset=4)
    await talk.admin.request(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[place])], timeout_ms=5000), 2
    )
    await talk.fetch(*both, times=3)
    await talk.fetch(("t", 0, 4), ("t", 1, 2), times=3)
    for rate in (1e9, None):
        await talk.admin.request(_quota(rate))
        await talk.fetch(("t", 0, 4), ("t", 1, 2), times=3)
    await talk.admin.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), 5)
    await talk.fetch(("t", 0, 4), ("t", 1, 2), times=3)
    await talk.admin.request(creation_of({"t": {}}, partitions=2))
    await talk.fetch(("t", 0, 0), ("t", 1, 0), times=3)
    await talk.learn_ids()
    await talk.produce()
    await talk.fetch(("t", 0, 0), ("t", 1, 0), times=3)


def _quota(rate: float | None) -> AlterClientQuotasRequest:
    part = AlterClientQuotasRequestEntityData(entity_type="client-id", entity_name="test")
    change = OpData(key="consumer_byte_rate", value=rate or 0.0, remove=rate is None)
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=[part], ops=[change])])


async def odd_sessions(talk: Talk) -> None:
    """Epochs that are not the next one, sessions that are none, one that is closed, and partitions forgotten."""
    place = ("t", 0, 0)
    await talk.fetch(place, times=3)
    session, epoch = talk.session, talk.epoch
    for wrong in (epoch - 1, epoch + 1, 0x7FFFFFFF):
        await talk.fetch(place, session_epoch=wrong)
    await talk.fetch(place, session_id=session ^ 1, session_epoch=epoch)
    talk.epoch = epoch
    await talk.fetch(place, ("u", 0, 0), times=3)
    await talk.fetch(times=2)
    gone = ForgottenTopic(topic="u", topic_id=talk.ids["u"], partitions=[0])
    await talk.fetch(forgotten_topics_data=[gone], times=2)
    await talk.fetch(place, times=2)
    await talk.fetch(place, session_epoch=-1, times=2)
    await talk.fetch(place, times=2)


class Said:
    """What a node told consumers, how often it recognized a fetch, and what it counted."""

    def __init__(self) -> None:
        self.answers: dict[str, list[bytes]] = {}
        self.recognized = 0
        self.counted: list[int] = []


Work = Callable[[ServerNode, Said], Awaitable[None]]


def run(loop: str, work: Work, *, decoded_all: bool, settings: dict[str, str] | None = None) -> Said:
    result = Said()

    async def whole() -> None:
        usual = {
            "log.dirs": "/data",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "transaction.partition.verification.enable": "false",
        }
        config = Config.load({**usual, **(settings or {})})
        async with asyncio.timeout(60):
            async with node_of(config) as node:
                await work(node, result)
                port = node.address[1].to_bytes(4, "big")  # is another one each time, and leaders are named
                for said in result.answers.values():
                    said[:] = (answer.replace(port, b"port") for answer in said)
                assert node.runtime is not None
                metrics, name = node.runtime.metrics, "kafka.network:type=RequestMetrics,name="
                result.counted = [
                    metrics.counter(f"{name}RequestsPerSec,request=Fetch").value,
                    metrics.histogram(f"{name}TotalTimeMs,request=Fetch").count,
                    metrics.histogram(f"{name}LocalTimeMs,request=Fetch").count,
                    sum(p.leading.traffic.bytes_out for p in node.broker.partitions()),
                ]

    with (
        decoding_fetches(decoded_all),
        counting(FetchDoor, result),
        asyncio.Runner(loop_factory=LOOPS[loop]) as runner,
    ):
        runner.run(whole())
    return result


@asynccontextmanager
async def talking(node: ServerNode, version: int, said: list[bytes]) -> AsyncIterator[Talk]:
    async with await AsyncConnection.connect(*node.address) as admin:
        await admin.request(creation_of({"t": {}, "u": {}}, partitions=2))
        talk = Talk(node, admin, version, said)
        await talk.learn_ids()
        await talk.begin()
        yield talk
        talk.client.close()
        await admin.request(DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=5000), 5)


def both(loop: str, work: Work, least: int) -> Said:
    """Do the same work with every fetch decoded, and without; return what was said without."""
    slowly, fast = run(loop, work, decoded_all=True), run(loop, work, decoded_all=False)
    assert fast.answers.keys() == slowly.answers.keys()
    for name, answers in slowly.answers.items():
        for number, (one, other) in enumerate(zip(answers, fast.answers[name], strict=True)):
            assert one == other, (name, number)
    assert slowly.recognized == 0
    assert fast.recognized >= least
    assert fast.counted == slowly.counted
    return fast


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_recognized_fetches_have_the_same_answers(loop: str) -> None:
    async def work(node: ServerNode, result: Said) -> None:
        for version in (4, 5, 7, 9, 11, 12, 13, 17) if loop == "uvloop" else (11, 17):
            for in_session in (False, True) if version >= 7 else (False,):
                said = result.answers[f"v{version} {in_session}"] = []
                async with talking(node, version, said) as talk:
                    talk.epoch = 0 if in_session else -1
                    await walk(talk)
                    await wait(talk)
                    if in_session:
                        await odd_sessions(talk)
                    talk.session, talk.epoch = 0, 0 if in_session else -1
                    await transactions(talk)
                    await changes(talk)

    fast = both(loop, work, 200)
    assert len({one[4:] for answers in fast.answers.values() for one in answers}) > 150


@pytest.mark.parametrize(("version", "partitions"), [(4, 1), (11, 2), (12, 2), (17, 1), (17, 2)])
def test_damaged_fetches_are_answered_or_refused_alike(version: int, partitions: int) -> None:
    async def work(node: ServerNode, result: Said) -> None:
        said = result.answers["all"] = []
        async with talking(node, version, said) as talk:
            for n in range(4):
                await talk.produce(index=n % 2)
            good = talk.frame(*(("t", n, 2 * n) for n in range(partitions)))
            for place in range(4, len(good)):
                for value in (0xFF, 0x02):
                    bad = bytearray(good)
                    bad[place] = value
                    client = Client(*await asyncio.open_connection(*node.address))
                    client.writer.write(good + good + bad)
                    client.writer.write_eof()
                    said.append(await client.closed())
                    client.close()

    both("uvloop", work, 100 if partitions == 1 else 150)


def test_a_connection_that_also_produces_is_a_producers() -> None:
    async def work(node: ServerNode, result: Said) -> None:
        said = result.answers["all"] = []
        async with talking(node, 11, said) as talk:
            await talk.fetch(("t", 0, 0), times=3)
            for n in range(3):
                talk.client.writer.write(frame(request(batch(100), "t"), 9, n))
                said.append((await talk.client.answer())[1])
                await talk.fetch(("t", 0, n), times=2)

    both("uvloop", work, 2)


@pytest.mark.parametrize("waits", [False, True])
def test_a_quota_counts_from_the_next_answer_on(waits: bool) -> None:
    told: list[int] = []

    async def work(node: ServerNode, result: Said) -> None:
        async with talking(node, 11, []) as talk:
            await talk.produce(size=500)
            await talk.fetch(("t", 0, 0), times=3, max_wait_ms=30_000)
            assert result.recognized == 2
            place = ("t", 0, 2 if waits else 0)
            answer = asyncio.ensure_future(talk.answers(talk.frame(place, max_wait_ms=30_000)))
            if waits:
                await until(lambda: len(node.broker.purgatory) > 0)
            else:
                told.append((await answer).throttle_time_ms)
            await talk.admin.request(_quota(10.0))
            if waits:
                await talk.produce(size=500)
            else:
                answer = asyncio.ensure_future(talk.answers(talk.frame(place, max_wait_ms=30_000)))
            told.append((await answer).throttle_time_ms)
            assert result.recognized == 3

    run("uvloop", work, decoded_all=False)
    assert told[-1] > 1000
    assert not any(told[:-1])
