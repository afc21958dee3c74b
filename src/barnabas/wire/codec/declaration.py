"""The words of a declaration: the types of fields, and what is said of a field beyond type and default.

    class AddRaftVoterRequest(Message, key=80, versions="0-1", flexible="0+"):
        cluster_id: String | None = ""
        timeout_ms: Int32 = 0
        listeners: Array[Listener] = []
        ack_when_committed: Bool = since(1, default=True)

`schema` says what a declaration means, `message` makes the classes.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar

from barnabas import model
from barnabas.ports import Buffer

__all__ = [
    "BLANK",
    "NEVER_FLEXIBLE",
    "NEWEST",
    "OWN_TAG",
    "ZERO_UUID",
    "Array",
    "Bool",
    "Bytes",
    "Encoded",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "LazyBytes",
    "Part",
    "Records",
    "Since",
    "String",
    "UInt16",
    "UInt32",
    "Uuid",
    "since",
]

_T = TypeVar("_T")


class LazyBytes(Protocol):
    """Bytes that are still in a file: their number is known, they are read when they leave."""

    def __len__(self) -> int: ...

    def read(self) -> bytes:
        """All of them, `len(self)` bytes."""
        ...


Part: TypeAlias = Buffer | LazyBytes
"""A piece of an encoded message."""


class Encoded:
    """Structs of an array that are bytes already: an array field of a message to be written may hold it.

    Its bytes are joined of what `encode_item` (`message`) gives for one version of one message.
    """

    __slots__ = ("count", "data")

    def __init__(self, count: int, data: bytes) -> None:
        self.count = count
        self.data = data

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"<Encoded {self.count} structs, {len(self.data)} bytes>"


Int8: TypeAlias = int
Int16: TypeAlias = int
Int32: TypeAlias = int
Int64: TypeAlias = int
UInt16: TypeAlias = int
UInt32: TypeAlias = int
Float64: TypeAlias = float
Bool: TypeAlias = bool
String: TypeAlias = str
Bytes: TypeAlias = bytes
"""Bytes that are copied out of the input, so that they may be kept."""
Records: TypeAlias = Buffer | LazyBytes
"""Record batches: when read, a slice of the input buffer and not a copy."""
Uuid: TypeAlias = model.Uuid
ZERO_UUID = model.ZERO_UUID
Array: TypeAlias = list[_T]

NEVER_FLEXIBLE = 1 << 15
"""`FLEXIBLE` of a message without flexible versions."""
NEWEST = (1 << 15) - 1

BLANK: Any = type("Blank", (), {"__slots__": (), "__repr__": lambda self: "BLANK"})()
"""Default of a field that holds a struct: that struct with all its defaults."""


class Since:
    """What a declaration says about a field beyond its type and default."""

    __slots__ = ("default", "first", "ignorable", "last", "nullable", "tag")

    def __init__(
        self, first: int, last: int, default: Any, tag: int | None, nullable: Any, ignorable: bool
    ) -> None:
        self.first = first
        self.last = last
        self.default = default
        self.tag = tag
        self.nullable = nullable
        self.ignorable = ignorable


OWN_TAG = 10_642
"""Number of the first tagged field that is not Kafka's; who does not know them passes over them."""


def since(
    first: int,
    *,
    default: Any,
    until: int = NEWEST,
    tag: int | None = None,
    nullable: int | tuple[int, int] | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field that lives in versions `first` to `until` (both included).

    `tag`: it is a tagged field with this number.  `nullable`: the versions in which it may be None, where
    these are not all.  `ignorable`: a value that the version cannot carry is dropped; else it is an error.
    """
    return Since(first, until, default, tag, nullable, ignorable)
