"""The APIs that this node serves: one table.

A row says which API in which versions, on which kind of listener (B broker, C controller), which handler
answers, which operation needs permission, who decides, and how the request gets there (`server/net/route`). The
node does not advertise an API without a row, and a request for it ends the connection.

`versions` are those advertised and accepted, with three exceptions that clients need and Apache Kafka makes
too (`cluster.ClusterApi.api_versions`): Produce is advertised from 0 on, ApiVersions answers any version, and
features that may be absent are hidden from clients that could not read them.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.ports import Operation, ResourceType
from barnabas.server.api import item_errors as refuse
from barnabas.server.api.admin import AdminApi
from barnabas.server.api.cluster import ClusterApi
from barnabas.server.api.controller import ControllerApi
from barnabas.server.api.data import DataApi
from barnabas.server.api.directories import DirectoryApi
from barnabas.server.api.envelope import EnvelopeApi
from barnabas.server.api.features import FeatureApi
from barnabas.server.api.groups import GroupApi
from barnabas.server.api.metadata import MetadataApi
from barnabas.server.api.quorum import QuorumApi
from barnabas.server.api.reassignments import ReassignmentApi
from barnabas.server.api.telemetry import TelemetryApi
from barnabas.server.api.transactions import TransactionApi
from barnabas.server.kraft.steps import QuorumSteps
from barnabas.server.net.route import Decider, Handler, Row
from barnabas.server.net.secure.sasl import SaslApi
from barnabas.server.rights.needed import all_guarded

__all__ = ["TABLE", "handler_of", "served_on"]

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_READ, _WRITE, _CREATE, _DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
_ALTER, _DESCRIBE, _ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
_SEE_CONFIGS, _SET_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_TRANSACTION = ResourceType.TRANSACTIONAL_ID
_MAKE_TOKENS, _USER = Operation.CREATE_TOKENS, ResourceType.USER
_TOKEN = ResourceType.DELEGATION_TOKEN
_IDEMPOTENT, _ANY = Operation.IDEMPOTENT_WRITE, Operation.ANY
_CONTROLLER, _QUORUM = Decider.CONTROLLER, Decider.QUORUM

# fmt: off
#   key low high listeners handler                operation     resource  decider, forward, refused, ...
TABLE: tuple[Row, ...] = all_guarded((
    # produce and fetch
    Row(0,  3, 13, "B",  DataApi.produce,                 _WRITE,       _TOPIC),
    Row(1,  4, 18, "B",  DataApi.fetch,                   _READ,        _TOPIC,   waits=True),
    Row(2,  1, 11, "B",  DataApi.list_offsets,            _DESCRIBE,    _TOPIC),
    Row(21, 0, 2,  "B",  DataApi.delete_records,          _DELETE,      _TOPIC),
    Row(23, 2, 4,  "B",  DataApi.epoch_ends,              _DESCRIBE,    _TOPIC),
    # who and where
    Row(18, 0, 5,  "BC", ClusterApi.api_versions,         _ANY,         _CLUSTER),
    Row(3,  0, 13, "B",  MetadataApi.metadata,            _DESCRIBE,    _TOPIC),
    Row(60, 0, 2,  "BC", ClusterApi.describe_cluster,     _DESCRIBE,    _CLUSTER),
    Row(10, 0, 6,  "B",  GroupApi.find_coordinator,       _DESCRIBE,    _GROUP),
    # topics and their settings
    Row(19, 2, 7,  "BC", ControllerApi.decide,            _CREATE,      _TOPIC,   _CONTROLLER, "clients",
        refuse.create_topics, applied=True),
    Row(20, 1, 6,  "BC", ControllerApi.decide,            _DELETE,      _TOPIC,   _CONTROLLER, "clients",
        refuse.delete_topics, applied=True),
    Row(37, 0, 3,  "BC", ControllerApi.decide,            _ALTER,       _TOPIC,   _CONTROLLER, "clients",
        refuse.create_partitions, applied=True),
    Row(32, 1, 4,  "BC", AdminApi.describe_configs,       _SEE_CONFIGS, _TOPIC),
    Row(44, 0, 1,  "BC", ControllerApi.decide,            _SET_CONFIGS, _TOPIC,   _CONTROLLER, "clients",
        refuse.incremental_alter_configs),
    Row(33, 0, 2,  "BC", ControllerApi.decide,            _SET_CONFIGS, _TOPIC,   _CONTROLLER, "clients",
        refuse.alter_configs),
    Row(48, 0, 1,  "B",  AdminApi.describe_client_quotas, _SEE_CONFIGS, _CLUSTER),
    Row(49, 0, 1,  "BC", ControllerApi.decide,            _SET_CONFIGS, _CLUSTER, _CONTROLLER, "clients",
        refuse.alter_client_quotas),
    # consumer groups and their offsets
    Row(11, 0, 9,  "B",  GroupApi.join,                   _READ,        _GROUP,   waits=True),
    Row(14, 0, 5,  "B",  GroupApi.sync,                   _READ,        _GROUP,   waits=True),
    Row(12, 0, 4,  "B",  GroupApi.heartbeat,              _READ,        _GROUP),
    Row(13, 0, 5,  "B",  GroupApi.leave,                  _READ,        _GROUP),
    Row(8,  2, 10, "B",  GroupApi.commit,                 _READ,        _GROUP),
    Row(9,  1, 10, "B",  GroupApi.fetch_offsets,          _DESCRIBE,    _GROUP),
    Row(15, 0, 6,  "B",  GroupApi.describe,               _DESCRIBE,    _GROUP),
    Row(16, 0, 5,  "B",  GroupApi.list_groups,            _DESCRIBE,    _CLUSTER),
    Row(68, 0, 1,  "B",  GroupApi.consumer_heartbeat,     _READ,        _GROUP),
    Row(69, 0, 1,  "B",  GroupApi.consumer_describe,      _DESCRIBE,    _GROUP),
    Row(42, 0, 3,  "B",  GroupApi.delete,                 _DELETE,      _GROUP),
    Row(47, 0, 0,  "B",  GroupApi.delete_offsets,         _DELETE,      _GROUP),
    # idempotent producers and transactions
    Row(22, 0, 5,  "B",  TransactionApi.init_producer_id, _IDEMPOTENT,  _CLUSTER),
    Row(24, 0, 5,  "B",  TransactionApi.add_partitions,   _WRITE,       _TRANSACTION),
    Row(25, 0, 4,  "B",  TransactionApi.add_offsets,      _WRITE,       _TRANSACTION),
    Row(26, 0, 5,  "B",  TransactionApi.end,              _WRITE,       _TRANSACTION),
    Row(27, 1, 2,  "B",  DataApi.write_txn_markers,       _ALTER,       _CLUSTER),
    Row(28, 0, 6,  "B",  GroupApi.commit_in_transaction,  _READ,        _GROUP),
    Row(61, 0, 0,  "B",  DataApi.describe_producers,      _READ,        _TOPIC),
    Row(65, 0, 0,  "B",  TransactionApi.describe,         _DESCRIBE,    _TRANSACTION),
    Row(66, 0, 2,  "B",  TransactionApi.list_transactions, _DESCRIBE,   _TRANSACTION),
    # looking around
    Row(75, 0, 0,  "B",  AdminApi.describe_topic_partitions, _DESCRIBE,    _TOPIC),
    Row(74, 0, 1,  "B",  AdminApi.list_config_resources,  _SEE_CONFIGS, _CLUSTER),
    Row(34, 1, 2,  "B",  DirectoryApi.alter_replica_log_dirs, _ALTER,       _CLUSTER),
    Row(35, 1, 5,  "B",  DirectoryApi.describe_log_dirs,  _DESCRIBE,    _CLUSTER),
    Row(46, 0, 0,  "BC", ReassignmentApi.list,            _DESCRIBE,    _CLUSTER, _CONTROLLER, "clients"),
    Row(29, 1, 3,  "BC", AdminApi.describe_acls,          _DESCRIBE,    _CLUSTER),
    Row(30, 1, 3,  "BC", ControllerApi.decide,            _ALTER,       _CLUSTER, _CONTROLLER, "clients",
        refuse.create_acls, applied=True),
    Row(31, 1, 3,  "BC", ControllerApi.decide,            _ALTER,       _CLUSTER, _CONTROLLER, "clients",
        refuse.delete_acls, applied=True),
    # who they are
    Row(17, 0, 1,  "BC", SaslApi.handshake,               _ANY,         _CLUSTER),
    Row(36, 0, 2,  "BC", SaslApi.authenticate,            _ANY,         _CLUSTER),
    Row(50, 0, 0,  "BC", AdminApi.describe_users,         _DESCRIBE,    _CLUSTER),
    Row(51, 0, 0,  "BC", ControllerApi.decide,            _ALTER,       _CLUSTER, _CONTROLLER, "clients",
        refuse.alter_user_scram_credentials, applied=True),
    Row(38, 1, 3,  "BC", ControllerApi.decide,            _MAKE_TOKENS, _USER,    _CONTROLLER, "clients",
        applied=True),
    Row(39, 1, 2,  "BC", ControllerApi.decide,            _ANY,         _CLUSTER, _CONTROLLER, "clients",
        applied=True),
    Row(40, 1, 2,  "BC", ControllerApi.decide,            _ANY,         _CLUSTER, _CONTROLLER, "clients",
        applied=True),
    Row(41, 1, 3,  "B",  AdminApi.describe_tokens,        _DESCRIBE,    _TOKEN),
    # what clients tell of themselves
    Row(71, 0, 0,  "B",  TelemetryApi.subscriptions,      _ANY,         _CLUSTER),
    Row(72, 0, 0,  "B",  TelemetryApi.push,               _ANY,         _CLUSTER),
    # what administrators ask of the controller and of the quorum
    Row(80, 0, 1,  "BC", QuorumSteps.handle,              _ALTER,       _CLUSTER, _QUORUM, "slow", waits=True),
    Row(81, 0, 0,  "BC", QuorumSteps.handle,              _ALTER,       _CLUSTER, _QUORUM, "slow", waits=True),
    Row(45, 0, 1,  "BC", ReassignmentApi.alter,           _ALTER,       _CLUSTER, _CONTROLLER, "slow", waits=True),
    Row(55, 0, 2,  "BC", QuorumApi.describe,              _DESCRIBE,    _CLUSTER, _QUORUM, "clients"),
    Row(57, 0, 2,  "BC", FeatureApi.update,               _ALTER,       _CLUSTER, _CONTROLLER, "slow"),
    Row(64, 0, 0,  "BC", ControllerApi.decide,            _ALTER,       _CLUSTER, _CONTROLLER, "clients"),
    Row(94, 0, 0,  "BC", ControllerApi.decide,            _ALTER,       _CLUSTER, _CONTROLLER, "clients"),
    Row(43, 0, 2,  "BC", ControllerApi.decide,            _ALTER,       _CLUSTER, _CONTROLLER, "clients"),
    # what controllers ask each other
    Row(52, 0, 2,  "C",  QuorumSteps.handle,              _ACTION,      _CLUSTER, _QUORUM),
    Row(53, 0, 1,  "C",  QuorumSteps.handle,              _ACTION,      _CLUSTER, _QUORUM),
    Row(54, 0, 1,  "C",  QuorumSteps.handle,              _ACTION,      _CLUSTER, _QUORUM),
    Row(1,  4, 18, "C",  QuorumSteps.handle,              _ACTION,      _CLUSTER, _QUORUM, waits=True),
    Row(59, 0, 1,  "C",  QuorumSteps.handle,              _ACTION,      _CLUSTER, _QUORUM),
    Row(82, 0, 0,  "C",  QuorumSteps.handle,              _ACTION,      _CLUSTER, _QUORUM),
    Row(10642, 0, 0, "C", QuorumSteps.handle,             _ACTION,      _CLUSTER, _QUORUM),  # ours, not Kafka's
    Row(10643, 0, 0, "C", QuorumApi.bootstrap,            _ALTER,       _CLUSTER),  # ours, not Kafka's
    # what brokers and controllers ask the active controller
    Row(58, 0, 0,  "C",  EnvelopeApi.serve,               _ACTION,      _CLUSTER, waits=True),
    Row(56, 2, 3,  "C",  ControllerApi.decide,            _ACTION,      _CLUSTER, _CONTROLLER),
    Row(62, 0, 4,  "C",  ControllerApi.decide,            _ACTION,      _CLUSTER, _CONTROLLER),
    Row(63, 0, 2,  "C",  ControllerApi.heartbeat,         _ACTION,      _CLUSTER, _CONTROLLER),
    Row(67, 0, 0,  "C",  ControllerApi.decide,            _ACTION,      _CLUSTER, _CONTROLLER),
    Row(70, 0, 0,  "C",  ControllerApi.decide,            _ACTION,      _CLUSTER, _CONTROLLER),
    Row(73, 0, 0,  "C",  ControllerApi.decide,            _ACTION,      _CLUSTER, _CONTROLLER),
))
# fmt: on


UNSTABLE = {22: 6}
"""API -> its highest version, where `unstable.api.versions.enable` is on."""


def served_on(kind: str, *, unstable: bool = False) -> tuple[Row, ...]:
    """The rows of a listener of kind "B" or "C"."""
    rows = (row for row in TABLE if kind in row.listeners)
    return tuple(row._replace(high=UNSTABLE.get(row.key, row.high)) if unstable else row for row in rows)


def handler_of(row: Row, apis: Iterable[object]) -> Handler:
    """The row's handler as a method of the one among `apis` that has it."""
    for api in apis:
        if vars(type(api)).get(row.handler.__name__) is row.handler:
            bound: Handler = row.handler.__get__(api)
            return bound
    raise LookupError(f"nothing here serves {row}")
