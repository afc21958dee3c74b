"""A simulated member of the classic protocol: it joins, fetches or hands out assignments, commits, and leaves.

It rebalances as Kafka's consumer does: eagerly (it gives up everything before it joins again), or cooperatively
(KIP-429: it keeps what it owns, and joins once more when it gave something up).  Its group may be one of KIP-848,
whose coordinator assigns: then nobody leads, and the same four requests do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import NO_NODE, NodeId, TopicId, TopicPartition
from barnabas.sim.cluster.clients.groups.client import LOOK_AGAIN, GroupKnown, Owner
from barnabas.sim.cluster.clients.groups.instance import Instance, Plan, Sent
from barnabas.sim.cluster.clients.groups.positions import Place
from barnabas.sim.cluster.clients.groups.sharing import COOPERATIVE, EAGER, Claim, share_out
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.codec.message import decode, encode
from barnabas.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.sim.cluster.clients.contact import Contact

__all__ = ["ClassicMember"]

_VERSION = 3
"""Of the messages of the consumer protocol."""
_LOOK_AT_TOPICS = 0.2
"""How likely a leader looks at its topics before a heartbeat."""


def _by_topic(parts: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(parts):
        topics.setdefault(topic, []).append(index)
    return topics


class ClassicMember(Instance):
    """One instance that speaks the classic protocol.  Its topics are never deleted, so names do for them."""

    def __init__(
        self, contact: Contact, known: GroupKnown, where: TopicPartition, plan: Plan, *, mortal: bool = False
    ) -> None:
        super().__init__(contact, known, where, plan, mortal=mortal)
        self.assignor = plan.assignor or EAGER
        self.member_id = ""
        self._joins = True
        """It is to join again."""
        self._shared: dict[str, int] | None = None
        """The partitions of each topic as it shared them out; None while it does not lead."""
        self._joining_since: float | None = None
        """When it first asked for the generation that it is not in yet."""
        self._heard_from: NodeId = NO_NODE
        """Who told it of its generation."""
        self._had_leader: bool | None = None
        self.rebalances = self.changes = 0
        """How often it got an assignment, and found its group to be of another kind than before."""

    @property
    def group_name(self) -> str:
        return self.member_id

    @property
    def settled(self) -> bool:
        return self.epoch > 0 and not self._joins and not self._unanswered_lately()

    # ---- coming and going --------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Go, and come back later; a static member may go without a word, and keeps its place then."""
        rng, plan = self.contact.rng, self.plan
        self.left += 1
        lost = [(place, self.owner) for place in self.owned]
        unsure = bool(self._unanswered_lately())
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=plan.instance_id)
        says_so = plan.instance_id is None or rng.random() < 0.3
        self._drop_all()
        self._forget_id()
        if says_so:
            try:
                answer = await self.ask(LeaveGroupRequest(group_id=self.known.id, members=[identity]))
                if not (answer.error_code or answer.members[0].error_code or unsure):
                    self._ghosts += lost
            except BarnabasError:
                pass
        await self._stay_away()

    def _subscribed(self) -> None:
        self._joins = True

    def _surely_lost(self, place: Place, owner: Owner) -> bool:
        """(One that joins eagerly may own it all the time, as far as a coordinator of KIP-848 knows.)"""
        return place not in self.owned and super()._surely_lost(place, owner)

    def _drop_all(self) -> None:
        super()._drop_all()
        self._joins, self._shared = True, None

    def _forget_id(self) -> None:
        self.member_id = ""
        self._unanswered.clear()
        self._lost.clear()

    def _out(self, code: ErrorCode) -> None:
        """It hears that it is not in the group, or not in its generation."""
        self.fenced += self.epoch > 0
        self._drop_all()
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self._forget_id()

    # ---- heartbeats --------------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        if self._shared is not None and self.contact.rng.random() < _LOOK_AT_TOPICS:
            await self.contact.refresh()
            self._joins = self._joins or self._counts() != self._shared
        if self._joins:
            await self._rebalance()
            return
        sent = self.contact.time
        request = HeartbeatRequest(
            group_id=self.known.id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
        )
        try:
            code = ErrorCode((await self.ask(request)).error_code)
        except BarnabasError:
            await self.contact.pause()
            return
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._joins = True
        elif not code:
            self._hold(sent)
        else:
            await self._refused(code)

    async def _refused(self, code: ErrorCode) -> None:
        """What a member of the classic protocol may hear, and what it does then."""
        if code in LOOK_AGAIN:
            self.coordinator = NO_NODE
        elif code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            self._out(code)
        elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
            raise InvariantViolation("G5", f"{self!r} hears {code.name}")
        await self.contact.pause()

    def _hold(self, sent: float) -> None:
        """G6: it owns what it owns in this generation."""
        if self._unanswered_lately():
            return  # a late request to join may give it up
        now, until = self.contact.time, sent + self.plan.session
        for place in self.owned:
            self.known.epochs.told(self.name, place, self.epoch, now, until)

    # ---- a rebalance -------------------------------------------------------------------------------------

    def _counts(self) -> dict[str, int]:
        return {topic: self.contact.partitions_of(topic) for topic in self.contact.topics}

    async def _rebalance(self) -> None:
        """JoinGroup, and SyncGroup where that is answered."""
        while not all(topic in self.contact.ids for topic in self.contact.topics):
            await self.contact.refresh()
        if self.assignor == EAGER:
            self._give_up(list(self.owned))
        self.known.holdings.owns_only(self.name, self.owned)
        sent = Sent(self.contact.time, frozenset(self.owned))
        if self._joining_since is None:
            self._joining_since = sent.at
        try:
            joined = await self.ask(self._join_request(), timeout=self._patience)
        except BarnabasError:
            self._unanswered.append(sent)
            await self.contact.pause()
            return
        code = ErrorCode(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        elif code:
            if code in LOOK_AGAIN:
                self._unanswered.append(sent)
            await self._refused(code)
        else:
            self.member_id = joined.member_id
            await self._sync(joined)

    @property
    def _patience(self) -> float:
        """Seconds for which a request of a rebalance may wait for the others."""
        return self.plan.rebalance + 2.0

    def _join_request(self) -> JoinGroupRequest:
        names = {topic_id: name for name, topic_id in self.contact.ids.items()}
        owned = _by_topic((names[topic_id], index) for topic_id, index in self.owned)
        subscription = ConsumerProtocolSubscription(
            topics=sorted(self.topics),
            owned_partitions=[
                ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=indexes)
                for topic, indexes in owned.items()
            ],
            generation_id=self.epoch or -1,
        )
        metadata = _VERSION.to_bytes(2, "big") + encode(subscription, _VERSION)
        return JoinGroupRequest(
            group_id=self.known.id,
            session_timeout_ms=int(self.plan.session * 1000),
            rebalance_timeout_ms=int(self.plan.rebalance * 1000),
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.assignor, metadata=metadata)],
        )

    async def _sync(self, joined: JoinGroupResponse) -> None:
        """Fetch the assignment; the leader hands in everybody's."""
        leads, has_leader = joined.leader == joined.member_id, bool(joined.leader)
        self.changes += self._had_leader is not None and has_leader != self._had_leader
        self._had_leader = has_leader
        self._shared = self._counts() if leads else None
        sent = self.contact.time
        request = SyncGroupRequest(
            group_id=self.known.id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=self._assignments(joined) if leads and not joined.skip_assignment else [],
        )
        try:
            answer = await self.ask(request, timeout=self._patience)
        except BarnabasError:
            await self.contact.pause()
            return
        if code := ErrorCode(answer.error_code):
            await self._refused(code)
        else:
            await self._assigned(sent, joined.generation_id, bytes(answer.assignment))

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        claims: dict[str, Claim] = {}
        for member in joined.members:
            said = decode(ConsumerProtocolSubscription, bytes(member.metadata), _VERSION, 2)[0]
            owned = {(one.topic, index) for one in said.owned_partitions for index in one.partitions}
            claims[member.member_id] = Claim(set(said.topics), owned, said.generation_id)
        assert self._shared is not None
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment(share))
            for member_id, share in share_out(claims, self._shared, self.assignor).items()
        ]

    async def _assigned(self, sent: float, generation: int, raw: bytes) -> None:
        """It is in a generation: this is what it shall read from."""
        target = set[Place]()
        if raw:
            assignment = decode(ConsumerProtocolAssignment, raw, _VERSION, 2)[0]
            target = {
                (self._id(one.topic), i) for one in assignment.assigned_partitions for i in one.partitions
            }
        revoked = [place for place in self.owned if place not in target]
        self._give_up(revoked)  # (as who it was in the generation before)
        if generation != self.epoch:
            assert self._joining_since is not None
            self._epoch_since = self._joining_since
        self.epoch, self._joining_since, self._heard_from = generation, None, self.coordinator
        fresh = sorted(target - self.owned.keys())
        self.owned.update(dict.fromkeys(fresh, generation))
        self.rebalances += 1
        self._joins = bool(revoked) and self.assignor == COOPERATIVE
        now, until = self.contact.time, sent + self.plan.session
        for place in fresh:
            self.known.holdings.shown(self.name, place, now)
        for place in self.owned:
            self.known.epochs.told(self.name, place, generation, now, until)
        if fresh and not self.quiet:
            await self._look_at_own(fresh)

    def _id(self, topic: str) -> TopicId:
        return self.contact.ids[topic]

    async def _look_at_own(self, places: list[Place]) -> None:
        """Where to begin: whoever told it of its generation knows all that was committed before that."""
        for place in places:
            if self.coordinator == self._heard_from != NO_NODE:
                await self._look_at([place], self._epoch_since, None)


def _assignment(share: Iterable[tuple[str, int]]) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(share).items()
        ]
    )
    return _VERSION.to_bytes(2, "big") + encode(assignment, _VERSION)
