"""What a node is told: the table, the parser, and the errors a person gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.config import (
    NO_FLUSH,
    SETTINGS,
    TOPIC_SETTINGS,
    Config,
    LogConfig,
    config_table_markdown,
    parse_properties,
    validate_topic_overrides,
)
from barnabas.errors import ConfigError
from barnabas.model import Endpoint
from barnabas.settings import GROUP_SETTINGS, METRICS_SETTINGS, node_names
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.settings.text import advice, parse_value
from barnabas.settings.unused import _REMOVED, instead_of, known_to_kafka

ROOT = Path(__file__).parent.parent


def test_a_node_that_is_told_nothing_is_a_whole_cluster_on_this_machine() -> None:
    config = Config.load({})
    assert config.zero_config
    assert config.roles == {"broker", "controller"}
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.controller_listeners == (Endpoint("CONTROLLER", "127.0.0.1", 9093),)
    assert config.log_dirs == ("barnabas-data",)
    assert config.metadata_log_dir == "barnabas-data"


def test_what_is_acknowledged_is_synced_unless_told_otherwise() -> None:
    assert Config.load({}).log_config().sync_before_ack
    kafka = Config.load({"log.flush.interval.messages": str(NO_FLUSH)})
    assert not kafka.log_config().sync_before_ack
    assert kafka.log_config({"flush.messages": "1"}).sync_before_ack


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"log\.segment\.bytes") as caught:
        Config.load({"log.segment.byte": "1"})
    assert caught.value.next_step == "did you mean log.segment.bytes?"


def test_a_setting_of_kafka_that_we_do_not_use_is_taken_with_a_warning() -> None:
    config = Config.load({"num.io.threads": "8", "num.partitions": "3", "sasl.jaas.config": "x"})
    assert config.unused == {
        "known to Kafka, not used by this release": ["num.io.threads", "sasl.jaas.config"]
    }
    assert config.at("CLIENTS").unused == config.unused and not Config.load().unused


def test_all_settings_that_cannot_be_used_are_named_at_once_with_what_to_do() -> None:
    given = {
        "zookeeper.connect": "zk:2181",
        "inter.broker.protocol.version": "3.9",
        "cruise.control.metrics.reporter.bootstrap.servers": "127.0.0.1:9092",
        "num.partition": "3",
        "log.segment.bytes": "many",
        "listener.name.clients.ssl.client.auth": "always",
        "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
        "port": "9092",
        "process.roles": "brokr",
    }
    with pytest.raises(ConfigError) as caught:
        Config.load(given)
    said, steps = caught.value.message, caught.value.next_step or ""
    assert said.startswith("9 settings cannot be used: ") and all(name in said for name in given)
    for step in (
        "no ZooKeeper",
        "features upgrade",
        "no plug-in is loaded",
        "num.partition: did you mean num.partitions?",
        "process.roles: did you mean broker?",
        "write listeners",
    ):
        assert step in steps
    assert "controller.quorum.bootstrap.servers?" not in steps and "\n" not in said


@pytest.mark.parametrize("name", (*_REMOVED, "zookeeper.session.timeout.ms", "password.encoder.secret"))
def test_what_kafka_4_removed_is_refused_with_advice_and_is_no_setting_of_ours(name: str) -> None:
    assert name not in SETTINGS and not known_to_kafka(name)
    with pytest.raises(ConfigError, match="Kafka 4 has no such setting") as caught:
        Config.load({name: "1"})
    assert caught.value.next_step == instead_of(name)
    for named in re.findall(r"[a-z]+(?:\.[a-z]+){1,5}", str(instead_of(name))):
        assert named in SETTINGS, f"the advice names {named}"


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [
        ("ssl.endpoint.identification.algorithm", "HTTPS", "https"),
        ("ssl.client.auth", "REQUIRED", "required"),
        ("group.consumer.migration.policy", "Upgrade", "upgrade"),
        ("group.coordinator.rebalance.protocols", "CLASSIC,Consumer", ("classic", "consumer")),
    ],
)
def test_where_kafka_takes_large_and_small_letters_we_do(name: str, text: str, meant: object) -> None:
    assert Config.load({name: text})[name] == meant
    with pytest.raises(ConfigError):
        Config.load({"log.message.timestamp.type": "createtime"})  # (Kafka does not)


def test_what_the_metadata_say_of_a_node_holds_but_for_what_it_cannot_have_and_each_of_these_is_named() -> (
    None
):
    config = Config.load({"log.dirs": "/d"})
    stored = {
        "listeners": "PLAINTEXT://127.0.0.1:1",
        "listener.name.clients.ssl.keystore.location": "/k",
        "log.retention.ms": "5",
        "log.cleaner.threads": "none",
        "max.connections.per.ip.overrides": "nobody:1",
        "barnabas.quorum.note": "x",
        "log.segment.bytes": "2000000",
    }
    now, refused = config.with_stored(stored)
    assert now.given == config.given | {"log.retention.ms": "5", "log.segment.bytes": "2000000"}
    invalid = {"log.cleaner.threads", "max.connections.per.ip.overrides"}
    assert refused.keys() == invalid | {"listeners", "listener.name.clients.ssl.keystore.location"}
    assert all(name in refused[name] for name in invalid)
    assert config.with_stored({}) == (config, {})


@pytest.mark.parametrize(
    ("setting", "text", "step"),
    [
        ("num.partitions", "ten", "give a whole number from 1 to 2147483647"),
        ("auto.create.topics.enable", "yes", "give true or false"),
        ("process.roles", "", "give some of broker, controller, with commas"),
        ("process.roles", "broker,broker", "name each once"),
    ],
)
def test_a_refused_value_has_a_next_step_that_can_be_typed(setting: str, text: str, step: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_value(SETTINGS[setting], text)
    assert refused.value.next_step == step


def test_every_setting_says_what_it_takes() -> None:
    for known in (SETTINGS, TOPIC_SETTINGS, GROUP_SETTINGS, METRICS_SETTINGS):
        for name, row in known.items():
            if row.kind not in ("string", "password", "list") or row.choices:
                step = advice({name: "no such value"}, known)
                assert step is not None and step.startswith(f"{name}: give "), name
    assert advice({"retention.ms": "1"}, TOPIC_SETTINGS) is None


def test_a_setting_that_we_had_once_is_taken_with_a_warning_that_says_what_became_of_it() -> None:
    ((why, names),) = Config.load({"barnabas.produce.check.records": "false"}).unused.items()
    assert names == ["barnabas.produce.check.records"]
    assert why.startswith("not used any more: every record is checked now")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"num.partitions": "0"}, "out of range: 1 to"),
        ({"num.partitions": "ten"}, "must be a whole number"),
        ({"log.cleaner.min.cleanable.ratio": "nan"}, "out of range"),
        ({"auto.create.topics.enable": "yes"}, "must be true or false"),
        ({"compression.type": "lzo"}, "must be one of"),
        ({"process.roles": "broker,boss"}, "must be one of broker, controller"),
        ({"process.roles": ""}, "is empty"),
        ({"listeners": "127.0.0.1:9092"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://:99999,CONTROLLER://:1"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://:9092"}, "none of controller.listener.names"),
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"}, "a port of its own"),
        (
            {"listeners": "X://:9092,CONTROLLER://:9093", "listener.security.protocol.map": "X:TLS"},
            "X is TLS",
        ),
        ({"listeners": "IN://:9092,CONTROLLER://:9093"}, "has no security protocol"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "no address a client can dial"),
        ({"advertised.listeners": "OUTSIDE://a:9092"}, "there is no listener OUTSIDE"),
        ({"process.roles": "broker"}, "needs controllers to ask"),
        ({"controller.quorum.voters": "1@0.0.0.0:9093"}, "no address another node can dial"),
        ({"controller.quorum.voters": "7@a:9093"}, "is not among"),
        ({"controller.quorum.voters": "7"}, "is not id@host:port"),
        ({"log.dirs": "a,a"}, "twice"),
        ({"log.dir": ","}, "names no directory"),
        ({"queued.max.request.bytes": "1000"}, "less than one request"),
        ({"authorizer.class.name": "org.apache.kafka.Any"}, "no classes are loaded here"),
        ({"authorizer.class.name": STANDARD_AUTHORIZER}, "nobody could do anything"),
        ({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:a"}, "not in super.users"),
        ({"max.connections.per.ip.overrides": "localhost:5"}, "no address with a number"),
        ({"max.connections.per.ip.overrides": "10.0.0.7"}, "no address with a number"),
        (
            {
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:CN=node",
                "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
                "listener.name.controller.ssl.client.auth": "required",
            },
            "listener SSL, which has no login",
        ),
        ({"super.users": "admin"}, "'admin' is no principal"),
        ({"super.users": "User:a,User:b;nobody"}, "'nobody' is no principal"),
        ({"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"}, "is more than"),
    ],
)
def test_what_cannot_be_meant_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.load(properties)


def test_a_value_out_of_range_names_the_nearest_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load({"fetch.max.bytes": "10"})
    assert caught.value.next_step == "the nearest value allowed is 1024"


def test_longer_units_count_when_the_shorter_are_not_given() -> None:
    assert Config.load({"log.retention.hours": "2"}).log_config().retention_ms == 7_200_000
    both = Config.load({"log.retention.hours": "2", "log.retention.ms": "5"})
    assert both.log_config().retention_ms == 5
    assert Config.load({"log.retention.hours": "-1"}).log_config().retention_ms == -1


def test_a_topic_without_overrides_has_the_defaults_of_its_node() -> None:
    assert Config.load({}).log_config() == LogConfig()
    config = Config.load({"message.max.bytes": "2000"})
    assert config.log_config({"cleanup.policy": "compact,delete"}).max_message_bytes == 2000
    assert config.log_config({"cleanup.policy": "compact,delete"}).compact
    assert config.log_config({"internal.segment.bytes": "100"}).segment_bytes == 100


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention.msec": "1"}, r"unknown topic setting: retention\.msec \(nearest: retention\.ms\)"),
        ({"retention.ms": "soon"}, "must be a whole number"),
        ({"retention.ms": None}, "has no value"),
        ({"remote.storage.enable": "true"}, "not supported by this release"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "is more than"),
        ({"segment.bytes": "10"}, "out of range"),
    ],
)
def test_a_topic_setting_that_cannot_be_meant_is_refused(
    overrides: dict[str, str | None], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        validate_topic_overrides(overrides)


def test_topic_settings_that_ask_for_nothing_are_taken() -> None:
    validate_topic_overrides({"remote.storage.enable": "false", "preallocate": "false"})


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# a comment\n! another\n\n"
        "a=1\nb : two words \n  c\tthree\nd=x\\\n    y\nkey\\ with\\:signs=v\ne=\\u00e9\\t|\n"
        "empty\na=2\npath=C:\\\\data\n"
    )
    assert parse_properties(text) == {
        "a": "2",
        "b": "two words ",
        "c": "three",
        "d": "xy",
        "key with:signs": "v",
        "e": "é\t|",
        "empty": "",
        "path": "C:\\data",
    }


def test_the_page_of_settings_is_up_to_date() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == config_table_markdown()


SEEN_HERE_ONLY = {
    "controller.listener.names",
    "group.initial.rebalance.delay.ms",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.flush.interval.messages",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.decompressed.message.bytes",
    "node.id",
    "process.roles",
    "queued.max.request.bytes",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.server.max.receive.size",
    "security.inter.broker.protocol",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "ssl.keystore.type",
    "ssl.truststore.type",
}
"""Settings whose default is ours: what this node allows, opens or waits for, which no other broker counts on."""


def test_what_another_broker_counts_on_has_kafkas_default() -> None:
    """In a cluster with brokers of Apache Kafka, a topic's count or a session must be what they expect."""
    ours = {row.name for row in SETTINGS.values() if row.ours != row.kafka}
    assert {name for name in ours if not name.startswith("barnabas.")} == SEEN_HERE_ONLY


