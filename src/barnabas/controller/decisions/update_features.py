"""UpdateFeatures: raise or lower a finalized feature level (KIP-584, KIP-1022), a decision only.

All updates of a request are taken or none.  A level must be in the range of every registered broker and
controller.  The quorum raises kraft.version (`server/api/features`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from barnabas.controller.feature_levels import (
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    changes_metadata,
    lacking,
    level_text,
    supported,
    unknown_level,
)
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
        updated = {update.feature: update.max_version_level for update in request.feature_updates}
        if why := lacking({**view.image.features, **updated}):
            raise _refused(why)
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
    if name not in FEATURES:
        raise _refused(f"unknown feature {name}")
    if name == KRAFT_VERSION:
        raise _refused("kraft.version is raised by the quorum, not by the controller")
    current = view.image.feature(name)
    upgrade_type = update.upgrade_type
    if view.version == 0 and update.allow_downgrade:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE
    if level < current:
        if upgrade_type == UpgradeType.UPGRADE:
            raise _refused(f"{name} is at {current}; going down to {level} must be asked for as a downgrade")
        if name == METADATA_VERSION and (level < FEATURES[name].low or changes_metadata(level, current)):
            raise _refused(
                f"metadata.version cannot be lowered from {level_text(name, current)} to "
                f"{level_text(name, level)}: the log may hold records of the higher level"
            )
    elif upgrade_type != UpgradeType.UPGRADE and level > current:
        raise _refused(f"{name} is at {current}; {level} is no downgrade")
    if level == current:
        return []
    if why := _unsupported(view, {name: level}):
        raise _refused(why)
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _unsupported(view: View, levels: Mapping[str, int]) -> str | None:
    """The node that does not know such a level.  A controller that no longer votes does not count."""
    image, voters = view.image, view.voters
    if why := unknown_level(supported(), levels):
        return f"controller {view.config.node_id}, which leads, {why}"
    for broker in image.brokers.values():
        if why := unknown_level(broker.features, levels):
            return f"broker {broker.id} {why}"
    for controller in image.controllers.values():
        if voters is not None and controller.id not in voters:
            continue
        if why := unknown_level(controller.features, levels):
            return f"controller {controller.id} {why}"
    return None


def _refused(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)
