"""What administrators and telemetry clients ask, good and malformed, as Apache Kafka 4.4.0 answers it.

`admin_answers.json` holds what it answered.  To record it again:

    tests/server/apache/record.sh > tests/server/admin_answers.json

The cases run in order on one connection; what one changes, later ones see.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.client.blocking import BlockingConnection
from barnabas.errors import ErrorCode
from barnabas.model import ZERO_UUID, Uuid
from barnabas.wire.codec.message import Message, Struct
from barnabas.wire.compression import Codec, compress
from barnabas.wire.schemas.cluster import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from barnabas.wire.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.schemas.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

TOPICS = {"one": 1, "three": 3, "two": 2}
SETTINGS = {"max.request.partition.size.limit": "5", "telemetry.max.bytes": "2000"}
"""What both nodes are started with."""
BROKER, METRICS, GROUP = 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
_UNSAID = {"error_message", "documentation", "throttle_time_ms", "member_epoch", "assignment", "members"}
_UNSAID |= {"group_state", "group_epoch", "assignment_epoch", "subscription_id"}
_UNSAID |= {"host", "port", "cluster_id", "brokers"}
"""Left out: the words are ours, the time is not the case's, and how far a group is depends on the time."""
_LARGEST = 2000

Change = tuple[str, int, str | None]


class Case(NamedTuple):
    """A request and what it is; `subscribed`: it is sent with the subscription id that this client was given."""

    label: str
    request: Message
    version: int | None = None
    subscribed: Uuid | None = None


def cases() -> Iterator[Case]:
    """All cases."""
    yield from _pages()
    yield from _settings_of_groups()
    yield from _settings_of_metrics()
    yield from _listed()
    yield from _telemetry()
    yield from _groups()
    yield from _group_without_a_name()
    yield from _operations()


# -- DescribeTopicPartitions --


def _page(label: str, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Case:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor
        and DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return Case(f"partitions: {label}", request)


def _pages() -> Iterator[Case]:
    yield _page("all")
    yield _page("by name", "two", "one")
    yield _page("twice the same", "one", "one")
    yield _page("unknown", "none", "one")
    yield _page("an empty name", "", "one")
    yield _page("an invalid name", "a/b", "one")
    yield _page("a long name", "x" * 300)
    for limit in (-1, 0, 1, 2, 3, 4, 5, 6):
        yield _page(f"all, limit {limit}", limit=limit)
    yield _page("unknown ones count for nothing", "no1", "no2", "one", "three", limit=1)
    yield _page("unknown last", "one", "zzz", limit=1)
    for cursor in (
        ("three", 1),
        ("three", 3),
        ("three", 99),
        ("two", 0),
        ("thunder", 7),
        ("zzz", 0),
        ("", 0),
    ):
        yield _page(f"all from {cursor}", cursor=cursor)
        yield _page(f"one and three from {cursor}", "one", "three", cursor=cursor)
    yield _page("all from (three, -1)", cursor=("three", -1))
    yield _page("all from (gone, -1)", cursor=("gone", -1))
    yield _page("one from (one, -2)", "one", cursor=("one", -2))
    yield _page("unknown from itself", "none", "one", cursor=("none", 0))
    yield _page("two from (two, 1), limit 1", "two", "three", "one", cursor=("two", 1), limit=1)


# -- settings --


def _alter(label: str, kind: int, name: str, *changes: Change, only: bool = False) -> Case:
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=only)
    return Case(f"alter {kind} {name[:20]!r}: {label}", request)


def _replace(label: str, kind: int, name: str, **values: str) -> Case:
    resource = AlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequestAlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in values.items()
        ],
    )
    return Case(f"replace {kind} {name!r}: {label}", AlterConfigsRequest(resources=[resource]))


def _describe(label: str, kind: int, name: str, keys: list[str] | None = None) -> Case:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    return Case(f"describe {kind} {name[:20]!r}: {label}", request)


