"""A record on its way into a batch: what the user gave, checked, as bytes.  No clock.

What cannot become a record is refused here, where the user called `send`.  Later, in a batch, it would be the
error of all records beside it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.producing.batching import RECORD_OVERHEAD
from barnabas.model import NO_TIMESTAMP

__all__ = ["HeaderValue", "Headers", "Outgoing", "outgoing"]

HeaderValue = bytes | str | None
Headers = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]]
_LAST_MS = 2**63 - 1


class Outgoing(NamedTuple):
    """The parts of a record, and about how many bytes it takes; `partition` and `timestamp` as given."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp: int | None
    size: int


def outgoing(
    topic: str, value: Any, key: Any, partition: int | None, headers: Headers | None, timestamp: int | None
) -> Outgoing:
    """Check the arguments of `send` and return them as a record's parts.

    Raises TypeError for an argument of another type, ValueError for one that no record can hold.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic is a str, not {_kind(topic)}")
    if value is not None and type(value) is not bytes:
        value = _octets("value", value)
    if key is not None and type(key) is not bytes:
        key = _octets("key", key)
    if partition is not None and type(partition) is not int:
        partition = _whole("partition", partition, "name one of the topic's partitions, or leave it out")
    if timestamp is not None:
        advice = "give ms since 1970, for example int(time.time() * 1000)"
        timestamp = timestamp if type(timestamp) is int else _whole("timestamp", timestamp, advice)
        if not NO_TIMESTAMP <= timestamp <= _LAST_MS:  # (a copy of a record without one has none)
            raise ValueError(f"timestamp {timestamp} is not between 0 and {_LAST_MS}; {advice}")
    size = RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
    if not headers:
        return Outgoing(value, key, (), partition, timestamp, size)
    pairs = _pairs(headers)
    size += sum(len(name) + len(content or b"") + 4 for name, content in pairs)
    return Outgoing(value, key, pairs, partition, timestamp, size)


def _kind(given: object) -> str:
    return f"{type(given).__name__} ({given!r:.60})"


def _octets(what: str, given: Any) -> bytes:
    """The bytes of a str, or of what is like bytes: a copy, for its owner may change it before it is sent."""
    if isinstance(given, str):
        return _utf8(what, given)
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(
        f"{what} is bytes, str or None, not {_kind(given)}; make bytes of it first, "
        "for example json.dumps(...).encode()"
    )


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} {text!r:.60} cannot be written in UTF-8; give bytes") from error


def _whole(what: str, given: Any, advice: str) -> int:
    try:
        return operator.index(given)
    except TypeError:
        raise TypeError(f"{what} is an int or None, not {_kind(given)}; {advice}") from None


def _pairs(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    shape = "headers are {name: value} or [(name, value), ...]"
    if isinstance(headers, str | bytes):
        raise TypeError(f"{shape}, not {_kind(headers)}")
    given: list[tuple[Any, Any]] = []
    try:
        for pair in headers.items() if isinstance(headers, Mapping) else headers:
            name, content = pair
            given.append((name, content))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{shape}, not {_kind(headers)}") from error
    for name, _ in given:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is a str, not {_kind(name)}")
        _utf8("the name of a header", name)
    return tuple(
        (name, None if content is None else _octets(f"header {name}", content)) for name, content in given
    )
