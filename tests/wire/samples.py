"""Every message class of the wire room, and instances of them for the tests.

`filled` sets every field that lives in a version to something that is not its default; `random_message`
draws from a seeded generator (used where kio must understand the value too); `messages` is the Hypothesis
strategy.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from barnabas.model import Uuid
from barnabas.wire.codec.message import Message, Struct
from barnabas.wire.codec.schema import Field
from barnabas.wire.registry import API

RECORD_MODULES = (
    "brokers",
    "consumer_protocol",
    "control_records",
    "group_records",
    "metadata_records",
    "share_group_records",
    "share_state",
    "streams_group_records",
    "transaction_records",
)
FIXTURES = Path(__file__).parents[1] / "fixtures"
LIMITS = {"Int8": 7, "Int16": 15, "Int32": 31, "Int64": 63}


def message_classes() -> list[type[Message]]:
    """All of them, sorted by name."""
    modules = sorted({api.module for api in API.values()} | set(RECORD_MODULES))
    found: dict[str, type[Message]] = {}
    for name in modules:
        module = importlib.import_module(f"barnabas.wire.schemas.{name}")
        for each in module.__all__:
            cls = getattr(module, each)
            if issubclass(cls, Message):
                found[each] = cls
    return [found[name] for name in sorted(found)]


MESSAGES = message_classes()


def versions(cls: type[Message]) -> range:
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


def pairs() -> Iterator[tuple[type[Message], int]]:
    """Every message in every version."""
    for cls in MESSAGES:
        for version in versions(cls):
            yield cls, version


def kafkas_bytes() -> dict[tuple[str, int, str], bytes]:
    """Return what Kafka's own classes wrote, by name, version and instance; the newest release counts."""
    found = {}
    for path in sorted(FIXTURES.glob("kafka-*/messages/records.txt")):
        for line in path.read_text().splitlines():
            name, version, which, written = line.split(" ")
            found[name, int(version), which] = bytes.fromhex(written)
    return found


def filled(cls: type[Struct], version: int, *, null: bool = False) -> Any:
    """An instance whose every field of this version differs from its default; or is None where it may be."""
    values: dict[str, Any] = {}
    for place, field in enumerate(f for f in cls.FIELDS if f.lives_in(version)):
        if null and field.nullable_in(version):
            values[field.name] = None
            continue
        one = filled(field.struct, version, null=null) if field.struct else _other_than_default(field, place)
        values[field.name] = [one, one] if field.array else one
    return cls(**values)


def _other_than_default(field: Field, place: int) -> Any:
    """A value for a field that holds no struct."""
    if field.type == "Bool":
        return not field.default
    if field.type == "String":
        return f"{field.name}-é{place}"
    if field.type in ("Bytes", "Records"):
        return bytes([1, 2, 3, place])
    if field.type == "Uuid":
        return Uuid(bytes([1 + place]) * 16)
    if field.type == "Float64":
        return 0.5 + place
    return 41 + place


Value = Callable[[Field, random.Random], Any]


def plain_value(field: Field, rng: random.Random) -> Any:
    """One element of a field that holds no struct."""
    if field.type == "Bool":
        return rng.random() < 0.5
    if field.type == "String":
        return "".join(rng.choices("abcxyzé漢 -_.", k=rng.choice((0, 1, 7, 126, 127, 130))))
    if field.type in ("Bytes", "Records"):
        return rng.randbytes(rng.choice((0, 1, 50, 127, 300)))
    if field.type == "Uuid":
        return Uuid(rng.randbytes(16))
    if field.type == "Float64":
        return rng.uniform(-1e9, 1e9)
    if field.type in ("UInt16", "UInt32"):
        return rng.randrange(1 << int(field.type[4:]))
    bits = rng.randrange(LIMITS[field.type] + 1)
    return rng.randrange(-(1 << bits), 1 << bits)


def random_message(cls: type[Struct], version: int, rng: random.Random, value: Value = plain_value) -> Any:
    """An instance that this version can carry."""
    values: dict[str, Any] = {}
    for field in cls.FIELDS:
        if not field.lives_in(version) or (field.tag is not None and rng.random() < 0.4):
            continue
        if field.nullable_in(version) and rng.random() < 0.3:
            values[field.name] = None
        elif field.array:
            count = rng.choice((0, 1, 2, 3)) if field.struct else rng.choice((0, 1, 3, 12))
            values[field.name] = [_element(field, version, rng, value) for _ in range(count)]
        else:
            values[field.name] = _element(field, version, rng, value)
    return cls(**values)


def _element(field: Field, version: int, rng: random.Random, value: Value) -> Any:
    if field.struct is not None:
        return random_message(field.struct, version, rng, value)
    return value(field, rng)


def _values(field: Field) -> st.SearchStrategy[Any]:
    """Hypothesis strategy for one element of a field that holds no struct."""
    if field.type == "Bool":
        return st.booleans()
    if field.type == "String":
        return st.text(max_size=40) | st.just("x" * 200)
    if field.type in ("Bytes", "Records"):
        return st.binary(max_size=40) | st.just(b"y" * 200)
    if field.type == "Uuid":
        return st.binary(min_size=16, max_size=16).map(Uuid)
    if field.type == "Float64":
        return st.floats(allow_nan=False)
    if field.type in ("UInt16", "UInt32"):
        return st.integers(0, (1 << int(field.type[4:])) - 1)
    return st.integers(-(1 << LIMITS[field.type]), (1 << LIMITS[field.type]) - 1)


def messages(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Instances that this version can carry."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in cls.FIELDS:
        if not field.lives_in(version):
            continue
        one = messages(field.struct, version) if field.struct is not None else _values(field)
        if field.array:
            one = st.lists(one, max_size=3)
        if field.nullable_in(version):
            one = st.none() | one
        fields[field.name] = one
    return st.builds(cls, **fields)
