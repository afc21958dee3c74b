"""Every other file that a node opens: each is read, or is refused as senseless by its own error."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

from crc32c import crc32c
from tests.fuzz.engine.target import Target

from barnabas.errors import CorruptRecordError, KafkaError, NewerReleaseError, StorageError, WireError
from barnabas.log.files.checkpoint import read_epochs, read_offsets
from barnabas.log.files.meta_properties import (
    read_meta_properties,
    read_partition_metadata,
    take_clean_shutdown,
)
from barnabas.log.producers.snapshot import decode_producers, encode_producers
from barnabas.log.segments.damage import read_damage
from barnabas.model import Endpoint, ReplicaKey, Uuid
from barnabas.raft.discovery.book import Contact
from barnabas.server.kraft.discovery.address_book import read_contacts, write_contacts
from barnabas.server.kraft.election_state import read_election
from barnabas.server.kraft.marks import RecoveryPoint, read_point, write_point
from barnabas.server.kraft.records import decode_batch, metadata_of, read_snapshot
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches

__all__ = ["TARGETS"]

FOLDER = "/data"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1"
Reader = Callable[[Any, bytes], Any]
_MOST_READ = 400_000


def _of_disk(name: str, read: Callable[[Any, str], Any]) -> tuple[str, Reader]:
    """A reader that is told the directory."""

    def put(disk: MemoryDisk, data: bytes) -> Any:
        disk.put(f"{FOLDER}/{name}", data)
        return read(disk, FOLDER)

    return name, put


def _of_path(name: str, read: Callable[[Any, str], Any]) -> tuple[str, Reader]:
    """A reader that is told the file."""
    return _of_disk(name, lambda disk, folder: read(disk, f"{folder}/{name}"))


def _with_crcs(data: bytes) -> bytearray:
    """A file of batches whose CRCs fit."""
    fixed, at = bytearray(data), 0
    while at + 61 <= len(fixed):
        size = int.from_bytes(fixed[at + 8 : at + 12], "big", signed=True) + 12
        if size < 61 or at + size > len(fixed):
            break
        fixed[at + 17 : at + 21] = crc32c(bytes(fixed[at + 21 : at + size])).to_bytes(4, "big")
        at += size
    return fixed


def _snapshot(_: Any, data: bytes) -> Any:
    return len(read_snapshot(_with_crcs(data)).records)


def _metadata_log(_: Any, data: bytes) -> Any:
    fixed = _with_crcs(data)
    return sum(len(metadata_of(decode_batch(fixed, at, header))) for at, header in batches(fixed))


def _producers(_: Any, data: bytes) -> Any:
    body = data[6:]
    rows = decode_producers(data[:2] + crc32c(body).to_bytes(4, "big") + body)
    assert encode_producers(rows)[6:] == body
    return len(rows)


READERS: tuple[tuple[str, Reader], ...] = (
    _of_disk("meta.properties", read_meta_properties),
    _of_disk("partition.metadata", read_partition_metadata),
    _of_disk(".kafka_cleanshutdown", take_clean_shutdown),
    _of_path("recovery-point-offset-checkpoint", read_offsets),
    _of_path("leader-epoch-checkpoint", read_epochs),
    _of_disk("quorum-state", read_election),
    _of_disk("recovery-point.json", read_point),
    _of_disk("endpoints.json", lambda disk, folder: read_contacts(disk, folder, "cluster")),
    _of_disk("barnabas-damage", read_damage),
    ("snapshot", _snapshot),
    ("metadata", _metadata_log),
    ("producers", _producers),
)


def _make() -> object:
    disk = MemoryDisk(1)
    disk.make_directories(FOLDER)

    def one(data: bytes) -> Hashable:
        name, read = READERS[data[0] % len(READERS)] if data else READERS[0]
        found = read(disk, data[1:])
        return name, str(found)[:12]

    return one


def _seeds() -> Iterator[bytes]:
    disk = MemoryDisk(1)
    disk.make_directories(FOLDER)
    key = ReplicaKey(3, Uuid.of(1, 2))
    write_contacts(disk, FOLDER, "cluster", (Contact(key, (Endpoint("CONTROLLER", "::1", 9093),), 5, 1),))
    write_point(disk, FOLDER, RecoveryPoint(17, 3))
    own = {
        "quorum-state": b'{"leaderId":1,"leaderEpoch":5,"votedId":2,"votedDirectoryId":"AAAAAAAAAAEAAAAAAAAAAg","data_version":1}',
        "recovery-point.json": disk.read(f"{FOLDER}/recovery-point.json"),
        "endpoints.json": disk.read(f"{FOLDER}/endpoints.json"),
        "barnabas-damage": b"0 5 a bad sector\n",
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":12}',
        "leader-epoch-checkpoint": b"0\n2\n0 0\n3 17\n",
        "snapshot": (FIXTURES / "metadata" / "bootstrap.checkpoint").read_bytes(),
        "metadata": (FIXTURES / "metadata" / "add-remove.log").read_bytes()[:3000],
        "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg",
        "producers": next((FIXTURES / "data" / "txn-0").glob("*.snapshot")).read_bytes(),
    }
    for number, (name, _) in enumerate(READERS):
        content = own.get(name) or (FIXTURES / "data" / name).read_bytes()
        yield bytes((number,)) + content
    yield (
        bytes((5,))
        + b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    for path in sorted((FIXTURES / "metadata").glob("*.checkpoint")):
        yield bytes((9,)) + path.read_bytes()


_WORDS = (b'"version":', b'"checksum":', b"1e999", b"NaN", b"null", b"[" * 40, b"{", b"-1", b"broker.id=", b"node.id=", b"cluster.id=",
          b"directory.id=", b"#crc32c=", b"\n", b"\x00\x01", b"\xff\xff\xff\xff\x07", b"9223372036854775808", "٣".encode())  # fmt: skip

TARGETS = [
    Target(
        "files",
        "meta.properties, quorum-state, checkpoints, snapshots, metadata records and all others",
        _make,  # type: ignore[arg-type]
        (StorageError, CorruptRecordError, NewerReleaseError, WireError, KafkaError),
        _seeds,
        _WORDS,
    )
]
