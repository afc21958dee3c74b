"""Settings of topics, brokers, groups and telemetry subscriptions, as an administrator sees and changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from barnabas.client.admin.described import SOURCES, SettingValue
from barnabas.client.admin.quorum import ask_active
from barnabas.client.connection import first_of
from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

__all__ = ["Kind", "alter_configs", "configs", "setting_text", "topic_advice"]

Kind = Literal["topic", "broker", "broker-logger", "group", "client-metrics"]
KINDS: Mapping[str, int] = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
_SET, _DELETE = 0, 1
_OF_SETTINGS = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)


@for_both
async def configs(cluster: AnyCluster, kind: Kind, name: str, *, docs: bool = False) -> list[SettingValue]:
    """`configs(cluster, "topic", "orders")` -> every setting with its value and where that comes from."""
    resource = DescribeConfigsResource(
        resource_type=_kind_number(kind), resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_documentation=docs)
    result = first_of((await _to_resource(cluster, kind, name, request)).results, f"{kind} {name}")
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


@for_both
async def alter_configs(
    cluster: AnyCluster,
    kind: Kind,
    name: str,
    change: Mapping[str, str] | None = None,
    *,
    reset: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """`alter_configs(cluster, "topic", "orders", {"retention.ms": "60000"}, reset=["segment.bytes"])`.

    `reset` names settings that go back to their default.
    """
    given = change or {}
    wanted: list[tuple[str, int, str | None]] = [(n, _SET, setting_text(n, v)) for n, v in given.items()]
    wanted += [(n, _DELETE, None) for n in reset]
    alterations = [
        IncrementalAlterConfigsRequestAlterableConfig(name=n, config_operation=operation, value=value)
        for n, operation, value in wanted
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=_kind_number(kind), resource_name=name, configs=alterations
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    what = f"settings of {kind} {name}" if name else "settings of all brokers"
    result = first_of((await _to_resource(cluster, kind, name, request)).responses, what)
    typed = name or '""'
    _check(result, what, kind, given, f"`barnabas configs show {kind} {typed} --all` shows")


async def _to_resource(cluster: AnyCluster, kind: str, name: str, request: Message) -> Any:
    """Send to the broker whose settings are asked for, else to any broker."""
    if kind not in ("broker", "broker-logger") or not name:
        return await ask_active(cluster, request)
    try:
        node: NodeId = int(name)
    except ValueError as error:
        raise ConfigError(
            f"{name!r} is no broker's number",
            next_step="give a node.id; brokers' common settings have an empty name",
        ) from error

    async def attempt() -> Any:
        return await (await cluster.connection(node)).request(request)

    return await cluster.retrying(attempt)


def _kind_number(kind: str) -> int:
    """The number of a kind of resource; ValueError for a word that names none."""
    if kind not in KINDS:
        raise ValueError(f"what has settings is one of {', '.join(KINDS)}, not {kind!r:.60}")
    return KINDS[kind]


def setting_text(name: str, value: object) -> str:
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


def topic_advice(code: ErrorCode, change: Mapping[str, str]) -> str | None:
    """Say what to give in place of a new topic's settings; None for an error that is of nothing else."""
    return _advice("topic", change, "docs/configuration.md has") if code in _OF_SETTINGS else None


def _check(
    result: Any, what: str, kind: Kind = "topic", change: Mapping[str, str] | None = None, shown: str = ""
) -> None:
    if result.error_code:
        code = ErrorCode(result.error_code)
        of_settings = code in _OF_SETTINGS and change is not None
        step = _advice(kind, change or {}, shown) if of_settings else None
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            step = "see what there is with `barnabas topics list`"
        raise KafkaError(code, f"{what}: {result.error_message or 'refused'}", next_step=step)


def _advice(kind: Kind, change: Mapping[str, str], shown: str) -> str:
    """Return what to give in place of settings that were refused, or where to look for it."""
    from barnabas.settings.resources import GROUP_SETTINGS, METRICS_SETTINGS
    from barnabas.settings.setting import SETTINGS
    from barnabas.settings.text import advice
    from barnabas.settings.topics import TOPIC_SETTINGS

    known = {"topic": TOPIC_SETTINGS, "broker": SETTINGS, "group": GROUP_SETTINGS}
    known["client-metrics"] = METRICS_SETTINGS
    return advice(change, known.get(kind, {})) or f"{shown} every setting"