def _settings_of_groups() -> Iterator[Case]:
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    yield _describe("nothing was set", GROUP, "g")
    yield _describe("without a name", GROUP, "")
    for value in ("45000", "50000", "60000", "44999", "60001", "0", "-1", "abc", "", " 50001 ", "9999999999"):
        yield _alter(f"{session}={value!r}", GROUP, "g", (session, SET, value))
    for value in ("5000", "15000", "4999", "15001", "1.5"):
        yield _alter(f"{heartbeat}={value!r}", GROUP, "g", (heartbeat, SET, value))
    yield _describe("both were set", GROUP, "g")
    yield _describe("one is asked for", GROUP, "g", [session, "none"])
    yield _describe("none is asked for", GROUP, "g", [])
    yield _alter("unknown", GROUP, "g", ("max.size", SET, "1"))
    yield _alter("a good and a bad one", GROUP, "g", (session, SET, "46000"), ("max.size", SET, "1"))
    yield _alter("only tried", GROUP, "g", (session, SET, "47000"), only=True)
    yield _alter("append", GROUP, "g", (session, APPEND, "1"))
    yield _alter("delete what was never set", GROUP, "other", (session, DELETE, None))
    yield _alter("without a name", GROUP, "", (session, SET, "46000"))
    yield _alter("without a value", GROUP, "g", (session, SET, None))
    yield _alter("unknown operation", GROUP, "g", (session, 7, "46000"))
    yield _alter("twice", GROUP, "g", (session, SET, "46000"), (session, SET, "46000"))
    yield _alter("a long name", GROUP, "n" * 300, (session, SET, "46000"))
    for family in ("share", "streams"):
        for key, value in (
            ("session.timeout.ms", "46000"),
            ("session.timeout.ms", "1"),
            ("heartbeat.interval.ms", "6000"),
            ("heartbeat.interval.ms", "1"),
        ):
            yield _alter(f"{family}.{key}={value}", GROUP, family, (f"{family}.{key}", SET, value))
    for key, value in (
        ("share.auto.offset.reset", "earliest"),
        ("share.auto.offset.reset", "EARLIEST"),
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:-PT1H"),
        ("share.auto.offset.reset", "by_duration:soon"),
        ("share.auto.offset.reset", "none"),
        ("share.isolation.level", "read_committed"),
        ("share.isolation.level", "none"),
        ("share.record.lock.duration.ms", "15000"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.renew.acknowledge.enable", "false"),
        ("share.delivery.count.limit", "3"),
        ("share.partition.max.record.locks", "300"),
        ("streams.num.standby.replicas", "1"),
        ("streams.num.standby.replicas", "3"),
        ("streams.num.standby.replicas", "-1"),
        ("streams.initial.rebalance.delay.ms", "100"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("consumer.assignment.interval.ms", "500"),
        ("consumer.assignment.interval.ms", "-1"),
        ("consumer.assignor.offload.enable", "true"),
        ("errors.deadletterqueue.topic.name", "dlq"),
    ):
        yield _alter(f"{key}={value}", GROUP, "kept", (key, SET, value))
    yield _describe("kept", GROUP, "kept")
    yield _replace("replaced", GROUP, "g", consumer_session_timeout_ms="51000")
    yield _replace("replaced by something unknown", GROUP, "g", none="1")
    yield _describe("after it was replaced", GROUP, "g")
    yield _alter("taken away", GROUP, "share", ("share.session.timeout.ms", DELETE, None))
    yield _describe("taken away", GROUP, "share")


def _settings_of_metrics() -> Iterator[Case]:
    yield _describe("nothing was set", METRICS, "m")
    yield _describe("without a name", METRICS, "")
    yield _alter("without a name", METRICS, "", ("metrics", SET, "a"))
    for value in ("99", "100", "3600000", "3600001", "abc", "", "-1", "1e3"):
        yield _alter(f"interval.ms={value!r}", METRICS, "m", ("interval.ms", SET, value))
    for value in ("a.b,c.d", "*", "", "a,a", "a, b", ",", "a,,b"):
        yield _alter(f"metrics={value!r}", METRICS, "m", ("metrics", SET, value))
        yield _describe(f"metrics={value!r}", METRICS, "m")
    for value in (
        "client_id=x",
        "client_id = x.* , client_software_name=apache-kafka-java",
        "client_software_version=1.*",
        "client_source_address=127.0.0.1",
        "client_source_port=9000",
        "client_instance_id=b69cc35a-7a54-4790-aa69-cc2bd4ee4538",
        "client_id",
        "client_id=",
        "=x",
        "client_id=a=b",
        "nobody=x",
        "CLIENT_ID=x",
        "client_id=(",
        "client_id=[a",
        "client_id=a{2",
        "client_id=*",
        "client_id=(?i)abc",
        "client_id=\\p{Alpha}+",
        "client_id=(?<=a)b",
        "client_id=a++",
        "client_id=x,client_id=y",
        "",
    ):
        yield _alter(f"match={value!r}", METRICS, "m", ("match", SET, value))
    yield _describe("all three", METRICS, "m")
    yield _alter("append to metrics", METRICS, "m", ("metrics", APPEND, "e.f"))
    yield _alter("append to interval.ms", METRICS, "m", ("interval.ms", APPEND, "e.f"))
    yield _alter("subtract from metrics", METRICS, "m", ("metrics", SUBTRACT, "a"))
    yield _alter("append to what was never set", METRICS, "appended", ("metrics", APPEND, "x"))
    yield _describe("appended", METRICS, "appended")
    yield _alter("unknown", METRICS, "m", ("retention.ms", SET, "1"))
    yield _alter("only tried", METRICS, "tried", ("metrics", SET, "a"), only=True)
    yield _alter("delete what was never set", METRICS, "none", ("metrics", DELETE, None))
    yield _describe("after all", METRICS, "m")
    yield _replace("replaced", METRICS, "m", metrics="z")
    yield _describe("after it was replaced", METRICS, "m")
    yield _alter("taken away", METRICS, "appended", ("metrics", DELETE, None))
    yield _describe("taken away", METRICS, "appended")


def _listed() -> Iterator[Case]:
    for kinds in ([], [2], [4], [8], [16], [32], [0], [1], [64], [-1], [2, 2], [32, 16], [2, 99], [16, 8, 4]):
        yield Case(f"list {kinds}", ListConfigResourcesRequest(resource_types=kinds), 1)
    yield Case("list, version 0", ListConfigResourcesRequest(), 0)


# -- telemetry --


def _id(number: int) -> Uuid:
    return Uuid(bytes([number]) * 16)


def _get(label: str, number: int) -> Case:
    return Case(f"subscriptions: {label}", GetTelemetrySubscriptionsRequest(client_instance_id=_id(number)))


def _push(
    label: str, who: Uuid, metrics: bytes = b"", *, codec: int = 0, ending: bool = False, right: bool = True
) -> Case:
    request = PushTelemetryRequest(
        client_instance_id=who,
        subscription_id=12345,
        terminating=ending,
        compression_type=codec,
        metrics=metrics,
    )
    return Case(f"push: {label}", request, None, who if right else None)


def _telemetry() -> Iterator[Case]:
    for name in ("m", "kept"):
        yield _alter("taken away", METRICS, name, ("metrics", DELETE, None))
    yield _get("nothing is subscribed", 1)
    yield _get("too early", 1)
    yield _push("at once after it asked", _id(1), right=True)
    yield _push("too early", _id(1))
    yield _alter("everybody", METRICS, "all", ("metrics", SET, "b.,a."), ("interval.ms", SET, "3600000"))
    yield _get("at once after the subscription changed", 1)
    yield _get("another client", 2)
    yield _alter("more", METRICS, "some", ("metrics", SET, "*"), ("interval.ms", SET, "1000000"))
    yield _get("everything is asked for", 2)
    yield _alter(
        "nobody",
        METRICS,
        "nobody",
        ("metrics", SET, "x"),
        ("interval.ms", SET, "100"),
        ("match", SET, "client_id=none"),
    )
    yield _get("a pattern that does not match", 3)
    yield _alter(
        "part",
        METRICS,
        "part",
        ("metrics", SET, "x"),
        ("interval.ms", SET, "200000"),
        ("match", SET, "client_id=tes"),
    )
    yield _get("a pattern that matches only a part", 4)
    yield _alter(
        "me",
        METRICS,
        "me",
        ("interval.ms", SET, "100000"),
        ("match", SET, "client_id=te.*,client_software_name=barnabas"),
    )
    yield _get("patterns that match", 5)
    yield _push("wrong subscription", _id(5), right=False)
    yield _get("asks again because of that", 5)
    yield _push("from a client that never asked", _id(6), right=False)
    yield _push("from nobody", ZERO_UUID, right=False)
    yield _push("from the reserved id 1", Uuid(bytes(15) + b"\1"), right=False)
    for codec in range(5):
        yield _get(f"for codec {codec}", 10 + codec)
        yield _push(f"nothing, codec {codec}", _id(10 + codec), codec=codec)
    for codec in (-1, 5, 100):
        yield _get(f"for codec {codec}", 30 + codec)
        yield _push(f"records, codec {codec}", _id(30 + codec), b"abc", codec=codec)
        yield _get(f"again after codec {codec}", 30 + codec)
    yield _get("for too much", 40)
    yield _push("too much", _id(40), bytes(_LARGEST + 1))
    yield _get("again after too much", 40)
    yield _get("for a bomb", 41)
    yield _push("a bomb", _id(41), compress(Codec.GZIP, bytes(500_000)), codec=1)
    for codec in (1, 2, 3, 4):
        yield _get(f"for what codec {codec} cannot unpack", 50 + codec)
        yield _push(f"what codec {codec} cannot unpack", _id(50 + codec), b"\xff\xfe\xfd" * 9, codec=codec)
    yield _get("for the end", 60)
    yield _push("the end", _id(60), ending=True)
    yield _push("after the end", _id(60))
    yield _push("the end again", _id(60), ending=True)
    yield _get("after the end", 60)


def _groups() -> Iterator[Case]:
    def join(label: str, number: int) -> Case:
        request = ConsumerGroupHeartbeatRequest(
            group_id="beats",
            member_id=f"{number}{number}{number}",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["one"],
            topic_partitions=[],
        )
        return Case(f"heartbeat: {label}", request, 1)

    interval = "consumer.heartbeat.interval.ms"
    yield join("nothing was set", 1)
    yield _alter("7 s", GROUP, "beats", (interval, SET, "7000"))
    yield join("7 s was set", 2)
    yield _alter("default", GROUP, "beats", (interval, DELETE, None))
    yield join("it was taken away", 3)
    for asked in (True, False):
        yield Case(
            f"consumer groups, operations {asked}",
            ConsumerGroupDescribeRequest(
                group_ids=["beats", "nobody", ""], include_authorized_operations=asked
            ),
        )
        yield Case(
            f"classic description of a consumer group, operations {asked}",
            DescribeGroupsRequest(groups=["beats", ""], include_authorized_operations=asked),
            5,
        )


def _group_without_a_name() -> Iterator[Case]:
    topic = OffsetCommitRequestTopic(
        name="one", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    )
    wanted = OffsetFetchRequestTopics(name="one", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="", topics=[wanted])
    one = OffsetDeleteRequestTopic(name="one", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    for version in (5, 6):
        yield Case(
            f"no name: describe v{version} what is not there", DescribeGroupsRequest(groups=[""]), version
        )
    yield Case("no name: delete what is not there", DeleteGroupsRequest(groups_names=[""]))
    yield Case("no name: fetch what is not there", OffsetFetchRequest(groups=[group]), 8)
    yield Case("no name: commit", OffsetCommitRequest(group_id="", topics=[topic]), 8)
    yield Case("no name: fetch", OffsetFetchRequest(groups=[group]), 8)
    yield Case("no name: delete an offset", OffsetDeleteRequest(group_id="", topics=[one]))
    yield Case("no name: describe", DescribeGroupsRequest(groups=[""]), 6)
    yield Case("no name: heartbeat", HeartbeatRequest(group_id="", member_id="m"))
    yield Case("no name: leave", LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="m")]), 4)
    yield Case("no name: delete", DeleteGroupsRequest(groups_names=[""]))
    yield Case("no name: fetch what was deleted", OffsetFetchRequest(groups=[group]), 8)


