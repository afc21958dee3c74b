"""Managing a cluster: `Admin("127.0.0.1:9092").create_topic("orders", partitions=6)`.

Topics, settings and what describes the cluster here; groups, transactions, quotas, moves and changes of the quorum
in `methods`.  Requests for the controllers go to any broker, which passes them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal

from barnabas.client.admin.described import (
    SOURCES,
    ClusterDescription,
    CreatedTopic,
    FeatureRange,
    QuorumDescription,
    QuorumDetail,
    SettingValue,
)
from barnabas.client.admin.methods import DelegatedMethods
from barnabas.client.cluster import Cluster
from barnabas.client.connection import first_of
from barnabas.client.metadata import Broker, TopicInfo
from barnabas.client.offsets import OffsetAt, list_offsets
from barnabas.client.security.options import SecurityOptions
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId
from barnabas.version import __version__
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.cluster import ApiVersionsRequest, DescribeClusterRequest
from barnabas.wire.schemas.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

__all__ = ["Admin"]

Kind = Literal["topic", "broker", "broker-logger", "group", "client-metrics"]
KINDS: Mapping[str, int] = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}


def _kind_number(kind: str) -> int:
    """The number of a kind of resource; ValueError for a word that names none."""
    if kind not in KINDS:
        raise ValueError(f"what has settings is one of {', '.join(KINDS)}, not {kind!r:.60}")
    return KINDS[kind]


def _setting(name: str, value: object) -> str:
    """The text of a setting's value: numbers and booleans are written as Kafka reads them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(
        f"the value of {name} is a str, a number or a bool, not {type(value).__name__}; see `reset`"
    )


