"""A simulated member of a consumer group (KIP-848): it joins, owns, gives up, commits, leaves, and falls silent.

It sends one heartbeat at a time, and everything in it after a failure; what it shall give up it keeps for a while.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import TYPE_CHECKING

from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import NO_NODE, TopicId, TopicPartition
from barnabas.sim.cluster.clients.groups.client import LOOK_AGAIN, GroupKnown
from barnabas.sim.cluster.clients.groups.instance import Instance, Plan, Sent
from barnabas.sim.cluster.clients.groups.positions import Place
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact

__all__ = ["NewProtocolMember"]

_OUT = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
_LEAVES, _LEAVES_FOR_NOW = -1, -2


class NewProtocolMember(Instance):
    """One instance that speaks the protocol of KIP-848."""

    def __init__(
        self, contact: Contact, known: GroupKnown, where: TopicPartition, plan: Plan, *, mortal: bool = False
    ) -> None:
        super().__init__(contact, known, where, plan, mortal=mortal)
        self.member_id = contact.machine.random.uuid()
        self.target: frozenset[Place] = frozenset()
        """What it shall read from, as it was told last."""
        self._asks_all = True
        self._said: frozenset[Place] = frozenset()
        """What it owned by its last heartbeat that was answered."""
        self._confirmed: dict[Place, float] = {}
        """When it sent the last heartbeat whose answer left it a partition."""

    @property
    def group_name(self) -> str:
        return str(self.member_id)

    @property
    def server_assignor(self) -> str:
        return self.plan.assignor or "uniform"

    @property
    def settled(self) -> bool:
        return self.epoch > 0 and not self._unanswered_lately() and self.owned.keys() == self.target

    # ---- coming and going --------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Go, and come back later: a static member, which keeps its place, under another id."""
        rng, plan = self.contact.rng, self.plan
        static = plan.instance_id is not None
        request = self._request((), epoch=_LEAVES_FOR_NOW if static and rng.random() < 0.7 else _LEAVES)
        self.left += 1
        lost = [(place, self.owner) for place in self.owned]
        unsure = bool(self._unanswered_lately())
        sent = Sent(self.contact.time, frozenset())
        self._drop_all()
        try:
            answer = await self.ask(request)
            answered = not answer.error_code
        except BarnabasError:
            answered = False
        if answered:
            self._lost += lost
        else:
            self._unanswered.append(sent)
        if static or rng.random() < 0.5:
            self._new_id()
            if answered and not unsure:
                self._ghosts += lost
        await self._stay_away()

    def _subscribed(self) -> None:
        self._asks_all = True

    def _new_id(self) -> None:
        self.member_id = self.contact.machine.random.uuid()
        self._unanswered.clear()
        self._lost.clear()

    def _drop_all(self) -> None:
        super()._drop_all()
        self._confirmed.clear()
        self.target = self._said = frozenset()
        self._asks_all = True

    # ---- heartbeats --------------------------------------------------------------------------------------

    def _request(
        self, owned: Collection[Place], *, full: bool = False, epoch: int | None = None
    ) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat; `full`: with all that it asks for.  `epoch`: another one than its own."""
        plan = self.plan
        topics: dict[TopicId, list[int]] = {}
        for topic, index in sorted(owned):
            topics.setdefault(topic, []).append(index)
        rows = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.known.id,
            member_id=str(self.member_id),
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=plan.instance_id,
            rebalance_timeout_ms=int(plan.rebalance * 1000) if full else -1,
            subscribed_topic_names=list(self.topics) if full else None,
            subscribed_topic_regex=plan.regex if full else None,
            server_assignor=plan.assignor if full else None,
            topic_partitions=rows if full or frozenset(owned) != self._said else None,
        )

    async def _heartbeat(self) -> None:
        if revoked := [place for place in self.owned if place not in self.target]:
            if self.contact.rng.random() < 0.6:
                self._give_up(revoked)
        sent = Sent(self.contact.time, frozenset(self.owned))
        request = self._request(sent.owned, full=self._asks_all or self.epoch == 0)
        try:
            answer = await self.ask(request)
        except BarnabasError:
            await self._not_answered(sent)
            return
        code = ErrorCode(answer.error_code)
        if code in LOOK_AGAIN:
            self.coordinator = NO_NODE
            await self._not_answered(sent)
        elif code in _OUT:
            self.fenced += self.epoch > 0
            self._drop_all()
            if code is ErrorCode.FENCED_INSTANCE_ID:
                self._new_id()
            await self.contact.pause()
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID:
            await self.contact.pause()
        elif code:
            raise InvariantViolation("G5", f"{self!r} hears {code.name}: {answer.error_message}")
        else:
            await self._answered(sent, answer)

    async def _not_answered(self, sent: Sent) -> None:
        self._unanswered.append(sent)
        self._asks_all = True
        await self.contact.pause()

    async def _answered(self, sent: Sent, answer: ConsumerGroupHeartbeatResponse) -> None:
        unanswered = self._unanswered_lately()
        if answer.member_epoch != self.epoch:
            self._epoch_since = min([sent.at, *(one.at for one in unanswered)])
        self.epoch = answer.member_epoch
        self._asks_all, self._said = False, sent.owned
        fresh: list[Place] = []
        if answer.assignment is not None:
            self.target = frozenset(
                (one.topic_id, index)
                for one in answer.assignment.topic_partitions
                for index in one.partitions
            )
            fresh = sorted(self.target - self.owned.keys())
            self.owned.update(dict.fromkeys(fresh, self.epoch))
        self._hold(sent, fresh)
        if fresh and not self.quiet:
            await self._look_at(fresh, self._epoch_since, self.owner)

    def _hold(self, sent: Sent, fresh: list[Place]) -> None:
        """G3: from now on it holds what it got, and on and on what it had (rules 3 and 4 of `Holdings`); G6.

        One that does not give up in time what it is asked to loses all that it has (rule 4).
        """
        contact, plan = self.contact, self.plan
        now, session_over = contact.time, sent.at + plan.session
        unanswered = self._unanswered_lately()
        for place in self.owned:
            if place in self.target and (place in fresh or not unanswered):
                self._confirmed[place] = sent.at
        patience = min((self._confirmed.get(place, -inf) for place in self.owned), default=-inf)
        until = min(session_over, patience + plan.rebalance)
        for place in self.owned:
            if any(place not in one.owned for one in unanswered):
                continue  # a late heartbeat may give it up
            self.known.holdings.granted(self.name, place, now, until)
            self.known.epochs.told(self.name, place, self.epoch, now, session_over)
