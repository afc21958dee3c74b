"""The methods of `Admin` whose work is done by the functions beside this file, one line each.

Each loads its functions when it is called first: a program that lists topics does not pay for transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.client.admin.described import GroupDescription, GroupListing, GroupOffset
from barnabas.client.cluster import Cluster
from barnabas.errors import KafkaError
from barnabas.model import DirectoryId, NodeId, Offset, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.acls import AclRow
    from barnabas.client.admin.log_dirs import BrokerDirs, Eligible
    from barnabas.client.admin.moves import Move, ReplicaEnd
    from barnabas.client.admin.quotas import Entity, EntityQuotas
    from barnabas.client.admin.resources import NamedResource
    from barnabas.client.admin.transactions import (
        OpenTransaction,
        TransactionDescription,
        TransactionListing,
    )
    from barnabas.client.admin.users import UserCredential

__all__ = ["DelegatedMethods"]


class DelegatedMethods:
    """What `Admin` offers beside topics, settings and the cluster.  Every method raises as `Admin` says."""

    cluster: Cluster

    # -- moves of partitions ---------------------------------------------------------------------

    def moves(self) -> list[Move]:
        """`admin.moves()` -> the partitions that move between brokers now, by topic and number."""
        from barnabas.client.admin import moves

        return moves.moves(self.cluster)

    def move(
        self, plan: Mapping[TopicPartition, Sequence[NodeId] | None], *, keep_replication: bool = False
    ) -> dict[TopicPartition, KafkaError]:
        """`admin.move({TopicPartition("orders", 0): [4, 5, 6]})`: begin; returns what was refused, and why.

        None turns a partition back.  `keep_replication` refuses another number of replicas.
        """
        from barnabas.client.admin import moves

        return moves.move(self.cluster, plan, keep_replication=keep_replication)

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """`admin.elect_leaders()`: first replicas lead again (None: of all partitions); what became of each.

        `unclean`: where nobody leads, any live replica may; this can lose records.
        """
        from barnabas.client.admin import moves

        return moves.elect_leaders(self.cluster, partitions, unclean=unclean)

    def recoverable(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ReplicaEnd] | KafkaError]:
        """`admin.recoverable([TopicPartition("orders", 3)])`: what the replicas of a partition have that nobody
        leads, and which of them an unclean election would choose; an error for one that has a leader.
        """
        from barnabas.client.admin import moves

        return moves.recoverable(self.cluster, partitions)

    def log_dirs(self, broker: NodeId) -> BrokerDirs:
        """`admin.log_dirs(3).sizes()` -> bytes of each replica in the log directories of one broker."""
        from barnabas.client.admin import log_dirs

        return log_dirs.log_dirs(self.cluster, broker)

    def eligible_replicas(self, topic: str) -> dict[int, Eligible]:
        """`admin.eligible_replicas("orders")[0].elr` -> who may lead beside those in sync (KIP-966)."""
        from barnabas.client.admin import log_dirs

        return log_dirs.eligible_replicas(self.cluster, topic)

    # -- groups ----------------------------------------------------------------------------------

    def groups(self) -> list[GroupListing]:
        """`admin.groups()` -> all groups, by name."""
        from barnabas.client.admin import groups

        return groups.list_groups(self.cluster)

    def describe_group(self, group: str) -> GroupDescription:
        """`admin.describe_group("billing").members` -> who is in it and reads what."""
        from barnabas.client.admin import groups

        return groups.describe_group(self.cluster, group)

    def group_offsets(self, group: str) -> list[GroupOffset]:
        """`admin.group_offsets("billing")` -> committed offset, end and lag of every partition."""
        from barnabas.client.admin import groups

        return groups.group_offsets(self.cluster, group)

    def set_group_offsets(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """`admin.set_group_offsets("billing", {TopicPartition("orders", 0): 0})`; the group must be empty."""
        from barnabas.client.admin import groups

        groups.set_group_offsets(self.cluster, group, offsets)

    def delete_group(self, group: str) -> None:
        """`admin.delete_group("billing")`: with all its offsets; it must be empty."""
        from barnabas.client.admin import groups

        groups.delete_group(self.cluster, group)

    def delete_group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """`admin.delete_group_offsets("billing", [TopicPartition("orders", 0)])`; no member may read the topic."""
        from barnabas.client.admin import groups

        groups.delete_group_offsets(self.cluster, group, partitions)

    # -- transactions ----------------------------------------------------------------------------

    def transactions(self, *, states: Sequence[str] = ()) -> list[TransactionListing]:
        """`admin.transactions(states=["Ongoing"])` -> the transactional ids in these states (all), by name."""
        from barnabas.client.admin import transactions

        return transactions.list_transactions(self.cluster, states=states)

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """`admin.describe_transaction("etl-1").partitions` -> those that have no marker yet."""
        from barnabas.client.admin import transactions

        return transactions.describe_transaction(self.cluster, transactional_id)

    def open_transactions(self, topic: str, partitions: Sequence[int] | None = None) -> list[OpenTransaction]:
        """`admin.open_transactions("orders")` -> what its partitions have open, as their leaders see it."""
        from barnabas.client.admin import transactions

        asked = sorted(self.cluster.topic(topic).partitions) if partitions is None else partitions
        return transactions.open_transactions(self.cluster, topic, asked)

    def hanging_transactions(
        self, topics: Sequence[str] = (), *, older_than: float = 900.0
    ) -> list[OpenTransaction]:
        """`admin.hanging_transactions()` -> open for more than so many seconds, and nobody will end them."""
        from barnabas.client.admin import transactions

        wall_ms = time.time_ns() // 1_000_000
        return transactions.hanging_transactions(
            self.cluster, topics, older_than_ms=int(older_than * 1000), wall_ms=wall_ms
        )

    def abort_transaction(
        self, topic: str, partition: int, offset: Offset, *, force: bool = False
    ) -> OpenTransaction:
        """`admin.abort_transaction("orders", 0, 42)`: what the partition has open since offset 42 is aborted.

        Refused while a coordinator knows the transaction, unless forced: it may still be committed elsewhere.
        """
        from barnabas.client.admin import transactions

        return transactions.abort_transaction(self.cluster, topic, partition, offset, force=force)

    # -- users and what they may -----------------------------------------------------------------

    def users(self) -> list[UserCredential]:
        """`admin.users()` -> who can log in with SCRAM, by user and mechanism (KIP-554)."""
        from barnabas.client.admin import users

        return users.users_of(self.cluster)

    def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """`admin.set_password("ada", "secret")`: make the user, or change its password; its hash alone is sent."""
        from barnabas.client.admin import users

        users.set_password(self.cluster, user, password, mechanism)

    def remove_user(self, user: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """`admin.remove_user("ada")`: it can no longer log in by this mechanism."""
        from barnabas.client.admin import users

        users.remove_user(self.cluster, user, mechanism)

    def acls(self, wanted: AclRow | None = None) -> list[AclRow]:
        """`admin.acls(AclRow(name="orders"))` -> the ACLs that fit (None: all)."""
        from barnabas.client.admin import acls

        return acls.acls_of(self.cluster, wanted or acls.AclRow())

    def create_acls(self, rows: Sequence[AclRow]) -> None:
        """`admin.create_acls([AclRow(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ada", "*", ...)])`.

        The enumerations are those of `barnabas.security.acl`.
        """
        from barnabas.client.admin import acls

        acls.create_acls(self.cluster, rows)

    def delete_acls(self, filters: Iterable[AclRow]) -> list[AclRow]:
        """`admin.delete_acls([AclRow(principal="User:ada")])` -> what was removed."""
        from barnabas.client.admin import acls

        return acls.delete_acls(self.cluster, filters)

    # -- quotas ----------------------------------------------------------------------------------

    def quotas(self, entity: Entity | None = None) -> list[EntityQuotas]:
        """`admin.quotas({"user": "alice"})` -> the quotas of entities that include this one (None: of all)."""
        from barnabas.client.admin import quotas

        return quotas.quotas_of(self.cluster, entity)

    def set_quotas(
        self,
        entity: Entity,
        change: Mapping[str, float] | None = None,
        *,
        remove: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """`admin.set_quotas({"client-id": "etl"}, {"producer_byte_rate": 1048576})`; `remove`: quotas that go.

        The name None stands for the default of that type: {"user": None}.
        """
        from barnabas.client.admin import quotas

        quotas.alter_quotas(self.cluster, entity, change, remove=remove, validate_only=validate_only)

    # -- resources -------------------------------------------------------------------------------

    def resources(self, kind: str | None = None) -> list[NamedResource]:
        """`admin.resources("group")` -> what has settings of its own (None: of every kind)."""
        from barnabas.client.admin import resources

        return resources.resources_of(self.cluster, kind)

    # -- the quorum and the cluster --------------------------------------------------------------

    def add_controller(
        self, controller: NodeId, directory_id: DirectoryId, endpoints: Iterable[tuple[str, str, int]]
    ) -> None:
        """`admin.add_controller(4, directory_id, [("CONTROLLER", "host", 9093)])`: a voter more (KIP-853)."""
        from barnabas.client.admin import quorum

        quorum.add_controller(self.cluster, controller, directory_id, endpoints)

    def remove_controller(self, controller: NodeId, directory_id: DirectoryId) -> None:
        """`admin.remove_controller(4, directory_id)`: the voter becomes an observer (KIP-853)."""
        from barnabas.client.admin import quorum

        quorum.remove_controller(self.cluster, controller, directory_id)

    def reassign_controllers(self, controllers: Iterable[NodeId] | None) -> None:
        """`admin.reassign_controllers([4, 5, 6])`: the voters to come; None withdraws (KIP-642, Barnabas only).

        Returns when the target is committed; the leader then reaches it by single changes.
        """
        from barnabas.client.admin import quorum

        quorum.reassign_controllers(self.cluster, controllers)

    def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: int = 1, dry_run: bool = False
    ) -> None:
        """`admin.update_features({"group.version": 1})`: all of these levels, or none.

        `upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
        """
        from barnabas.client.admin import quorum

        quorum.update_features(self.cluster, levels, upgrade_type, dry_run=dry_run)

    def unregister_broker(self, broker: NodeId) -> None:
        """`admin.unregister_broker(3)`: forget a broker that is gone for good."""
        from barnabas.client.admin import quorum

        quorum.unregister_broker(self.cluster, broker)

    def unregister_controller(self, controller: NodeId) -> None:
        """`admin.unregister_controller(3)`: forget the registration of a controller that is gone for good."""
        from barnabas.client.admin import quorum

        quorum.unregister_controller(self.cluster, controller)
