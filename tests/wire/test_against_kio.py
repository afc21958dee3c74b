"""Our codec against kio's, which we did not write: equal bytes and equal fields, both ways.

kio names some fields otherwise (`max_wait` for `max_wait_ms`) and gives some a type of its own (error
codes, durations, times), but its fields stand in the same order, so they are compared by place.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import random
import re
import types
import typing
from typing import Any

import pytest

kio_index = pytest.importorskip("kio.schema.index")
from kio.schema.errors import ErrorCode as KioErrorCode  # noqa: E402
from kio.serial import entity_reader, entity_writer  # noqa: E402
from tests.wire.samples import MESSAGES, kafkas_bytes, plain_value, versions  # noqa: E402

from barnabas.wire.codec.declaration import BLANK, OWN_TAG, ZERO_UUID  # noqa: E402
from barnabas.wire.codec.message import Message, Struct, decode, encode  # noqa: E402
from barnabas.wire.codec.schema import Field  # noqa: E402

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
CODES = [code.value for code in KioErrorCode]
NOT_IN_KIO = re.compile(r".*(Key|Value)$|ProducerSnapshot|.*Record$|(ExchangeEndpoints|BootstrapQuorum).*")
HEADERS = ("control_record_type_schema", "request_header", "response_header")


def kio_classes() -> dict[tuple[str, int], Any]:
    """(class name, version) -> kio's class."""
    found: dict[tuple[str, int], Any] = {}
    for schema, by_version in kio_index.schema_name_map.items():
        for version, by_kind in by_version.items():
            for path in by_kind.values():
                module, name = path.split(":")
                if schema not in HEADERS:
                    found[name, version] = (module, name)
    return found


KIO = kio_classes()
OURS = [cls for cls in MESSAGES if any((cls.__name__, v) in KIO for v in versions(cls))]


def shared(cls: type[Message]) -> list[int]:
    """Return the versions of a message that kio knows too."""
    return [version for version in versions(cls) if (cls.__name__, version) in KIO]


def load(cls: type[Message], version: int) -> Any:
    module, name = KIO[cls.__name__, version]
    return getattr(importlib.import_module(module), name)


def fields(ours: type[Struct], theirs: Any, version: int) -> list[tuple[Field, Any, Any]]:
    """Our fields of a version beside kio's: (ours, theirs, kio's class of the struct inside)."""
    kafkas = [field for field in ours.FIELDS if field.tag is None or field.tag < OWN_TAG]
    mine = [field for field in kafkas if field.lives_in(version)]
    other = dataclasses.fields(theirs)
    assert len(mine) == len(other), f"{ours.__name__} v{version}: {mine} and {other}"
    hints = typing.get_type_hints(theirs)
    return [(a, b, _inside(hints[b.name]) if a.struct else None) for a, b in zip(mine, other, strict=True)]


def _inside(hint: Any) -> Any:
    """The dataclass in `X`, `X | None`, `tuple[X, ...]` and so on."""
    if dataclasses.is_dataclass(hint):
        return hint
    for argument in typing.get_args(hint):
        if argument not in (types.NoneType, ...):
            found = _inside(argument)
            if found is not None:
                return found
    return None


def same(ours: Any, theirs: Any, version: int) -> None:
    """Assert that two structs hold the same."""
    for field, other, inside in fields(type(ours), type(theirs), version):
        one, two = getattr(ours, field.name), getattr(theirs, other.name)
        where = f"{type(ours).__name__}.{field.name}"
        if one is None or (
            two is None and not field.array and other.metadata["kafka_type"] != "datetime_i64"
        ):
            assert two is None or field.type == "Uuid", where
        elif field.array:
            assert len(one) == len(two), where
            for a, b in zip(one, two, strict=True):
                if inside is not None:
                    same(a, b, version)
                else:
                    assert a == _plain(b), where
        elif inside is not None:
            same(one, two, version)
        else:
            assert one == _plain(two), where


def _plain(value: Any) -> Any:
    """kio's value as the protocol's."""
    if isinstance(value, KioErrorCode):
        return value.value
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if value is None:
        return -1  # a time that is not known
    return getattr(value, "bytes", value)


def make(ours: type[Struct], theirs: Any, version: int, rng: random.Random, full: bool) -> Any:
    """An instance of ours with values that kio's types can hold."""
    values: dict[str, Any] = {}
    for field, other, inside in fields(ours, theirs, version):
        if field.nullable_in(version) and not full and rng.random() < 0.3:
            values[field.name] = None
            continue
        if field.tag is not None and not full and rng.random() < 0.4:
            continue

        def one(field: Field = field, other: Any = other, inside: Any = inside) -> Any:
            if field.struct is not None:
                return make(field.struct, inside, version, rng, full)
            return _value(field, other.metadata.get("kafka_type"), rng)

        values[field.name] = [one() for _ in range(2 if full else rng.randrange(4))] if field.array else one()
    return ours(**values)


def _value(field: Field, kio_type: str | None, rng: random.Random) -> Any:
    if kio_type == "error_code":
        return rng.choice(CODES)
    if kio_type in ("timedelta_i32", "timedelta_i64"):
        return rng.randrange(1 << 31)
    if kio_type == "datetime_i64":
        return rng.randrange(1, 1 << 42)
    return plain_value(field, rng)


@pytest.mark.parametrize("cls", OURS, ids=[cls.__name__ for cls in OURS])
def test_our_bytes_are_kios_bytes(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in shared(cls):
        theirs = load(cls, version)
        read, write = entity_reader(theirs), entity_writer(theirs)
        for full in (True, False, False):
            message = make(cls, theirs, version, rng, full)
            written = encode(message, version)
            found, _ = read(written, 0)
            same(message, found, version)
            buffer = io.BytesIO()
            write(buffer, found)
            assert buffer.getvalue() == written, f"v{version}"
            assert decode(cls, buffer.getvalue(), version) == (message, len(written))


@pytest.mark.parametrize("cls", OURS, ids=[cls.__name__ for cls in OURS])
def test_our_defaults_are_kios_defaults(cls: type[Message]) -> None:
    for version in shared(cls):
        pending: list[tuple[type[Struct], Any]] = [(cls, load(cls, version))]
        while pending:
            ours, theirs = pending.pop()
            for field, other, inside in fields(ours, theirs, version):
                if field.struct is not None:
                    pending.append((field.struct, inside))
                if other.default is dataclasses.MISSING or field.default is BLANK:
                    continue
                default = field.default
                expected = list(other.default) if field.array and other.default is not None else other.default
                if expected is None and not field.array and field.type in ("Uuid", "Int64"):
                    expected = ZERO_UUID if field.type == "Uuid" else -1
                assert default == _plain(expected) if expected is not None else default is None, field


def test_kio_or_kafkas_own_bytes_have_every_request_and_response_that_we_have() -> None:
    missing = [
        (cls.__name__, version)
        for cls in MESSAGES
        if not NOT_IN_KIO.match(cls.__name__)
        for version in versions(cls)
        if (cls.__name__, version) not in KIO
    ]
    written = {(name, version) for name, version, _ in kafkas_bytes()}
    assert set(missing) <= written