def test_the_page_says_what_the_other_side_sees_of_each_default_that_is_ours() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    section = page.partition("## Defaults that differ, seen from the other side")[2].partition("\n## ")[0]
    assert {name for name in SEEN_HERE_ONLY if f"`{name}`" not in section} == set()


def test_every_default_lies_within_its_own_bounds() -> None:
    for row in (*SETTINGS.values(), *TOPIC_SETTINGS.values()):
        if isinstance(row.ours, int) and not isinstance(row.ours, bool):
            assert row.low is None or row.low <= row.ours, row.name
            assert row.high is None or row.ours <= row.high, row.name
        if row.ours != row.kafka:
            assert row.why, f"{row.name}: our default differs from Kafka's and nobody says why"


def test_every_setting_in_the_table_is_used_somewhere() -> None:
    """A setting that has no effect belongs to `settings.unused`, which warns."""
    sources = [path for path in (ROOT / "src" / "barnabas").rglob("*.py") if path.parent.name != "settings"]
    text = "\n".join(path.read_text() for path in sources)
    through_topics = {name for topic_setting in TOPIC_SETTINGS for name in node_names(topic_setting)}
    by_parts = {"socket.send.buffer.bytes", "socket.receive.buffer.bytes"}
    assert '.buffer.bytes"' in text
    unused = [name for name in SETTINGS if f'"{name}"' not in text]
    assert set(unused) <= through_topics | by_parts
