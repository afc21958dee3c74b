"""The settings of nodes (five tables), topics, groups and telemetry; those of Kafka that are `unused`."""

from __future__ import annotations

from barnabas.settings import table, table_access, table_quorum, table_security, table_tls
from barnabas.settings.resources import GROUP_SETTINGS, METRICS_SETTINGS
from barnabas.settings.setting import MAX_INT, MAX_LONG, REQUIRED, SETTINGS, Setting, Value
from barnabas.settings.topics import KEPT_ONLY, TOPIC_SETTINGS, in_topic_unit, node_names

__all__ = [
    "GROUP_SETTINGS",
    "KEPT_ONLY",
    "MAX_INT",
    "MAX_LONG",
    "METRICS_SETTINGS",
    "REQUIRED",
    "SETTINGS",
    "TOPIC_SETTINGS",
    "Setting",
    "Value",
    "in_topic_unit",
    "node_names",
    "table",
    "table_access",
    "table_quorum",
    "table_security",
    "table_tls",
]
