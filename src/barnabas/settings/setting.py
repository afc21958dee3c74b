"""What a row of the tables of settings says: name, kind, Kafka's default, ours, bounds and meaning."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["MAX_INT", "MAX_LONG", "REQUIRED", "Kind", "Setting", "Update", "Value"]

Value: TypeAlias = int | float | bool | str | tuple[str, ...] | None
Kind: TypeAlias = Literal["int", "short", "long", "double", "boolean", "string", "list"]
Update: TypeAlias = Literal["read-only", "per-broker", "cluster-wide"]

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
REQUIRED = "(required)"
"""Stands in the Kafka column where Kafka refuses to start without a value."""


class Setting(NamedTuple):
    """One row.  `low` and `high` are inclusive; `choices` are the allowed values (list: of each element)."""

    name: str
    kind: Kind
    kafka: Value
    ours: Value
    doc: str
    why: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    update: Update = "read-only"
    group: str = ""
    node_name: str = ""
    """Topic settings: the node setting this one falls back on."""
    may_repeat: bool = False
    """Lists: may be empty, and may name the same twice (KIP-1161)."""
