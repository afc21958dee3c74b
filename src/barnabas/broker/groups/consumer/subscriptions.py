"""What a group subscribes to: its topics, whether all members want the same, and a hash of what they are like."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.broker.groups.consumer.group import ResolvedPattern
from barnabas.broker.groups.consumer.java_order import in_timeline_order
from barnabas.broker.groups.consumer.member import ConsumerMember
from barnabas.controller.image import MetadataImage, Topic

__all__ = ["Subscriptions", "metadata_hash", "preferred_assignor", "subscribed_topics"]

HASH_FORMAT = 0
"""First byte of what a topic's hash is computed of."""
_VOTES_CAPACITY = 4
"""Slots of Kafka's table of the assignors that members name, which holds two at most."""


class Subscriptions(NamedTuple):
    """How often each topic is subscribed to by name and by pattern, and how many members use each pattern."""

    by_name: Counter[str]
    by_pattern: Counter[str]
    patterns: Counter[str]
    members: int

    @classmethod
    def of(cls, members: Iterable[ConsumerMember], resolved: Mapping[str, ResolvedPattern]) -> Subscriptions:
        """Of these members.  A pattern that is not resolved yet matches nothing."""
        by_name: Counter[str] = Counter()
        patterns: Counter[str] = Counter()
        count = 0
        for member in members:
            count += 1
            by_name.update(member.topics)
            if member.regex:
                patterns[member.regex] += 1
        by_pattern: Counter[str] = Counter()
        for regex in patterns:
            if regex in resolved:
                by_pattern.update(resolved[regex].topics)
        return cls(by_name, by_pattern, patterns, count)

    @property
    def topics(self) -> set[str]:
        """All topics that somebody subscribes to, also those that do not exist."""
        return {*self.by_name, *self.by_pattern}

    @property
    def homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics, as far as Apache Kafka tells."""
        if not self.patterns:
            return all(count == self.members for count in self.by_name.values())
        if self.members not in self.patterns.values() or self.by_name:
            return False
        return all(count == 1 for count in self.by_pattern.values())


def subscribed_topics(member: ConsumerMember, resolved: Mapping[str, ResolvedPattern]) -> frozenset[str]:
    """The topics that one member subscribes to, by name and by pattern."""
    if member.regex and member.regex in resolved:
        return member.topics | resolved[member.regex].topics
    return member.topics


def preferred_assignor(
    votes: Mapping[str, int], assignors: Sequence[str], before: str | None = None, after: str | None = None
) -> str:
    """Return the assignor that most members name, of `assignors`; the first of these where nobody names one.

    `votes`: how many members name each.  `before` and `after`: what one of them named, and names from now on.
    A tie goes to the name that this member alone has, else to the first in the order of Kafka's table.  Apache
    Kafka counts in a copy of that table, takes the member out and puts it in again, and takes the first of the
    highest; Java puts a name that is new in a bucket at its front, and `uniform` and `range` share a bucket
    (4.4.0: ConsumerGroup.computePreferredServerAssignor, java.util.HashMap.compute).
    """
    counted = {name: votes[name] for name in in_timeline_order(votes, _VOTES_CAPACITY) if name in assignors}
    if before in counted:
        counted[before] -= 1
        if not counted[before]:
            del counted[before]
    if after is not None and after in assignors:
        counted = {after: 0, **counted} if after not in counted else counted
        counted[after] += 1
    return max(counted, key=counted.__getitem__, default=assignors[0])


def metadata_hash(topics: Iterable[str], image: MetadataImage) -> int:
    """A number that changes when one of the topics is created, deleted, grows or moves to other racks.

    It is the one that Apache Kafka computes (XXH3, 64 bits with a sign), so that a group that moves between
    our coordinator and Kafka's does not rebalance.  Topics that do not exist do not count.
    """
    known = sorted(filter(None, map(image.topics_by_name.get, topics)), key=lambda topic: _utf16(topic.name))
    if not known:
        return 0
    return _xxh3(b"".join(struct.pack("<q", _topic_hash(topic, image)) for topic in known))


def _topic_hash(topic: Topic, image: MetadataImage) -> int:
    high, low = struct.unpack(">qq", topic.id)
    parts = [struct.pack("<bqq", HASH_FORMAT, high, low), _text(topic.name)]
    parts.append(struct.pack("<i", len(topic.partitions)))
    if all(broker.rack is None for broker in image.brokers.values()):
        parts.append(struct.pack(f"<{len(topic.partitions)}i", *range(len(topic.partitions))))
        return _xxh3(b"".join(parts))
    for index in range(len(topic.partitions)):
        parts.append(struct.pack("<i", index))
        for rack in _racks(topic, index, image):
            text = _text(rack)
            parts += [text[-4:], text]
    return _xxh3(b"".join(parts))


def _racks(topic: Topic, index: int, image: MetadataImage) -> list[str]:
    """The racks of a partition's replicas, in Java's order of strings."""
    partition = topic.partitions.get(index)
    if partition is None:
        return []
    brokers = (image.brokers.get(replica) for replica in partition.replicas)
    racks = [broker.rack for broker in brokers if broker is not None and broker.rack is not None]
    return sorted(racks, key=_utf16)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _text(text: str) -> bytes:
    """A string as the hash takes it: its UTF-16 units, low byte first, then their number."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw + struct.pack("<i", len(raw) // 2)


def _xxh3(data: bytes) -> int:
    import xxhash  # rarely needed

    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
