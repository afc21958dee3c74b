"""What a push says: the message MetricsData of OpenTelemetry (protobuf), read as far as KIP-714 uses it.

A push is bytes of a stranger: depth is fixed, fields are counted, and what is too long is left out.  Gauges and
sums are read; histograms and summaries, of which KIP-714 names no metrics, are counted as left out.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import NamedTuple

from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.wire.codec.primitives import read_uvarlong

__all__ = ["MOST_FIELDS", "Point", "Push", "read_push"]

MOST_FIELDS = 100_000
"""Fields of one push: the most that may keep the broker busy, for some 100 ms."""
MOST_ATTRIBUTES = 16
LONGEST_NAME = 200
LONGEST_LABELS = 1000
"""Characters of all names and values of a point's attributes together."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE, _LONG = Struct("<d"), Struct("<q")
_DELTA = 1
_GAUGE, _SUM = 5, 7
_OTHER_KINDS = (9, 10, 11)
_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")
_Field = tuple[int, int | bytes]
Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One number: of a counter that only grows, or a gauge.  `delta`: it is what was added since the last push."""

    name: str
    labels: Labels
    value: float
    counter: bool
    delta: bool


class Push(NamedTuple):
    """All of one push: attributes of the client, its points, and how many could not be kept."""

    resource: Labels
    points: list[Point]
    left_out: int


def read_push(data: bytes) -> Push:
    """Read MetricsData.  Raises KafkaError INVALID_RECORD, or TELEMETRY_TOO_LARGE for too many fields."""
    reader = _Reader()
    try:
        reader.metrics_data(data)
    except (WireError, UnicodeDecodeError, IndexError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"what was pushed is no MetricsData: {error}") from error
    return Push(reader.resource, reader.points, reader.left_out)


class _Reader:
    """Reads one push."""

    def __init__(self) -> None:
        self.resource: Labels = ()
        self.points: list[Point] = []
        self.left_out = 0
        self._fields = 0

    def metrics_data(self, view: bytes) -> None:
        for _, of_resource in self._messages(view, 1):
            for number, value in self._messages(of_resource, 1, 2):
                if number == 1:
                    pairs = [pair for _, pair in self._messages(value, 1)]
                    self.resource = self._labels(pairs) or ()
                    continue
                for _, metric in self._messages(value, 2):
                    self._metric(metric)

    def _metric(self, view: bytes) -> None:
        name, found = "", []
        for number, value in self._messages(view, 1, _GAUGE, _SUM, *_OTHER_KINDS):
            if number == 1:
                name = str(value, "utf-8")
            else:
                found.append((number, value))
        for kind, value in found:
            if kind in _OTHER_KINDS or not name or len(name) > LONGEST_NAME:
                self.left_out += 1
                continue
            self._numbers(_word(name), kind, value)

    def _numbers(self, name: str, kind: int, view: bytes) -> None:
        temporality, monotonic, points = 0, False, []
        for number, value in self._all(view):
            if number == 1 and isinstance(value, bytes):
                points.append(value)
            elif number == 2 and isinstance(value, int):
                temporality = value
            elif number == 3 and isinstance(value, int):
                monotonic = bool(value)
        counter = kind == _SUM and monotonic
        for point in points:
            self._point(name, counter, kind == _SUM and temporality == _DELTA, point)

    def _point(self, name: str, counter: bool, delta: bool, view: bytes) -> None:
        number: float | None = None
        pairs: list[bytes] = []
        for field, value in self._all(view):
            if field == 7 and isinstance(value, bytes):
                pairs.append(value)
            elif field in (4, 6) and isinstance(value, bytes) and len(value) == 8:
                (number,) = (_DOUBLE if field == 4 else _LONG).unpack(value)
        labels = self._labels(pairs)
        if number is None or labels is None:
            self.left_out += 1
        else:
            self.points.append(Point(name, labels, float(number), counter, delta))

    def _labels(self, pairs: list[bytes]) -> Labels | None:
        """Attributes in the order of their names; None where there are too many."""
        if len(pairs) > MOST_ATTRIBUTES:
            return None
        labels: dict[str, str] = {}
        for pair in pairs:
            key, value = "", ""
            for number, part in self._messages(pair, 1, 2):
                if number == 1:
                    key = str(part, "utf-8")
                else:
                    value = self._any_value(part)
            if key:
                labels[_word(key)] = value
        if sum(len(key) + len(value) for key, value in labels.items()) > LONGEST_LABELS:
            return None
        return tuple(sorted(labels.items()))

    def _any_value(self, view: bytes) -> str:
        for number, value in self._all(view):
            if number == 1 and isinstance(value, bytes):
                return str(value, "utf-8")
            if number == 2 and isinstance(value, int):
                return "true" if value else "false"
            if number == 3 and isinstance(value, int):
                return str(value - (1 << 64) if value >> 63 else value)
            if number == 4 and isinstance(value, bytes) and len(value) == 8:
                return repr(_DOUBLE.unpack(value)[0])
        return ""

    def _messages(self, view: bytes, *numbers: int) -> list[tuple[int, bytes]]:
        """The fields of these numbers, which hold bytes."""
        found = []
        for number, value in self._all(view):
            if number in numbers:
                if not isinstance(value, bytes):
                    raise WireError(f"field {number} is a number")
                found.append((number, value))
        return found

    def _all(self, view: bytes) -> list[_Field]:
        """Every field: its number, and a whole number or bytes (of 8 or 4 where it is of fixed length).

        Nearly all tags and lengths have one byte; those are read without a call.
        """
        at, end = 0, len(view)
        found: list[_Field] = []
        while at < end:
            tag = view[at]
            at += 1
            if tag > 127:
                tag, at = read_uvarlong(view, at - 1)
            kind = tag & 7
            size = 0
            if kind in (_BYTES, _VARINT):
                size = view[at]
                at += 1
                if size > 127:
                    size, at = read_uvarlong(view, at - 1)
                if kind == _VARINT:
                    found.append((tag >> 3, size))
                    continue
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise WireError(f"wire type {kind}")
            if size > end - at:
                raise WireError(f"{size} bytes are said to follow, {end - at} do")
            found.append((tag >> 3, view[at : at + size]))
            at += size
            if len(found) > MOST_FIELDS:
                break
        self._fields += len(found)
        if self._fields > MOST_FIELDS:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, f"more than {MOST_FIELDS} fields")
        return found


def _word(name: str) -> str:
    """A name as Prometheus takes it."""
    return _NOT_WORD.sub("_", name)
