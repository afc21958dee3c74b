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
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from barnabas.errors import UnknownMessageError, WireError
from barnabas.ports import Buffer
from barnabas.wire.codec.declaration import Part
from barnabas.wire.codec.reader import compile_reader
from barnabas.wire.codec.schema import Field, StructType, compile_init
from barnabas.wire.codec.writer import compile_writer

__all__ = [
    "Message",
    "MetadataRecord",
    "MetadataStruct",
    "Struct",
    "decode",
    "decode_whole",
    "encode",
    "encode_item",
    "encode_parts",
    "replace",
]


class Struct(metaclass=StructType):
    """A group of fields inside messages.  Built by keyword; every field has its default."""

    __slots__ = ()
    NAME: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    KEEPS_UNKNOWN_TAGS: ClassVar[bool] = False

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            cls = type(self)
            cls.__init__ = compile_init(cls)
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        for name in self._names():  # noqa: SIM110  a generator more is felt: each fetch of a follower compares
            if getattr(self, name) != getattr(other, name):
                return False
        return True

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


class MetadataStruct(Struct):
    """A struct of a metadata record: tagged fields that we do not know are kept and written again."""

    __slots__ = ("unknown_tags",)
    KEEPS_UNKNOWN_TAGS = True
    if TYPE_CHECKING:
        unknown_tags: ClassVar[tuple[tuple[int, bytes], ...]]

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return (*cls.__slots__, "unknown_tags")


class MetadataRecord(Message):
    """A record of the metadata log: tagged fields that we do not know are kept and written again."""

    __slots__ = ("unknown_tags",)
    KEEPS_UNKNOWN_TAGS = True
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


def decode(
    cls: type[_M], buf: Buffer, version: int, position: int = 0, *, most: int | None = None
) -> tuple[_M, int]:
    """Read one message at `position`; returns it and the position after it.

    The message may not reach beyond `buf`: hand in a slice that ends where the frame ends.  `Records`
    fields are slices of `buf`.  `most` is how many elements its arrays may have together: an element of one
    byte becomes an object of a hundred.  Raises WireError for whatever is wrong with the bytes or the version.
    """
    if most is not None and len(buf) - position > most:  # (an element takes a byte or more)
        return _decode_counted(cls, buf, version, position, most)
    try:
        read = cls._readers[version]
    except KeyError:
        _check_version(cls, version)
        read = cls._readers[version] = compile_reader(cls, version)
    try:
        message, end = read(buf, position, len(buf))
    except _MALFORMED as error:
        raise WireError(f"{cls.NAME} v{version} is cut off or malformed: {error}") from error
    if end > len(buf):
        raise WireError(f"{cls.NAME} v{version} is cut off: {end - len(buf)} bytes are missing")
    return message, end


def decode_whole(
    cls: type[_M], buf: Buffer, version: int, position: int = 0, *, most: int | None = None
) -> _M:
    """Read a message that ends where `buf` does, as `decode`.  Raises WireError, also where it ends before."""
    message, end = decode(cls, buf, version, position, most=most)
    if end != len(buf):
        raise WireError(f"{len(buf) - end} bytes too many")
    return message


def _decode_counted(cls: type[_M], buf: Buffer, version: int, position: int, most: int) -> tuple[_M, int]:
    """`decode` by a reader of its own, which counts."""
    key = -1 - version
    read = cls._readers.get(key)
    if read is None:
        _check_version(cls, version)
        read = cls._readers[key] = compile_reader(cls, version, counted=True)
    try:
        message, end = read(buf, position, len(buf), most)
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


def encode_item(item: Struct, message: type[Message], version: int) -> bytes:
    """The bytes of a struct (without record batches) as `message` carries it in an array: see `Encoded`.

    Raises WireError as `encode_parts`.
    """
    _check_version(message, version)
    parts: list[Part] = []
    try:
        _item_writer(type(item), message, version)(item, parts)
    except _UNWRITABLE as error:
        raise WireError(f"{message.NAME} v{version} cannot be written: {error}") from error
    return b"".join(parts)  # type: ignore[arg-type]  # bytes, there are no records


@lru_cache(maxsize=64)
def _item_writer(cls: type[Struct], message: type[Message], version: int) -> Callable[[Any, list[Any]], None]:
    return compile_writer(cls, version, of=message)


def replace(message: _S, **changes: Any) -> _S:
    """A copy of the message with some fields changed."""
    values: dict[str, Any] = {field.name: getattr(message, field.name) for field in type(message).FIELDS}
    values.update(changes)
    copy = type(message)(**values)
    if isinstance(message, MetadataRecord | MetadataStruct):
        copy.unknown_tags = message.unknown_tags  # type: ignore[attr-defined]
    return copy


def _write(parts: list[Part], message: Message, version: int) -> None:
    try:
        write = type(message)._writers[version]
    except KeyError:
        _check_version(type(message), version)
        write = type(message)._writers[version] = compile_writer(type(message), version)
    try:
        write(message, parts)
    except _UNWRITABLE as error:
        raise WireError(f"{message.NAME} v{version} cannot be written: {error}") from error


def _check_version(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise UnknownMessageError(f"{cls.NAME} has versions {first} to {last}, not {version}")
