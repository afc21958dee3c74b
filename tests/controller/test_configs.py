"""Settings changed and described: every refusal, every source."""

from __future__ import annotations

import pytest
from tests.controller.cluster import Cluster

from barnabas.config import Config
from barnabas.controller.decisions.describe_configs import describe_configs
from barnabas.errors import ErrorCode
from barnabas.wire.metadata import ClearElrRecord, ConfigRecord
from barnabas.wire.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def alter(cluster: Cluster, kind: int, name: str, *changes: Change, only: bool = False) -> int:
    """Change one resource; its error code."""
    request = IncrementalAlterConfigsRequest(resources=[resource(kind, name, *changes)], validate_only=only)
    return cluster.answer(IncrementalAlterConfigsResponse, request).responses[0].error_code


def resource(kind: int, name: str, *changes: Change) -> IncrementalAlterConfigsRequestAlterConfigsResource:
    return IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1)
    cluster.create("flights")
    return cluster


def test_a_setting_is_set_changed_and_removed(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "flights", ("retention.ms", SET, "5")) == 0
    assert cluster.image.topic_config("flights") == {"retention.ms": "5"}
    assert alter(cluster, TOPIC, "flights", ("retention.ms", DELETE, None)) == 0
    assert cluster.image.topic_config("flights") == {}


def test_a_change_that_changes_nothing_writes_nothing(cluster: Cluster) -> None:
    alter(cluster, TOPIC, "flights", ("retention.ms", SET, "5"))
    offset = cluster.offset
    assert alter(cluster, TOPIC, "flights", ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)) == 0
    assert cluster.offset == offset


def test_lists_are_appended_to_once_and_subtracted_from(cluster: Cluster) -> None:
    alter(cluster, TOPIC, "flights", ("cleanup.policy", SET, "delete"))
    alter(cluster, TOPIC, "flights", ("cleanup.policy", APPEND, "compact,delete"))
    assert cluster.image.topic_config("flights")["cleanup.policy"] == "delete,compact"
    alter(cluster, TOPIC, "flights", ("cleanup.policy", SUBTRACT, "delete"))
    assert cluster.image.topic_config("flights")["cleanup.policy"] == "compact"
    assert alter(cluster, TOPIC, "flights", ("retention.ms", APPEND, "1")) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, APPEND, "delete", "delete"),
        (None, APPEND, "compact,compact", "delete,compact"),
        (None, APPEND, " compact", "delete,compact"),
        (None, SUBTRACT, "compact", "delete"),
        (None, SUBTRACT, "delete", ""),
        (None, SUBTRACT, "", "delete"),
        (None, SUBTRACT, "junk", "delete"),
        (None, APPEND, "", ErrorCode.INVALID_CONFIG),
        (None, APPEND, "junk", ErrorCode.INVALID_CONFIG),
        ("delete", SUBTRACT, "delete,compact", ""),
        ("delete", APPEND, "", ErrorCode.INVALID_CONFIG),
        ("delete,delete", SUBTRACT, "delete", "delete"),
        ("compact", APPEND, " compact", "compact"),
        ("", APPEND, "compact", "compact"),
        ("", APPEND, "", ""),
        ("", SUBTRACT, "delete", ""),
    ],
)
def test_a_list_grows_and_shrinks_from_its_default_as_in_apache_kafka(
    cluster: Cluster, before: str | None, operation: int, value: str, after: str | ErrorCode
) -> None:
    """Each row was asked of Apache Kafka 4.3.1, and is what it described afterwards."""
    if before is not None:
        assert alter(cluster, TOPIC, "flights", ("cleanup.policy", SET, before)) == 0
    code = alter(cluster, TOPIC, "flights", ("cleanup.policy", operation, value))
    if isinstance(after, ErrorCode):
        assert code == after
        assert cluster.image.topic_config("flights").get("cleanup.policy") == before
    else:
        assert code == 0
        assert described(cluster, "flights", "cleanup.policy") == after


