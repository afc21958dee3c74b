"""What the broker asks of its node, what it knows of the sender of a request, and who may do what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.errors import BarnabasError, ConfigError, StorageError
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.model import DirectoryId, NodeId, Offset, TopicId, TopicPartition
from barnabas.security.acl import CLUSTER_NAME, OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from barnabas.broker.txn_verification import Question
    from barnabas.log.cleaning.compaction import CompactionStatistics
    from barnabas.log.log import Log
    from barnabas.log.segments.damage import Damage
    from barnabas.wire.schemas.brokers import AlterPartitionRequest

__all__ = [
    "ADMIN_CLIENT",
    "Authorizer",
    "BrokerHost",
    "DirectorySpace",
    "Operation",
    "RequestContext",
    "ResourceType",
    "allowed",
    "authorized_operations",
    "cluster_operations",
]

ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics (Apache Kafka's name for its own tools)."""


class RequestContext(Protocol):
    """One request as the server saw it arrive."""

    @property
    def connection_id(self) -> int: ...
    @property
    def request_id(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def principal(self) -> str: ...
    @property
    def listener(self) -> str:
        """Name of the listener it came through: answers name nodes as seen from there."""
        ...

    @property
    def client_host(self) -> str: ...
    @property
    def local_host(self) -> str:
        """The address the client dialled."""
        ...

    @property
    def local_port(self) -> int: ...


class Authorizer(Protocol):
    """Permissions: which principal may do what."""

    @property
    def generation(self) -> int:
        """Grows with every change of the rights: what was decided before must be decided again."""
        ...

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        asked: bool = True,
    ) -> bool:
        """Whether the sender may.  `asked`: it wants just that; else a list is filtered, or rights are shown."""
        ...

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        """Whether the sender may do that to any resource of the type at all."""
        ...


def authorized_operations(
    resource: ResourceType,
    authorizer: Authorizer | None = None,
    context: RequestContext | None = None,
    name: str = CLUSTER_NAME,
) -> int:
    """What the sender may do to a resource, one bit for each operation (KIP-430).

    Without an authorizer that is every operation that exists on a resource of that type.
    """
    return sum(
        1 << operation
        for operation in OPERATIONS[resource]
        if authorizer is None
        or (context is not None and authorizer.authorize(context, operation, resource, name, asked=False))
    )


def cluster_operations(authorizer: Authorizer | None, context: RequestContext) -> int:
    """What the sender may do to the cluster (KIP-430); nothing is said without DESCRIBE."""
    if not allowed(authorizer, context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(ResourceType.CLUSTER, authorizer, context)


def allowed(
    authorizer: Authorizer | None,
    context: RequestContext,
    operation: Operation,
    resource: ResourceType,
    name: str,
    *,
    asked: bool = True,
) -> bool:
    """Whether the authorizer says yes; without one everybody may do everything.

    `asked`: the sender wants just that; else a list is filtered, and a refusal is no news.
    """
    return authorizer is None or authorizer.authorize(context, operation, resource, name, asked=asked)


class DirectorySpace(NamedTuple):
    """What is known of the volume of one log directory, in bytes."""

    free: int
    total: int
    reserve: int
    full: bool = False
    """Records of clients are not taken."""
    exhausted: bool = False
    """Those of internal topics neither."""

    def __str__(self) -> str:
        return f"{self.free >> 20} MiB are free of {self.total >> 20}, {self.reserve >> 20} are kept"


class BrokerHost(Protocol):
    """What the broker asks of the rest of its node.  Every call returns at once."""

    def allocate_producer_ids(self) -> None:
        """Ask the controller for a block of producer ids (AllocateProducerIds); the answer comes in through
        `ProducerIdBlocks.allocated`."""
        ...

    def directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        """A log directory went offline for good.  Log it, tell the controller, stop the node if it must."""
        ...

    def room_changed(self, directory: LogDirectory, space: DirectorySpace) -> None:
        """A log directory has no room for records any more, or has room again (`space.full`).  Log it."""
        ...

    def speed_changed(self, directory: LogDirectory) -> None:
        """The disk of a log directory takes too long for syncs, or no longer does (`slow`).  Log it."""
        ...

    def not_hosted(self, error: StorageError) -> None:
        """A partition could not be hosted, and its directory is not the reason.  Log it."""
        ...

    def held(self, connection: int, size: int) -> None:
        """So many bytes more (or, negative, fewer) are kept for a connection."""
        ...

    def setting_refused(self, topic: str, error: ConfigError) -> None:
        """A topic has a setting that this release does not know or serve; the topic goes on without it."""
        ...

    def assign_directories(self, assignments: Sequence[tuple[TopicId, int, DirectoryId]]) -> None:
        """Tell the controller in which directory replicas lie (AssignReplicasToDirs); the answer comes in
        through `Assignments.answered`."""
        ...

    def fetch_from(self, leader: NodeId) -> None:
        """There is something new about what is fetched from that node: look at `Follower.next_request`, soon."""
        ...

    def alter_partitions(self, request: AlterPartitionRequest) -> None:
        """Ask the active controller; the answer comes in through `InSyncSets.answered`."""
        ...

    def verify_transaction(self, question: Question) -> None:
        """Ask the transaction's coordinator (AddPartitionsToTxn); the answer comes in through
        `Verifications.answered`, never within this call."""
        ...

    def not_replicated(self, topic: str, index: int, error: BarnabasError) -> None:
        """What a leader sent could not be taken; it is fetched again after a pause.  Log it."""
        ...

    def truncated(self, topic: str, index: int, before: Offset, end: Offset) -> None:
        """A log had records that its leader's does not have: it was cut back to `end`.  Log it."""
        ...

    def leader_is_short(
        self, tp: TopicPartition, leader: NodeId, end: Offset, committed: Offset, *, refused: bool
    ) -> None:
        """A leader's log ends at `end`, below what was committed here.  `refused`: nothing is cut, and another one
        should lead.  Log it, tell the controller."""
        ...

    def descriptors_short(self, error: StorageError) -> None:
        """A file could not be opened: this process, or the system, has too many open.  Log it."""
        ...

    def set_aside(self, tp: TopicPartition, path: str, topic_id: TopicId | None) -> None:
        """A log that the metadata does not know lies at `path` now; `topic_id`: it knows the partition, but as
        one of another topic than this one.  Log it."""
        ...

    def adopted(self, log: Log) -> None:
        """A log did not say whose it is: it was taken for that of its directory's name.  Log it."""
        ...

    def index_remade(self, log: Log, files: Sequence[str]) -> None:
        """Index files of a log were gone or wrong, and are made again.  Log it."""
        ...

    def damaged(self, log: Log, found: Sequence[Damage]) -> None:
        """Records of a log cannot be read any more.  Log it, tell the controller."""
        ...

    def fetched_anew(self, log: Log, gone: Sequence[Damage]) -> None:
        """A log is fetched again from its leader, from the first record on that could not be read.  Log it."""
        ...

    def whole_again(self, log: Log) -> None:
        """A log has again what it lacked.  Log it, tell the controller."""
        ...

    def stand_down(self, log: Log) -> None:
        """This broker leads though records of `log` cannot be read, and others have them: give up every lead
        and be elected anew.  Asked for often; it is done once for a log."""
        ...

    def compacted(self, tp: TopicPartition, done: CompactionStatistics, seconds: float) -> None:
        """A round of compaction has finished.  Log it."""
        ...

    def not_compacted(self, tp: TopicPartition, error: BarnabasError) -> None:
        """A log cannot be compacted, and is left as it is.  Log it."""
        ...
