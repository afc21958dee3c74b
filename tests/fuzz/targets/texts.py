"""Files and values that an operator writes: properties, settings, JAAS lines, options of a client."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path

from tests.fuzz.engine.target import Target

from barnabas.client.security.options import Security
from barnabas.config import Config, parse_properties, validate_topic_overrides
from barnabas.errors import ConfigError
from barnabas.security.jaas import parse_jaas
from barnabas.settings import SETTINGS, TOPIC_SETTINGS

__all__ = ["TARGETS"]

PROPERTIES, NODE, JAAS, TOPIC, CLIENT = range(5)
_SCRAM = b"org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN = b"org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "marker-of-a-secret"


def _make() -> object:
    def one(data: bytes) -> Hashable:
        kind, rest = (data[0] % 5, data[1:]) if data else (PROPERTIES, b"")
        text = rest.decode("utf-8", "replace")
        if kind == JAAS:
            return _jaas(text)
        given = parse_properties(text)
        if kind == PROPERTIES:
            return "properties", len(given)
        if kind == NODE:
            config = Config.load(given)
            return "node", len(config.listeners), len(config.given)
        if kind == TOPIC:
            validate_topic_overrides(given)
            Config.load({}).log_config(given)
            return "topic", len(given)
        return "client", repr(Security.parse(given))[:40]

    return one


def _jaas(text: str) -> Hashable:
    try:
        entry = parse_jaas(text)
    except ConfigError as error:
        # The password of the seeds stands in no message, wherever the line is broken.
        assert SECRET not in f"{error} {error.next_step}", "a message quotes a secret"
        raise
    return "jaas", entry.family, len(entry.options)


def _seeds() -> Iterator[bytes]:
    def of(kind: int, text: bytes) -> bytes:
        return bytes((kind,)) + text

    yield of(PROPERTIES, b"# a\n! b\n a = b\\\n   c\nd:e\nf g\\u00e9\\t\\\\\nh\\ i=\\\n")
    yield of(
        NODE, b"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9093\nlog.dirs=/a,/b\n"
    )
    yield of(
        NODE,
        b"process.roles=broker,controller\nnode.id=2\ncontroller.quorum.voters=2@h:1,3@[::1]:2\n"
        b"listeners=A://:1,CONTROLLER://:2\nlistener.security.protocol.map=A:SASL_SSL,CONTROLLER:SSL\n"
        b"listener.name.a.ssl.client.auth=required\nsuper.users=User:CN=a;User:b\n"
        b"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        b"max.connections.per.ip.overrides=127.0.0.1:5,::1:7\nadvertised.listeners=A://h:9\n",
    )
    password = SECRET.encode()
    yield of(JAAS, _SCRAM + b' required username="ada" password="' + password + b'";')
    yield of(JAAS, _PLAIN + b" required user_ada='" + password + b"' user_b=c;")
    yield of(TOPIC, b"retention.ms=-1\ncleanup.policy=compact,delete\nmin.insync.replicas=2\n")
    yield of(TOPIC, b"leader.replication.throttled.replicas=0:1,1:2\ncompression.type=zstd\n")
    yield of(
        CLIENT,
        b"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
        + _SCRAM
        + b' required username="a" password="'
        + password
        + b'";\n',
    )
    yield of(CLIENT, b"security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")
    yield from (of(NODE, name.encode() + b"=1\n") for name in list(SETTINGS)[::9])
    page = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "data" / "meta.properties"
    yield of(PROPERTIES, page.read_bytes())


_WORDS = (
    *(f"{name}=".encode() for name in [*SETTINGS, *TOPIC_SETTINGS]),
    b"listener.name.a.", b"SASL_SSL", b"SCRAM-SHA-512", b"PLAINTEXT", b"\\u0", b"\\", b"=", b":", b"required", b'"', b"${env:A}",
    b"true", b"-1", b"9223372036854775808", b"1e999", b"nan", b"\n", b"\x85", "٣".encode(), b";", b"[::1]:1",
)  # fmt: skip

TARGETS = [
    Target(
        "texts",
        "properties, settings of nodes, topics and clients, JAAS lines",
        _make,  # type: ignore[arg-type]
        (ConfigError,),
        _seeds,
        _WORDS,
    )
]