def _operations() -> Iterator[Case]:
    for version in (8, 9, 10):
        yield Case(
            f"metadata v{version} with operations",
            MetadataRequest(
                topics=[MetadataRequestTopic(name="one")],
                include_cluster_authorized_operations=True,
                include_topic_authorized_operations=True,
            ),
            version,
        )
    for asked in (True, False):
        yield Case(
            f"cluster, operations {asked}",
            DescribeClusterRequest(include_cluster_authorized_operations=asked),
        )
        for version in (3, 5, 6):
            yield Case(
                f"group v{version}, operations {asked}",
                DescribeGroupsRequest(groups=["nobody"], include_authorized_operations=asked),
                version,
            )


# -- asking --


def plain(value: Any) -> Any:
    """An answer as JSON has it, without what differs from one run to the next."""
    if isinstance(value, Struct):
        shown = {name: plain(getattr(value, name)) for name in value.__slots__ if name not in _UNSAID}
        if "error_code" in shown:
            shown["error_code"] = ErrorCode(shown["error_code"]).name
        if "topic_id" in shown:
            shown["topic_id"] = value.topic_id != ZERO_UUID  # type: ignore[attr-defined]
        return shown
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, (bytes, Uuid)) else value


def asked_in_turn(connection: BlockingConnection, settles_s: float = 0.0) -> dict[str, Any]:
    """What a node answers; its topics must not exist yet.

    Apache Kafka needs `settles_s` until a change counts; a node of ours answers when it does.
    """
    created = connection.request(
        CreateTopicsRequest(
            timeout_ms=10_000,
            topics=[
                CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                for name, count in TOPICS.items()
            ],
        )
    )
    assert [topic.error_code for topic in created.topics] == [0, 0, 0], created
    _find_coordinator(connection)
    subscriptions: dict[Uuid, int] = {}
    answers: dict[str, Any] = {}
    for case in cases():
        assert case.label not in answers, case.label
        request = case.request
        if case.subscribed is not None:
            request.subscription_id = subscriptions.get(case.subscribed, 0)  # type: ignore[attr-defined]
        answer = connection.request(request, case.version)
        if isinstance(request, (IncrementalAlterConfigsRequest, AlterConfigsRequest)):
            time.sleep(settles_s)
        if isinstance(request, GetTelemetrySubscriptionsRequest) and not answer.error_code:
            subscriptions[request.client_instance_id] = answer.subscription_id
        answers[case.label] = plain(answer)
    return answers


def _find_coordinator(connection: BlockingConnection) -> None:
    """Have the topic of the groups made, and wait for it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = connection.request(FindCoordinatorRequest(coordinator_keys=["nobody"]))
        described = connection.request(DescribeGroupsRequest(groups=["nobody"]), 5)
        if not found.coordinators[0].error_code and not described.groups[0].error_code:
            return
        time.sleep(0.2)
    raise AssertionError("no coordinator")


def record(address: str) -> dict[str, Any]:
    """Ask a real broker."""
    host, _, port = address.rpartition(":")
    with BlockingConnection(host, int(port), client_id="test") as connection:
        return asked_in_turn(connection, settles_s=0.3)


if __name__ == "__main__":
    json.dump(record(sys.argv[1]), sys.stdout, indent=1)
    sys.stdout.write("\n")
