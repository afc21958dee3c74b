"""What a client knows of a cluster: brokers, topics, leaders; and when to ask again.  No socket, no clock.

`Metadata` is filled from answers; `Retrying` says whether and when a failed attempt is repeated.  The blocking and
the asyncio cluster drive both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.client.connection import ConnectionFailed, Meant
from barnabas.client.security.rights import granting
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.model import NO_NODE, ZERO_UUID, Epoch, NodeId, TopicId, TopicPartition, Uuid
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse

__all__ = [
    "Broker",
    "Metadata",
    "PartitionInfo",
    "Retrying",
    "TopicInfo",
    "metadata_request",
    "parse_bootstrap",
    "topic_error",
]

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
METADATA_AGE = 300.0
"""Seconds after which metadata are asked for anew even when nothing failed."""
NEWS_DELAY = 1.0
"""Seconds for which a topic that a broker does not know may be news that has not reached it yet."""


class Broker(NamedTuple):
    """A broker as the metadata name it."""

    id: NodeId
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`broker.address` -> "host:port"."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PartitionInfo(NamedTuple):
    """One partition: who leads it and who holds it (node ids); leader -1 when there is none now."""

    partition: int
    leader: NodeId
    leader_epoch: Epoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    offline: tuple[NodeId, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class TopicInfo(NamedTuple):
    """A topic: its id (ZERO_UUID from brokers too old to say) and its partitions by number."""

    name: str
    id: TopicId
    partitions: dict[int, PartitionInfo]
    internal: bool = False

    def partition(self, number: int) -> PartitionInfo:
        """Return one of its partitions.  Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        if number not in self.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {self.name} has no partition {number}",
                next_step=f"see its partitions with `barnabas topics describe {self.name}`",
            )
        return self.partitions[number]


def parse_bootstrap(bootstrap: str | Iterable[str]) -> list[tuple[str, int]]:
    """`parse_bootstrap("a:9092,[::1]:9093")` -> [("a", 9092), ("::1", 9093)].  Raises ConfigError."""
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    found: list[tuple[str, int]] = []
    for text in (t.strip() for t in texts):
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
        host = host or "127.0.0.1"  # `:9092`, as Kafka's tools take it
        if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"{text!r} is no address of a broker", next_step="write host:port, for example 127.0.0.1:9092"
            )
        found.append((host, int(port)))
    return found


