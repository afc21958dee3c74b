"""Features: what this release can do, what a new cluster starts with, and how levels are raised.

A feature has a range that each node supports and one finalized level for the cluster (KIP-584, KIP-1022).
Levels are those of Apache Kafka 4.4.0; level 0 means "not in force" and is never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.controller.versions import ELR, LATEST, MINIMUM
from barnabas.errors import ConfigError, NewerReleaseError
from barnabas.wire.metadata import FeatureLevelRecord

__all__ = [
    "ELR_FEATURE",
    "FEATURES",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "NEWER_RELEASE",
    "RELEASES",
    "Feature",
    "bootstrap_levels",
    "bootstrap_records",
    "changes_metadata",
    "lacking",
    "level_text",
    "release_level",
    "release_levels",
    "require_known",
    "supported",
    "unknown_level",
    "unknown_to",
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
    needs: int = MINIMUM
    """metadata.version below which the log has no words for a level above 0."""


FEATURES: dict[str, Feature] = {
    METADATA_VERSION: Feature(MINIMUM, LATEST),
    "eligible.leader.replicas.version": Feature(0, 1, (26,), needs=ELR),
    "group.version": Feature(0, 1, (22,)),
    KRAFT_VERSION: Feature(0, 1, (21,)),
    "share.version": Feature(0, 2, (28, 31)),
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
    31: "4.4-IV0",
    32: "4.4-IV1",
    33: "4.4-IV2",
}
"""metadata.version -> the release that brought it."""
NEWER_RELEASE = (
    "start a newer release of Barnabas on this node; or, where the cluster is new, format it for this one: "
    f"`barnabas storage format --release-version {RELEASES[LATEST].partition('-')[0]}`"
)
"""The next step of a node that meets metadata of a newer release."""
_OLD_LEVEL = f"raise it to {RELEASES[MINIMUM]} or higher, with the release that runs the cluster now"
_CHANGED_METADATA = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33))
"""Levels of metadata.version from which the log holds what the level before cannot say."""


def supported() -> dict[str, tuple[int, int]]:
    """The range of each feature that this release supports, as a node registers it."""
    return {name: (feature.low, feature.high) for name, feature in FEATURES.items()}


def level_text(name: str, level: int) -> str:
    """Return a level as it is told: "33 (4.4-IV2)" where it has a name, else "33"."""
    release = RELEASES.get(level) if name == METADATA_VERSION else None
    return f"{level} ({release})" if release else str(level)


def unknown_level(ranges: Mapping[str, tuple[int, int]], levels: Mapping[str, int]) -> str | None:
    """Name the first of these finalized levels that a node with these ranges does not know; None: it knows all.

    The words go on behind the node: "supports metadata.version 7 (3.3-IV3) to 30 (4.3-IV0), not 33 (4.4-IV2)".
    """
    for name, level in levels.items():
        low, high = ranges.get(name, (0, 0))
        if level and not low <= level <= high:
            span = f"{level_text(name, low)} to {level_text(name, high)}"
            return f"supports {name} {span}, not {level_text(name, level)}"
    return None


def unknown_to(features: Iterable[tuple[str, int, int]], levels: Mapping[str, int]) -> str | None:
    """Do as `unknown_level` for a node that answered ApiVersions: each feature with its lowest and highest level.

    Before Kafka 4.0 that answer leaves out the features whose lowest level is 0, so only those named count.
    """
    ranges = {name: (low, high) for name, low, high in features}
    return unknown_level(ranges, {name: level for name, level in levels.items() if name in ranges})


def lacking(levels: Mapping[str, int]) -> str | None:
    """Name the first of these levels that their metadata.version is too low for; None: all can be in force."""
    metadata_version = levels.get(METADATA_VERSION, LATEST)
    for name, level in levels.items():
        needs = FEATURES[name].needs if name in FEATURES else MINIMUM
        if level and metadata_version < needs:
            return (
                f"{name} {level} needs metadata.version {level_text(METADATA_VERSION, needs)} or higher, "
                f"not {level_text(METADATA_VERSION, metadata_version)}"
            )
    return None


def require_known(levels: Mapping[str, int]) -> None:
    """Raise NewerReleaseError where a cluster has finalized a level that this release does not know.

    A metadata.version below our lowest is told the same way, with what to do about that.
    """
    if why := unknown_level(supported(), levels):
        low = levels.get(METADATA_VERSION, MINIMUM) < MINIMUM
        raise NewerReleaseError(
            f"this release {why}, at which the cluster is", next_step=_OLD_LEVEL if low else NEWER_RELEASE
        )


def changes_metadata(low: int, high: int) -> bool:
    """Return whether metadata of level `high` of metadata.version may say what `low` has no words for."""
    return any(low < level <= high for level in _CHANGED_METADATA)


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
    Raises ConfigError for an unknown feature, a level out of range, or one that the metadata.version cannot have.
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
    if why := lacking(levels):
        raise ConfigError(why, next_step="give a newer --release-version, or leave the feature out")
    return levels


def bootstrap_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """The records that finalize these levels."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
