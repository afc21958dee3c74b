"""What a row of the tables of settings says, and the table of a node's settings, which the sections fill."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = ["MAX_INT", "MAX_LONG", "REQUIRED", "SETTINGS", "Kind", "Setting", "Update", "Value", "section"]

Value: TypeAlias = int | float | bool | str | tuple[str, ...] | None
Kind: TypeAlias = Literal["int", "short", "long", "double", "boolean", "string", "list", "password"]
"""The value of a password is for nobody's eyes: `DescribeConfigs` and errors leave it out."""
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
    any_case: bool = False
    """Choices: large and small letters are the same, as where Kafka takes both."""
    internal: bool = False
    """Kafka takes it and shows it only where it is set."""


SETTINGS: dict[str, Setting] = {}
"""The settings of a node by name, in the order of their sections."""
_SAME = object()


class _Add(Protocol):
    """Adds a row; `ours` where our default is not Kafka's."""

    def __call__(
        self,
        name: str,
        kind: Kind,
        kafka: Value,
        doc: str,
        *,
        ours: object = _SAME,
        why: str = "",
        low: float | None = None,
        high: float | None = None,
        choices: tuple[str, ...] = (),
        update: Update = "read-only",
        may_repeat: bool = False,
        any_case: bool = False,
    ) -> None: ...


def section(title: str) -> _Add:
    """What adds rows under a heading of the page of all settings."""

    def add(
        name: str,
        kind: Kind,
        kafka: Value,
        doc: str,
        *,
        ours: object = _SAME,
        why: str = "",
        low: float | None = None,
        high: float | None = None,
        choices: tuple[str, ...] = (),
        update: Update = "read-only",
        may_repeat: bool = False,
        any_case: bool = False,
    ) -> None:
        default: Value = kafka if ours is _SAME else ours  # type: ignore[assignment]  # one sentinel, never stored
        SETTINGS[name] = Setting(
            name,
            kind,
            kafka,
            default,
            doc,
            why,
            low,
            high,
            choices,
            update,
            title,
            may_repeat=may_repeat,
            any_case=any_case,
        )

    return add
