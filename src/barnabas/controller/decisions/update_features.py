"""UpdateFeatures: raise or lower a finalized feature level (KIP-584, KIP-1022), a decision only.

All updates of a request are taken or none.  A level must be in the range of every registered broker and
controller.  The quorum raises kraft.version (`server/api/features`).
"""

from __future__ import annotations

from enum import IntEnum

from barnabas.controller.feature_levels import FEATURES, KRAFT_VERSION, METADATA_VERSION
from barnabas.controller.image import BrokerState, ControllerState
from barnabas.controller.view import Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import FeatureLevelRecord
from barnabas.wire.schemas.configs import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["update_features"]


class UpgradeType(IntEnum):
    """Which way a level may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(view: View, request: UpdateFeaturesRequest) -> Decision:
    """UpdateFeatures (key 57)."""
    records: list[MetadataRecord] = []
    try:
        for update in request.feature_updates:
            records += _update(view, update)
    except KafkaError as error:
        return Decision(UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=None)
        for update in request.feature_updates
        if view.version < 2
    ]
    answer = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision(answer, [] if request.validate_only else records)


def _update(view: View, update: FeatureUpdateKey) -> list[MetadataRecord]:
    name, level = update.feature, update.max_version_level
    feature = FEATURES.get(name)
    if feature is None:
        raise _refused(f"unknown feature {name}")
    if name == KRAFT_VERSION:
        raise _refused("kraft.version is raised by the quorum, not by the controller")
    if level != 0 and not feature.low <= level <= feature.high:
        raise _refused(f"{name} {level} is out of range {feature.low} to {feature.high}")
    current = view.image.feature(name)
    upgrade_type = update.upgrade_type
    if view.version == 0 and update.allow_downgrade:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE
    if level < current:
        if upgrade_type == UpgradeType.UPGRADE:
            raise _refused(f"{name} is at {current}; going down to {level} must be asked for as a downgrade")
        if name == METADATA_VERSION:
            raise _refused("metadata.version cannot be lowered: the log may hold records of the higher level")
    elif upgrade_type != UpgradeType.UPGRADE and level > current:
        raise _refused(f"{name} is at {current}; {level} is no downgrade")
    if level == current:
        return []
    if why := _unsupported(view, name, level):
        raise _refused(why)
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _unsupported(view: View, name: str, level: int) -> str | None:
    """The registered node that does not know that level.  A controller that no longer votes does not count."""
    image, voters = view.image, view.voters
    controllers = [c for c in image.controllers.values() if voters is None or c.id in voters]
    nodes: list[BrokerState | ControllerState] = [*image.brokers.values(), *controllers]
    for node in nodes:
        low, high = node.features.get(name, (0, 0))
        if level and not low <= level <= high:
            return f"node {node.id} supports {name} {low} to {high} only, not {level}"
    return None


def _refused(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)