def described(cluster: Cluster, topic: str, name: str) -> str | None:
    """The value that DescribeConfigs shows for one setting of a topic."""
    asked = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[name])
    answer = describe_configs(cluster.image, Config.load(), DescribeConfigsRequest(resources=[asked]), 1)
    return answer.results[0].configs[0].value


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("cleanup.policy", "", ""),
        ("cleanup.policy", "delete,delete", "delete"),
        ("cleanup.policy", "delete, compact", "delete,compact"),
        ("preallocate", "true", "true"),
        ("local.retention.ms", "1000", "1000"),
        ("local.retention.bytes", "-2", "-2"),
        ("remote.log.copy.disable", "true", "true"),
        ("leader.replication.throttled.replicas", "0:1,0:1", "0:1,0:1"),
    ],
)
def test_a_topic_takes_what_apache_kafka_takes_and_shows_it_as_it_does(
    cluster: Cluster, name: str, value: str, shown: str
) -> None:
    assert alter(cluster, TOPIC, "flights", (name, SET, value)) == 0
    assert described(cluster, "flights", name) == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ","),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "none"),
        ("preallocate", "x"),
        ("local.retention.ms", "-3"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_topic_refuses_what_apache_kafka_refuses(cluster: Cluster, name: str, value: str) -> None:
    assert alter(cluster, TOPIC, "flights", (name, SET, value)) == ErrorCode.INVALID_CONFIG


def test_a_broker_list_that_was_never_set_grows_from_its_default(cluster: Cluster) -> None:
    assert alter(cluster, BROKER, "1", ("log.cleanup.policy", APPEND, "compact")) == 0
    assert cluster.image.broker_config(1)["log.cleanup.policy"] == "delete,compact"


def test_one_bad_setting_fails_its_whole_resource_and_no_other(cluster: Cluster) -> None:
    cluster.create("other")
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(TOPIC, "flights", ("retention.ms", SET, "5"), ("segment.ms", SET, "soon")),
            resource(TOPIC, "other", ("retention.ms", SET, "5")),
        ]
    )
    answer = cluster.answer(IncrementalAlterConfigsResponse, request)
    assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_CONFIG, 0]
    assert cluster.image.topic_config("flights") == {}
    assert cluster.image.topic_config("other") == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (TOPIC, "none", [("retention.ms", SET, "5")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "flights", [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "flights", [("a", SET, "1"), ("a", DELETE, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "flights", [("retention.ms", 7, "1")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "flights", [("no.such.setting", SET, "1")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "flights", [("retention.ms", SET, "9" * 40_000)], ErrorCode.INVALID_CONFIG),
        (BROKER, "7", [("log.retention.ms", SET, "5")], ErrorCode.INVALID_REQUEST),
        (BROKER, "x", [("log.retention.ms", SET, "5")], ErrorCode.INVALID_REQUEST),
        (BROKER, "", [("log.retention.ms", SET, "soon")], ErrorCode.INVALID_REQUEST),
        (BROKER, "", [("node.id", SET, "5")], ErrorCode.INVALID_REQUEST),
        (BROKER, "1", [("min.insync.replicas", SET, "2")], ErrorCode.INVALID_CONFIG),
        (BROKER, "", [("min.insync.replicas", DELETE, None)], ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", [("root", SET, "DEBUG")], ErrorCode.INVALID_REQUEST),
        (32, "", [("a", SET, "b")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    cluster: Cluster, kind: int, name: str, changes: list[Change], code: ErrorCode
) -> None:
    offset = cluster.offset
    assert alter(cluster, kind, name, *changes) == code
    assert cluster.offset == offset


@pytest.mark.parametrize(
    "name",
    ["listeners", "listener.security.protocol.map", "node.id", "listener.name.clients.ssl.client.auth"],
)
def test_a_setting_that_needs_a_start_is_refused_with_what_to_do_and_what_is_stored_can_be_removed(
    cluster: Cluster, name: str
) -> None:
    request = IncrementalAlterConfigsRequest(resources=[resource(BROKER, "1", (name, SET, "x"))])
    [row] = cluster.answer(IncrementalAlterConfigsResponse, request).responses
    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert name in str(row.error_message) and "restart" in str(row.error_message)
    cluster.append([ConfigRecord(resource_type=BROKER, resource_name="1", name=name, value="x")])
    assert alter(cluster, BROKER, "1", (name, DELETE, None)) == 0
    assert name not in cluster.image.broker_config(1)


def test_a_stored_setting_that_has_no_effect_is_not_shown_as_in_force(cluster: Cluster) -> None:
    stored = ConfigRecord(
        resource_type=BROKER, resource_name="1", name="listeners", value="PLAINTEXT://127.0.0.1:1"
    )
    before = only(describe(cluster, BROKER, "1", "listeners"))
    cluster.append([stored])
    after = only(describe(cluster, BROKER, "1", "listeners"))
    assert after == before and after.read_only


def test_a_resource_twice_in_a_request_is_refused(cluster: Cluster) -> None:
    twice = [resource(TOPIC, "flights", ("retention.ms", SET, "5"))] * 2
    answer = cluster.answer(IncrementalAlterConfigsResponse, IncrementalAlterConfigsRequest(resources=twice))
    assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_validate_only_checks_and_writes_nothing(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "flights", ("retention.ms", SET, "5"), only=True) == 0
    assert cluster.image.topic_config("flights") == {}


def test_the_old_request_replaces_everything_that_was_set(cluster: Cluster) -> None:
    alter(cluster, TOPIC, "flights", ("retention.ms", SET, "5"), ("segment.ms", SET, "7"))
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsRequestAlterConfigsResource(
                resource_type=TOPIC,
                resource_name="flights",
                configs=[AlterConfigsRequestAlterableConfig(name="segment.ms", value="9")],
            )
        ]
    )
    assert cluster.answer(AlterConfigsResponse, request).responses[0].error_code == 0
    assert cluster.image.topic_config("flights") == {"segment.ms": "9"}


def test_the_notes_of_the_quorum_look_like_settings_and_nobody_sets_or_loses_them(cluster: Cluster) -> None:
    target = "barnabas.quorum.target"
    note = ConfigRecord(resource_type=BROKER, resource_name="", name=target, value="4-x@")
    cluster.append([note])
    assert alter(cluster, BROKER, "", (target, SET, "junk")) == ErrorCode.INVALID_REQUEST
    assert alter(cluster, BROKER, "", (target, DELETE, None)) == ErrorCode.INVALID_REQUEST
    assert alter(cluster, BROKER, "", ("barnabas.quorum.new", SET, "1")) == ErrorCode.INVALID_REQUEST
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsRequestAlterConfigsResource(
                resource_type=BROKER,
                resource_name="",
                configs=[
                    AlterConfigsRequestAlterableConfig(name="log.retention.ms", value="9"),
                    AlterConfigsRequestAlterableConfig(name="min.insync.replicas", value="1"),
                ],
            )
        ]
    )
    assert cluster.answer(AlterConfigsResponse, request).responses[0].error_code == 0
    assert cluster.image.cluster_config()[target] == "4-x@", "the old request replaces settings, not notes"


def test_a_change_of_min_insync_replicas_clears_the_elr_of_whom_it_concerns(cluster: Cluster) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[resource(TOPIC, "flights", ("min.insync.replicas", SET, "2"))]
    )
    setting, cleared = cluster.decide(request).records
    assert isinstance(setting, ConfigRecord)
    assert cleared == ClearElrRecord(topic_name="flights")
    everybody = IncrementalAlterConfigsRequest(
        resources=[resource(BROKER, "", ("min.insync.replicas", SET, "2"))]
    )
    assert cluster.decide(everybody).records[1] == ClearElrRecord(topic_name="")


# Describing.


def describe(
    cluster: Cluster, kind: int, name: str, *keys: str, config: Config | None = None
) -> DescribeConfigsResult:
    asked = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True, include_documentation=True)
    answer = describe_configs(cluster.image, config or cluster.controller.config, request, 1)
    return answer.results[0]


def only(result: DescribeConfigsResult) -> DescribeConfigsResourceResult:
    assert result.error_code == 0
    [entry] = result.configs
    return entry


def origins(entry: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]


def test_a_topic_setting_lists_every_place_it_is_set_in_the_order_of_their_power(cluster: Cluster) -> None:
    alter(cluster, TOPIC, "flights", ("segment.bytes", SET, "3000000"))
    alter(cluster, BROKER, "1", ("log.segment.bytes", SET, "4000000"))
    alter(cluster, BROKER, "", ("log.segment.bytes", SET, "5000000"))
    config = Config.load({"log.segment.bytes": "6000000"})
    entry = only(describe(cluster, TOPIC, "flights", "segment.bytes", config=config))
    assert (entry.value, entry.config_source, entry.read_only) == ("3000000", 1, False)
    assert origins(entry) == [
        ("segment.bytes", "3000000", 1),
        ("log.segment.bytes", "4000000", 2),
        ("log.segment.bytes", "5000000", 3),
        ("log.segment.bytes", "6000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert entry.documentation


def test_a_retention_given_in_hours_is_shown_in_milliseconds(cluster: Cluster) -> None:
    entry = only(describe(cluster, TOPIC, "flights", "retention.ms"))
    assert (entry.value, entry.config_source) == ("604800000", 5)


@pytest.mark.parametrize(
    ("name", "given", "setting", "shown"),
    [
        ("log.retention.hours", "168", "retention.ms", "604800000"),
        ("log.retention.hours", "-1", "retention.ms", "-1"),
        ("log.retention.minutes", "90", "retention.ms", "5400000"),
        ("log.retention.ms", "5", "retention.ms", "5"),
        ("log.roll.hours", "24", "segment.ms", "86400000"),
        ("log.roll.jitter.hours", "2", "segment.jitter.ms", "7200000"),
    ],
)
def test_a_unit_that_the_properties_file_chose_is_shown_in_milliseconds(
    name: str, given: str, setting: str, shown: str
) -> None:
    """A tool that reads all settings and writes them back would delete every record that is older than 168 ms."""
    config = Config.load({name: given})
    cluster = Cluster(1, **{name.replace(".", "_"): given})
    topic = CreatableTopic(name="flights", num_partitions=1, replication_factor=1)
    created = cluster.answer(CreateTopicsResponse, CreateTopicsRequest(topics=[topic]), 7).topics[0].configs
    assert {(e.name, e.value, e.config_source) for e in created or ()} >= {(setting, shown, 4)}
    entry = only(describe(cluster, TOPIC, "flights", setting, config=config))
    assert (entry.value, entry.config_source) == (shown, 4)
    assert (name, given, 4) in origins(entry)


def test_all_settings_of_a_topic_are_described_without_keys(cluster: Cluster) -> None:
    names = [entry.name for entry in describe(cluster, TOPIC, "flights").configs]
    assert {"retention.ms", "cleanup.policy", "min.insync.replicas", "flush.messages"} <= set(names)


def test_a_broker_describes_itself_and_says_what_can_be_changed(cluster: Cluster) -> None:
    alter(cluster, BROKER, "1", ("log.retention.ms", SET, "5"))
    entries = {entry.name: entry for entry in describe(cluster, BROKER, "1").configs}
    assert entries["node.id"].read_only
    changed = entries["log.retention.ms"]
    assert (changed.value, changed.config_source, changed.read_only) == ("5", 2, False)
    assert describe(cluster, BROKER, "2").error_code == ErrorCode.INVALID_REQUEST


def test_the_defaults_of_all_brokers_show_only_what_was_set(cluster: Cluster) -> None:
    entry = only(describe(cluster, BROKER, ""))
    assert (entry.name, entry.value, entry.config_source) == ("min.insync.replicas", "1", 3)


def test_what_does_not_exist_cannot_be_described(cluster: Cluster) -> None:
    assert describe(cluster, TOPIC, "none").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(cluster, TOPIC, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(cluster, LOGGER, "2").error_code == ErrorCode.INVALID_REQUEST


LONG = "é" * 20_000


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (BROKER, "9" * 5000, "log.cleaner.threads", "1"),
        (BROKER, "", LONG, "1"),
        (BROKER, "", "of.a.plugin", LONG),
        (TOPIC, "flights", "cleanup.policy", "delete," * 10_000),
        (16, LONG, "metrics", "*"),
    ],
)
def test_what_no_record_can_hold_is_refused(
    cluster: Cluster, kind: int, name: str, key: str, value: str
) -> None:
    assert alter(cluster, kind, name, (key, SET, value)) in (
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
    )


def test_one_request_changes_a_bounded_number_of_settings(cluster: Cluster) -> None:
    many = [(f"of.a.plugin.{number}", SET, "1") for number in range(10_001)]
    assert alter(cluster, BROKER, "", *many) == ErrorCode.POLICY_VIOLATION
    assert alter(cluster, BROKER, "", *many[:-1]) == 0
