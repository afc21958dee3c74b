"""Feature levels: what a new cluster starts with, and how they are changed.

Scenarios: K199.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.cluster import Cluster, registration

from barnabas.controller.feature_levels import bootstrap_levels, release_level, supported
from barnabas.controller.image import ControllerState
from barnabas.controller.versions import record_version
from barnabas.errors import ConfigError, ErrorCode
from barnabas.model import Uuid
from barnabas.wire.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.wire.schemas.configs import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


def update(cluster: Cluster, *keys: FeatureUpdateKey, version: int = 2, **fields: Any) -> int:
    request = UpdateFeaturesRequest(feature_updates=list(keys), **fields)
    return cluster.answer(UpdateFeaturesResponse, request, version).error_code


def key(feature: str, level: int, way: int = 1) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=way)


def test_a_new_cluster_of_this_release_has_the_levels_of_kafka_4_3() -> None:
    assert list(bootstrap_levels().items()) == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    assert supported()["metadata.version"] == (7, 30)
    assert supported()["kraft.version"] == (0, 1)


@pytest.mark.parametrize(
    ("release", "level"), [("4.3", 30), ("4.3-IV0", 30), ("30", 30), ("3.9", 21), ("4.0-IV1", 23)]
)
def test_releases_name_levels(release: str, level: int) -> None:
    assert release_level(release) == level


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(ConfigError):
        release_level("2.8")


def test_records_are_written_so_that_every_node_at_the_level_can_read_them() -> None:
    partition = PartitionRecord()
    assert [record_version(partition, level) for level in (16, 17, 22, 23, 30)] == [0, 1, 1, 2, 2]
    broker = RegisterBrokerRecord()
    assert [record_version(broker, level) for level in (7, 8, 17, 29, 30)] == [1, 2, 3, 3, 4]
    assert record_version(TopicRecord(), 30) == 0
    change = BrokerRegistrationChangeRecord
    assert record_version(change(fenced=1), 30) == 0
    assert record_version(change(in_controlled_shutdown=1), 30) == 1
    assert record_version(change(log_dirs=[Uuid.of(1, 1)]), 30) == 2
    assert record_version(change(cordoned_log_dirs=[]), 30) == 3


def test_a_level_goes_down_when_asked_so_and_up_again() -> None:
    cluster = Cluster(1)
    assert update(cluster, key("share.version", 0)) == ErrorCode.INVALID_UPDATE_VERSION
    assert update(cluster, key("share.version", 0, 2)) == 0
    assert cluster.image.feature("share.version") == 0
    assert update(cluster, key("share.version", 1)) == 0
    assert cluster.image.feature("share.version") == 1


def test_one_refused_update_refuses_all() -> None:
    cluster = Cluster(1)
    assert update(cluster, key("share.version", 0, 2), key("no.such", 1)) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.image.feature("share.version") == 1


@pytest.mark.parametrize(
    "asked",
    [
        key("share.version", 2),
        key("kraft.version", 1),
        key("metadata.version", 29, 2),
        key("metadata.version", 99),
    ],
    ids=str,
)
def test_levels_that_cannot_be_are_refused(asked: FeatureUpdateKey) -> None:
    assert update(Cluster(1), asked) == ErrorCode.INVALID_UPDATE_VERSION


def test_a_level_that_a_broker_does_not_support_is_refused() -> None:
    cluster = Cluster(1)
    assert update(cluster, key("share.version", 0, 2)) == 0
    kept = [f for f in registration(2).features if f.name != "share.version"]
    cluster.register(2, features=kept)
    assert update(cluster, key("share.version", 1)) == ErrorCode.INVALID_UPDATE_VERSION


def test_a_controller_that_was_removed_does_not_hold_a_level_up_but_a_voter_does() -> None:
    cluster = Cluster(1)
    assert update(cluster, key("share.version", 0, 2)) == 0
    cluster.image.controllers[4] = ControllerState(4, Uuid(bytes(16)), (), {})  # registered by an old release
    cluster.controller.image.controllers[4] = cluster.image.controllers[4]
    voters: tuple[int, ...] = (1, 4)
    cluster.controller._voters = lambda: voters
    assert update(cluster, key("share.version", 1)) == ErrorCode.INVALID_UPDATE_VERSION
    voters = (1,)
    assert update(cluster, key("share.version", 1)) == 0


def test_only_trying_changes_nothing() -> None:
    cluster = Cluster(1)
    assert update(cluster, key("share.version", 0, 2), validate_only=True) == 0
    assert cluster.image.feature("share.version") == 1
