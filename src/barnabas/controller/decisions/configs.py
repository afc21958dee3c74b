"""Changing settings: IncrementalAlterConfigs and AlterConfigs, decisions only (KIP-339, KIP-133).

Each resource succeeds or fails as a whole.  Settings of topics are checked against the table that the log
reads; settings of brokers must be changeable while the broker runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from barnabas.config import (
    SETTINGS,
    TOPIC_SETTINGS,
    Config,
    Setting,
    format_value,
    needs_start,
    parse_value,
    validate_topic_overrides,
)
from barnabas.controller.decisions.describe_configs import topic_origins
from barnabas.controller.decisions.resource_settings import check_group_settings, check_metrics_settings
from barnabas.controller.feature_levels import ELR_FEATURE
from barnabas.controller.image import (
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_METRICS,
    RESOURCE_TOPIC,
    Resource,
)
from barnabas.controller.view import BATCH_LIMIT, Decision, View
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import ClearElrRecord, ConfigRecord
from barnabas.wire.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from barnabas.wire.schemas.topics import CreatableTopicConfigs

__all__ = [
    "alter_configs",
    "check_topic_settings",
    "created_topic_configs",
    "incremental_alter_configs",
]

_LONGEST = 32767
"""Bytes of a string in a record."""
_MIN_ISR = "min.insync.replicas"
_NOTES = ("barnabas.quorum.", "barnabas.history.")
"""What the quorum notes for itself is a setting of all brokers with such a name."""


class ConfigOperation(IntEnum):
    """What to do with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One line of a request."""

    name: str
    operation: int
    value: str | None


def incremental_alter_configs(view: View, request: IncrementalAlterConfigsRequest) -> Decision:
    """IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single settings."""
    asked = [
        (
            (resource.resource_type, resource.resource_name),
            [Change(c.name, c.config_operation, c.value) for c in resource.configs],
        )
        for resource in request.resources
    ]
    row = IncrementalAlterConfigsResponseAlterConfigsResourceResponse
    records, rows = _decide(view, asked, _incremental, row)
    return Decision(IncrementalAlterConfigsResponse(responses=rows), [] if request.validate_only else records)


def alter_configs(view: View, request: AlterConfigsRequest) -> Decision:
    """AlterConfigs (key 33): replace all settings of a resource (old clients send it)."""
    asked = [
        (
            (resource.resource_type, resource.resource_name),
            [Change(c.name, ConfigOperation.SET, c.value) for c in resource.configs],
        )
        for resource in request.resources
    ]
    row = AlterConfigsResponseAlterConfigsResourceResponse
    records, rows = _decide(view, asked, _replacing, row)
    return Decision(AlterConfigsResponse(responses=rows), [] if request.validate_only else records)


_Wanted = Callable[[Resource, Mapping[str, str], list[Change]], dict[str, str]]
_Row = TypeVar("_Row")


def _decide(
    view: View, asked: list[tuple[Resource, list[Change]]], wanted: _Wanted, row: Callable[..., _Row]
) -> tuple[list[MetadataRecord], list[_Row]]:
    """The records of all resources, and the row of the answer for each of them."""
    repeated = {resource for resource, count in Counter(r for r, _ in asked).items() if count > 1}
    records: list[MetadataRecord] = []
    rows: list[_Row] = []
    for resource, changes in asked:
        code, message = ErrorCode.NONE, None
        try:
            if resource in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the resource is in the request more than once")
            changed = _one_resource(view, resource, changes, wanted)
            if len(records) + len(changed) > BATCH_LIMIT:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"one request may change at most {BATCH_LIMIT} settings"
                )
            records += changed
        except KafkaError as error:
            code, message = error.code, error.message
        type_, name = resource
        rows.append(row(error_code=code, error_message=message, resource_type=type_, resource_name=name))
    return records, rows


def _one_resource(
    view: View, resource: Resource, changes: list[Change], wanted: _Wanted
) -> list[MetadataRecord]:
    """The records of one resource.  Raises KafkaError when any of its settings is refused."""
    for name, count in Counter(change.name for change in changes).items():
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is in the request more than once")
    for change in changes:
        if change.value is None and change.operation != ConfigOperation.DELETE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name} has no value")
    _check_resource(view, resource)
    before = view.image.configs.get(resource, {})
    after = _with_notes(resource, before, changes, wanted(resource, before, changes))
    for name, value in after.items():
        if before.get(name) != value:
            _check_length(name, value)
    _check_values(view, resource, before, after)
    type_, resource_name = resource
    records: list[MetadataRecord] = [
        ConfigRecord(resource_type=type_, resource_name=resource_name, name=name, value=after.get(name))
        for name in dict.fromkeys((*after, *before))
        if before.get(name) != after.get(name)
    ]
    if before.get(_MIN_ISR) != after.get(_MIN_ISR) and _keeps_elr(view):
        records.append(ClearElrRecord(topic_name=resource_name if type_ == RESOURCE_TOPIC else ""))
    return records


def _with_notes(
    resource: Resource, before: Mapping[str, str], changes: list[Change], after: dict[str, str]
) -> dict[str, str]:
    """The settings with the quorum's own notes as they were: they look like settings, and nobody sets them."""
    if resource != (RESOURCE_BROKER, ""):
        return after
    for change in changes:
        if change.name.startswith(_NOTES) and after.get(change.name) != before.get(change.name):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{change.name} is set by the quorum itself, and by nobody else"
            )
    return after | {name: value for name, value in before.items() if name.startswith(_NOTES)}


