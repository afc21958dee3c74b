"""`python -m bench coordinators`: many transactional ids, many groups, and one group with many members.

  sizes      10,000 transactional ids and 1,000 KIP-848 groups with a member and ten positions each: what they cost
             to make, the memory of the node, and the CPU that it takes to load them when it starts again
  leave      50 members share 200 partitions and one leaves: until the others own and have acknowledged all
  transactions  of 1, 10 and 100 partitions: CPU of the broker, and time; offset commits per CPU second
  loading    20,000 offset commits, and a restart: how long the group is not served, and the longest wait of others
  kill       three nodes; kill -9 of the coordinator of these 50: until the new one has answered every member

Members send heartbeats each second, from this process, over one connection each.  Apache Kafka comes right
after, with the same settings and the same members.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from barnabas import Admin
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.connection import AsyncConnection
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.group_offsets import commit_request
from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition, Uuid
from barnabas.wire.schemas.groups import OffsetCommitRequest
from barnabas.wire.schemas.transactions import InitProducerIdRequest
from bench.coordinator import coordinator_of
from bench.loading import LOAD_SETTINGS, loading
from bench.peers import ApacheKafka, Barnabas, Peer, apache_is_here
from bench.processes import cpu_seconds, load, machine, resident_mb
from bench.transactions import transactions
from bench.trio import KILL, ApacheTrio, BarnabasTrio, Trio, until

IDS, GROUPS, POSITIONS = 10_000, 1_000, 10
MEMBERS, PARTITIONS = 50, 200
AT_ONCE = 32
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
Figures = dict[str, float]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench coordinators", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="leaves and kills (3)")
    parser.add_argument(
        "--only", default="sizes,leave,kill,transactions,loading", help="which, separated by commas"
    )
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    options = parser.parse_args(words)
    print(f"{machine()}; load {load():.1f}")
    without = "" if not options.alone else "as asked"
    if why := without or apache_is_here():
        print(f"measuring alone: {why}")
    kinds = [(Barnabas, BarnabasTrio), *([] if why else [(ApacheKafka, ApacheTrio)])]
    for place, (one, three) in enumerate(kinds):
        with tempfile.TemporaryDirectory(prefix="barnabas-coordinators-") as folder:
            if "sizes" in options.only:
                tell(
                    one.name,
                    "sizes",
                    sizes(one(Path(folder) / "s", 31092 + 10 * place, fsync=False, settings=SETTINGS)),
                )
            if "transactions" in options.only:
                peer = one(Path(folder) / "t", 31142 + 10 * place, fsync=False, settings=SETTINGS)
                tell(one.name, "txn", transactions(peer, 3.0))
            if "loading" in options.only:
                many = {**SETTINGS, **LOAD_SETTINGS}
                tell(
                    one.name,
                    "load",
                    loading(one(Path(folder) / "o", 31242 + 10 * place, fsync=False, settings=many)),
                )
            if "leave" in options.only:
                peer = one(Path(folder) / "l", 31192 + 10 * place, fsync=False, settings=SETTINGS)
                tell(one.name, "leave", leave(peer, options.rounds))
            if "kill" in options.only:
                many = {**SETTINGS, "offsets.topic.replication.factor": "3"}
                trio = three(Path(folder) / "k", 31292 + 100 * place, fsync=False, settings=many)
                tell(one.name, "kill", kill(trio, options.rounds))
    return 0


def tell(name: str, what: str, figures: Figures) -> None:
    print(
        f"{name:13} {what:6} " + ", ".join(f"{key} {value:.2f}" for key, value in figures.items()), flush=True
    )


# -- sizes ----------------------------------------------------------------------------------------------


def sizes(peer: Peer) -> Figures:
    """What many ids and groups cost one node."""
    found: Figures = {}
    try:
        peer.start()
        peer.wait()
        with Admin(peer.bootstrap, timeout=60) as admin:
            admin.create_topic("flights", partitions=POSITIONS)
        asyncio.run(_fill(peer, 1, 1))  # makes the topics of the coordinators
        found["restart_cpu_s"] = _restart(peer, 1, 1)
        found["rss_mb"] = resident_mb(peer.pid)
        before, begun = cpu_seconds(peer.pid), time.monotonic()
        asyncio.run(_fill(peer, IDS, GROUPS))
        found["filling_s"] = time.monotonic() - begun
        found["filling_cpu_s"] = cpu_seconds(peer.pid) - before
        found["rss_filled_mb"] = resident_mb(peer.pid)
        found["restart_filled_cpu_s"] = _restart(peer, IDS, GROUPS)
        found["rss_loaded_mb"] = resident_mb(peer.pid)
    finally:
        peer.stop()
    return found


def _restart(peer: Peer, ids: int, groups: int) -> float:
    """CPU seconds from a start until all ids and groups are known again."""
    peer.stop()
    peer.start()
    peer.wait()
    with Admin(peer.bootstrap, timeout=60) as admin:
        until(
            lambda: len(admin.transactions()) >= ids and len(admin.groups()) >= groups, 120, "all is loaded"
        )
    return cpu_seconds(peer.pid)


async def _fill(peer: Peer, ids: int, groups: int) -> None:
    async with AsyncCluster(peer.bootstrap, timeout=60) as cluster:
        coordinator = await coordinator_of(cluster, "id-0", transaction=True)
        await _many(ids, lambda number: _take_id(coordinator, f"id-{number}"))
        coordinator = await coordinator_of(cluster, "group-0")
        topic = (await cluster.topic("flights")).id
        await _many(groups, lambda number: _make_group(coordinator, f"group-{number}", topic))


async def _many(count: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """So many pieces of work, some at once."""
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def _take_id(coordinator: AsyncConnection, name: str) -> None:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    await _until_good(lambda: coordinator.request(request))


async def _make_group(coordinator: AsyncConnection, name: str, topic: Uuid) -> None:
    member = ConsumerGroupMember(name, Subscription(("flights",)), member_id=str(Uuid(uuid4().bytes)))
    member.learn_names({topic: "flights"})
    member.heard(await _until_good(lambda: coordinator.request(member.join_request(1))))
    _take_over(member)
    request = member.heartbeat_request()
    assert request is not None
    member.heard(await _until_good(lambda: coordinator.request(request)))
    positions = {TopicPartition("flights", partition): 42 for partition in range(POSITIONS)}
    commit, version = commit_request(
        name,
        positions,
        coordinator.version_of(OffsetCommitRequest),
        member_id=member.member_id,
        generation=member.generation,
    )
    await coordinator.request(commit, version)


async def _until_good(ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """An answer without an error, in 60 s."""
    end = asyncio.get_running_loop().time() + 60
    while (answer := await ask()).error_code:
        if asyncio.get_running_loop().time() > end:
            raise BarnabasError(f"no good answer: {answer}")
        await asyncio.sleep(0.05)
    return answer


def _take_over(member: ConsumerGroupMember) -> None:
    change = member.change()
    member.released(change)
    member.acquired(member.change())


# -- one group with many members -----------------------------------------------------------------------------


class Crowd:
    """Members of one group, each with a connection and a heartbeat a second."""

    def __init__(self, bootstrap: str, names: Mapping[Uuid, str]) -> None:
        self.bootstrap, self.names = bootstrap, names
        self.members: dict[ConsumerGroupMember, asyncio.Task[None]] = {}
        self.answered: dict[ConsumerGroupMember, float] = {}

    def join(self) -> None:
        member = ConsumerGroupMember("crowd", Subscription(("crowded",)), member_id=str(Uuid(uuid4().bytes)))
        member.learn_names(self.names)
        self.members[member] = asyncio.create_task(self._live(member))

    async def _live(self, member: ConsumerGroupMember) -> None:
        async with AsyncCluster(self.bootstrap, timeout=5) as cluster:
            coordinator: AsyncConnection | None = None
            while True:
                try:
                    if coordinator is None or coordinator.closed:
                        coordinator = await cluster.coordinator("crowd")
                    request = member.heartbeat_request() if member.generation else None
                    answer = await coordinator.request(request or member.join_request(1), None, 5.0)
                    member.heard(answer)
                    self.answered[member] = asyncio.get_running_loop().time()
                    member.learn_names(self.names)
                    _take_over(member)
                    if not member.acknowledges:
                        await asyncio.sleep(member.heartbeat_interval)
                except BarnabasError:
                    coordinator = None
                    await asyncio.sleep(0.05)

    async def leave(self) -> None:
        """The first member leaves as it should."""
        member, task = next(iter(self.members.items()))
        del self.members[member]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with AsyncCluster(self.bootstrap) as cluster:
            request = member.leave_request(1)
            assert request is not None
            await (await cluster.coordinator("crowd")).request(request)

    async def settled(self, seconds: float = 120.0) -> float:
        """Wait until every partition is owned once, and that is acknowledged; how long that took."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not self._whole():
            if loop.time() - begun > seconds:
                raise BarnabasError("the group did not settle")
            await asyncio.sleep(0.005)
        return loop.time() - begun

    def _whole(self) -> bool:
        shares = [len(member.owned) for member in self.members]
        return sum(shares) == PARTITIONS and min(shares) > 0 and not any(m.acknowledges for m in self.members)

    async def heard_since(self, moment: float) -> float:
        """Wait until every member had a good answer after `moment`; how long that took."""
        loop = asyncio.get_running_loop()
        while any(self.answered.get(member, 0.0) <= moment for member in self.members):
            if loop.time() - moment > 120:
                raise BarnabasError("some members hear nothing")
            await asyncio.sleep(0.005)
        return loop.time() - moment


