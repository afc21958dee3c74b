"""Which clients shall send which metrics, and how often: the telemetry subscriptions of the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.config import parse_value
from barnabas.controller.image import RESOURCE_METRICS, Resource
from barnabas.errors import ConfigError
from barnabas.settings import METRICS_SETTINGS
from barnabas.settings.matching import Matcher, compiled_match
from barnabas.settings.resources import INTERVAL_DEFAULT_MS

__all__ = ["ALL", "Subscription", "Wanted", "subscriptions_of", "wanted_of"]

ALL = "*"
"""Every metric."""


class Subscription(NamedTuple):
    """One subscription."""

    metrics: tuple[str, ...]
    interval_ms: int
    matcher: Matcher


class Wanted(NamedTuple):
    """What one client shall send: prefixes of names in order, none for nothing."""

    metrics: tuple[str, ...]
    interval_ms: int


def subscriptions_of(configs: Mapping[Resource, Mapping[str, str]]) -> list[Subscription]:
    """The subscriptions that can be read.  (An earlier release checked nothing that was set.)"""
    found = []
    for (kind, _), settings in configs.items():
        if kind == RESOURCE_METRICS and settings:
            try:
                found.append(_subscription(settings))
            except ConfigError:
                continue
    return found


def _subscription(settings: Mapping[str, str]) -> Subscription:
    values = {
        name: parse_value(METRICS_SETTINGS[name], settings.get(name, "")) for name in ("metrics", "match")
    }
    metrics, match = values["metrics"], values["match"]
    interval = parse_value(
        METRICS_SETTINGS["interval.ms"], settings.get("interval.ms", str(INTERVAL_DEFAULT_MS))
    )
    assert isinstance(metrics, tuple) and isinstance(match, tuple) and isinstance(interval, int)
    return Subscription(metrics, max(interval, 1), compiled_match(match))


def wanted_of(subscriptions: list[Subscription], client: Mapping[str, str]) -> Wanted:
    """What a client with these attributes shall send: all that the subscriptions that match it want."""
    metrics: set[str] = set()
    interval = INTERVAL_DEFAULT_MS
    for subscription in subscriptions:
        if subscription.matcher.matches(client):
            metrics.update(subscription.metrics)
            interval = min(interval, subscription.interval_ms)
    return Wanted((ALL,) if ALL in metrics else tuple(sorted(metrics)), interval)
