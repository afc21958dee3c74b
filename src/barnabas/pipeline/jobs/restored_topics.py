"""The topics that a restore writes to: made as the archive describes them, and seen to keep what they get.

A topic that deletes old records would forget an archive as soon as it is restored, and one that stamps records
itself would change them.  Where a restore makes the topic it sets that aside and says so; where somebody else made
it, it refuses.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.client.admin.admin import Admin
from barnabas.client.offsets import list_offsets
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.pipeline.archives.directory import ArchivedTopic
from barnabas.pipeline.archives.index import ArchivedFile, write_whole

__all__ = ["Change", "changes_needed", "check_targets", "own_configs", "prepare", "write_targets"]

_TARGETS = "targets.json"
_FOR_EVER = {"retention.ms": "-1"}
_ANY_AGE_MS = str((1 << 63) - 1)
_NOT_KEPT = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Configs that say something of one cluster's brokers only."""


class Change(NamedTuple):
    """A config that must have another value for a restore, and why."""

    name: str
    value: str
    reason: str


def own_configs(admin: Admin, topic: str) -> dict[str, str]:
    """The configs that were set on a topic itself.  Raises KafkaError."""
    return {
        found.name: found.value
        for found in admin.configs("topic", topic)
        if found.source == "topic" and found.value is not None and found.name not in _NOT_KEPT
    }


def changes_needed(configs: Mapping[str, str], oldest: int | None, now: int) -> list[Change]:
    """What a topic with these configs must not have for a restore.  `oldest` record, and now: ms since 1970."""
    age = None if oldest is None else now - oldest
    found = []
    kept_ms = int(configs.get("retention.ms", "-1"))
    deletes = "delete" in configs.get("cleanup.policy", "delete")
    if deletes and kept_ms >= 0 and (age is None or age > kept_ms):
        said = "the oldest record is older" if age is not None else "the age of its records is not known"
        found.append(
            Change("retention.ms", "-1", f"it is {kept_ms}, and {said}: it would be deleted at once")
        )
    if deletes and int(configs.get("retention.bytes", "-1")) >= 0:
        reason = (
            f"it is {configs['retention.bytes']}: the first records would be deleted where there are more"
        )
        found.append(Change("retention.bytes", "-1", reason))
    if configs.get("message.timestamp.type") == "LogAppendTime":
        reason = "it is LogAppendTime: records would get the time of the restore"
        found.append(Change("message.timestamp.type", "CreateTime", reason))
    before = int(configs.get("message.timestamp.before.max.ms", _ANY_AGE_MS))
    if age is None or age > before:
        reason = f"it is {before}: old records would be refused"
        if before < int(_ANY_AGE_MS):
            found.append(Change("message.timestamp.before.max.ms", _ANY_AGE_MS, reason))
    return found


def prepare(
    admin: Admin,
    topics: Iterable[ArchivedTopic],
    names: Mapping[str, str],
    files: Iterable[ArchivedFile],
    say: Callable[[str], None],
) -> dict[str, str]:
    """Make the topics that are not there; the ids of all of them by name.

    Raises ConfigError for one that cannot take the archive, KafkaError.
    """
    oldest: dict[str, list[int | None]] = {}
    for file in files:
        oldest.setdefault(file.topic, []).append(file.oldest)
    ids = {}
    for topic in topics:
        name, ages = names[topic.name], oldest.get(topic.name, [])
        known = [age for age in ages if age is not None]
        age = min(known) if len(known) == len(ages) and known else None
        if not _check_existing(admin, topic, name, age, empty=not ages):
            _make(admin, topic, name, age, say, empty=not ages)
        ids[name] = str(admin.describe_topic(name).id)
    return ids


def _make(
    admin: Admin,
    topic: ArchivedTopic,
    name: str,
    oldest: int | None,
    say: Callable[[str], None],
    *,
    empty: bool,
) -> None:
    if topic.configs is None:
        say(
            f"{name}: the archive does not have the configs of {topic.name}, so it keeps its records for ever "
            "(retention.ms=-1)"
        )
    try:
        admin.create_topic(
            name, partitions=topic.partitions, configs=_FOR_EVER if topic.configs is None else topic.configs
        )
    except KafkaError as error:
        if error.code is ErrorCode.INVALID_CONFIG:
            error.next_step = f"make the topic yourself (`barnabas topics create {name}`), then restore again"
        raise
    changes = [] if empty else changes_needed(_effective(admin, name), oldest, _now_ms())
    if changes:
        admin.alter_configs("topic", name, {change.name: change.value for change in changes})
    for change in changes:
        say(f"{name}: {change.name} is {change.value} here, for {change.reason}")


def _check_existing(
    admin: Admin, topic: ArchivedTopic, name: str, oldest: int | None, *, empty: bool
) -> bool:
    """Whether the topic is there.  Raises ConfigError where it cannot take the archive."""
    try:
        there = len(admin.describe_topic(name).partitions)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False
    if there < topic.partitions:
        raise ConfigError(
            f"the topic {name} has {there} partitions, the archive {topic.partitions}",
            next_step=f"barnabas topics alter {name} --partitions {topic.partitions}, or rename it: "
            f"--rename {topic.name}=OTHER",
        )
    if any(at.offset for at in list_offsets(admin.cluster, name, "latest").values()):
        raise ConfigError(
            f"the topic {name} has records already",
            next_step=f"restore into another one: --rename {topic.name}=OTHER",
        )
    changes = [] if empty else changes_needed(_effective(admin, name), oldest, _now_ms())
    if changes:
        wanted = " ".join(f"{change.name}={change.value}" for change in changes)
        raise ConfigError(
            f"the topic {name} would not keep the archive as it is: {changes[0].name}: {changes[0].reason}",
            next_step=f"`barnabas configs set topic {name} {wanted}`, then restore again",
        )
    return True


def _effective(admin: Admin, name: str) -> dict[str, str]:
    return {one.name: one.value for one in admin.configs("topic", name) if one.value is not None}


def _now_ms() -> int:
    return int(time.time() * 1000)


def write_targets(work: str, ids: Mapping[str, str]) -> None:
    """Keep which topics a restore writes to: before the index, which says that it has begun."""
    write_whole(os.path.join(work, _TARGETS), json.dumps(ids))


def check_targets(work: str, admin: Admin) -> None:
    """A restore that goes on needs the topics it began with: else it would end as done, and they be empty."""
    path = os.path.join(work, _TARGETS)
    try:
        with open(path, encoding="utf-8") as file:
            began: dict[str, str] = json.load(file)
    except (OSError, ValueError) as error:
        raise BarnabasError(
            f"{path} cannot be read: {error}", next_step=f"restore from the start: remove {work}"
        ) from error
    there = {name: str(info.id) for name, info in admin.cluster.find(began).items()}
    if gone := sorted(name for name, id_ in began.items() if there.get(name) != id_):
        raise ConfigError(
            f"the topic {', '.join(gone)} was deleted since this restore began",
            next_step=f"restore from the start: remove {work}, or name another --checkpoint",
        )
