"""Listeners and addresses in settings: `NAME://host:port`, `id@host:port`, security protocols by listener."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from barnabas.errors import ConfigError
from barnabas.model import Endpoint, NodeId
from barnabas.settings.setting import SETTINGS, Value
from barnabas.settings.table_tls import PER_LISTENER
from barnabas.settings.text import parse_value

__all__ = [
    "Voter",
    "check_protocols",
    "parsed_endpoint",
    "parsed_voter",
    "per_listener",
]

_SERVED = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIX = "listener.name."
_OF_TOKENS = "oauthbearer.sasl.oauthbearer."

Voter: TypeAlias = tuple[NodeId, str, int]
"""One entry of controller.quorum.voters: id, host, port."""


def parsed_endpoint(text: str, setting: str) -> Endpoint:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not name or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"{setting}: {text!r} is not NAME://host:port", next_step="for example PLAINTEXT://127.0.0.1:9092"
        )
    return Endpoint(name.upper(), host.removeprefix("[").removesuffix("]"), int(port))


def parsed_voter(text: str) -> Voter:
    node, at, address = text.partition("@")
    host, colon, port = address.rpartition(":")
    if not at or not colon or not host or not node.isdecimal() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"controller.quorum.voters: {text!r} is not id@host:port", next_step="for example 1@10.0.0.1:9093"
        )
    if host in ("0.0.0.0", "::", "[::]"):
        raise ConfigError(f"controller.quorum.voters: {text!r} is no address another node can dial")
    return int(node), host.removeprefix("[").removesuffix("]"), int(port)


def check_protocols(listeners: Iterable[tuple[str, str | None]]) -> None:
    """Raise ConfigError for a listener whose security protocol is unknown, or not served."""
    for name, protocol in listeners:
        if protocol is None:
            raise ConfigError(
                f"listener {name} has no security protocol",
                next_step=f"add {name}:PLAINTEXT or {name}:SSL to listener.security.protocol.map",
            )
        if protocol not in _SERVED:
            raise ConfigError(
                f"listener {name} is {protocol[:50]}: there are {', '.join(_SERVED)}",
                next_step="correct listener.security.protocol.map",
            )


def per_listener(given: Mapping[str, str]) -> dict[str, dict[str, Value]]:
    """The settings that a listener has for itself (`listener.name.NAME.ssl....`), by its name.

    Raises ConfigError.
    """
    found: dict[str, dict[str, Value]] = {}
    for full, text in sorted(given.items(), key=lambda one: _OF_TOKENS in one[0]):  # the narrower ones win
        if not full.startswith(_PREFIX):
            continue
        listener, _, name = full.removeprefix(_PREFIX).partition(".")
        if name.startswith(_OF_TOKENS):
            name = name.removeprefix("oauthbearer.")
        row = SETTINGS.get(name)
        if row is not None and (name.startswith(PER_LISTENER) or name == "max.connections"):
            found.setdefault(listener.upper(), {})[name] = parse_value(row._replace(name=full), text)
    return found
