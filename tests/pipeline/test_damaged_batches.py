"""Batches that are damaged on the disk of a node, and bombs: the source says where, and yields none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.admin.admin import Admin
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError, CorruptRecordError
from barnabas.testing.cluster import Cluster

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from barnabas.pipeline import records  # noqa: E402  (they need what may not be installed)
from barnabas.pipeline.options import SourceOptions  # noqa: E402
from barnabas.pipeline.source import BatchReader  # noqa: E402

BATCHES, EACH = 3, 10


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Stopped while bytes of its files are changed; each topic has three batches of ten records."""
    with Cluster(directory=str(tmp_path_factory.mktemp("node"))) as kafka:
        for topic in ("value", "offset", "header", "packed"):
            fill(kafka.bootstrap, topic, "zstd" if topic == "packed" else None)
        kafka.stop()
        for topic, byte in (("value", 100), ("offset", 3), ("header", 16)):
            [log] = Path(kafka.directory).rglob(f"{topic}-0/*.log")
            damaged = bytearray(log.read_bytes())
            damaged[len(damaged) // BATCHES + byte] ^= 0x10
            log.write_bytes(damaged)
        kafka.start()
        yield kafka


def fill(bootstrap: str, topic: str, compression: str | None) -> None:
    with Admin(bootstrap) as admin, Producer(bootstrap, linger=5, compression=compression) as producer:
        admin.create_topic(topic, partitions=1)
        for _ in range(BATCHES):
            for _ in range(EACH):
                producer.send(topic, b"v" * 200)
            producer.flush(10)


def read(node: Cluster, topic: str) -> int:
    """How many rows the source yields."""
    given = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic}
    reader = BatchReader(SourceOptions.parse(given, streaming=False))
    return sum(rows.num_rows for part in reader.partitions() for rows in reader.read(part))


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("value", "value-0: (the batch at 10 does not match its CRC|the leader finds no batch at offset 10)"),
        ("offset", "offset-0: a batch says that it has offsets"),
        ("header", "header-0: the leader finds no batch at offset 10"),
    ],
)
def test_a_byte_that_was_flipped_on_the_disk_is_an_error_that_says_where(
    node: Cluster, topic: str, said: str
) -> None:
    with pytest.raises(CorruptRecordError, match=said) as caught:
        read(node, topic)
    assert "`barnabas log verify` on the leader" in (caught.value.next_step or "")


def test_a_batch_that_unpacks_to_more_than_the_bound_is_an_error_and_the_next_offset_is_named(
    node: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(node, "packed") == BATCHES * EACH
    monkeypatch.setattr(records, "LARGEST_BATCH", EACH * 200)
    with pytest.raises(BarnabasError, match="packed-0: the batch at offset 0 cannot be read: ") as caught:
        read(node, "packed")
    assert caught.value.next_step == "to go on after it, start at offset 10"