def metadata_request(names: Sequence[str] | None, *, create: bool) -> MetadataRequest:
    """The request for these topics; None: for all; []: for the brokers only."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


class Metadata:
    """The brokers and the topics that were asked for."""

    def __init__(self, bootstrap: list[tuple[str, int]], max_age: float = METADATA_AGE) -> None:
        """`max_age`: seconds after which a topic is asked for anew even when nothing failed."""
        self.bootstrap = bootstrap
        self.max_age = max_age
        self.cluster_id = ""
        self.controller: NodeId = -1
        self.brokers: dict[NodeId, Broker] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._taken_at: dict[str, float] = {}
        self._nodes: dict[tuple[str, int], NodeId] = {}
        """Who listens, or listened, at an address."""
        self._out: set[tuple[str, int]] = set()
        """Addresses of brokers that the others count out: they may still answer, with what was."""

    def __repr__(self) -> str:
        return (
            f"<Metadata {self.cluster_id or '?'} brokers={sorted(self.brokers)} topics={len(self._topics)}>"
        )

    def take(
        self,
        response: MetadataResponse,
        names: Sequence[str] | None,
        now: float,
        *,
        missing_ok: bool = False,
    ) -> dict[str, TopicInfo]:
        """Keep an answer to `metadata_request(names)`; returns its topics by name.

        Raises the KafkaError of the first named topic that has one; `missing_ok`: but not of an unknown one.
        A partition whose leader is known to be a later one stays as it is: who is cut off tells what was.
        """
        self.brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self._nodes.update({(b.host, b.port): b.id for b in self.brokers.values()})
        self._out -= {(b.host, b.port) for b in self.brokers.values()}
        self.cluster_id = response.cluster_id or ""
        self.controller = response.controller_id
        found: dict[str, TopicInfo] = {}
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code and not topic.partitions:
                self._topics.pop(name, None)
                self.forget(name)
                missing = missing_ok and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if names is not None and not missing:
                    raise topic_error(ErrorCode(topic.error_code), name)
                continue
            partitions = {
                p.partition_index: PartitionInfo(
                    p.partition_index,
                    p.leader_id,
                    p.leader_epoch,
                    tuple(p.replica_nodes),
                    tuple(p.isr_nodes),
                    tuple(p.offline_replicas),
                    ErrorCode(p.error_code),
                )
                for p in sorted(topic.partitions, key=lambda p: int(p.partition_index))
            }
            told = TopicInfo(name, topic.topic_id or ZERO_UUID, partitions, topic.is_internal)
            found[name] = self._latest(told)
        self._topics.update(found)
        self._taken_at.update(dict.fromkeys(found, now))
        return found

    def _latest(self, told: TopicInfo) -> TopicInfo:
        known = self._topics.get(told.name)
        if known is None or known.id != told.id or told.id == ZERO_UUID:
            return told
        later = {
            number: info
            for number, info in known.partitions.items()
            if number in told.partitions and 0 <= told.partitions[number].leader_epoch < info.leader_epoch
        }
        return told._replace(partitions=told.partitions | later)

    def topic(self, name: str, now: float) -> TopicInfo | None:
        """What is known of a topic, None when it must be asked for."""
        taken_at = self._taken_at.get(name)
        return self._topics[name] if taken_at is not None and now - taken_at < self.max_age else None

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of a topic that is known."""
        return next((t.name for t in self._topics.values() if t.id == topic_id), None)

    def leader(self, topic: TopicInfo, partition: int) -> Broker:
        """The leader of a partition; KafkaError LEADER_NOT_AVAILABLE when there is none now."""
        info = topic.partition(partition)
        broker = self.brokers.get(info.leader)
        if broker is None:
            self.forget(topic.name)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic.name}-{partition} has no leader")
        return broker

    def forget(self, topic: str) -> None:
        """What is known of the topic is stale; it is asked for anew when it is needed."""
        self._taken_at.pop(topic, None)

    def addresses(self) -> list[tuple[str, int]]:
        """Return addresses to dial for any broker: known ones, then the bootstrap addresses, those out last."""
        known = [(b.host, b.port) for b in self.brokers.values()]
        return sorted(dict.fromkeys([*known, *self.bootstrap]), key=self._out.__contains__)

    def meant(self, host: str, port: int) -> Meant | None:
        """Return the broker that was told to listen at an address; None where none was, or several."""
        here = [broker.id for broker in self.brokers.values() if (broker.host, broker.port) == (host, port)]
        return Meant(self.cluster_id, here[0]) if self.cluster_id and len(here) == 1 else None

    def rebootstrap(self) -> None:
        """Forget everything but the bootstrap addresses: another node than the one meant answered (KIP-1242)."""
        self.cluster_id = ""
        self.controller = NO_NODE
        for known in (self.brokers, self._topics, self._taken_at, self._nodes, self._out):
            known.clear()

    def meet(self, broker: Broker) -> None:
        """Keep a broker that another answer than that of Metadata names, a coordinator."""
        self.brokers.setdefault(broker.id, broker)
        self._nodes[broker.host, broker.port] = broker.id

    def witnesses(self, host: str, port: int) -> list[tuple[str, int]]:
        """Return addresses to ask about the silent broker at this address."""
        return [address for address in self.addresses() if address != (host, port)]

    def is_out(self, host: str, port: int, response: MetadataResponse) -> bool:
        """Return whether another broker names brokers without the one at this address; they are kept then.

        Behind an address that no broker has told may be any of those that were there.  Where nobody has told any
        so far, it is out if others of the bootstrap addresses are told, and it is not.
        """
        told = {(broker.host, broker.port): broker.node_id for broker in response.brokers}
        living = set(told.values())
        node = self._nodes.get((host, port))
        missing = set(self._nodes.values()) - living if node is None else {node} - living
        if not self._nodes and (host, port) not in told and told.keys() & set(self.bootstrap):
            missing = {NO_NODE}
        self._nodes |= told
        if not living or not missing:
            return False
        self.take(response, None, 0.0)
        self._out.add((host, port))
        return True

    def hear(self, host: str, port: int, response: MetadataResponse, now: float) -> bool:
        """Keep what another broker tells of topics that the one at this address leads.

        Returns whether that one is out.  Who names no broker is not believed.
        """
        out = self.is_out(host, port, response)
        if response.brokers:
            self.take(response, None, now)
        return out

    def led(self, partitions: Iterable[TopicPartition]) -> dict[tuple[str, int], list[str]]:
        """Return the topics of these partitions by the address of their leader, where both are known."""
        found: dict[tuple[str, int], set[str]] = {}
        for topic, partition in partitions:
            info = self._topics[topic].partitions.get(partition) if topic in self._topics else None
            broker = self.brokers.get(info.leader) if info else None
            if broker is not None:
                found.setdefault((broker.host, broker.port), set()).add(topic)
        return {address: sorted(topics) for address, topics in found.items()}


def check_leaders(info: TopicInfo) -> TopicInfo:
    """The topic itself; KafkaError LEADER_NOT_AVAILABLE while a partition has no leader."""
    if any(p.leader < 0 for p in info.partitions.values()) or not info.partitions:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {info.name} has no leader yet")
    return info


def nobody_reached(failures: list[ConnectionFailed]) -> ConnectionFailed:
    """The one error for all addresses that were tried."""
    if len(failures) == 1:
        return failures[0]
    reasons = "; ".join(str(failure) for failure in failures)
    return ConnectionFailed(f"no broker can be reached: {reasons}", next_step=failures[-1].next_step)


class Retrying:
    """Whether a failed attempt is repeated, and after which pause (s).

    Retriable errors are, with growing pauses, until `timeout` (s) is over.  A connection that is refused or
    unreachable before any broker is known is not: no broker is there, and the user should know at once.  An
    unknown topic is believed after NEWS_DELAY unless `patient` (it is being created).
    """

    def __init__(self, now: float, timeout: float, *, patient: bool) -> None:
        self._begun = now
        self._deadline = now + timeout
        self._patient = patient
        self._pause = FIRST_PAUSE

    def pause_after(self, error: BarnabasError, now: float, *, brokers_known: bool) -> float:
        """The pause before the next attempt; raises the error when there is none."""
        end = self._deadline
        if isinstance(error, ConnectionFailed):
            again = brokers_known
        else:
            again = isinstance(error, KafkaError) and error.code.retriable
            unknown = isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if unknown and not self._patient:
                end = min(end, self._begun + NEWS_DELAY)
        if not again or now + self._pause >= end:
            # The frames of the last attempt, and of what the system said, only hide what the message says.
            raise error.with_traceback(None) from None
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause


def topic_error(code: ErrorCode, name: str) -> KafkaError:
    """What is wrong with a topic, in words."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(
            code,
            f"there is no topic {name}",
            next_step=f"see what there is with `barnabas topics list`, or `barnabas topics create {name}`",
        )
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return KafkaError(
            code,
            f"{name!r} cannot be the name of a topic",
            next_step="use 1 to 249 letters, digits, dots, underscores and hyphens",
        )
    return KafkaError(code, f"topic {name}", next_step=granting(code, "Describe", name))
