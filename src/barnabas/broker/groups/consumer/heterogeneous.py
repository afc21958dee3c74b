"""The assignor `uniform` where members subscribe to different topics.

Members keep what they have and still want; what is free goes to whoever has least, topic by topic, beginning with
the topics of most partitions per subscriber; then partitions move from members with most to members with least
until no topic's subscribers differ by more than one, or the rounds are used up.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.broker.groups.consumer.group_spec import GroupSpec, frozen, java_members
from barnabas.broker.groups.consumer.member import Target
from barnabas.model import TopicId

__all__ = ["assign_different_topics"]

MOST_ROUNDS = 16
UNOWNED = -1


def assign_different_topics(spec: GroupSpec) -> Mapping[str, Target]:
    """The target of each member."""
    state = _Balance(spec)
    if not state.subscribers:
        return {}
    state.keep()
    state.give_free()
    state.level()
    return frozen(state.assignment())


class _Balance:
    """The assignment while it is made.  Members are numbers: their places in Kafka's order."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.order = java_members(spec)
        self.subscribers: dict[TopicId, list[int]] = {}
        for place, member_id in enumerate(self.order):
            for topic in spec.members[member_id].topics:
                self.subscribers.setdefault(topic, []).append(place)
        self.owners = {topic: [UNOWNED] * spec.partitions[topic] for topic in self.subscribers}
        self.sizes = [0] * len(self.order)
        self.held: list[dict[TopicId, int]] = [{} for _ in self.order]
        """Number of partitions that each member owns, by topic; Java has the topics the other way round."""

    def _rank(self, topic: TopicId) -> tuple[float, int, int, int]:
        subscribers = len(self.subscribers[topic])
        high = int.from_bytes(topic[:8], "big", signed=True)
        low = int.from_bytes(topic[8:], "big", signed=True)
        return -(self.spec.partitions[topic] / subscribers), subscribers, high, low

    def keep(self) -> None:
        """Members keep what they have of topics that they still subscribe to."""
        for place, member_id in enumerate(self.order):
            member = self.spec.members[member_id]
            for topic, partitions in reversed(list(member.target.items())):
                if topic in member.topics:
                    for partition in partitions:
                        if 0 <= partition < len(self.owners[topic]):
                            self._own(topic, partition, place)

    def _own(self, topic: TopicId, partition: int, place: int) -> None:
        before = self.owners[topic][partition]
        if before != UNOWNED:
            self.sizes[before] -= 1
            self.held[before][topic] -= 1
            if not self.held[before][topic]:
                del self.held[before][topic]
        self.owners[topic][partition] = place
        self.sizes[place] += 1
        self.held[place][topic] = self.held[place].get(topic, 0) + 1

    def give_free(self) -> None:
        """What nobody owns goes to the subscribers that have least."""
        free = {
            topic: [partition for partition, owner in enumerate(owners) if owner == UNOWNED]
            for topic, owners in self.owners.items()
        }
        for topic in sorted((topic for topic, some in free.items() if some), key=self._rank):
            ladder = _Ladder(self.sizes, self.subscribers[topic])
            for partition in free[topic]:
                self._own(topic, partition, ladder.next_least())

    def level(self) -> None:
        """Partitions move from members that have most to those that have least."""
        topics = sorted((topic for topic, who in self.subscribers.items() if len(who) > 1), key=self._rank)
        last_moved = -1
        for _ in range(MOST_ROUNDS):
            for number, topic in enumerate(topics):
                if number == last_moved:
                    return  # a whole round moved nothing
                if self._level_topic(topic) or last_moved == -1:
                    last_moved = number

    def _level_topic(self, topic: TopicId) -> bool:
        """Whether a partition of this topic moved."""
        ladder = _Ladder(self.sizes, self.subscribers[topic])
        if ladder.imbalance <= 1:
            return False
        has: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic]):
            has.setdefault(owner, []).append(partition)
        moved = False
        while not ladder.balanced:
            giver = ladder.next_most()
            while giver is not None and not has.get(giver):
                ladder.exclude_most()
                giver = ladder.next_most()
            if giver is None:
                break
            partition = has[giver].pop()
            taker = ladder.next_least()
            if ladder.balanced:
                break
            self._own(topic, partition, taker)
            moved = True
        return moved

    def assignment(self) -> dict[str, dict[TopicId, set[int]]]:
        """By member and topic."""
        result: dict[str, dict[TopicId, set[int]]] = {
            member_id: {topic: set() for topic in reversed(held)}
            for member_id, held in zip(self.order, self.held, strict=True)
        }
        for topic, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                if owner != UNOWNED:
                    result[self.order[owner]][topic].add(partition)
        return result

    def __repr__(self) -> str:
        return f"<_Balance of {len(self.order)} members>"


class _Ladder:
    """The subscribers of one topic by how many partitions they have.

    From the low end it names who gets the next partition, from the high end who gives one up, as if each
    named member got or gave it.  The counts are read when a range of members grows.
    """

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        self.sizes = sizes
        self.members = sorted(members, key=lambda member: (sizes[member], member))
        self.low_end = 0
        self.low_count = sizes[self.members[0]] - 1
        self.low_next = 0
        self.high_start = self.high_end = len(self.members)
        self.high_count = sizes[self.members[-1]] + 1
        self.high_next = len(self.members) - 1

    @property
    def imbalance(self) -> int:
        """How many partitions more the member with most has than that with least."""
        return self.sizes[self.members[-1]] - self.sizes[self.members[0]]

    @property
    def balanced(self) -> bool:
        """Whether the two ends differ by one partition or less."""
        return self.high_count - self.low_count <= 1

    def next_least(self) -> int:
        """The member that gets the next partition."""
        if self.low_next >= self.low_end:
            self.low_count += 1
            while (
                self.low_end < len(self.members) and self.sizes[self.members[self.low_end]] == self.low_count
            ):
                self.low_end += 1
            self.low_next = 0
        self.low_next += 1
        return self.members[self.low_next - 1]

    def next_most(self) -> int | None:
        """The member that gives the next partition; None when nobody is left."""
        if self.high_next < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:
                self.high_count = self.sizes[self.members[self.high_start - 1]]
            else:
                self.high_count -= 1
            while self.high_start > 0 and self.sizes[self.members[self.high_start - 1]] == self.high_count:
                self.high_start -= 1
            self.high_next = self.high_end - 1
        if self.high_next < 0:
            return None
        self.high_next -= 1
        return self.members[self.high_next + 1]

    def exclude_most(self) -> None:
        """The member that was named last has nothing to give of this topic."""
        named, last = self.high_next + 1, self.high_end - 1
        self.members[named], self.members[last] = self.members[last], self.members[named]
        self.high_end = last

    def __repr__(self) -> str:
        return f"<_Ladder of {len(self.members)}>"
