"""Messages: declared once, readable and writable in every version.

A message is one slotted class for all its versions.  The declaration holds facts only: names, types, the
versions a field lives in, its default.  Nothing is worked out when the class is made (annotations stay
strings), so a family of messages loads in well under a millisecond.  The first time a class is built,
read or written in some version, Python source for exactly that is generated and compiled (`reader`,
`writer`): runs of fixed fields become one `struct.Struct`, the following length byte included, and
nested structs are unrolled into the loop that reads them.

    class AddRaftVoterRequest(Message, key=80, versions="0-1", flexible="0+"):
        cluster_id: String | None = ""
        timeout_ms: Int32 = 0
        listeners: Array[Listener] = []
        ack_when_committed: Bool = since(1, default=True)

To the type checker these are frozen dataclasses with keyword arguments; at run time nothing stops an
assignment (600 really frozen classes cost 0.4 s of start).  Treat them as values all the same: defaults
that are structs are shared.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, dataclass_transform

from barnabas import model
from barnabas.errors import WireError
from barnabas.ports import Buffer

if TYPE_CHECKING:
    from barnabas.wire.codec.schema import Field

__all__ = [
    "BLANK",
    "NEVER_FLEXIBLE",
    "OWN_TAG",
    "ZERO_UUID",
    "Array",
    "Bool",
    "Bytes",
    "Float64",
    "Int16",
    "Int32",
    "Int64",
    "LazyBytes",
    "Message",
    "Part",
    "Record",
    "RecordStruct",
    "Records",
    "String",
    "Struct",
    "UInt16",
    "UInt32",
    "Uuid",
    "decode",
    "encode",
    "encode_parts",
    "replace",
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


def _range(text: str) -> tuple[int, int]:
    """`"3"`, `"0-4"` or `"9+"` as (first, last)."""
    if text.endswith("+"):
        return int(text[:-1]), NEWEST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(since,))
class StructType(type):
    """Makes a slotted class of a declaration and keeps the declaration for `schema`."""

    DECLARED: dict[str, Any]
    FIELDS: tuple[Field, ...]
    NAME: str
    _readers: dict[int, Callable[[Buffer, int, int], tuple[Any, int]]]
    _writers: dict[int, Callable[[Any, list[Part]], None]]

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        versions: str = "0",
        flexible: str | None = None,
        called: str | None = None,
    ) -> StructType:
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        if not bases or "__slots__" in namespace:
            return super().__new__(mcs, name, bases, namespace)
        namespace["DECLARED"] = {field: namespace.pop(field) for field in annotations}
        namespace["__slots__"] = tuple(annotations)
        namespace["KEY"] = key
        namespace["VERSIONS"] = _range(versions)
        namespace["FLEXIBLE"] = NEVER_FLEXIBLE if flexible is None else _range(flexible)[0]
        namespace["NAME"] = called or name
        namespace["_readers"] = {}
        namespace["_writers"] = {}
        return super().__new__(mcs, name, bases, namespace)

    def __getattr__(cls, name: str) -> Any:
        # Only reached for what was not worked out yet.
        if name == "FIELDS" and "DECLARED" in cls.__dict__:
            from barnabas.wire.codec import schema

            cls.FIELDS = schema.fields_of(cls)
            return cls.FIELDS
        raise AttributeError(name)


class Struct(metaclass=StructType):
    """A group of fields inside messages.  Built by keyword; every field has its default."""

    __slots__ = ()
    NAME: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            from barnabas.wire.codec import schema

            cls = type(self)
            cls.__init__ = schema.compile_init(cls)
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names())

    __hash__ = None  # type: ignore[assignment]  # lists inside

    def __repr__(self) -> str:
        """Only what differs from the defaults."""
        fields = type(self).FIELDS
        shown = [
            f"{f.name}={getattr(self, f.name)!r}" for f in fields if not f.is_default(getattr(self, f.name))
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        names: tuple[str, ...] = cls.__slots__
        return names


class Message(Struct):
    """What is sent or stored as a whole.

    `KEY` is the API key (requests, responses) or the type of the record, `VERSIONS` (first, last),
    `FLEXIBLE` the first flexible version or NEVER_FLEXIBLE, `NAME` the protocol's name.
    """

    __slots__ = ()
    KEY: ClassVar[int | None]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int]


class RecordStruct(Struct):
    """A struct of a metadata record: tagged fields that we do not know are kept and written again."""

    __slots__ = ("unknown_tags",)
    if TYPE_CHECKING:
        unknown_tags: ClassVar[tuple[tuple[int, bytes], ...]]

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return (*cls.__slots__, "unknown_tags")


class Record(Message):
    """A record of the metadata log: tagged fields that we do not know are kept and written again."""

    __slots__ = ("unknown_tags",)
    if TYPE_CHECKING:
        unknown_tags: ClassVar[tuple[tuple[int, bytes], ...]]

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return (*cls.__slots__, "unknown_tags")


_M = TypeVar("_M", bound=Message)
_S = TypeVar("_S", bound=Struct)

# What a compiled reader may meet in foreign bytes: everything but these would be a mistake of ours.
_MALFORMED = (struct.error, IndexError, UnicodeDecodeError)
_UNWRITABLE = (struct.error, TypeError, AttributeError, ValueError)


def decode(cls: type[_M], buf: Buffer, version: int, position: int = 0) -> tuple[_M, int]:
    """Read one message at `position`; returns it and the position after it.

    The message may not reach beyond `buf`: hand in a slice that ends where the frame ends.  `Records`
    fields are slices of `buf`.  Raises WireError for whatever is wrong with the bytes or the version.
    """
    try:
        read = cls._readers[version]
    except KeyError:
        read = _compiled(cls, version, "reader")
    try:
        message, end = read(buf, position, len(buf))
    except _MALFORMED as error:
        raise WireError(f"{cls.NAME} v{version} is cut off or malformed: {error}") from error
    if end > len(buf):
        raise WireError(f"{cls.NAME} v{version} is cut off: {end - len(buf)} bytes are missing")
    return message, end


def encode_parts(parts: list[Part], message: Message, version: int) -> int:
    """Append the message's bytes to `parts`; returns their number.  Records are appended as they are.

    Raises WireError for an unknown version, for a value that does not fit, and for a field that is set
    but unknown in this version (and not ignorable).
    """
    start = len(parts)
    _write(parts, message, version)
    return sum(map(len, parts[start:]))


def encode(message: Message, version: int) -> bytes:
    """The message's bytes.  Raises WireError as `encode_parts`."""
    parts: list[Part] = []
    _write(parts, message, version)
    if len(parts) == 1 and type(parts[0]) is bytes:
        return parts[0]
    return b"".join([part.read() if hasattr(part, "read") else part for part in parts])


def replace(message: _S, **changes: Any) -> _S:
    """A copy of the message with some fields changed."""
    values: dict[str, Any] = {field.name: getattr(message, field.name) for field in type(message).FIELDS}
    values.update(changes)
    copy = type(message)(**values)
    if isinstance(message, Record | RecordStruct):
        copy.unknown_tags = message.unknown_tags  # type: ignore[attr-defined]
    return copy


def _write(parts: list[Part], message: Message, version: int) -> None:
    try:
        write = type(message)._writers[version]
    except KeyError:
        write = _compiled(type(message), version, "writer")
    try:
        write(message, parts)
    except _UNWRITABLE as error:
        raise WireError(f"{message.NAME} v{version} cannot be written: {error}") from error


def _compiled(cls: type[Message], version: int, what: str) -> Any:
    """Compile the reader or writer of one version, at its first use."""
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise WireError(f"{cls.NAME} has versions {first} to {last}, not {version}")
    if what == "reader":
        from barnabas.wire.codec import reader

        cls._readers[version] = reader.compile_reader(cls, version)
        return cls._readers[version]
    from barnabas.wire.codec import writer

    cls._writers[version] = writer.compile_writer(cls, version)
    return cls._writers[version]
