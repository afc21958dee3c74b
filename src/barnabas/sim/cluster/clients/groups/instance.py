"""What simulated members of both group protocols have in common: what they own, commit and lost, and their unrest.

An instance goes on as Kafka's consumer does: one request at a time.  Unlike that one it also commits what it lost
long ago, which the coordinator must refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition
from barnabas.sim.cluster.clients.groups.client import GroupClient, GroupKnown, Owner
from barnabas.sim.cluster.clients.groups.positions import LATE, Place

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact

__all__ = ["Instance", "Plan", "Sent"]


class Plan(NamedTuple):
    """What a member is.  Times are seconds; `other_topics`: what it subscribes to instead, now and then."""

    topics: tuple[str, ...]
    session: float
    rebalance: float
    interval: float
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    """Of the coordinator's, or that of a classic member."""
    other_topics: tuple[str, ...] | None = None
    restless: float = 0.03
    """How likely it leaves or falls silent after a heartbeat."""
    away: float = 2.0
    """Sessions for which it stays away at most."""
    name: str | None = None
    """As whom it owns partitions, where several clients take turns as one member; else it is the client."""


class Sent(NamedTuple):
    """A request that nobody answered: it may still be taken, and says what its member owns."""

    at: float
    owned: frozenset[Place]


class Instance(GroupClient):
    """One instance.  `work` runs for ever; it behaves after `finish`, and is gone if it is `mortal`."""

    def __init__(
        self, contact: Contact, known: GroupKnown, where: TopicPartition, plan: Plan, *, mortal: bool = False
    ) -> None:
        super().__init__(contact, known, where)
        self.plan = plan
        self.mortal = mortal
        self.topics = plan.topics
        self.name = plan.name or contact.name
        self.epoch = 0
        """Its epoch, or its generation; 0 while it is in no group."""
        self.owned: dict[Place, int] = {}
        """What it reads from, and in which epoch it got it."""
        self.finishing = self.dead = self.quiet = False
        self.fenced = self.left = self.silences = self.given_up = 0
        self._unanswered: list[Sent] = []
        self._epoch_since = 0.0
        """When it sent the first request that may have brought it to its epoch."""
        self._lost: list[tuple[Place, Owner]] = []
        """What it gave up, with whom it was then."""
        self._ghosts: list[tuple[Place, Owner]] = []
        """What it owned under ids that it left for good."""

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} {self.contact.name} of {self.known.id} epoch={self.epoch} owns {len(self.owned)}>"

    @property
    def group_name(self) -> str:
        """Its id in the group."""
        raise NotImplementedError

    @property
    def owner(self) -> Owner:
        """As whom it commits now."""
        return Owner(self.group_name, self.epoch, self.plan.instance_id)

    @property
    def server_assignor(self) -> str | None:
        """The coordinator's assignor that it asks for; None: it cannot ask."""
        return None

    @property
    def settled(self) -> bool:
        """Whether it is in its group, and owns what it shall."""
        raise NotImplementedError

    def finish(self) -> None:
        """From now on it behaves, or is gone."""
        self.finishing = True

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

    async def _heartbeat(self) -> None:
        """The next step in the group."""
        raise NotImplementedError

    async def _leave(self) -> None:
        """Go, and come back later."""
        raise NotImplementedError

    def _subscribed(self) -> None:
        """It subscribes to something else now."""
        raise NotImplementedError

    async def _fall_silent(self) -> None:
        """Seconds without a heartbeat; then it may commit before it hears what it missed."""
        rng = self.contact.rng
        self.silences += 1
        await asyncio.sleep(self.plan.session * rng.choice((0.5, 1.2, 3.0)) * rng.uniform(0.7, 1.3))
        if self.owned and rng.random() < 0.7:
            await self._commit_some()

    async def _stay_away(self) -> None:
        rng, plan = self.contact.rng, self.plan
        await asyncio.sleep(rng.choice((0.0, plan.session / 2, plan.session * plan.away)))

    async def _change(self) -> None:
        """Subscribe to something else."""
        if self.plan.other_topics is not None:
            self.topics = self.plan.other_topics if self.topics == self.plan.topics else self.plan.topics
            self._subscribed()

    # ---- what it owns ------------------------------------------------------------------------------------

    def _give_up(self, places: Collection[Place]) -> None:
        """It does not read from these any more, and is about to say so."""
        for place in places:
            self.known.holdings.given_up(self.name, place)
            self.known.epochs.given_up(self.name, place)
            self._lost.append((place, self.owner))
            del self.owned[place]
            self.given_up += 1

    def _drop_all(self) -> None:
        """It is in no group: what it held is nobody's, as far as it knows."""
        self.known.holdings.gone(self.name)
        self.known.epochs.gone(self.name)
        self.owned.clear()
        self.epoch = 0

    def _unanswered_lately(self) -> list[Sent]:
        now = self.contact.time
        self._unanswered = [one for one in self._unanswered if one.at > now - LATE]
        return self._unanswered

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
        """Whether the coordinator has this member in a later epoch than that in which it gave up a partition.

        A coordinator that never heard that it did gives it back in the epoch that it had.
        """
        same = owner.member_id == self.group_name
        later = self.epoch > owner.epoch and self.owned.get(place, self.epoch) > owner.epoch
        return same and later and not self._unanswered_lately()

    def _anothers(self, place: Place) -> bool:
        """Whether another member was given what this one thinks it owns, so that its commit must be refused."""
        if self._unanswered_lately():
            return False
        holder = self.known.holdings.last(place)
        if holder is not None and holder != self.name:
            return True
        return self.known.epochs.has_later(self.name, place, self.epoch, self.contact.time)

    async def _look_at(self, places: Collection[Place], since: float, owner: Owner | None) -> None:
        """Where to begin in what it has just got; what was acknowledged before `since` counts there."""
        for place in places:
            try:
                number = await self.position(place, owner)
            except BarnabasError:
                continue
            self.known.positions.read(place, number, since, self.contact.name)
