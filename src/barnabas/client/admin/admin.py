"""Managing a cluster: `Admin("127.0.0.1:9092").create_topic("orders", partitions=6)`.

Topics, settings and what describes the cluster here; groups, transactions, users, quotas, moves and changes of the
quorum in `methods`.  Requests for the controllers go to any broker, which passes them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType

from barnabas.client.admin import overview, settings, topics
from barnabas.client.admin.described import (
    ClusterDescription,
    CreatedTopic,
    FeatureRange,
    QuorumDescription,
    QuorumDetail,
    SettingValue,
)
from barnabas.client.admin.methods import DelegatedMethods
from barnabas.client.admin.quorum import ask_active
from barnabas.client.admin.settings import Kind
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import TopicInfo
from barnabas.client.offsets import OffsetAt, list_offsets
from barnabas.client.security.options import SecurityOptions
from barnabas.model import Offset, TopicPartition

__all__ = ["Admin"]


class Admin(DelegatedMethods):
    """`with Admin("127.0.0.1:9092") as admin: admin.create_topic("orders", partitions=6)`.

    `timeout` (seconds) bounds every call.  Every method raises KafkaError when the cluster refuses and
    ConnectionFailed when nobody answers.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "barnabas-admin",
        timeout: float = 30.0,
        security: SecurityOptions = None,
    ) -> None:
        self.cluster = Cluster(bootstrap, client_id=client_id, timeout=timeout, security=security)

    def __repr__(self) -> str:
        return f"<Admin {self.cluster!r}>"

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """`admin.close()`: close all connections."""
        self.cluster.close()

    # -- topics ----------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """`admin.create_topic("orders", partitions=6, configs={"retention.ms": "3600000"})` -> CreatedTopic.

        -1: as many as the brokers make by default.  Returns when every partition has a leader.
        `validate_only` asks whether it would be done.
        """
        return topics.create_topic(
            self.cluster,
            name,
            partitions=partitions,
            replication=replication,
            configs=configs,
            validate_only=validate_only,
        )

    def delete_topic(self, name: str) -> None:
        """`admin.delete_topic("orders")`: the topic with all its records."""
        topics.delete_topic(self.cluster, name)

    def add_partitions(self, name: str, total: int) -> None:
        """`admin.add_partitions("orders", 12)`: grow to 12 partitions in all (keys then map elsewhere)."""
        topics.add_partitions(self.cluster, name, total)

    def topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """`admin.topics()` -> all topics by name; those of the brokers' own too with `internal`."""
        return topics.topics(self.cluster, internal=internal)

    def describe_topic(self, name: str) -> TopicInfo:
        """`admin.describe_topic("orders").partitions[0].leader`, asked for now."""
        return topics.describe_topic(self.cluster, name)

    def offsets(
        self, topic: str, when: str | int = "latest", partitions: Iterable[int] | None = None
    ) -> dict[int, OffsetAt]:
        """`admin.offsets("orders", "earliest")` -> {partition: OffsetAt}; `when` as in `list_offsets`."""
        return list_offsets(self.cluster, topic, when, partitions)

    def delete_records(self, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """`admin.delete_records({TopicPartition("orders", 0): 42})`: delete what is before; where each begins now.

        -1: all records that consumers see.
        """
        return topics.delete_records(self.cluster, before)

    # -- settings --------------------------------------------------------------------------------

    def configs(self, kind: Kind, name: str, *, docs: bool = False) -> list[SettingValue]:
        """`admin.configs("topic", "orders")` -> every setting with its value and where that comes from."""
        return settings.configs(self.cluster, kind, name, docs=docs)

    def alter_configs(
        self,
        kind: Kind,
        name: str,
        change: Mapping[str, str] | None = None,
        *,
        reset: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """`admin.alter_configs("topic", "orders", {"retention.ms": "60000"}, reset=["segment.bytes"])`.

        `reset` names settings that go back to their default.
        """
        settings.alter_configs(self.cluster, kind, name, change, reset=reset, validate_only=validate_only)

    # -- the cluster and its quorum --------------------------------------------------------------

    def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        """`admin.describe_cluster().cluster_id`; with `fenced` also brokers that do not serve now."""
        return overview.describe_cluster(self.cluster, fenced=fenced)

    def quorum(self) -> QuorumDescription:
        """`admin.quorum().leader` -> the metadata quorum as its leader sees it.  Controllers answer too."""
        from barnabas.client.admin.quorum_detail import described, description_request

        response = ask_active(self.cluster, description_request())
        return described(response, self.describe_cluster().cluster_id)

    def quorum_detail(self) -> QuorumDetail:
        """`admin.quorum_detail().waiting` -> the quorum with what Apache Kafka's answer does not say.

        Without a leader it is what the controller that was asked knows.
        """
        from barnabas.client.admin.quorum_detail import quorum_detail

        return quorum_detail(self.cluster, lambda: self.describe_cluster().cluster_id)

    def features(self) -> list[FeatureRange]:
        """`admin.features()` -> every feature the broker supports, with the level the cluster agreed on."""
        return overview.features(self.cluster)
