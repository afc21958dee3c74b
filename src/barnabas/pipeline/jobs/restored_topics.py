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
from barnabas.pipeline.archives.file_log import newest_batch
from barnabas.pipeline.archives.index import ArchivedFile, write_whole

__all__ = [
    "BEGINS_WITH",
    "CHECKPOINT",
    "Change",
    "Times",
    "changes_needed",
    "check_goes_on",
    "check_targets",
    "has_records",
    "own_configs",
    "prepare",
    "write_targets",
]

CHECKPOINT = "checkpoint"
"""Of the query of a restore, in its directory."""
_TARGETS = "targets.json"
BEGINS_WITH = (_TARGETS, f"{_TARGETS}.new", "index.json.new")
"""What a restore may have left in its directory that was cut off before its index was whole."""
_FOR_EVER = {"retention.ms": "-1"}
_ANY_AGE_MS = str((1 << 63) - 1)
_NOT_KEPT = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Configs that say something of one cluster's brokers only."""


class Times(NamedTuple):
    """The oldest and the newest timestamp of an archive's records, ms since 1970; None: it does not say."""

    oldest: int | None
    newest: int | None

    @classmethod
    def of(cls, files: list[ArchivedFile]) -> Times:
        """Return those of some files, one at least."""
        oldest = [file.oldest for file in files if file.oldest is not None]
        newest = [file.newest for file in files if file.newest is not None]
        return cls(
            min(oldest) if len(oldest) == len(files) else None,
            max(newest) if len(newest) == len(files) else None,
        )


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


def changes_needed(configs: Mapping[str, str], times: Times, now: int) -> list[Change]:
    """Return what a topic with these configs must have otherwise for a restore.  `now`: ms since 1970."""
    age = None if times.oldest is None else now - times.oldest
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
    ahead = None if times.newest is None else times.newest - now
    for limit, far, which in (("before", age, "old"), ("after", ahead, "future")):
        name = f"message.timestamp.{limit}.max.ms"
        most = int(configs.get(name, _ANY_AGE_MS))
        if most < int(_ANY_AGE_MS) and (far is None or far > most):
            found.append(Change(name, _ANY_AGE_MS, f"it is {most}: {which} records would be refused"))
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
    of_topic: dict[str, list[ArchivedFile]] = {}
    for file in files:
        of_topic.setdefault(file.topic, []).append(file)
    ids = {}
    for topic in topics:
        name = names[topic.name]
        times = Times.of(of_topic[topic.name]) if topic.name in of_topic else None
        if not _check_existing(admin, topic, name, times):
            _make(admin, topic, name, times, say)
        ids[name] = str(admin.describe_topic(name).id)
    return ids


def _make(
    admin: Admin,
    topic: ArchivedTopic,
    name: str,
    times: Times | None,
    say: Callable[[str], None],
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
    changes = [] if times is None else changes_needed(_effective(admin, name), times, _now_ms())
    if changes:
        admin.alter_configs("topic", name, {change.name: change.value for change in changes})
    for change in changes:
        say(f"{name}: {change.name} is {change.value} here, for {change.reason}")


def _check_existing(admin: Admin, topic: ArchivedTopic, name: str, times: Times | None) -> bool:
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
            next_step=f"`barnabas topics grow {name} --partitions {topic.partitions}`, or rename it: "
            f"--rename {topic.name}=OTHER",
        )
    if has_records(admin, name):
        raise ConfigError(
            f"the topic {name} has records already",
            next_step=f"restore into another one: --rename {topic.name}=OTHER",
        )
    changes = [] if times is None else changes_needed(_effective(admin, name), times, _now_ms())
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


def has_records(admin: Admin, name: str) -> bool:
    """Return whether anything was ever written to a topic.  Raises KafkaError."""
    return any(at.offset for at in list_offsets(admin.cluster, name, "latest").values())


def check_goes_on(admin: Admin, checkpoint: str, names: Iterable[str]) -> None:
    """Raise BarnabasError where a job's checkpoint is gone, and topics that it wrote have records.

    Its query would be another one, which begins at the start, and writes every record again.
    """
    if newest_batch(checkpoint, "offsets") >= 0:
        return
    if full := next((name for name in names if has_records(admin, name)), None):
        raise BarnabasError(
            f"{checkpoint} is gone, and the topic {full} has records: all would be written to it again",
            next_step="bring the checkpoint back from a copy; or delete the topics that were written, and begin "
            "again in another directory",
        )


def check_targets(work: str, admin: Admin) -> None:
    """Raise BarnabasError where a restore that goes on has not the topics, or the checkpoint, that it began with.

    It would end as done with empty topics, or write everything again.
    """
    path = os.path.join(work, _TARGETS)
    try:
        with open(path, encoding="utf-8") as file:
            began = dict[str, str](json.load(file).items())
    except (OSError, ValueError, AttributeError) as error:
        raise BarnabasError(
            f"{path} cannot be read: {error}", next_step=f"restore from the start: remove {work}"
        ) from error
    there = {name: str(info.id) for name, info in admin.cluster.find(began).items()}
    if gone := sorted(name for name, id_ in began.items() if there.get(name) != id_):
        raise ConfigError(
            f"the topic {', '.join(gone)} was deleted since this restore began",
            next_step=f"restore from the start: remove {work}, or name another --checkpoint",
        )
    check_goes_on(admin, os.path.join(work, CHECKPOINT), began)
