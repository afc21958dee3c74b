"""Well-formed requests with values that reach deep: names, ids and records that the node knows, and extremes."""

from __future__ import annotations

import random
import struct
from typing import Any

from tests.wire.samples import plain_value, random_message

from barnabas.model import Uuid
from barnabas.server.api.table import TABLE
from barnabas.server.net.route import Row
from barnabas.wire.codec.schema import Field
from barnabas.wire.frame import RequestHeader, write_request
from barnabas.wire.records import Record, write_batch
from barnabas.wire.registry import request_class

__all__ = ["GROUPS", "TOPICS", "World", "draw_request", "well_formed"]

TOPICS = [f"fuzz-{number}" for number in range(8)]
GROUPS = ["group-a", "group-b", ""]
PEERS = [-1, 0, 2, 77, 2**31 - 1]
"""Node ids that are drawn; not 1, the node's own: a well-formed order to remove it is no fault of its code."""
NODE_IDS = ("broker_id", "voter_id", "candidate_id", "replica_id", "leader_id", "node_id")
CODES = [-(2**31), -2, -1, 0, 1, 2, 3, 5, 100, 2**31 - 1]
SMALL = {"Int8": 127, "Int16": 2**15 - 1, "UInt16": 2**16 - 1}
LONGEST_WAIT_MS = 50
MAX_CREATED_PARTITIONS = 3


class World:
    """What the fuzzer knows of the node it sends to."""

    def __init__(self, cluster_id: str, topic_ids: list[Uuid]) -> None:
        self.cluster_id = cluster_id
        self.topic_ids = topic_ids

    def __repr__(self) -> str:
        return f"<World {self.cluster_id} topics={len(self.topic_ids)}>"


def well_formed(message: Any, row: Row, version: int, client_id: str | None) -> bytes:
    """The whole frame of a request."""
    header = RequestHeader(row.key, version, 7, client_id)
    return b"".join(bytes(part) for part in write_request(header, message))  # type: ignore[arg-type]


def draw_request(rng: random.Random, world: World, kind: str) -> tuple[Row, int, bytes]:
    """A frame that the codec can read, for one of the rows of a listener of kind "B" or "C"."""
    row = rng.choice([row for row in TABLE if kind in row.listeners])
    version = rng.randint(row.low, row.high)
    draw = _Values(world)
    message = random_message(request_class(row.key), version, rng, draw)
    return row, version, well_formed(message, row, version, rng.choice((None, "", "fuzz")))


class _Values:
    """One element of a field, by its name where that says what would be understood."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self, field: Field, rng: random.Random) -> Any:
        if rng.random() < 0.15 and field.name not in NODE_IDS:
            return plain_value(field, rng) if "timeout" not in field.name else 0
        if field.type == "String":
            return self._text(field.name, rng)
        if field.type == "Records":
            return _records(rng)
        if field.type == "Uuid":
            known = [*self.world.topic_ids, Uuid(bytes(16)), Uuid(rng.randbytes(16))]
            return rng.choice(known)
        if field.type in ("Int8", "Int16", "Int32", "Int64", "UInt16", "UInt32"):
            return self._number(field, rng)
        return plain_value(field, rng)

    def _text(self, name: str, rng: random.Random) -> str:
        if "group" in name or name == "key":
            return rng.choice(GROUPS)
        if "cluster" in name:
            return self.world.cluster_id
        if name in ("name", "topic", "topic_name", "topics", "resource_name"):
            return rng.choice((*TOPICS, "", "..", "x" * 250, "a/b", "\0"))
        return rng.choice(("", "1", "range", "consumer", "PLAINTEXT", "é" * 20, "retention.ms", "x" * 300))

    def _number(self, field: Field, rng: random.Random) -> int:
        name = field.name
        if "timeout" in name or "wait" in name:
            return rng.randrange(LONGEST_WAIT_MS)
        if name in ("num_partitions", "count"):
            return rng.choice((*CODES[:6], MAX_CREATED_PARTITIONS))
        if name in NODE_IDS:
            value = rng.choice(PEERS)
        elif "partition" in name or name == "index":
            value = rng.choice((0, 0, 1, 2, -1, 2**31 - 1))
        elif name == "acks":
            value = rng.choice((-1, 0, 1, 7))
        else:
            value = rng.choice(CODES)
        high = SMALL.get(field.type)
        if field.type.startswith("U"):
            value = abs(value)
        return value if high is None else max(-high, min(high, value))


def _records(rng: random.Random) -> bytes:
    """A batch as a producer writes it, sometimes with a byte that is wrong."""
    count = rng.choice((1, 1, 3, 50))
    records = [Record(number, 0, rng.randbytes(8), rng.randbytes(20), ()) for number in range(count)]
    batch = write_batch(records, codec=rng.choice((0, 0, 1, 2, 3, 4)))
    if rng.random() < 0.3:
        place = rng.randrange(len(batch))
        batch[place] ^= 1 << rng.randrange(8)
    if rng.random() < 0.1:
        struct.pack_into(">i", batch, 57, rng.choice((-1, 0, 2**31 - 1)))
    return bytes(batch)
