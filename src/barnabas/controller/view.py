"""The input and the outcome of a decision.

A decide function takes a `View` and a request and returns a `Decision`; it changes nothing.  A decision that
may concern many partitions is a generator that returns it (`Deciding`): its caller may do other work between
two steps, as long as the image stays the same.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from barnabas.config import TOPIC_SETTINGS, Config, format_value
from barnabas.controller.decisions.partitions import (
    Election,
    ElectionRules,
    LogEnd,
    acceptable_leader,
    lies_in,
)
from barnabas.controller.feature_levels import ELR_FEATURE, METADATA_VERSION
from barnabas.controller.image import MetadataImage, PartitionState, Topic
from barnabas.controller.versions import LATEST
from barnabas.model import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    BrokerEpoch,
    DirectoryId,
    NodeId,
    Now,
    Offset,
    TopicId,
)
from barnabas.ports import Randomness
from barnabas.wire.codec.message import Message, MetadataRecord

__all__ = ["BATCH_LIMIT", "BrokerContact", "Deciding", "Decision", "View"]

_WAIT_FOR_LONGER_S = 30.0
"""Seconds for which a replica that may lack records does not lead until others say what they have."""
BATCH_LIMIT = 10_000
"""Most records one request may cause (Apache Kafka's limit too)."""


class BrokerContact(NamedTuple):
    """When a broker was last heard, and what it said: soft state, never in the log.

    `registered_at` is the offset of its registration record; `shutdown_offset` the offset at which its
    controlled shutdown began, None when none is under way.  `unfit` are directories whose partitions it had
    rather not lead: their disk is full or slow.  `presumed`: not heard by this controller since
    it became active, only presumed to live.  `incomplete` are the partitions of which its replica lacks records.
    """

    epoch: BrokerEpoch
    heard: float
    metadata_offset: Offset
    registered_at: Offset
    shutdown_offset: Offset | None = None
    presumed: bool = False
    unfit: frozenset[DirectoryId] = frozenset()
    incomplete: frozenset[tuple[TopicId, int]] = frozenset()
    log_ends: Mapping[tuple[TopicId, int], LogEnd] = {}
    """The end of each of its logs whose partition has no leader."""
    leaderless_since: float = 0.0
    """The time at which it began to name any."""
    unclean_stop: bool = False
    """True if it was killed, or lost its power, before this life: it may lack what its disk said was synced."""


class Decision(NamedTuple):
    """Records to append and the answer to give once they are committed.

    `contacts` are brokers whose soft state changes with it (None: forget it).
    """

    answer: Message
    records: list[MetadataRecord] = []
    contacts: Mapping[NodeId, BrokerContact | None] = {}


Deciding: TypeAlias = Generator[None, None, Decision]
"""A decision about many partitions on its way: each step is about one of them, or as much work as that."""


class View(NamedTuple):
    """The leading image and what surrounds it, at one moment.

    `next_offset` is the offset that the first record decided now will get; `version` that of the request.
    `voters` are the quorum's, None where nobody said.  `sender` is the principal of who asks, "" a node itself.
    """

    image: MetadataImage
    config: Config
    randomness: Randomness
    contacts: Mapping[NodeId, BrokerContact]
    now: Now
    next_offset: Offset
    version: int
    voters: tuple[NodeId, ...] | None = None
    sender: str = ""

    def topic_setting(self, topic: str, name: str) -> str:
        """The value of a topic setting in force: the topic's own, this node's, the cluster's, the file's."""
        own = self.image.topic_config(topic).get(name)
        if own is None:
            node_name = TOPIC_SETTINGS[name].node_name
            own = self.image.broker_config(self.config.node_id).get(node_name)
            if own is None:
                own = self.image.cluster_config().get(node_name)
        return format_value(self.config.topic_default(name)) or "" if own is None else own

    def rules(self, topic: Topic) -> ElectionRules:
        """How leaders of this topic's partitions are elected."""
        unclean = self.topic_setting(topic.name, "unclean.leader.election.enable").lower() == "true"
        return ElectionRules(
            acceptable=acceptable_leader(self.image),
            fit=partial(self._fit, topic.id),
            elr=self.image.feature(ELR_FEATURE) >= 1,
            min_isr=int(self.topic_setting(topic.name, "min.insync.replicas")),
            election=Election.UNCLEAN if unclean else Election.ONLINE,
            level=self.image.feature(METADATA_VERSION) or LATEST,
            directory=self.default_directory,
            log_end=partial(self._log_end, topic.id),
            waits=self._waits,
            heard=self._heard,
            doubted=self._doubted,
        )

    def _log_end(self, topic: TopicId, broker: NodeId, state: PartitionState) -> LogEnd | None:
        contact = self.contacts.get(broker)
        return None if contact is None else contact.log_ends.get((topic, state.index))

    def _waits(self, broker: NodeId) -> bool:
        contact = self.contacts.get(broker)
        return contact is not None and self.now.mono < contact.leaderless_since + _WAIT_FOR_LONGER_S

    def _fit(self, topic: TopicId, broker: NodeId, state: PartitionState) -> bool:
        contact = self.contacts.get(broker)
        full = contact is not None and contact.unfit and lies_in(state, broker, contact.unfit)
        return not full and not self.is_incomplete(topic, state.index, broker)

    def is_incomplete(self, topic: TopicId, index: int, broker: NodeId) -> bool:
        """Return whether a broker said that its replica of this partition lacks records."""
        contact = self.contacts.get(broker)
        return contact is not None and (topic, index) in contact.incomplete

    def _heard(self, broker: NodeId) -> bool:
        contact = self.contacts.get(broker)
        return contact is not None and not contact.presumed

    def _doubted(self, broker: NodeId) -> bool:
        contact = self.contacts.get(broker)
        return contact is not None and (contact.presumed or contact.unclean_stop)

    def default_directory(self, broker: NodeId) -> DirectoryId:
        """The only directory of a broker that has one; with several the broker chooses and tells us."""
        known = self.image.brokers.get(broker)
        directories = () if known is None else known.directories
        if not directories:
            return DIRECTORY_MIGRATING
        return directories[0] if len(directories) == 1 else DIRECTORY_UNASSIGNED
