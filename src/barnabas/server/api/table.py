"""The APIs that this node serves: one table.

A row says which API in which versions, on which kind of listener (B broker, C controller), which handler
answers, which operation needs permission, and whether the node forwards the request to an active controller
elsewhere (`forward`). The node does not advertise an API without a row, and a request for it ends the
connection.

`versions` are those advertised and accepted, with three exceptions that clients need and Apache Kafka makes
too (`cluster.ClusterApi.api_versions`): Produce is advertised from 0 on, ApiVersions answers any version, and
features that may be absent are hidden from clients that could not read them.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.ports import Operation, ResourceType
from barnabas.server.api.admin import AdminApi
from barnabas.server.api.cluster import ClusterApi
from barnabas.server.api.data import DataApi
from barnabas.server.api.directories import DirectoryApi
from barnabas.server.api.envelope import EnvelopeApi
from barnabas.server.api.groups import GroupApi
from barnabas.server.api.metadata import MetadataApi
from barnabas.server.api.quorum import QuorumApi
from barnabas.server.api.topics import TopicApi
from barnabas.server.net.route import Handler, Row

__all__ = ["TABLE", "handler_of", "served_on"]

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_READ, _WRITE, _CREATE, _DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
_ALTER, _DESCRIBE, _ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
_SEE_CONFIGS, _SET_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_IDEMPOTENT, _ANY = Operation.IDEMPOTENT_WRITE, Operation.ANY

# fmt: off
# key low high listeners handler              operation     resource
TABLE: tuple[Row, ...] = (
    # produce and fetch
    Row(0, 3, 13, "B", DataApi.produce,          _WRITE,       _TOPIC, throttle="produce"),
    Row(1, 4, 18, "B", DataApi.fetch,            _READ,        _TOPIC, throttle="fetch", waits=True),
    Row(2, 1, 11, "B", DataApi.list_offsets,     _DESCRIBE,    _TOPIC),
    Row(21, 0, 2, "B", DataApi.delete_records,   _DELETE,      _TOPIC),
    Row(22, 0, 5, "B", DataApi.init_producer_id, _IDEMPOTENT,  _CLUSTER),
    Row(23, 2, 4, "B", DataApi.epoch_ends,       _DESCRIBE,    _TOPIC),
    # who and where
    Row(18, 0, 4, "BC", ClusterApi.api_versions, _ANY,         _CLUSTER, throttle=""),
    Row(3, 0, 13, "B", MetadataApi.metadata,     _DESCRIBE,    _TOPIC),
    Row(60, 0, 2, "BC", ClusterApi.describe_cluster, _DESCRIBE, _CLUSTER),
    Row(10, 0, 6, "B", GroupApi.find_coordinator, _DESCRIBE,  _GROUP),
    # topics and their settings
    Row(19, 2, 7, "BC", TopicApi.create_topics, _CREATE,      _TOPIC, forward=True, throttle="mutation"),
    Row(20, 1, 6, "BC", TopicApi.delete_topics, _DELETE,      _TOPIC, forward=True, throttle="mutation"),
    Row(37, 0, 3, "BC", TopicApi.create_partitions, _ALTER,   _TOPIC, forward=True, throttle="mutation"),
    Row(32, 1, 4, "BC", TopicApi.describe_configs, _SEE_CONFIGS, _TOPIC),
    Row(44, 0, 1, "BC", TopicApi.alter_configs, _SET_CONFIGS, _TOPIC, forward=True),
    Row(33, 0, 2, "BC", TopicApi.alter_configs, _SET_CONFIGS, _TOPIC, forward=True),
    # consumer groups and their offsets
    Row(11, 0, 9, "B", GroupApi.join,           _READ,        _GROUP, waits=True),
    Row(14, 0, 5, "B", GroupApi.sync,           _READ,        _GROUP, waits=True),
    Row(12, 0, 4, "B", GroupApi.heartbeat,      _READ,        _GROUP),
    Row(13, 0, 5, "B", GroupApi.leave,          _READ,        _GROUP),
    Row(8, 2, 10, "B", GroupApi.commit,         _READ,        _GROUP),
    Row(9, 1, 10, "B", GroupApi.fetch_offsets,  _DESCRIBE,    _GROUP),
    Row(15, 0, 6, "B", GroupApi.describe,       _DESCRIBE,    _GROUP),
    Row(16, 0, 5, "B", GroupApi.list_groups,    _DESCRIBE,    _CLUSTER),
    Row(68, 0, 1, "B", GroupApi.consumer_heartbeat, _READ,    _GROUP),
    Row(42, 0, 2, "B", GroupApi.delete,         _DELETE,      _GROUP),
    Row(47, 0, 0, "B", GroupApi.delete_offsets, _DELETE,      _GROUP),
    # looking around
    Row(75, 0, 0, "B", AdminApi.describe_topic_partitions, _DESCRIBE, _TOPIC),
    Row(74, 0, 1, "B", AdminApi.list_config_resources, _SEE_CONFIGS, _CLUSTER),
    Row(34, 1, 2, "B", DirectoryApi.alter_replica_log_dirs, _ALTER, _CLUSTER),
    Row(35, 1, 5, "B", DirectoryApi.describe_log_dirs, _DESCRIBE, _CLUSTER),
    Row(46, 0, 0, "BC", AdminApi.list_reassignments, _DESCRIBE, _CLUSTER, forward=True),
    Row(29, 1, 3, "B", AdminApi.describe_acls,   _DESCRIBE,    _CLUSTER),
    Row(30, 1, 3, "BC", AdminApi.create_acls,    _ALTER,       _CLUSTER, forward=True),
    Row(31, 1, 3, "BC", AdminApi.delete_acls,    _ALTER,       _CLUSTER, forward=True),
    # the quorum
    Row(52, 0, 2, "C", QuorumApi.peer,           _ACTION,      _CLUSTER, throttle=""),
    Row(53, 0, 1, "C", QuorumApi.peer,           _ACTION,      _CLUSTER, throttle=""),
    Row(54, 0, 1, "C", QuorumApi.peer,           _ACTION,      _CLUSTER, throttle=""),
    Row(1, 4, 18, "C", QuorumApi.peer,           _ACTION,      _CLUSTER, throttle="", waits=True),
    Row(59, 0, 1, "C", QuorumApi.peer,           _ACTION,      _CLUSTER, throttle=""),
    Row(82, 0, 0, "C", QuorumApi.peer,           _ACTION,      _CLUSTER, throttle=""),
    Row(80, 0, 1, "BC", QuorumApi.submit,        _ALTER,       _CLUSTER, forward=True, waits=True),
    Row(81, 0, 0, "BC", QuorumApi.submit,        _ALTER,       _CLUSTER, forward=True, waits=True),
    Row(45, 0, 1, "BC", QuorumApi.submit,        _ALTER,       _CLUSTER, forward=True, waits=True),
    Row(58, 0, 0, "C", EnvelopeApi.serve,       _ACTION,      _CLUSTER, throttle="", waits=True),
    Row(55, 0, 2, "BC", QuorumApi.describe,      _DESCRIBE,    _CLUSTER, forward=True),
    Row(57, 0, 2, "BC", QuorumApi.submit,        _ALTER,       _CLUSTER, forward=True),
    Row(64, 0, 0, "BC", QuorumApi.submit,        _ALTER,       _CLUSTER, forward=True),
    Row(43, 0, 2, "BC", QuorumApi.submit,        _ALTER,       _CLUSTER, forward=True),
    Row(56, 2, 3, "C", QuorumApi.submit,         _ACTION,      _CLUSTER, throttle=""),
    Row(62, 0, 4, "C", QuorumApi.submit,         _ACTION,      _CLUSTER, throttle=""),
    Row(63, 0, 2, "C", QuorumApi.submit,         _ACTION,      _CLUSTER, throttle=""),
    Row(67, 0, 0, "C", QuorumApi.submit,         _ACTION,      _CLUSTER, throttle=""),
    Row(70, 0, 0, "C", QuorumApi.submit,         _ACTION,      _CLUSTER, throttle=""),
    Row(73, 0, 0, "C", QuorumApi.submit,         _ACTION,      _CLUSTER, throttle=""),
)
# fmt: on


def served_on(kind: str) -> tuple[Row, ...]:
    """The rows of a listener of kind "B" or "C"."""
    return tuple(row for row in TABLE if kind in row.listeners)


def handler_of(row: Row, apis: Iterable[object]) -> Handler:
    """The row's handler as a method of the one among `apis` that has it."""
    for api in apis:
        if vars(type(api)).get(row.handler.__name__) is row.handler:
            bound: Handler = row.handler.__get__(api)
            return bound
    raise LookupError(f"nothing here serves {row}")
