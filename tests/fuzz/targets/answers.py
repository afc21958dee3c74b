"""What a broker answers, read by our own client: a hostile one can make a call fail, and nothing else.

Each answer goes through the client's connection, and then to the machines that act on such an answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Any

from tests.fuzz.engine.draw import Draw, piece
from tests.fuzz.engine.target import Target
from tests.wire.samples import filled, random_message

from barnabas.client.assignment import decode_assignment, decode_subscription
from barnabas.client.connection import Connection
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.consuming.fetched import decode as decode_fetched
from barnabas.client.consuming.fetched import read_answer
from barnabas.client.coordinators import found_coordinator
from barnabas.client.fetching import Visible
from barnabas.client.group_member import ClassicMember, GroupTimes
from barnabas.client.group_offsets import check_committed, read_committed_offsets
from barnabas.client.metadata import Metadata
from barnabas.client.offsets import OffsetAt, read_offsets
from barnabas.client.producing.transaction_machine import TransactionMachine
from barnabas.client.security import sasl
from barnabas.client.security.login import Login
from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition
from barnabas.wire.codec.message import encode
from barnabas.wire.records import Record, write_batch
from barnabas.wire.registry import API, request_class, response_class, response_header_version

__all__ = ["TARGETS"]

NEGOTIATE, ANSWER, LOGIN, RECORDS, GROUP, STREAM = range(6)
TOPIC = TopicPartition("t", 0)
KEYS = sorted(key for key in API if key not in (7, 4, 5, 6))


def _metadata(message: Any, version: int) -> None:
    known = Metadata([("h", 9092)])
    for topic in known.take(message, None, 1.0, missing_ok=True).values():
        for number in list(topic.partitions)[:3]:
            known.leader(topic, number)
    known.addresses()


def _fetch(message: Any, version: int) -> None:
    for one in read_answer(message, {TOPIC: 5, TopicPartition("", 0): 0}, lambda id_: "t"):
        assert one.error is not None or one.next_offset >= one.asked, "a reader goes back"


def _join(message: Any, version: int) -> None:
    member = ClassicMember("g", ["t"], GroupTimes())
    if (wanted := member.joined(message)) is not None:
        member.sync_request(message, wanted, {"t": 3})


def _heartbeat(message: Any, version: int) -> None:
    member = ConsumerGroupMember("g", Subscription(("t",), None), member_id="m")
    member.join_request(1)
    member.heard(message)
    member.learn_names({})
    change = member.change()
    member.acquired(change)
    member.heartbeat_request()


def _transaction(message: Any, version: int) -> None:
    machine = TransactionMachine("id", timeout_ms=1000)
    machine.claims().heard(message, {})


READS: dict[int, Callable[[Any, int], object]] = {
    1: _fetch,
    2: lambda message, version: read_offsets(message, dict[TopicPartition, OffsetAt]()),
    3: _metadata,
    8: lambda message, version: check_committed(message, "g"),
    9: lambda message, version: read_committed_offsets(message, version, "g"),
    10: lambda response, version: found_coordinator(response, version, "g", transaction=False),
    11: _join,
    14: lambda message, version: ClassicMember("g", ["t"], GroupTimes()).synced(message),
    12: lambda message, version: ClassicMember("g", ["t"], GroupTimes()).heard(message),
    22: _transaction,
    68: _heartbeat,
}
"""API -> what the client does with such an answer."""


def _answer(draw: Draw) -> Hashable:
    key = KEYS[draw.below(len(KEYS))]
    first, last = request_class(key).VERSIONS
    version = first + draw.below(last - first + 1)
    connection = Connection()
    connection.send(request_class(key)(), version)
    head = (0).to_bytes(4, "big") + (b"\0" if response_header_version(key, version) else b"")
    response = connection.receive_frame(head + draw.rest())
    if key in READS:
        READS[key](response.message, response.version)
    return "answer", key, version


def _negotiate(draw: Draw) -> Hashable:
    connection, said, rounds = Connection(), None, 0
    sent = connection.negotiate()
    while sent is not None and draw and rounds < 4:
        rounds += 1
        said = connection.receive_frame(sent.correlation_id.to_bytes(4, "big") + draw.some())
        sent = connection.negotiate(said)
    if sent is None:
        for key in KEYS[:5]:
            connection.version_of(request_class(key))
    return "negotiate", rounds, sent is None


def _login(draw: Draw) -> Hashable:
    mechanism = draw.of(sasl.MECHANISMS)
    exchange: sasl.Exchange
    if mechanism == "PLAIN":
        exchange = sasl.Plain("ada", "secret")
    elif mechanism == "OAUTHBEARER":
        exchange = sasl.OAuthBearer("x.y.z")
    else:
        exchange = sasl.Scram(mechanism, "ada", "secret", "client-nonce")
    login, rounds = Login(mechanism, exchange, "h:1"), 0
    handshake, authenticate = response_class(17), response_class(36)
    request = login.begin()
    request = login.take(handshake(error_code=draw.byte() - 1 if draw.byte() else 0, mechanisms=["A\n"]))
    while request is not None and draw and rounds < 12:
        rounds += 1
        request = login.take(authenticate(error_message=None, auth_bytes=draw.some()))
    assert request is not None or mechanism in ("PLAIN", "OAUTHBEARER"), (
        "a broker that knows no password is believed"
    )
    return "login", mechanism, rounds, request is None


def _records(draw: Draw) -> Hashable:
    offset = draw.below(70)
    records, following = decode_fetched(memoryview(draw.rest()), TOPIC, offset, Visible([(7, 3), (7, 1)]))
    assert following >= offset, "a reader goes back"
    assert all(record.offset >= offset for record in records), "records of before are handed out"
    return "records", len(records).bit_length()


def _group(draw: Draw) -> Hashable:
    read = draw.of((decode_assignment, decode_subscription))
    return "group", len(read(draw.rest()))


def _stream(draw: Draw) -> Hashable:
    """Bytes piece by piece, as a socket brings them."""
    connection = Connection(max_frame=1 << 20)
    connection.versions = {}
    for key in (18, 3, 12):
        connection.send(request_class(key)(), request_class(key).VERSIONS[1])
    count = 0
    while draw:
        count += len(connection.receive(draw.some()))
    return "stream", count


DOORS = (_negotiate, _answer, _login, _records, _group, _stream)


def _make() -> object:
    sasl.salted_password = lru_cache(64)(  # type: ignore[assignment]  # (a million rounds are a limit of its own)
        lambda mechanism, password, salt, iterations: bytes(32 if "256" in mechanism else 64)
    )

    def one(data: bytes) -> Hashable:
        draw = Draw(data)
        return DOORS[draw.below(len(DOORS))](draw)

    return one


def _seeds() -> Iterator[bytes]:
    rng = random.Random(1)
    for number, key in enumerate(KEYS):
        cls = response_class(key)
        first, last = request_class(key).VERSIONS
        for version in {first, last}:
            for message in (filled(cls, version), random_message(cls, version, rng), cls()):
                yield bytes((ANSWER, number, version - first)) + encode(message, version)
    versions = encode(filled(response_class(18), 4), 4)
    yield bytes((NEGOTIATE,)) + piece(versions)
    yield bytes((NEGOTIATE,)) + piece(b"\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x03") + piece(versions)
    for mechanism, said in enumerate(
        (b"r=client-noncexyz,s=c2FsdA==,i=4096", b"r=x,s=YQ==,i=1000000", b"", b'{"status":"x"}')
    ):
        yield bytes((LOGIN, mechanism, 0, 0)) + piece(said) + piece(b"v=AAAA") + piece(b"e=other-error")
    batch = bytes(
        write_batch(
            [Record(i, 1, b"k", b"v", ()) for i in range(4)], codec=2, producer_id=7, transactional=True
        )
    )
    yield bytes((RECORDS, 2)) + batch * 2
    yield bytes((RECORDS, 60)) + batch  # (a broker that answers from before what was asked for)
    yield bytes((RECORDS, 0)) + bytes(write_batch([Record(0, 1, b"k", b"v", ())]))
    yield bytes((GROUP, 0)) + b"\0\0\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    yield bytes((GROUP, 1)) + b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"
    frame = b"\0\0\0\0\0\0" + versions
    yield bytes((STREAM,)) + piece(len(frame).to_bytes(4, "big")) + piece(frame)


_WORDS = (
    b"r=client-nonce",
    b",s=",
    b",i=4096",
    b"v=",
    b"e=",
    b"m=",
    b"\xff\xff",
    b"\x00\x86",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x07",
)

TARGETS = [
    Target(
        "answers", "a hostile broker's answers, read by our client", _make, (BarnabasError,), _seeds, _WORDS
    )  # type: ignore[arg-type]
]
