"""Users of a test's nodes: the listeners where they log in, and what a client is given for that.

Passwords are a test's own: they stand in command lines and cross only this machine's loopback.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CLIENTS", "NODES", "client_settings", "node_settings"]

CLIENTS, NODES = "CLIENTS", "NODES"
"""Listeners: users log in at the first, nodes reach each other at the second without."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def node_settings(users: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a node where these users log in.

    Raises ValueError for a name or password that a JAAS line cannot hold.
    """
    for name, password in users.items():
        if not name or not password or set('"\\') & set(name + password) or set(" =;") & set(name):
            raise ValueError(f"user {name!r}: no quotes or backslashes, and no spaces, = or ; in a name")
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return {
        "listener.security.protocol.map": f"{CLIENTS}:SASL_PLAINTEXT,{NODES}:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": NODES,
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{CLIENTS.lower()}.plain.sasl.jaas.config": f"{_PLAIN} required {known};",
    }


def client_settings(name: str, password: str) -> dict[str, str]:
    """Return Kafka's options for a client that logs in as this user; librdkafka takes them, too."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": password,
    }
