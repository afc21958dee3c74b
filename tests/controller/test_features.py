"""Feature levels: what a new cluster starts with, and how they are changed.

Scenarios: K199.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.cluster import Cluster, registration

from barnabas.controller.feature_levels import (
    bootstrap_levels,
    release_level,
    require_known,
    supported,
    unknown_level,
    unknown_to,
)
from barnabas.controller.image import ControllerState
from barnabas.controller.versions import record_version
from barnabas.errors import ConfigError, ErrorCode, KafkaError, NewerReleaseError
from barnabas.model import Uuid
from barnabas.wire.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.wire.schemas.brokers import (
    BrokerRegistrationRequestFeature,
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationResponse,
)
from barnabas.wire.schemas.configs import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


def update(cluster: Cluster, *keys: FeatureUpdateKey, version: int = 2, **fields: Any) -> int:
    request = UpdateFeaturesRequest(feature_updates=list(keys), **fields)
    return cluster.answer(UpdateFeaturesResponse, request, version).error_code


def key(feature: str, level: int, way: int = 1) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=way)


def test_a_new_cluster_of_this_release_has_the_levels_of_kafka_4_4() -> None:
    assert list(bootstrap_levels().items()) == [
        ("metadata.version", 33),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    assert supported()["metadata.version"] == (7, 33)
    assert supported()["kraft.version"] == (0, 1)


@pytest.mark.parametrize(
    ("release", "level"),
    [("4.4", 33), ("4.4-IV0", 31), ("4.3", 30), ("30", 30), ("3.9", 21), ("4.0-IV1", 23)],
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


@pytest.mark.parametrize(
    ("now", "wanted", "allowed"),
    [(31, 30, True), (29, 24, True), (33, 32, False), (33, 30, False), (32, 31, False), (24, 22, False)],
)
def test_metadata_version_goes_down_as_far_as_no_level_changed_the_metadata(
    now: int, wanted: int, allowed: bool
) -> None:
    """As Apache Kafka 4.4.0 decides, asked for a safe downgrade; it does no unsafe one."""
    cluster = Cluster(1)
    for image in (cluster.image, cluster.controller.image):
        image.features["metadata.version"] = now
    code = update(cluster, key("metadata.version", wanted, 2))
    assert code == (ErrorCode.NONE if allowed else ErrorCode.INVALID_UPDATE_VERSION)
    assert update(cluster, key("metadata.version", wanted, 3)) == code
    assert cluster.image.feature("metadata.version") == (wanted if allowed else now)


def test_a_refused_level_names_the_node_and_both_ranges() -> None:
    cluster = Cluster(1)

    def refusal(level: int) -> str | None:
        request = UpdateFeaturesRequest(feature_updates=[key("metadata.version", level)])
        return cluster.answer(UpdateFeaturesResponse, request, 2).error_message

    assert refusal(34) == (
        f"controller {cluster.controller.config.node_id}, which leads, supports metadata.version "
        "7 (3.3-IV3) to 33 (4.4-IV2), not 34"
    )
    for image in (cluster.image, cluster.controller.image):
        image.features["metadata.version"] = 30
    old = [f for f in registration(2).features if f.name != "metadata.version"]
    old.append(BrokerRegistrationRequestFeature(name="metadata.version", max_supported_version=30))
    cluster.register(2, features=old)
    assert refusal(33) == "broker 2 supports metadata.version 0 to 30 (4.3-IV0), not 33 (4.4-IV2)"


def test_a_node_that_does_not_know_a_level_in_force_is_named_with_both_ranges() -> None:
    levels = {"group.version": 1, "metadata.version": 33, "share.version": 0}
    assert unknown_level(supported(), levels) is None
    assert unknown_level({"metadata.version": (7, 33)}, levels) == "supports group.version 0 to 0, not 1"
    older = {"group.version": (0, 1), "metadata.version": (7, 30)}
    why = "supports metadata.version 7 (3.3-IV3) to 30 (4.3-IV0), not 33 (4.4-IV2)"
    assert unknown_level(older, levels) == why
    assert unknown_to([("metadata.version", 7, 30)], levels) == why
    assert unknown_to([("metadata.version", 7, 33)], levels) is None


@pytest.mark.parametrize(
    ("levels", "reason", "step"),
    [
        ({"metadata.version": 34}, "7 (3.3-IV3) to 33 (4.4-IV2), not 34", "--release-version 4.4"),
        ({"no.such.version": 1}, "supports no.such.version 0 to 0, not 1", "start a newer release"),
        ({"metadata.version": 3}, "not 3", "raise it to 3.3-IV3"),
    ],
)
def test_a_level_that_this_release_does_not_know_ends_the_node_with_a_way_out(
    levels: dict[str, int], reason: str, step: str
) -> None:
    with pytest.raises(NewerReleaseError) as caught:
        require_known(levels)
    assert reason in caught.value.message and caught.value.fatal
    assert step in (caught.value.next_step or "")


def test_a_controller_that_does_not_know_a_level_in_force_is_not_registered() -> None:
    cluster = Cluster(1)
    features = [ControllerRegistrationRequestFeature(name="metadata.version", max_supported_version=30)]
    with pytest.raises(KafkaError, match=r"controller 5 supports metadata\.version 0 to 30") as caught:
        cluster.answer(
            ControllerRegistrationResponse, ControllerRegistrationRequest(controller_id=5, features=features)
        )
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_replicas_that_may_lead_are_not_kept_where_the_log_has_no_words_for_them() -> None:
    """Apache Kafka: eligible.leader.replicas.version 1 depends on metadata.version 23."""
    elr = "eligible.leader.replicas.version"
    cluster = Cluster(1)
    for image in (cluster.image, cluster.controller.image):
        image.features["metadata.version"] = 22
        image.features.pop(elr, None)
    assert update(cluster, key(elr, 1)) == ErrorCode.INVALID_UPDATE_VERSION
    assert update(cluster, key(elr, 1), key("metadata.version", 23)) == 0
    with pytest.raises(ConfigError, match=r"needs metadata\.version 23 \(4\.0-IV1\) or higher, not 22"):
        bootstrap_levels(22, {elr: 1})
    assert bootstrap_levels(23, {elr: 1})[elr] == 1


def test_one_refused_update_refuses_all() -> None:
    cluster = Cluster(1)
    assert update(cluster, key("share.version", 0, 2), key("no.such", 1)) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.image.feature("share.version") == 2


@pytest.mark.parametrize(
    "asked",
    [
        key("share.version", 3),
        key("kraft.version", 1),
        key("metadata.version", 29, 2),
        key("metadata.version", 32, 3),
        key("metadata.version", 0, 2),
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
    assert cluster.image.feature("share.version") == 2
