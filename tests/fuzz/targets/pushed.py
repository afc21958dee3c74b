"""What clients hand over inside of requests: patterns of topics, subscriptions of members, metrics."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tests.fuzz.engine.target import Target

from barnabas.broker.groups.consumer.migration import subscription_of
from barnabas.broker.groups.consumer.patterns import compiled_pattern, work_to_match
from barnabas.broker.telemetry.otlp import MOST_FIELDS, read_push
from barnabas.client.assignment import encode_subscription
from barnabas.errors import ConfigError, CorruptRecordError, KafkaError, WireError
from barnabas.pipeline.java_patterns import python_pattern
from barnabas.settings.matching import compiled_match
from barnabas.wire.compression import decompress
from barnabas.wire.schemas.groups import JoinGroupRequestProtocol

__all__ = ["TARGETS"]

NAMES = ("flights", "a.b-c_d", "a" * 200, "ab" * 120, "x-1", "")
MOST_PUSHED = 1 << 20


def _patterns(data: bytes) -> Hashable:
    kind, text = (data[0] % 3 if data else 0), data[1:].decode("utf-8", "replace")
    if kind == 0:
        compiled = compiled_pattern(text)
        work = work_to_match(compiled, NAMES)
        return "group", work.bit_length(), sum(compiled.fullmatch(name) is not None for name in NAMES)
    if kind == 1:
        matcher = compiled_match([pair for pair in text.split(",") if pair])
        return "match", matcher.matches(dict.fromkeys(ATTRIBUTES, "x")), repr(matcher)[:60]
    return "java", len(python_pattern(text[:200]).pattern).bit_length()


ATTRIBUTES = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version",
    "client_source_address", "client_source_port",
)  # fmt: skip


def _pattern_seeds() -> Iterator[bytes]:
    for text in (b"flights.*", b"(a+)+$", b"((a{1,30}){1,30})", b"\\pL+|[^x]*", b"(?i)AB*", b"\\Qa.b\\E", b"x{1000}",
                 b"(?P<n>a)|b", "ä+".encode(), b"[[:alpha:]]+", b"\\C", b"(?=a)", b"a" * 300):  # fmt: skip
        yield b"\0" + text
        yield b"\2" + text
    yield b"\1client_id=a.*,client_software_name=x"
    yield b"\1client_source_port=[0-9]+,client_id=(a+)+"
    yield b"\2flights-\\p{Digit}+(?<n>a)\\k<n>[a-z&&[^b]]"


def _telemetry(data: bytes) -> Hashable:
    codec, raw = (data[0] % 6 if data else 0), data[1:]
    push = read_push(decompress(codec, raw, MOST_PUSHED) if codec else raw)
    assert len(push.points) + push.left_out <= MOST_FIELDS
    return codec, len(push.points).bit_length(), push.left_out.bit_length(), len(push.resource)


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes((number << 3 | 2, len(content))) + content


def _telemetry_seeds() -> Iterator[bytes]:
    attribute = _field(7, _field(1, b"client") + _field(2, _field(1, b"x")))
    point = attribute + b"\x21" + bytes(7) + b"\x40" + b"\x19" + bytes(8)
    gauge = _field(1, b"a.b") + _field(5, _field(1, point))
    total = _field(1, b"c") + _field(7, _field(1, point) + b"\x10\x01\x18\x01")
    scope = _field(2, _field(2, gauge)) + _field(2, _field(2, total))
    resource = _field(1, _field(1, _field(1, b"k") + _field(2, _field(1, b"v"))))
    yield b"\0" + _field(1, resource + scope)
    yield b"\0" + _field(1, scope) * 3
    yield b"\0" + _field(1, _field(2, _field(2, _field(1, b"h") + _field(9, b""))))
    yield b"\0\x0a\xff\xff\xff\xff\x0f"
    yield b"\4\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"


def _members(data: bytes) -> Hashable:
    said = subscription_of([JoinGroupRequestProtocol(name="range", metadata=data)])
    return len(said.topics), len(said.owned_partitions), said.rack_id is None


def _member_seeds() -> Iterator[bytes]:
    yield encode_subscription(["flights", "b"])
    yield b"\0\3" + b"\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\5\0\1r"
    yield b"\x7f\xff" + b"\0\0\0\0\xff\xff\xff\xff"
    yield b"\0\1\x7f\xff\xff\xff"


_REGEX = (
    b"(a+)+",
    b"{1000}",
    b"\\p{",
    b"\\Q",
    b"(?i)",
    b"[^",
    b"|",
    b".*",
    b"(?P<",
    b"\\x{10FFFF}",
    b"&&",
    b"client_id=",
    b"\\b",
    b"$",
)
_NUMBERS = (b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff" * 9 + b"\x01", b"\x0a\x00", b"\x12\x00")

TARGETS = [
    Target("patterns", "regular expressions of groups, of telemetry, of Spark", lambda: _patterns,
           (KafkaError, ConfigError), _pattern_seeds, _REGEX),
    Target("telemetry", "metrics that clients push, in every codec", lambda: _telemetry,
           (KafkaError, CorruptRecordError, WireError), _telemetry_seeds, _NUMBERS),
    Target("members", "what members of classic groups say of themselves", lambda: _members,
           (WireError,), _member_seeds, _NUMBERS),
]  # fmt: skip
