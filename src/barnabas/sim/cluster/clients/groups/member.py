"""A simulated member of a consumer group (KIP-848): it joins, owns, gives up, commits, leaves, and falls silent.

It goes on as Kafka's consumer does: one heartbeat at a time, everything in it after a failure; what it shall give
up it keeps for a while.  Unlike that one it also commits what it lost long ago, which the coordinator must refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import NO_NODE, TopicId, TopicPartition
from barnabas.sim.cluster.clients.groups.client import LOOK_AGAIN, GroupClient, GroupKnown, Owner
from barnabas.sim.cluster.clients.groups.positions import LATE, Place
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact

__all__ = ["Member", "Plan"]

_OUT = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
_LEAVES, _LEAVES_FOR_NOW = -1, -2


class Plan(NamedTuple):
    """What a member is.  Times are seconds; `other_topics`: what it subscribes to instead, now and then."""

    topics: tuple[str, ...]
    session: float
    rebalance: float
    interval: float
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    other_topics: tuple[str, ...] | None = None
    restless: float = 0.03
    """How likely it leaves or falls silent after a heartbeat."""


class _Sent(NamedTuple):
    """A heartbeat that nobody answered: it may still be taken, and says what its member owns."""

    at: float
    owned: frozenset[Place]


class Member(GroupClient):
    """One instance.  `work` runs for ever; it behaves after `finish`, and is gone if it is `mortal`."""

    def __init__(
        self, contact: Contact, known: GroupKnown, where: TopicPartition, plan: Plan, *, mortal: bool = False
    ) -> None:
        super().__init__(contact, known, where)
        self.plan = plan
        self.mortal = mortal
        self.topics = plan.topics
        self.member_id = contact.machine.random.uuid()
        self.epoch = 0
        self.owned: dict[Place, int] = {}
        """What it reads from, and in which epoch it got it."""
        self.target: frozenset[Place] = frozenset()
        """What it shall read from, as it was told last."""
        self.finishing = self.dead = self.quiet = False
        self.fenced = self.left = self.silences = self.given_up = 0
        self._asks_all = True
        self._said: frozenset[Place] = frozenset()
        """What it owned by its last heartbeat that was answered."""
        self._unanswered: list[_Sent] = []
        self._confirmed: dict[Place, float] = {}
        """When it sent the last heartbeat whose answer left it a partition."""
        self._epoch_since = 0.0
        """When it sent the first heartbeat that may have brought it to its epoch."""
        self._lost: list[tuple[Place, Owner]] = []
        """What it gave up, with whom it was then."""
        self._ghosts: list[tuple[Place, Owner]] = []
        """What it owned under ids that it left for good."""

    def __repr__(self) -> str:
        owned = f"owns {len(self.owned)} of {len(self.target)}"
        return f"<Member {self.contact.name} of {self.known.id} epoch={self.epoch} {owned}>"

    @property
    def owner(self) -> Owner:
        """As whom it commits now."""
        return Owner(str(self.member_id), self.epoch, self.plan.instance_id)

    def finish(self) -> None:
        """From now on it behaves, or is gone."""
        self.finishing = True

    @property
    def settled(self) -> bool:
        """Whether it is in its group, and owns what it shall."""
        return self.epoch > 0 and not self._unanswered_lately() and self.owned.keys() == self.target

    # ---- what it does ------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Everything."""
        contact, plan = self.contact, self.plan
        rng = contact.rng
        while not self.dead:
            await asyncio.sleep(plan.interval * rng.uniform(0.7, 1.3))
            if self.finishing and self.mortal:
                self._drop_all()
                self.dead = True
                return
            if self.epoch > 0 and not self.finishing and rng.random() < plan.restless:
                await rng.choice(
                    (self._fall_silent, self._fall_silent, self._leave, self._leave, self._change)
                )()
            await self._heartbeat()
            if self.epoch > 0 and not self.quiet and rng.random() < 0.4:
                await self._commit_some()

    async def _fall_silent(self) -> None:
        """Seconds without a heartbeat; then it may commit before it hears what it missed."""
        rng = self.contact.rng
        self.silences += 1
        await asyncio.sleep(self.plan.session * rng.choice((0.5, 1.2, 3.0)) * rng.uniform(0.7, 1.3))
        if self.owned and rng.random() < 0.7:
            await self._commit_some()

    async def _leave(self) -> None:
        """Go, and come back later: a static member, which keeps its place, under another id."""
        rng, plan = self.contact.rng, self.plan
        static = plan.instance_id is not None
        request = self._request((), epoch=_LEAVES_FOR_NOW if static and rng.random() < 0.7 else _LEAVES)
        self.left += 1
        lost = [(place, self.owner) for place in self.owned]
        unsure = bool(self._unanswered_lately())
        sent = _Sent(self.contact.time, frozenset())
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
        await asyncio.sleep(rng.choice((0.0, plan.session / 2, plan.session * 2)))

    async def _change(self) -> None:
        """Subscribe to something else."""
        if self.plan.other_topics is not None:
            self.topics = self.plan.other_topics if self.topics == self.plan.topics else self.plan.topics
            self._asks_all = True

    def _new_id(self) -> None:
        self.member_id = self.contact.machine.random.uuid()
        self._unanswered.clear()
        self._lost.clear()

    def _drop_all(self) -> None:
        """It is in no group: what it held is nobody's, as far as it knows."""
        self.known.holdings.gone(self.contact.name)
        self.owned.clear()
        self._confirmed.clear()
        self.target = self._said = frozenset()
        self.epoch = 0
        self._asks_all = True

    # ---- positions ---------------------------------------------------------------------------------------

    async def _commit_some(self) -> None:
        """A position of something it owns, or of something that it owned once: that one must be refused."""
        rng = self.contact.rng
        late = [(place, owner) for place, owner in self._lost if self._surely_lost(place, owner)]
        late += self._ghosts
        if late and rng.random() < 0.3:
            await self.commit(*rng.choice(late), stale=True)
        elif self.owned:
            place = rng.choice(sorted(self.owned))
            await self.commit(place, self.owner, stale=self._anothers(place))

    def _surely_lost(self, place: Place, owner: Owner) -> bool:
        """Whether the coordinator has this member in a later epoch than that in which it gave up a partition."""
        same = owner.member_id == str(self.member_id)
        return same and self.epoch > owner.epoch and not self._unanswered_lately()

    def _anothers(self, place: Place) -> bool:
        """Whether another member was given what this one thinks it owns, so that its commit must be refused."""
        holder = self.known.holdings.last(place)
        return holder is not None and holder != self.contact.name and not self._unanswered_lately()

    async def _look_at(self, places: Collection[Place]) -> None:
        """Where to begin in what it has just got."""
        for place in places:
            owner, since = self.owner, self._epoch_since
            try:
                number = await self.position(place, owner)
            except BarnabasError:
                continue
            self.known.positions.read(place, number, since, self.contact.name)

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
        rng, holdings = self.contact.rng, self.known.holdings
        if revoked := [place for place in self.owned if place not in self.target]:
            if rng.random() < 0.6:
                for place in revoked:
                    holdings.given_up(self.contact.name, place)
                    self._lost.append((place, self.owner))
                    del self.owned[place]
                    self.given_up += 1
        sent = _Sent(self.contact.time, frozenset(self.owned))
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

    async def _not_answered(self, sent: _Sent) -> None:
        self._unanswered.append(sent)
        self._asks_all = True
        await self.contact.pause()

    def _unanswered_lately(self) -> list[_Sent]:
        now = self.contact.time
        self._unanswered = [one for one in self._unanswered if one.at > now - LATE]
        return self._unanswered

    async def _answered(self, sent: _Sent, answer: ConsumerGroupHeartbeatResponse) -> None:
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
            await self._look_at(fresh)

    def _hold(self, sent: _Sent, fresh: list[Place]) -> None:
        """G3: from now on it holds what it got, and on and on what it had (rules 3 and 4 of `Holdings`)."""
        contact, plan = self.contact, self.plan
        unanswered = self._unanswered_lately()
        for place in self.owned:
            if place in self.target and (place in fresh or not unanswered):
                self._confirmed[place] = sent.at
            if any(place not in one.owned for one in unanswered):
                continue  # a late heartbeat may give it up
            until = min(sent.at + plan.session, self._confirmed.get(place, -inf) + plan.rebalance)
            self.known.holdings.granted(contact.name, place, contact.time, until)