def _incremental(resource: Resource, before: Mapping[str, str], changes: list[Change]) -> dict[str, str]:
    after = dict(before)
    for name, operation, value in changes:
        if operation == ConfigOperation.DELETE:
            after.pop(name, None)
        elif operation == ConfigOperation.SET:
            after[name] = value or ""
        elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            row = (TOPIC_SETTINGS if resource[0] == RESOURCE_TOPIC else SETTINGS).get(name)
            if row is None or row.kind != "list":
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is no list: it can only be set")
            after[name] = _changed_list(row, after.get(name), operation, value or "")
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown operation {operation} on {name}")
    return after


def _changed_list(row: Setting, before: str | None, operation: int, value: str) -> str:
    """The list with elements added or taken away.  One that was never set begins as its default, as in Kafka.

    For a topic that is the default of the topic's setting, not what the node says for its topics.
    """
    text = format_value(row.ours) or "" if before is None else before
    elements = [element for element in text.split(",") if element]
    for element in value.split(","):
        if operation == ConfigOperation.APPEND and element not in elements:
            elements.append(element)
        elif operation == ConfigOperation.SUBTRACT and element in elements:
            elements.remove(element)
    return ",".join(elements)


def _replacing(resource: Resource, before: Mapping[str, str], changes: list[Change]) -> dict[str, str]:
    return {change.name: change.value or "" for change in changes}


def _check_resource(view: View, resource: Resource) -> None:
    type_, name = resource
    if type_ == RESOURCE_TOPIC:
        if view.image.topic(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    elif type_ == RESOURCE_BROKER:
        if name and not any(name == str(broker) for broker in view.image.brokers):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {name[:20]} is not registered")
    elif type_ not in (RESOURCE_METRICS, RESOURCE_GROUP):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {type_} cannot be changed here")
    elif not name or len(name.encode()) > _LONGEST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the resource has no name, or one that is too long")


def _check_length(name: str, value: str) -> None:
    if len(name.encode()) > _LONGEST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the name {name[:40]}... is too long")
    if len(value.encode()) > _LONGEST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the value of {name} is too long")


def _check_values(
    view: View, resource: Resource, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    type_, resource_name = resource
    if type_ == RESOURCE_TOPIC:
        check_topic_settings(view.config, after)
    elif type_ == RESOURCE_GROUP:
        check_group_settings(view.config, after)
    elif type_ == RESOURCE_METRICS:
        check_metrics_settings(after)
    elif type_ == RESOURCE_BROKER:
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        for name in sorted(changed):
            _check_broker_setting(view, resource_name, name, after.get(name))


def _check_broker_setting(view: View, broker: str, name: str, value: str | None) -> None:
    if name == _MIN_ISR and _keeps_elr(view):
        if broker:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{name} is set for all brokers or for a topic, not for one broker"
            )
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} of all brokers cannot be removed")
    if needs_start(name):
        if value is None:
            return  # (it was stored by a controller of another kind, and has no effect)
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{name} cannot be changed while a broker runs: change it in the broker's properties, then restart it",
        )
    row = SETTINGS.get(name)
    if row is None:
        return  # as in Kafka: a plugin may know it
    if row.update == "per-broker" and not broker:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is set per broker")
    if value is not None:
        try:
            parse_value(row, value)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def _keeps_elr(view: View) -> bool:
    return view.image.feature(ELR_FEATURE) >= 1


def check_topic_settings(config: Config, settings: Mapping[str, str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) unless a topic can have these settings."""
    for name, value in settings.items():
        _check_length(name, value)
    try:
        validate_topic_overrides(settings)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error


def created_topic_configs(view: View, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """All settings of a new topic, as the answer to CreateTopics shows them (KIP-525)."""
    configs = []
    for name in sorted(TOPIC_SETTINGS):
        first = topic_origins(view.image, view.config, TOPIC_SETTINGS[name], own, None)[0]
        configs.append(
            CreatableTopicConfigs(
                name=name, value=first.value, read_only=False, config_source=first.source, is_sensitive=False
            )
        )
    return configs
