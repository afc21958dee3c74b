"""Values with the ids of a schema registry that somebody else wrote (Apicurio), and Confluent's own serializers.

Spark writes and reads, and so do the serializers, each what the other has written.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import NodeProcess, free_port
from tests.patience import LATE_STARTS
from tests.pipeline import java_end

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.pipeline.late_workers import LateWorkers

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")
serializers = pytest.importorskip("confluent_kafka.schema_registry.avro")

pytestmark = [pytest.mark.compat, pytest.mark.spark]

VERSION = "2.6.13.Final"
HOME = Path(os.environ.get("APICURIO_HOME", Path.home() / ".cache" / f"apicurio-registry-{VERSION}"))


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry with nothing in it; skips where Java or its archive is missing."""
    if not shutil.which("java"):
        pytest.skip("Apicurio needs a Java 17 (install one to run this)")
    jar = HOME / f"apicurio-registry-app-{VERSION}-runner.jar"
    if not jar.exists():
        if not shutil.which("mvn"):
            pytest.skip("Apicurio comes by mvn (install Maven to run this)")
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        HOME.mkdir(parents=True, exist_ok=True)
        goal = "dependency:copy"
        subprocess.run(["mvn", "-q", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={HOME}"], check=True)
        [archive] = HOME.glob("*.tar.gz")
        with tarfile.open(archive) as found:
            found.extractall(HOME, filter="data")
        archive.unlink()
    port, log = free_port(), tmp_path_factory.mktemp("apicurio") / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["java", "-Xmx400m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}", "-jar", jar],
            stdout=out,
            stderr=out,
            cwd=log.parent,
        )
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                urllib.request.urlopen(f"{url}/subjects", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < deadline and process.poll() is None, log.read_text()
                time.sleep(0.2)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = NodeProcess(tmp_path_factory.mktemp("node") / "node")
    try:
        yield node.start().bootstrap
    finally:
        node.discard()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with java_end.local_session("registry", tmp_path_factory.mktemp("wh")) as found:
        yield found


def patiently(action: Any) -> Any:
    found: list[Any] = []
    LateWorkers(print, LATE_STARTS).retry(lambda: found.append(action()))
    return found[-1]


def consumed(bootstrap: str, topic: str) -> list[Any]:
    with Consumer(bootstrap, topic, start="earliest", isolation="read_committed") as consumer:
        consumer.stop_at(consumer.offsets_at("latest"))
        return list(consumer)


OLD = {
    "type": "record",
    "name": "order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "state", "type": {"type": "enum", "name": "state", "symbols": ["new", "paid"]}},
    ],
}
NEW = {
    **OLD,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "state", "symbols": ["new", "paid"]}},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {
            "name": "price",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            "default": None,
        },
    ],
}


def test_spark_reads_what_confluents_serializers_wrote_with_two_schemas(
    apicurio: str, bootstrap: str, spark: Any
) -> None:
    from decimal import Decimal

    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": apicurio})
    context = SerializationContext("orders", MessageField.VALUE)
    rows = [
        (OLD, {"id": 1, "state": "new"}),
        (NEW, {"id": 2**40, "state": "paid", "tags": {"a": "b"}, "price": Decimal("12.50")}),
        (OLD, {"id": 3, "state": "paid"}),
    ]
    with Admin(bootstrap) as admin:
        admin.create_topic("orders", partitions=1)
    with Producer(bootstrap) as producer:
        for schema, row in rows:
            producer.send("orders", serializers.AvroSerializer(client, json.dumps(schema))(row, context))
        producer.send("orders", b"\0\0\0\xff\xff\x00")
    frame = (
        spark.read.format("barnabas")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": "orders", "badRecords": "column"})
        .options(**{"valueFormat": "confluent-avro", "schema.registry.url": apicurio})
        .load()
    )
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,state:string,tags:map<string,string>,price:decimal(9,2)>"
    )
    found = patiently(frame.select("value.*", "_corrupt_record").collect)
    assert [tuple(row) for row in found] == [
        (1, "new", {}, None, None),
        (2**40, "paid", {"a": "b"}, Decimal("12.50"), None),
        (3, "paid", {}, None, None),
        (None, None, None, None, bytearray(b"\0\0\0\xff\xff\x00")),
    ]


def test_confluents_deserializers_read_what_spark_wrote_and_a_schema_that_does_not_fit_is_refused(
    apicurio: str, bootstrap: str, spark: Any
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    with Admin(bootstrap) as admin:
        admin.create_topic("counts", partitions=1)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": "counts",
        "valueFormat": "confluent-avro",
        "schema.registry.url": apicurio,
    }

    def write(what: str) -> None:
        rows = spark.sql(f"SELECT struct({what}) AS value")
        patiently(rows.write.format("barnabas").options(**options).mode("append").save)

    write("7L AS n, 'x' AS text, array(1, 2) AS few")
    client = SchemaRegistryClient({"url": apicurio})
    context = SerializationContext("counts", MessageField.VALUE)
    [message] = consumed(bootstrap, "counts")
    assert serializers.AvroDeserializer(client)(message.value, context) == {
        "n": 7,
        "text": "x",
        "few": [1, 2],
    }
    client.set_compatibility("counts-value", "BACKWARD")
    with pytest.raises(Exception, match="does not go with the others of counts-value"):
        write("'seven' AS n")
    assert len(consumed(bootstrap, "counts")) == 1
