"""Values with the ids of a schema registry: what is asked, what comes of bad answers, and Confluent's bytes."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.pipeline.registry_server import RegistryServer, registry_server, send

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")

import pyarrow as pa
from pyspark.sql import types as spark

from barnabas.errors import ConfigError
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.sink.options import SinkOptions
from barnabas.pipeline.values.avro_schemas import avro_schema_of, avro_struct
from barnabas.pipeline.values.confluent import (
    confluent_reader,
    confluent_writer,
    registered,
    with_schema,
)
from barnabas.pipeline.values.encoding import encoded
from barnabas.pipeline.values.options import BadValueError, ValueOptions
from barnabas.pipeline.values.registry import Registry, RegistryError
from barnabas.pipeline.values.registry_options import RegistryOptions
from barnabas.pipeline.values.shapes import check_unchanged

STRUCT = spark.StructType().add("a", spark.LongType()).add("b", spark.StringType())
GIVEN = {"kafka.bootstrap.servers": "h:1", "valueFormat": "confluent-avro"}
SOURCE = GIVEN | {"subscribe": "t"}
SINK = GIVEN | {"topic": "t"}
OLD = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]})
NEW = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"], "default": None}],
    }
)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as found:
        yield found


def source(url: str, **more: str) -> ValueOptions:
    values = SourceOptions.parse(SOURCE | {"schema.registry.url": url} | more, streaming=False).values
    assert values is not None
    return values


def sink(url: str, struct: spark.StructType = STRUCT, **more: str) -> ValueOptions:
    values = SinkOptions.parse(SINK | {"schema.registry.url": url} | more).values
    assert values is not None
    return replace(values, type_json=struct.json())


def asking(url: str, pauses: list[float] | None = None, **more: Any) -> Registry:
    kept = [] if pauses is None else pauses
    return Registry(RegistryOptions((url,), **more), sleep=kept.append)


def framed(id_: int, data: bytes) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + data


# -- both ways -------------------------------------------------------------------------------------


def test_what_the_sink_writes_with_its_registered_schema_the_source_reads(server: RegistryServer) -> None:
    values = registered(sink(server.url))
    data = confluent_writer(values)({"a": 7, "b": None})
    assert data[:5] == framed(1, b"")
    assert server.subjects == {"t-value": [1]}
    assert confluent_reader(with_schema(source(server.url)))(data) == {"a": 7, "b": None}


def test_what_was_written_with_an_old_schema_is_read_as_the_newest(server: RegistryServer) -> None:
    old, _ = server.add("t-value", OLD), server.add("t-value", NEW)
    read = confluent_reader(with_schema(source(server.url)))
    assert read(framed(old, b"\x0e")) == {"a": 7, "b": None}


def test_a_schema_is_asked_for_once_and_an_id_that_is_missing_too(server: RegistryServer) -> None:
    server.add("t-value", OLD)
    read = confluent_reader(source(server.url, valueSchema=NEW))
    for _ in range(3):
        read(framed(1, b"\x0e"))
        with pytest.raises(BadValueError, match="schema 9 is not in the registry"):
            read(framed(9, b"\x0e"))
    assert [path for _, path, _ in server.asked] == ["/schemas/ids/1", "/schemas/ids/9"]


def test_the_bytes_are_those_of_confluents_own_serializers(server: RegistryServer) -> None:
    """And theirs are read; they ask the same server."""
    serializers = pytest.importorskip("confluent_kafka.schema_registry.avro")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": server.url})
    context = SerializationContext("t", MessageField.VALUE)
    row = {"a": -1, "b": "x"}
    values = registered(sink(server.url))
    ours = confluent_writer(values)(row)
    theirs = serializers.AvroSerializer(client, values.schema)(row, context)
    assert ours == theirs
    assert serializers.AvroDeserializer(client)(ours, context) == row
    assert confluent_reader(with_schema(source(server.url)))(theirs) == row


@pytest.mark.parametrize(
    ("more", "subject"),
    [
        ({}, "t-value"),
        ({"value.subject.name.strategy": "RecordNameStrategy"}, "value"),
        (
            {"value.subject.name.strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"},
            "t-value",
        ),
        ({"valueSubject": "a/b ü"}, "a/b ü"),
    ],
)
def test_the_subject_is_found_by_the_strategy_or_named(
    server: RegistryServer, more: dict[str, str], subject: str
) -> None:
    registered(sink(server.url, **more))
    assert list(server.subjects) == [subject]


def test_a_sink_registers_once_for_all_micro_batches_of_a_process(server: RegistryServer) -> None:
    for _ in range(3):
        assert registered(sink(server.url)).schema_id == 1
    assert len(server.asked) == 1


def test_the_newest_schema_of_a_subject_of_any_name_is_found(server: RegistryServer) -> None:
    server.add("a/b ü", OLD)
    assert with_schema(source(server.url, valueSubject="a/b ü")).schema == OLD


def test_a_sink_that_registers_nothing_looks_its_schema_up(server: RegistryServer) -> None:
    values = sink(server.url, **{"auto.register.schemas": "false"})
    with pytest.raises(RegistryError, match="does not have the schema of the sink under t-value"):
        registered(values)
    id_ = server.add("t-value", avro_schema_of(STRUCT))
    assert registered(values).schema_id == id_
    assert server.subjects == {"t-value": [id_]}


def test_a_sink_writes_with_the_newest_schema_if_the_struct_fits(server: RegistryServer) -> None:
    server.add("t-value", OLD)
    id_ = server.add("t-value", NEW)
    values = registered(sink(server.url, **{"use.latest.version": "true"}))
    assert (values.schema, values.schema_id) == (NEW, id_)
    with pytest.raises(ConfigError, match="value has no field b"):
        registered(
            sink(server.url, spark.StructType().add("a", spark.LongType()), **{"use.latest.version": "true"})
        )


def test_a_frame_made_with_a_schema_that_is_not_the_newest_any_more_is_refused(
    server: RegistryServer,
) -> None:
    server.add("t-value", OLD)
    before = avro_struct(with_schema(source(server.url)).schema)
    server.add("t-value", NEW)
    with pytest.raises(ConfigError, match="newest schema in the registry is another one"):
        check_unchanged(with_schema(source(server.url)), before, newest=True)
    check_unchanged(source(server.url, valueSchema=OLD), before, newest=False)


# -- values that are none --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin with a byte 0"),
        (b"\0\0\0\0", "does not begin with a byte 0"),
        (b"\x01\0\0\0\x01\x0e", "does not begin with a byte 0"),
        (framed(1, b""), "it ends before"),
        (framed(1, b"\x0e\x00"), "1 bytes are left"),
        (framed(2, b"\x0e"), "schema 2 is PROTOBUF, not Avro"),
        (framed(3, b"\x0e"), "schema 3 refers to other subjects"),
        (framed(4, b"\x02x"), "schema 4: value.a was written as string"),
        (framed(5, b"\x0e"), "schema 5: not an Avro schema"),
        (framed(6, b"\x0e"), "schema 6: an Avro schema that is nested"),
        (framed(2**32 - 1, b""), "schema 4294967295 is not in the registry"),
    ],
)
def test_a_value_whose_schema_cannot_be_used_is_bad_with_a_reason(
    server: RegistryServer, data: bytes, said: str
) -> None:
    deep = '{"type": "array", "items": ' * 400 + '"int"' + "}" * 400
    for schema, more in [
        (OLD, {}),
        ("message x {}", {"schemaType": "PROTOBUF"}),
        (OLD, {"references": [{"name": "x", "subject": "x", "version": 1}]}),
        (OLD.replace('"int"', '"string"'), {}),
        ("nonsense", {}),
        (deep, {}),
    ]:
        server.add("t-value", schema, **more)
    with pytest.raises(BadValueError, match=said):
        confluent_reader(source(server.url, valueSchema=OLD))(data)


# -- a registry that refuses, lies or is silent ----------------------------------------------------


def instead(status: int, content: bytes = b"{}", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send(handler, status, content, **headers)


@pytest.mark.parametrize(
    ("answer", "said", "questions"),
    [
        (instead(401), "refuses requests without a login: HTTP 401", 1),
        (instead(403), "HTTP 403", 1),
        (instead(302, Location="http://127.0.0.1:9/"), "a redirect .HTTP 302., which is not followed", 1),
        (instead(404, b"<html>"), "something else than Confluent's interface", 1),
        (instead(404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'), "HTTP 404 .HTTP 404 Not", 1),
        (instead(200, b"[]"), "something else than Confluent's interface", 1),
        (instead(200, b"<html>"), "something else than Confluent's interface", 1),
        (instead(200, b"[" * 100_000), "something else than Confluent's interface", 1),
        (instead(422, b'{"error_code": 42201, "message": "in\\n two  lines"}'), "HTTP 422 .in two lines.", 1),
        (instead(500, b'{"message": "broken"}'), "answers HTTP 500 .broken.", 3),
        (instead(200, b" " * (5 << 20)), "does not answer .an answer of more than 4 MiB.", 3),
        (lambda handler: handler.connection.close(), "does not answer", 3),
    ],
)
def test_a_registry_that_refuses_or_lies_is_an_error_of_one_line(
    server: RegistryServer, answer: Callable[[BaseHTTPRequestHandler], None], said: str, questions: int
) -> None:
    server.instead = answer
    with pytest.raises(RegistryError, match=said) as caught:
        asking(server.url).schema(1)
    assert len(server.asked) == questions
    assert "\n" not in caught.value.message
    assert caught.value.next_step


def test_a_registry_that_answers_a_byte_now_and_then_is_waited_for_as_long_as_said(
    server: RegistryServer,
) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            while not dripping.wait(0.005):
                handler.wfile.write(b" ")
        except OSError:
            return

    dripping = threading.Event()
    server.instead = drip
    try:
        with pytest.raises(RegistryError, match="timed out"):
            asking(server.url, timeout=0.1).schema(1)
    finally:
        dripping.set()


def test_the_next_address_is_asked_where_one_is_silent(server: RegistryServer) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        server.add("t-value", OLD)
        urls = (f"http://127.0.0.1:{silent.getsockname()[1]}", server.url)
        pauses: list[float] = []
        found = Registry(RegistryOptions(urls), sleep=pauses.append).schema(1)
    assert found is not None
    assert found.text == OLD
    assert pauses == []


def test_a_schema_that_does_not_go_with_the_others_is_said_with_the_registrys_words(
    server: RegistryServer,
) -> None:
    server.refuses.add("t-value")
    with pytest.raises(
        RegistryError, match=r"does not go with the others of t-value \(Schema being .* incompatible with"
    ):
        registered(sink(server.url))


# -- logins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"schema.registry.basic.auth.user.info": "ada:s3cret"},
        {"basic.auth.user.info": "ada:s3cret", "basic.auth.credentials.source": "USER_INFO"},
        {"schema.registry.url": "http://ada:s3cret@"},
        {
            "schema.registry.url": "http://eve:other@",
            "basic.auth.user.info": "ada:s3cret",
            "basic.auth.credentials.source": "USER_INFO",
        },
        {"schema.registry.bearer.auth.token": "s3cret"},
    ],
)
def test_the_login_goes_along_and_is_in_no_error_and_no_repr(
    server: RegistryServer, more: dict[str, str]
) -> None:
    url = more.pop("schema.registry.url", "http://") + server.url.removeprefix("http://")
    values = source(url, **more)
    server.instead = instead(401)
    with pytest.raises(RegistryError, match="refuses the login") as caught:
        with_schema(values)
    [(_, _, login)] = server.asked
    assert login in ("Basic YWRhOnMzY3JldA==", "Bearer s3cret")
    for text in (str(caught.value), repr(values), str(caught.value.next_step)):
        assert "s3cret" not in text
        assert "YWRh" not in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "needs schema.registry.url"),
        ({"schema.registry.url": "ftp://h"}, "an address that is none"),
        ({"schema.registry.url": "h:8081"}, "an address that is none"),
        ({"schema.registry.url": "http://ada:s3cret@h:port"}, "an address that is none"),
        ({"schema.registry.url": "http://ada:s3cret@h"}, "is no https"),
        ({"schema.registry.url": "http://h", "schema.registry.bearer.auth.token": "s3cret"}, "is no https"),
        ({"schema.registry.url": "https://h", "basic.auth.user.info": "s3cret"}, "not user:password"),
        (
            {"schema.registry.url": "https://h", "bearer.auth.token": "s3cret x"},
            "characters that no token has",
        ),
        (
            {
                "schema.registry.url": "https://h",
                "basic.auth.user.info": "a:s3cret",
                "bearer.auth.token": "s3cret",
            },
            "both given",
        ),
        (
            {"schema.registry.url": "https://h", "basic.auth.credentials.source": "SASL_INHERIT"},
            "USER_INFO or URL",
        ),
        ({"schema.registry.url": "https://h", "basic.auth.credentials.source": "URL"}, "no user is given"),
        ({"schema.registry.url": "http://h", "schema.registry.ssl.ca.location": "x"}, "has no effect"),
        (
            {"schema.registry.url": "http://h", "value.subject.name.strategy": "com.x.Mine"},
            "it is TopicNameStrategy",
        ),
        (
            {"schema.registry.url": "http://h", "schema.registry.urll": "x"},
            "did you mean schema.registry.url",
        ),
        ({"valueFormat": "avro", "valueSchema": OLD, "schema.registry.url": "http://h"}, "no effect without"),
    ],
)
def test_options_of_a_registry_that_make_no_sense_are_refused(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        SourceOptions.parse(SOURCE | more, streaming=False)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"use.latest.version": "true", "auto.register.schemas": "true"}, "both true"),
        ({"use.latest.version": "true", "valueSchema": OLD}, "contradict"),
    ],
)
def test_options_of_a_sink_that_contradict_are_refused(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SinkOptions.parse(SINK | {"schema.registry.url": "http://h"} | more)


def test_a_source_of_several_topics_needs_a_subject_or_a_schema(server: RegistryServer) -> None:
    with pytest.raises(ConfigError, match="needs one topic"):
        with_schema(source(server.url, subscribe="t,u"))
    assert with_schema(source(server.url, subscribe="t,u", valueSchema=OLD)).schema == OLD


def test_a_registry_is_known_by_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("registry"))
    with registry_server(context) as secure:
        secure.add("t-value", OLD)
        with pytest.raises(RegistryError, match="certificate is not trusted"):
            with_schema(source(secure.url))
        trusting = {"schema.registry.ssl.truststore.location": str(authority.ca)}
        assert with_schema(source(secure.url, **trusting)).schema == OLD


def test_an_id_of_a_sink_that_was_not_registered_is_not_made_up() -> None:
    with pytest.raises(RegistryError, match="not registered"):
        confluent_writer(sink("http://h"))


def test_rows_of_the_sink_are_framed_and_tombstones_stay(server: RegistryServer) -> None:
    values = registered(sink(server.url))
    batch = pa.RecordBatch.from_arrays([pa.array([{"a": 1, "b": "x"}, None])], names=["value"])
    [found] = encoded([batch], values)
    assert found.column(0).to_pylist() == [framed(1, b"\x02\x02\x02\x02x"), None]
