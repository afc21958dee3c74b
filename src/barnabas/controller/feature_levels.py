"""Features: what this release can do, what a new cluster starts with, and how levels are raised.

A feature has a range that each node supports and one finalized level for the cluster (KIP-584, KIP-1022).
Levels are those of Apache Kafka 4.3.1; level 0 means "not in force" and is never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.controller.versions import LATEST, MINIMUM
from barnabas.errors import ConfigError
from barnabas.wire.metadata import FeatureLevelRecord

__all__ = [
    "ELR_FEATURE",
    "FEATURES",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "RELEASES",
    "Feature",
    "bootstrap_levels",
    "bootstrap_records",
    "release_levels",
    "supported",
]

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_FEATURE = "eligible.leader.replicas.version"


class Feature(NamedTuple):
    """A feature: the levels we support and, per level, the metadata.version a new cluster needs for it."""

    low: int
    high: int
    since: tuple[int, ...] = ()
    """metadata.version from which level 1, 2, ... are the default of a new cluster."""


FEATURES: dict[str, Feature] = {
    METADATA_VERSION: Feature(MINIMUM, LATEST),
    "eligible.leader.replicas.version": Feature(0, 1, (26,)),
    "group.version": Feature(0, 1, (22,)),
    KRAFT_VERSION: Feature(0, 1, (21,)),
    "share.version": Feature(0, 1, (28,)),
    "streams.version": Feature(0, 1, (29,)),
    "transaction.version": Feature(0, 2, (22, 24)),
}

RELEASES: dict[int, str] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
"""metadata.version -> the release that brought it."""


def supported() -> dict[str, tuple[int, int]]:
    """The range of each feature that this release supports, as a node registers it."""
    return {name: (feature.low, feature.high) for name, feature in FEATURES.items()}


def release_level(release: str) -> int:
    """The metadata.version of `4.3-IV0`, `4.3` or `30`.  Raises ConfigError."""
    for level, name in sorted(RELEASES.items(), reverse=True):
        if release in (name, str(level)) or name.startswith(f"{release}-IV"):
            return level
    raise ConfigError(
        f"unknown release {release!r}", next_step=f"give one of {RELEASES[MINIMUM]} to {RELEASES[LATEST]}"
    )


def release_levels(metadata_version: int, *, upgrade: bool) -> dict[str, int]:
    """What `features upgrade|downgrade --release-version` asks for, as Apache Kafka's tool does.

    An upgrade passes over what would stay at 0, and raises kraft.version where the release has it.  A downgrade
    names every feature but kraft.version, which cannot be lowered.
    """
    levels = bootstrap_levels(metadata_version)
    if upgrade:
        return levels | ({KRAFT_VERSION: 1} if metadata_version >= FEATURES[KRAFT_VERSION].since[0] else {})
    return dict.fromkeys((name for name in FEATURES if name != KRAFT_VERSION), 0) | levels


def bootstrap_levels(
    metadata_version: int = LATEST, given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The finalized levels of a new cluster: metadata.version first, then the others above 0 by name.

    `given` overrides single features.  kraft.version is not among them: the quorum's own records say it.
    Raises ConfigError for an unknown feature or a level out of range.
    """
    given = given or {}
    for name, level in given.items():
        feature = FEATURES.get(name)
        if feature is None:
            raise ConfigError(
                f"unknown feature {name!r}", next_step=f"known are {', '.join(sorted(FEATURES))}"
            )
        if not feature.low <= level <= feature.high:
            raise ConfigError(f"{name} {level} is out of range {feature.low} to {feature.high}")
    metadata_version = given.get(METADATA_VERSION, metadata_version)
    levels = {METADATA_VERSION: metadata_version}
    for name in sorted(FEATURES):
        if name in (METADATA_VERSION, KRAFT_VERSION):
            continue
        usual = sum(metadata_version >= needed for needed in FEATURES[name].since)
        if level := given.get(name, usual):
            levels[name] = level
    return levels


def bootstrap_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """The records that finalize these levels."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