@asynccontextmanager
async def _crowd(bootstrap: str) -> AsyncIterator[Crowd]:
    async with AsyncCluster(bootstrap, timeout=60) as cluster:
        names = {(await cluster.topic("crowded", refresh=True)).id: "crowded"}
    crowd = Crowd(bootstrap, names)
    for _ in range(MEMBERS):
        crowd.join()
    try:
        yield crowd
    finally:
        for task in crowd.members.values():
            task.cancel()
        await asyncio.gather(*crowd.members.values(), return_exceptions=True)


def leave(peer: Peer, rounds: int) -> Figures:
    """One of many members leaves."""

    async def run() -> Figures:
        async with _crowd(peer.bootstrap) as crowd:
            joined = await crowd.settled()
            before, begun, times = cpu_seconds(peer.pid), time.monotonic(), []
            for _ in range(rounds):
                await crowd.leave()
                times.append(await crowd.settled())
                crowd.join()
                await crowd.settled()
            return {
                "joined_s": joined,
                "left_least_s": min(times),
                "left_median_s": statistics.median(times),
                "cpu_share": (cpu_seconds(peer.pid) - before) / (time.monotonic() - begun),
            }

    try:
        peer.start()
        peer.wait()
        with Admin(peer.bootstrap, timeout=60) as admin:
            admin.create_topic("crowded", partitions=PARTITIONS)
        return asyncio.run(run())
    finally:
        peer.stop()


def kill(trio: Trio, rounds: int) -> Figures:
    """The coordinator of many members dies."""

    async def run() -> Figures:
        times = []
        async with _crowd(trio.bootstrap) as crowd, AsyncCluster(trio.bootstrap, timeout=60) as cluster:
            await crowd.settled()
            for _ in range(rounds):
                address = (await coordinator_of(cluster, "crowd")).address
                number = next(n for n, seat in trio.seats.items() if seat.address == address)
                moment = asyncio.get_running_loop().time()
                await asyncio.to_thread(trio.seats[number].end, KILL)
                times.append(await crowd.heard_since(moment))
                await crowd.settled()
                await asyncio.to_thread(trio.start_one, number)
                await asyncio.to_thread(trio.wait_port, number)
                await asyncio.sleep(3)
        return {"answered_least_s": min(times), "answered_median_s": statistics.median(times)}

    try:
        trio.start()
        with Admin(trio.bootstrap, timeout=60) as admin:
            admin.create_topic("crowded", partitions=PARTITIONS, replication=3)
        return asyncio.run(run())
    finally:
        trio.stop()
