"""DescribeConfigs: the settings of something that has some, and where each comes from; levels of loggers, too.

A value may be set in several places; the first in the order topic or group, this broker, all brokers, the
properties file, the default wins, and the others are its synonyms (KIP-226).  Any broker answers for
topics and for itself; nothing here needs the controller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.config import (
    SETTINGS,
    TOPIC_SETTINGS,
    Config,
    Setting,
    format_value,
    needs_start,
    parse_value,
)
from barnabas.controller.decisions.resource_settings import parsed_setting
from barnabas.controller.decisions.topic_names import is_valid
from barnabas.controller.image import (
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_LOGGERS,
    RESOURCE_METRICS,
    RESOURCE_TOPIC,
    MetadataImage,
)
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId
from barnabas.settings import GROUP_SETTINGS, METRICS_SETTINGS, Value, in_topic_unit, node_names
from barnabas.settings.secrets import holds_secret
from barnabas.wire.schemas.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

__all__ = ["Origin", "Source", "check_logger_node", "describe_configs", "topic_origins"]


class Source(IntEnum):
    """Where a value was set (config_source on the wire)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Origin(NamedTuple):
    """One place where a value was set, under which name."""

    name: str
    value: str | None
    source: Source


_KINDS = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7, "password": 9}

_NOTHING: Mapping[str, str] = {}