_ADVICE = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or delete the topic first",
    ErrorCode.INVALID_REPLICATION_FACTOR: "ask for at most as many replicas as there are brokers",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "see what there is with `barnabas topics list`",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use 1 to 249 letters, digits, dots, underscores and hyphens",
    ErrorCode.INVALID_PARTITIONS: "`barnabas topics describe` shows how many a topic has; there can only be more",
    ErrorCode.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers",
}
_OF_SETTINGS = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)


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
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication,
            configs=[CreatableTopicConfig(name=n, value=_setting(n, v)) for n, v in (configs or {}).items()],
        )
        response = self._to_controller(
            CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms, validate_only=validate_only)
        )
        result = first_of(response.topics, f"topic {name}")
        _check(result, f"topic {name}", lambda: _advice("topic", configs or {}, "docs/configuration.md has"))
        if not validate_only:
            self._wait_for_leaders(name)
        return CreatedTopic(name, result.topic_id, result.num_partitions, result.replication_factor)

    def delete_topic(self, name: str) -> None:
        """`admin.delete_topic("orders")`: the topic with all its records."""
        old = self.cluster.any().version_of(DeleteTopicsRequest) < 6
        response = self._to_controller(
            DeleteTopicsRequest(
                topics=[] if old else [DeleteTopicState(name=name)],
                topic_names=[name] if old else [],
                timeout_ms=self._timeout_ms,
            )
        )
        result = first_of(response.responses, f"topic {name}")
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no topic {name}",
                next_step=_ADVICE[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            )
        _check(result, f"topic {name}")
        self.cluster.forget(name)

    def add_partitions(self, name: str, total: int) -> None:
        """`admin.add_partitions("orders", 12)`: grow to 12 partitions in all (keys then map elsewhere)."""
        topic = CreatePartitionsTopic(name=name, count=total, assignments=None)
        response = self._to_controller(CreatePartitionsRequest(topics=[topic], timeout_ms=self._timeout_ms))
        _check(first_of(response.results, f"topic {name}"), f"topic {name}")
        self.cluster.forget(name)

    def topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """`admin.topics()` -> all topics by name; those of the brokers' own too with `internal`."""
        found = self.cluster.topics()
        return [found[name] for name in sorted(found) if internal or not found[name].internal]

    def describe_topic(self, name: str) -> TopicInfo:
        """`admin.describe_topic("orders").partitions[0].leader`, asked for now."""
        return self.cluster.topic(name, refresh=True)

    def offsets(
        self, topic: str, when: str | int = "latest", partitions: Iterable[int] | None = None
    ) -> dict[int, OffsetAt]:
        """`admin.offsets("orders", "earliest")` -> {partition: OffsetAt}; `when` as in `list_offsets`."""
        return list_offsets(self.cluster, topic, when, partitions)

    # -- settings --------------------------------------------------------------------------------

    def configs(self, kind: Kind, name: str, *, docs: bool = False) -> list[SettingValue]:
        """`admin.configs("topic", "orders")` -> every setting with its value and where that comes from."""
        resource = DescribeConfigsResource(
            resource_type=_kind_number(kind), resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[resource], include_documentation=docs)
        response = self._to_resource(kind, name, request)
        result = first_of(response.results, f"{kind} {name}")
        _check(result, f"settings of {kind} {name}")
        return [
            SettingValue(
                c.name,
                c.value,
                SOURCES.get(c.config_source, "unknown"),
                c.read_only,
                c.is_sensitive,
                c.documentation or None,
            )
            for c in sorted(result.configs, key=lambda c: str(c.name))
        ]

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
        alterations = [
            IncrementalAlterConfigsRequestAlterableConfig(name=n, config_operation=0, value=_setting(n, v))
            for n, v in (change or {}).items()
        ] + [
            IncrementalAlterConfigsRequestAlterableConfig(name=n, config_operation=1, value=None)
            for n in reset
        ]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=_kind_number(kind), resource_name=name, configs=alterations
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        what = f"settings of {kind} {name}" if name else "settings of all brokers"
        result = first_of(self._to_resource(kind, name, request).responses, what)
        typed = name or '""'
        shown = f"`barnabas configs show {kind} {typed} --all` shows"
        _check(result, what, lambda: _advice(kind, change or {}, shown))

    # -- the cluster and its quorum --------------------------------------------------------------

    def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        """`admin.describe_cluster().cluster_id`; with `fenced` also brokers that do not serve now."""
        connection = self.cluster.any()
        fenced = fenced and connection.version_of(DescribeClusterRequest) >= 2
        response = self.cluster.ask(DescribeClusterRequest(include_fenced_brokers=fenced))
        if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:  # a controller's listener
            response = self.cluster.ask(DescribeClusterRequest(endpoint_type=2))
        _check(response, "describing the cluster")
        brokers = tuple(
            Broker(b.broker_id, b.host, b.port, b.rack)
            for b in sorted(response.brokers, key=lambda b: int(b.broker_id))
        )
        fenced_ids = tuple(b.broker_id for b in response.brokers if b.is_fenced)
        return ClusterDescription(response.cluster_id, response.controller_id, brokers, fenced_ids)

    def quorum(self) -> QuorumDescription:
        """`admin.quorum().leader` -> the metadata quorum as its leader sees it.  Controllers answer too."""
        from barnabas.client.admin.quorum_detail import described, description_request

        response = self._to_controller(description_request())
        _check(response, "describing the quorum")
        partitions = first_of(response.topics, "the quorum").partitions
        _check(first_of(partitions, "the quorum"), "describing the quorum")
        return described(response, self.describe_cluster().cluster_id)

    def quorum_detail(self) -> QuorumDetail:
        """`admin.quorum_detail().waiting` -> the quorum with what Apache Kafka's answer does not say.

        Without a leader it is what the controller that was asked knows.
        """
        from barnabas.client.admin.quorum_detail import quorum_detail

        return quorum_detail(self.cluster, lambda: self.describe_cluster().cluster_id)

    def features(self) -> list[FeatureRange]:
        """`admin.features()` -> every feature the broker supports, with the level the cluster agreed on."""
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
        response = self.cluster.ask(request)
        _check(response, "describing the features")
        final = {f.name: f.max_version_level for f in response.finalized_features}
        epoch = response.finalized_features_epoch
        return [
            FeatureRange(f.name, f.min_version, f.max_version, final.get(f.name, 0), epoch)
            for f in sorted(response.supported_features, key=lambda f: str(f.name))
        ]

    # -- asking ----------------------------------------------------------------------------------

    @property
    def _timeout_ms(self) -> int:
        return int(self.cluster.timeout * 1000)

    def _to_controller(self, request: Message) -> Any:
        """Send to any broker, which forwards it, or to the active controller; retry while controllers change."""
        from barnabas.client.admin.quorum import ask_active

        return ask_active(self.cluster, request)

    def _to_resource(self, kind: str, name: str, request: Message) -> Any:
        """Send to the broker whose settings are asked for, else to any broker."""
        if kind in ("broker", "broker-logger") and name:
            try:
                node: NodeId = int(name)
            except ValueError as error:
                raise ConfigError(
                    f"{name!r} is no broker's number",
                    next_step="give a node.id; brokers' common settings have an empty name",
                ) from error
            return self.cluster.retrying(lambda: self.cluster.connection(node).request(request))
        return self._to_controller(request)

    def _wait_for_leaders(self, name: str) -> None:
        """Wait until the broker that we ask knows the topic and its leaders."""

        def look() -> None:
            info = self.cluster.topic(name, refresh=True)
            if any(p.leader < 0 for p in info.partitions.values()):
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} has no leaders yet")

        self.cluster.retrying(look, patient=True)


def _check(result: Any, what: str, settings_advice: Callable[[], str] | None = None) -> None:
    if result.error_code:
        code = ErrorCode(result.error_code)
        said = getattr(result, "error_message", None)
        of_settings = settings_advice if code in _OF_SETTINGS else None
        next_step = of_settings() if of_settings is not None else _ADVICE.get(code)
        raise KafkaError(code, f"{what}: {said or 'refused'}", next_step=next_step)


def _advice(kind: Kind, change: Mapping[str, str], shown: str) -> str:
    """Return what to give in place of settings that were refused, or where to look for it."""
    from barnabas.settings.resources import GROUP_SETTINGS, METRICS_SETTINGS
    from barnabas.settings.setting import SETTINGS
    from barnabas.settings.text import advice
    from barnabas.settings.topics import TOPIC_SETTINGS

    known = {"topic": TOPIC_SETTINGS, "broker": SETTINGS, "group": GROUP_SETTINGS}
    known["client-metrics"] = METRICS_SETTINGS
    return advice(change, known.get(kind, {})) or f"{shown} every setting"
