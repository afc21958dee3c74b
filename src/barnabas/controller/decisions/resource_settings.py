"""What may be set on a group and on a telemetry subscription, with Apache Kafka's codes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from barnabas.config import Config, parse_value
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.settings import GROUP_SETTINGS, METRICS_SETTINGS, Setting, Value
from barnabas.settings.matching import compiled_match

__all__ = ["check_group_settings", "check_metrics_settings", "parsed_setting"]

_INTERVAL_MS = (100, 3_600_000)
_BOUNDS = {
    "consumer.session.timeout.ms": (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    "consumer.heartbeat.interval.ms": (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "consumer.assignment.interval.ms": (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
}
"""The node's settings that bound those of a consumer group."""
_DURATION = re.compile(
    r"by_duration:P(?=.)(?:\d{1,9}D)?(?:T(?=.)(?:\d{1,9}H)?(?:\d{1,9}M)?(?:\d{1,9}(?:\.\d{1,9})?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parsed_setting(row: Setting, text: str) -> Value:
    """The value; a list without spaces and with nothing twice.  Raises ConfigError."""
    value = parse_value(row, text)
    return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value


def check_group_settings(config: Config, settings: Mapping[str, str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) unless a group can have these settings."""
    for name, text in settings.items():
        row = GROUP_SETTINGS.get(name)
        if row is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name[:80]} is no setting of a group")
        try:
            value = parsed_setting(row, text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error
        if name == "share.auto.offset.reset" and value not in ("latest", "earliest"):
            if not _DURATION.fullmatch(text.strip()):
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"{name}: write latest, earliest or by_duration:PT1H",
                )
        if (bounds := _BOUNDS.get(name)) is not None:
            low, high = map(config.int, bounds)
            if not isinstance(value, int) or not low <= value <= high:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}={value} is out of range: {low} to {high}")
    session, heartbeat = (
        int(settings.get(name) or config.int(f"group.{name}"))
        for name in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")
    )
    if session <= heartbeat:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"a session of {session} ms is over before the next heartbeat, which is due after {heartbeat} ms",
        )


def check_metrics_settings(settings: Mapping[str, str]) -> None:
    """Raise KafkaError unless a subscription can be that; the codes are Apache Kafka's."""
    for name, text in settings.items():
        row = METRICS_SETTINGS.get(name)
        if row is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{name[:80]} is no setting of a telemetry subscription"
            )
        try:
            value = parsed_setting(row, text)
            if name == "match" and isinstance(value, tuple):
                compiled_match(value)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error
        low, high = _INTERVAL_MS
        if name == "interval.ms" and (not isinstance(value, int) or not low <= value <= high):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name}={value} is out of range: {low} to {high}")