def describe_configs(
    image: MetadataImage,
    config: Config,
    request: DescribeConfigsRequest,
    node_id: NodeId,
    levels: Mapping[str, str] = _NOTHING,
) -> DescribeConfigsResponse:
    """DescribeConfigs (key 32), answered by node `node_id` with its own configuration file.

    `levels` are those of its loggers.
    """
    results = []
    for resource in request.resources:
        try:
            entries = _entries(image, config, resource, node_id, levels)
        except KafkaError as error:
            results.append(
                DescribeConfigsResult(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
            continue
        wanted = resource.configuration_keys
        results.append(
            DescribeConfigsResult(
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[
                    _result(row, origins, read_only, request)
                    for row, origins, read_only in entries
                    if not wanted or row.name in wanted
                ],
            )
        )
    return DescribeConfigsResponse(results=results)


_Entry = tuple[Setting, list[Origin], bool]


def _entries(
    image: MetadataImage,
    config: Config,
    resource: DescribeConfigsResource,
    node_id: NodeId,
    levels: Mapping[str, str],
) -> Iterator[_Entry]:
    """(setting, origins with the one in force first, read only) of every setting of a resource."""
    kind, name = resource.resource_type, resource.resource_name
    if kind == RESOURCE_TOPIC:
        if not is_valid(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {name!r} is invalid")
        if image.topic(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
        own = image.topic_config(name)
        return ((row, topic_origins(image, config, row, own, node_id), False) for row in _topic_rows())
    if kind == RESOURCE_BROKER and name == "":
        return _set_only(image.cluster_config(), Source.DYNAMIC_DEFAULT)
    if kind == RESOURCE_BROKER:
        if name != str(node_id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {node_id}, not broker {name}")
        return _broker_entries(image, config, node_id)
    if kind == RESOURCE_LOGGERS:
        check_logger_node(name, node_id)
        return (
            (_unknown(each), [Origin(each, levels[each], Source.LOGGER)], False) for each in sorted(levels)
        )
    if kind in (RESOURCE_METRICS, RESOURCE_GROUP) and not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the resource has no name")
    if kind == RESOURCE_GROUP:
        return _group_entries(image, config, image.group_config(name), node_id)
    if kind == RESOURCE_METRICS:
        return _metrics_entries(image.configs.get((kind, name), {}))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {kind} has no settings that can be described")


def check_logger_node(name: str, node_id: NodeId) -> None:
    """Raise KafkaError(INVALID_REQUEST) unless loggers of that name are those of this node."""
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"loggers belong to a node, and {name[:20]!r} is no id of one"
        )
    if int(name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is node {node_id}, not node {name}")


def _topic_rows() -> Iterator[Setting]:
    return (TOPIC_SETTINGS[name] for name in sorted(TOPIC_SETTINGS))


def topic_origins(
    image: MetadataImage, config: Config, row: Setting, own: Mapping[str, str], node_id: NodeId | None
) -> list[Origin]:
    """Where a topic setting is given, the one in force first; `own` is what was set on the topic."""
    origins = []
    if (value := own.get(row.name)) is not None:
        origins.append(Origin(row.name, _as_parsed(row, value), Source.TOPIC))
    names = node_names(row.name)
    found = [origin for name in names for origin in _node_origins(image, config, name, node_id)]
    origins += (origin for origin in found if origin.source is not Source.DEFAULT)
    default = _first_default(names)
    value = format_value(row.ours if default is None else default[1])
    named = names[0] if names else row.name
    origins.append(Origin(named if default is None else default[0], value, Source.DEFAULT))
    first = origins[0]
    if (scaled := _in_topic_unit(first, row)) != first.value:
        # hours and minutes are given in their own unit; the value in force is in milliseconds
        origins.insert(0, Origin(row.name, scaled, first.source))
    return origins


def _in_topic_unit(origin: Origin, row: Setting) -> str | None:
    if origin.name == row.name or origin.value is None or not origin.value.isdecimal():
        return origin.value
    return format_value(in_topic_unit(origin.name, int(origin.value)))


def _as_parsed(row: Setting, text: str) -> str | None:
    """A list as it is read (no spaces, nothing twice), everything else as it was given: so does Kafka."""
    return format_value(parse_value(row, text)) if row.kind == "list" else text


def _first_default(names: tuple[str, ...]) -> tuple[str, Value] | None:
    for name in names:
        if (value := SETTINGS[name].ours) is not None:
            return name, value
    return None


def _node_origins(
    image: MetadataImage, config: Config, name: str, node_id: NodeId | None
) -> Iterator[Origin]:
    """Return the places that give a node setting, the one in force first, its default last.

    What the metadata say of a setting that needs a start is not in force, and not shown.
    """
    if not needs_start(name):
        if node_id is not None and (value := image.broker_config(node_id).get(name)) is not None:
            yield Origin(name, value, Source.DYNAMIC_BROKER)
        if (value := image.cluster_config().get(name)) is not None:
            yield Origin(name, value, Source.DYNAMIC_DEFAULT)
    if config.is_given(name):
        yield Origin(name, format_value(config[name]), Source.STATIC)
    if (default := SETTINGS[name].ours) is not None:
        yield Origin(name, format_value(default), Source.DEFAULT)


def _broker_entries(image: MetadataImage, config: Config, node_id: NodeId) -> Iterator[_Entry]:
    for name in sorted(SETTINGS):
        row = SETTINGS[name]
        origins = list(_node_origins(image, config, name, node_id))
        if not origins:
            origins = [Origin(name, format_value(config[name]), Source.DEFAULT)]
        yield row, origins, needs_start(name)
    for name in sorted({*image.broker_config(node_id), *image.cluster_config()} - set(SETTINGS)):
        value = image.broker_config(node_id).get(name)
        source = Source.DYNAMIC_DEFAULT if value is None else Source.DYNAMIC_BROKER
        yield _unknown(name), [Origin(name, value or image.cluster_config()[name], source)], False


def _group_entries(
    image: MetadataImage, config: Config, own: Mapping[str, str], node_id: NodeId
) -> Iterator[_Entry]:
    shown = {name: row for name, row in GROUP_SETTINGS.items() if name in own or not row.internal}
    for name, row in sorted(shown.items()):
        origins = [Origin(name, _shown(row, own[name]), Source.GROUP)] if name in own else []
        if row.node_name in SETTINGS:
            origins += _node_origins(image, config, row.node_name, node_id)
        else:
            if (given := config.given.get(row.node_name)) is not None:
                origins.append(Origin(row.node_name, given, Source.STATIC))
            origins.append(Origin(row.node_name or name, format_value(row.ours), Source.DEFAULT))
        yield row, origins, False


def _metrics_entries(own: Mapping[str, str]) -> Iterator[_Entry]:
    for name, row in sorted(METRICS_SETTINGS.items()):
        if name in own:
            yield row, [Origin(name, _shown(row, own[name]), Source.CLIENT_METRICS)], False
        else:
            yield row, [Origin(name, format_value(row.ours), Source.DEFAULT)], False


def _shown(row: Setting, text: str) -> str | None:
    """The value as it is read; one that cannot be read (an earlier release checked nothing) as it was given."""
    try:
        return format_value(parsed_setting(row, text))
    except ConfigError:
        return text


def _set_only(values: Mapping[str, str], source: Source) -> Iterator[_Entry]:
    for name in sorted(values):
        row = SETTINGS.get(name) or _unknown(name)
        yield row, [Origin(name, values[name], source)], False


def _unknown(name: str) -> Setting:
    return Setting(name, "string", None, None, "")


def _result(
    row: Setting, origins: list[Origin], read_only: bool, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    first = origins[0]
    sensitive = row.kind == "password" or holds_secret(row.name)
    synonyms = [
        DescribeConfigsSynonym(name=o.name, value=None if sensitive else o.value, source=o.source)
        for o in origins
    ]
    return DescribeConfigsResourceResult(
        name=row.name,
        value=None if sensitive else first.value,
        read_only=read_only,
        config_source=first.source,
        is_sensitive=sensitive,
        synonyms=synonyms if request.include_synonyms and not _alone(row, first) else [],
        config_type=_KINDS.get(row.kind, 0) if first.source is not Source.LOGGER else 0,
        documentation=row.doc if request.include_documentation else None,
    )


def _alone(row: Setting, origin: Origin) -> bool:
    """A default of telemetry, or a level, which Apache Kafka lists as no synonym of itself."""
    if origin.source is Source.LOGGER:
        return True
    return origin.source is Source.DEFAULT and METRICS_SETTINGS.get(row.name) is row
