"""Quotas set, removed and described: the answers of Apache Kafka 4.3.1, asked of a running one."""

from __future__ import annotations

import pytest
from tests.controller.cluster import Cluster

from barnabas.controller.decisions.client_quotas import describe_client_quotas
from barnabas.controller.snapshot import image_from, image_records
from barnabas.errors import ErrorCode
from barnabas.wire.metadata import ClientQuotaRecord
from barnabas.wire.schemas.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)

Entity = list[tuple[str, str | None]]
USER: Entity = [("user", "alice")]
PAIR: Entity = [("user", "alice"), ("client-id", "c")]
ADDRESS: Entity = [("ip", "127.0.0.1")]
PRODUCE, FETCH, CPU = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECT = "connection_creation_rate"
EXACT, DEFAULT, ANY = 0, 1, 2


def entry(entity: Entity, **quotas: float | None) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type=t, entity_name=n) for t, n in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alter(
    cluster: Cluster, *entries: AlterClientQuotasRequestEntryData, only: bool = False
) -> tuple[list[int], int]:
    """The error codes, and how many records were written."""
    before = cluster.offset
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=only)
    answer = cluster.answer(AlterClientQuotasResponse, request)
    return [row.error_code for row in answer.entries], cluster.offset - before


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


def test_a_quota_is_set_changed_and_removed_and_only_changes_are_written(cluster: Cluster) -> None:
    assert alter(cluster, entry(PAIR, producer_byte_rate=10.0, request_percentage=0.5)) == ([0], 2)
    assert alter(cluster, entry(PAIR[::-1], producer_byte_rate=10.0)) == ([0], 0)
    assert alter(cluster, entry(PAIR, producer_byte_rate=20.0), only=True) == ([0], 0)
    assert cluster.image.client_quotas == {frozenset(PAIR): {PRODUCE: 10.0, CPU: 0.5}}
    assert alter(cluster, entry(PAIR, producer_byte_rate=None, request_percentage=None)) == ([0], 2)
    assert alter(cluster, entry(PAIR, producer_byte_rate=None, nonsense=None)) == ([0], 0)
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize(
    ("entity", "quota", "value"),
    [
        ([("user", None)], FETCH, 5.0),
        ([("client-id", None), ("user", None)], PRODUCE, 7.0),
        (USER, PRODUCE, 1.00000001),
        (USER, CPU, 1e10),
        (ADDRESS, CONNECT, 3.0),
        ([("ip", None)], CONNECT, 3.0),
        ([("ip", "::1")], CONNECT, 3.0),
    ],
)
def test_what_apache_kafka_takes_is_taken(cluster: Cluster, entity: Entity, quota: str, value: float) -> None:
    assert alter(cluster, entry(entity, **{quota: value})) == ([0], 1)


REFUSED: list[tuple[Entity, str, float]] = [
    ([], PRODUCE, 3.0),
    ([("group", "g")], PRODUCE, 3.0),
    ([("", "g")], PRODUCE, 3.0),
    ([("user", "")], PRODUCE, 3.0),
    ([("client-id", "")], PRODUCE, 3.0),
    ([("ip", "no.such.host.invalid")], CONNECT, 3.0),
    ([*ADDRESS, *USER], CONNECT, 3.0),
    (USER, CONNECT, 3.0),
    (ADDRESS, PRODUCE, 3.0),
    (USER, "nonsense", 3.0),
    (USER, PRODUCE, 0.0),
    (USER, PRODUCE, -1.0),
    (USER, CPU, 0.0),
    (USER, PRODUCE, 1.5),
    (ADDRESS, CONNECT, 3.5),
    (USER, PRODUCE, float("inf")),
    (USER, PRODUCE, 1e19),
    (ADDRESS, CONNECT, 1e10),
]


@pytest.mark.parametrize(("entity", "quota", "value"), REFUSED)
def test_what_apache_kafka_refuses_is_refused(
    cluster: Cluster, entity: Entity, quota: str, value: float
) -> None:
    assert alter(cluster, entry(entity, **{quota: value})) == ([ErrorCode.INVALID_REQUEST], 0)


@pytest.mark.parametrize(
    ("entity", "quota", "value"),
    [
        ([("ip", "localhost")], CONNECT, 3.0),  # the controllers ask no name server
        ([("user", "a"), ("user", "b")], PRODUCE, 3.0),  # Kafka takes the last one
        (USER, CPU, float("nan")),
        (USER, CPU, float("inf")),
    ],
)
def test_more_is_refused_than_by_apache_kafka(
    cluster: Cluster, entity: Entity, quota: str, value: float
) -> None:
    assert alter(cluster, entry(entity, **{quota: value})) == ([ErrorCode.INVALID_REQUEST], 0)


def test_each_entity_of_a_request_succeeds_or_fails_as_a_whole(cluster: Cluster) -> None:
    good, bad = (
        entry([("user", "a")], producer_byte_rate=1.0),
        entry(USER, producer_byte_rate=1.0, nonsense=2.0),
    )
    assert alter(cluster, good, bad) == ([0, ErrorCode.INVALID_REQUEST], 1)
    twice = entry(USER, producer_byte_rate=1.0), entry(USER, consumer_byte_rate=2.0)
    assert alter(cluster, *twice) == ([ErrorCode.INVALID_REQUEST], 0)
    twice_a_key = AlterClientQuotasRequestEntryData(entity=good.entity, ops=[*good.ops, *good.ops])
    assert alter(cluster, twice_a_key) == ([ErrorCode.INVALID_REQUEST], 0)


def test_quotas_survive_a_snapshot(cluster: Cluster) -> None:
    alter(cluster, entry(PAIR, producer_byte_rate=10.0), entry([("ip", None)], connection_creation_rate=2.0))
    records = list(image_records(cluster.image))
    assert sum(isinstance(record, ClientQuotaRecord) for record in records) == 2
    again = image_from(records, cluster_id="c", end_offset=1, epoch=1, timestamp_ms=0)
    assert again.client_quotas == cluster.image.client_quotas


ALL: list[Entity] = [PAIR, USER, [("user", None)], [("client-id", "c")], ADDRESS]


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, ALL),
        ([], True, []),
        ([("user", EXACT, "alice")], False, [PAIR, USER]),
        ([("user", EXACT, "alice")], True, [USER]),
        ([("user", DEFAULT, None)], False, [[("user", None)]]),
        ([("user", ANY, None)], False, [PAIR, USER, [("user", None)]]),
        ([("user", ANY, None), ("client-id", ANY, None)], True, [PAIR]),
        ([("ip", ANY, None)], False, [ADDRESS]),
    ],
)
def test_a_filter_finds_what_matches_all_of_it(
    cluster: Cluster, components: list[tuple[str, int, str | None]], strict: bool, found: list[Entity]
) -> None:
    for entity in ALL:
        quota = CONNECT if entity == ADDRESS else PRODUCE
        alter(cluster, entry(entity, **{quota: 5.0}))
    answer = describe_client_quotas(cluster.image, filtered(components, strict))
    assert answer.error_code == 0
    entities = [{(p.entity_type, p.entity_name) for p in e.entity} for e in answer.entries or []]
    assert sorted(map(sorted, entities), key=repr) == sorted(map(sorted, found), key=repr)
    assert {v.value for e in answer.entries or [] for v in e.values} <= {5.0}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_means_nothing_is_refused(
    cluster: Cluster, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    answer = describe_client_quotas(cluster.image, filtered(components, False))
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


def filtered(components: list[tuple[str, int, str | None]], strict: bool) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=t, match_type=how, match=name) for t, how, name in components],
        strict=strict,
    )
