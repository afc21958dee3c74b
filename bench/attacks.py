"""What a client can do to a node on purpose: see `bench.overload`.

Each attack runs until its time is over, prints `begun` when it is in full swing, and connects anew where the
node hangs up.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator

from crc32c import crc32c

from barnabas.wire.codec.message import Message
from barnabas.wire.codec.primitives import varint
from barnabas.wire.compression import Codec, packer
from barnabas.wire.frame import RequestHeader, write_request
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["ATTACKS", "VICTIMS", "bomb", "produce_request"]

VICTIMS: dict[str, dict[str, str]] = {
    "read": {},
    "compacted": {"cleanup.policy": "compact"},
    "packed": {"compression.type": "gzip"},
    "flooded": {},
}
MIB = 1 << 20
ANNOUNCED = struct.pack(">i", 100 * MIB)


def produce_request(topic: str, batch: bytes, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=batch)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)


def frame(message: Message, version: int, correlation: int) -> bytes:
    key = message.KEY
    assert key is not None
    parts = write_request(RequestHeader(key, version, correlation, "attack"), message)
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # requests carry bytes


def bomb(codec: int, size: int) -> bytes:
    """A batch that is right in every respect: one record, whose value is `size` zeros."""
    start = bytes((0, 0, 0)) + varint(1) + b"k" + varint(size)
    stream = packer(codec)
    packed = bytearray(stream.add(varint(len(start) + size + 1) + start))
    for _ in range(size // MIB):
        packed += stream.add(bytes(MIB))
    packed += stream.add(b"\0") + stream.end()
    out = bytearray(write_batch([Record(0, int(time.time() * 1000), b"k", b"")])[:61]) + packed
    struct.pack_into(">i", out, 8, len(out) - 12)
    out[22] = codec
    struct.pack_into(">I", out, 17, crc32c(memoryview(out)[21:]))
    return bytes(out)


def connected(port: int, count: int) -> list[socket.socket]:
    made = []
    for _ in range(count):
        made.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        made[-1].setblocking(False)
    return made


def rounds(seconds: float, pause: float = 0.05) -> Iterator[None]:
    """Say that the attack has begun, and go on until its time is over."""
    until = time.monotonic() + seconds
    print("begun", flush=True)
    while time.monotonic() < until:
        yield
        time.sleep(pause)


def push(port: int, attackers: list[socket.socket], index: int, data: bytes) -> None:
    """Send what the socket takes; a connection that is gone is made anew."""
    try:
        attackers[index].send(data)
    except BlockingIOError:
        return
    except OSError:
        attackers[index].close()
        with contextlib.suppress(OSError):
            (attackers[index],) = connected(port, 1)
            attackers[index].send(ANNOUNCED)


def half_open(port: int, seconds: float) -> None:
    attackers = connected(port, 1000)
    for attacker in attackers:
        attacker.send(b"\0\0")
    for _ in rounds(seconds):
        pass


def a_byte_a_second(port: int, seconds: float) -> None:
    attackers = connected(port, 1000)
    for attacker in attackers:
        attacker.send(struct.pack(">i", 5000))
    for turn, _ in enumerate(rounds(seconds, 0.01)):
        for index in range(turn % 100, len(attackers), 100):
            push(port, attackers, index, b"\0")


def announce_and_wait(port: int, seconds: float) -> None:
    attackers = connected(port, 200)
    for attacker in attackers:
        attacker.send(ANNOUNCED)
    for _ in rounds(seconds):
        pass


def slow_uploads(port: int, seconds: float) -> None:
    """Sixty clients announce 100 MB, send 2.6 MB of them at once and the rest slowly; who is ended comes again."""
    attackers = connected(port, 60)
    begun = bytes(2_600_000)
    sent = [0] * len(attackers)
    for attacker in attackers:
        attacker.send(ANNOUNCED)
    for _ in rounds(seconds, 0.02):
        for index, attacker in enumerate(attackers):
            try:
                if sent[index] < len(begun):
                    sent[index] += attacker.send(begun[sent[index] : sent[index] + 262_144])
                else:
                    attacker.send(bytes(100))
            except BlockingIOError:
                continue
            except OSError:
                attacker.close()
                sent[index] = 0
                with contextlib.suppress(OSError):
                    (attackers[index],) = connected(port, 1)
                    attackers[index].send(ANNOUNCED)


def never_read(port: int, seconds: float) -> None:
    """Two hundred clients ask for 20 MB of records and for metadata, again and again, and read nothing."""
    attackers = connected(port, 200)
    topics = [
        FetchTopic(
            topic="read",
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=20 * MIB)],
        )
    ]
    request = frame(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=20 * MIB, topics=topics), 11, 1)
    for index in range(len(attackers)):
        push(port, attackers, index, request * 10)
    for turn, _ in enumerate(rounds(seconds)):
        for index in range(turn % 20, len(attackers), 20):
            push(port, attackers, index, request)


def bombs(codec: int, topic: str, size: int) -> Callable[[int, float], None]:
    """Ten clients send batches of a few kilobytes that unpack to very many, four at a time."""

    def attack(port: int, seconds: float) -> None:
        request = frame(produce_request(topic, bomb(codec, size)), 9, 1)
        attackers = connected(port, 10)
        for attacker in attackers:
            attacker.setblocking(True)
            attacker.settimeout(60)
            attacker.sendall(request * 4)
        print("begun", flush=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ready, _, _ = select.select(attackers, [], [], 0.1)
            for attacker in ready:
                length = struct.unpack(">i", exactly(attacker, 4))[0]
                exactly(attacker, length)
                attacker.sendall(request)

    return attack


def exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += source.recv(size - len(data))
    return data


def pipelined(batch: bytes) -> Callable[[int, float], None]:
    """One client sends ten thousand requests before it reads an answer, and then again."""

    def attack(port: int, seconds: float) -> None:
        requests = b"".join(frame(produce_request("flooded", batch), 9, n) for n in range(10_000))
        (attacker,) = connected(port, 1)
        print("begun", flush=True)
        until, at = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            readable, writable, _ = select.select([attacker], [attacker], [], 0.1)
            if writable:
                at += attacker.send(requests[at : at + 262_144])
                at %= len(requests)
            if readable:
                attacker.recv(1 << 20)

    return attack


def _small(records: int) -> bytes:
    return bytes(
        write_batch([Record(n, int(time.time() * 1000), b"k", bytes(n % 80)) for n in range(records)])
    )


ATTACKS: dict[str, Callable[[int, float], None]] = {
    "1,000 half open": half_open,
    "1,000 at a byte a second": a_byte_a_second,
    "200 announce 100 MB": announce_and_wait,
    "60 slow uploads of 100 MB": slow_uploads,
    "200 never read": never_read,
    "gzip bombs": bombs(Codec.GZIP, "compacted", 95 * MIB),
    "snappy bombs": bombs(Codec.SNAPPY, "compacted", 15 * MIB),
    "lz4 bombs": bombs(Codec.LZ4, "compacted", 95 * MIB),
    "zstd bombs": bombs(Codec.ZSTD, "compacted", 95 * MIB),
    "zstd bombs, packed anew": bombs(Codec.ZSTD, "packed", 95 * MIB),
    "10,000 pipelined": pipelined(_small(1)),
    "10,000 pipelined, 300 records": pipelined(_small(300)),
}
