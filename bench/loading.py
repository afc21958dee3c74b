"""How long a coordinator reads what it once wrote, and what others notice (`python -m bench coordinators`)."""

from __future__ import annotations

import asyncio
import time

from barnabas import Admin
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.connection import AsyncConnection
from barnabas.client.group_offsets import check_committed, commit_request
from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from barnabas.wire.schemas.groups import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bench.coordinator import coordinator_of
from bench.peers import Peer

__all__ = ["LOAD_SETTINGS", "loading"]

COMMITS, POSITIONS, AT_ONCE = 20_000, 6, 200
LOAD_SETTINGS = {"offsets.topic.num.partitions": "1"}


def loading(peer: Peer) -> dict[str, float]:
    """Commits of one group and a restart: until its positions are known, and the longest wait of others."""
    found: dict[str, float] = {}
    try:
        peer.start()
        peer.wait()
        with Admin(peer.bootstrap, timeout=60) as admin:
            admin.create_topic("flights", partitions=POSITIONS)
        asyncio.run(_commit(peer))
        peer.stop()
        peer.start()
        peer.wait()
        found["loaded_s"], found["longest_ping_ms"] = asyncio.run(_until_known(peer))
    finally:
        peer.stop()
    return found


async def _commit(peer: Peer) -> None:
    async with AsyncCluster(peer.bootstrap, timeout=60) as cluster:
        coordinator = await coordinator_of(cluster, "group")
        served = coordinator.version_of(OffsetCommitRequest)

        async def commit(offset: int) -> None:
            positions = {TopicPartition("flights", partition): offset for partition in range(POSITIONS)}
            request, version = commit_request("group", positions, served, member_id="", generation=-1)
            check_committed(await coordinator.request(request, version), "group")

        async def first() -> None:
            await commit(0)

        await cluster.retrying(first, patient=True)
        for done in range(0, COMMITS, AT_ONCE):
            await asyncio.gather(*(commit(offset) for offset in range(done, done + AT_ONCE)))


async def _until_known(peer: Peer) -> tuple[float, float]:
    """Seconds until the last position is known, and the longest time (ms) that somebody waited for an answer."""
    topic = OffsetFetchRequestTopics(name="flights", partition_indexes=[0])
    ask = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=[topic])])
    host, _, port = peer.bootstrap.partition(":")
    pings: list[float] = []

    async def ping(other: AsyncConnection) -> None:
        while True:
            asked = time.monotonic()
            await other.request(ApiVersionsRequest(), 3)
            pings.append(time.monotonic() - asked)
            await asyncio.sleep(0.002)

    async with (
        await AsyncConnection.connect(host, int(port)) as asking,
        await AsyncConnection.connect(host, int(port)) as other,
    ):
        pinging, begun = asyncio.create_task(ping(other)), time.monotonic()
        group = (await asking.request(ask, 8)).groups[0]
        while group.error_code:
            group = (await asking.request(ask, 8)).groups[0]
        took = time.monotonic() - begun
        pinging.cancel()
    if (offset := group.topics[0].partitions[0].committed_offset) != COMMITS - 1:
        raise BarnabasError(f"{COMMITS - 1} was committed last, and {offset} was loaded")
    return took, max(pings) * 1000
