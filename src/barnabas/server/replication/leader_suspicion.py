"""Leaders that may have just died: a client that asks for them gets its answer when others lead in their place.

A client whose connection to a leader breaks asks another node at once for the new leader, some milliseconds
before any node can know it.  If it gets the dead leader once more, it trusts that for a second (librdkafka),
or asks again and again (the Java client). So this node asks the leaders that it would name whether they are
alive (`probes`: a round trip). A follower also notices the death by itself, because its own connection to the
leader ended.  From then on this node delays answers to Metadata that would name that leader, until the leader
answers again or the metadata name another, at most `LONGEST_SUSPICION_S` seconds.

librdkafka mostly asks twice at once.  The first of two answers still lists the dead node, as leader of
nothing.  librdkafka forgets a node that is no longer listed, together with the partitions that its threads
are just moving to the new leader, and finds these again up to a second later.  In this way it first learns
which partitions moved, and then that the node is gone.  If it asks only once, it has to forget the node at
once; otherwise it would wait for up to ten seconds before it connects to the node that is back and leads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model import NO_NODE, NodeId

if TYPE_CHECKING:
    from barnabas.controller.image import ImageDelta, Topic
    from barnabas.ports import Clock

__all__ = ["LONGEST_SUSPICION_S", "Ask", "LeaderSuspicion", "others_lead"]

NOBODY = -1
LONGEST_SUSPICION_S = 1.0
"""Seconds after the end of a connection for which its leader is doubted at most."""
SECOND_QUESTION_S = 0.015
"""Seconds in which a connection that asks twice at once has asked for the second time."""
DEPARTED_FOR_S = 5.0
"""Seconds after a leader was fenced in which a connection that asks twice is told its name once more."""

Ask = Callable[[Iterable[NodeId]], Awaitable[None]]


class _Departed(NamedTuple):
    """The time at which a leader was fenced, and the connections that were told since then."""

    at: float
    told: set[int]


class LeaderSuspicion:
    """The leaders in doubt: a connection to them ended, and they have not answered since.

    `me` leads what this node leads.
    """

    __slots__ = ("_asking", "_changed", "_clock", "_departed", "_me", "_silent", "_since")

    def __init__(self, clock: Clock, me: NodeId = NO_NODE) -> None:
        self._clock = clock
        self._me = me
        self._asking: Counter[int] = Counter()
        """Questions that wait, by connection."""
        self._since: dict[NodeId, float] = {}
        self._silent: set[NodeId] = set()
        """Leaders that were lost, and have neither answered nor registered since: losing them again is no news."""
        self._departed: dict[NodeId, _Departed] = {}
        self._changed: asyncio.Future[None] | None = None

    # -- what this node sees --

    def lost(self, leader: NodeId) -> None:
        """The connection to a leader ended, or cannot be had, without our doing."""
        if leader not in self._silent:
            self._silent.add(leader)
            self._since[leader] = self._clock.now().mono

    def heard(self, leader: NodeId) -> None:
        """A leader answered."""
        if leader in self._silent:
            self._silent.discard(leader)
            if self._since.pop(leader, None) is not None:
                self._wake()

    def changed(self, delta: ImageDelta) -> None:
        """A commit was applied: others may lead now, and a broker that registered again is no longer in doubt."""
        if not delta.brokers and not delta.partitions:
            return
        for node in sorted(delta.brokers):
            self._since.pop(node, None)
            self._silent.discard(node)
            self._departed.pop(node, None)
            broker = delta.image.brokers.get(node)
            if broker is not None and broker.fenced and _led_something(delta, node):
                self._departed[node] = _Departed(self._clock.now().mono, set())
        self._wake()

    # -- what that means for who asks --

    def concern(self, topics: Iterable[Topic]) -> bool:
        """Whether a partition of these topics is led by a node in doubt."""
        if not self._since:
            return False
        early = self._clock.now().mono - LONGEST_SUSPICION_S
        since = self._since = {leader: at for leader, at in self._since.items() if at > early}
        return bool(since) and any(
            partition.leader in since for topic in topics for partition in topic.partitions.values()
        )

    async def settled(
        self, topics: Callable[[], Iterable[Topic]], ask: Ask, connection: int = NOBODY
    ) -> None:
        """Ask the leaders of these topics whether they live, and wait as long as one of them is in doubt.

        `ask(leaders)` returns when `lost` or `heard` was called for what there is to know now.
        """
        self._asking[connection] += 1
        try:
            await ask(leaders(topics(), self._me))
            if self._recently_departed():
                await asyncio.sleep(SECOND_QUESTION_S)
            while self.concern(topics()):
                await self.news()
        finally:
            self._asking[connection] -= 1
            if not self._asking[connection]:
                del self._asking[connection]

    async def news(self) -> None:
        """Wait until something has changed, or the oldest doubt is over."""
        if not self._since:
            return
        left = min(self._since.values()) + LONGEST_SUSPICION_S - self._clock.now().mono
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(max(0.0, left)):
                await asyncio.shield(self._changed)
        except TimeoutError:
            return

    def departed(self, connection: int) -> list[NodeId]:
        """Nodes that led until a moment ago and are fenced, once for each connection that asks again already."""
        departed = self._recently_departed()
        found = [node for node, left in departed.items() if connection not in left.told]
        for node in found:
            self._departed[node].told.add(connection)
        return found if self._asking[connection] else []

    def _recently_departed(self) -> dict[NodeId, _Departed]:
        if self._departed:
            early = self._clock.now().mono - DEPARTED_FOR_S
            self._departed = {node: left for node, left in self._departed.items() if left.at > early}
        return self._departed

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)

    def __repr__(self) -> str:
        return f"<LeaderSuspicion {list(self._since)} departed={len(self._departed)}>"


def leaders(topics: Iterable[Topic], but: NodeId) -> list[NodeId]:
    """The nodes that lead a partition of these topics, without one."""
    return sorted({p.leader for topic in topics for p in topic.partitions.values()} - {NO_NODE, but})


def others_lead(topics: Iterable[Topic], node: NodeId) -> bool:
    """Whether another node leads a partition of these topics."""
    return any(p.leader not in (NO_NODE, node) for topic in topics for p in topic.partitions.values())


def _led_something(delta: ImageDelta, node: NodeId) -> bool:
    """Whether a partition that this commit touched was led by the node."""
    return any(
        before is not None and before.leader == node
        for partitions in delta.partitions.values()
        for before in partitions.values()
    )
