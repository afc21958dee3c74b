"""The topics that a mirror writes: made as those that it reads, and the topic of its offset map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from barnabas.client.admin.admin import Admin
from barnabas.client.metadata import TopicInfo
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.pipeline.jobs.restored_topics import check_goes_on, has_records, own_configs

__all__ = ["make_map", "make_mirrors"]

_LIKE_THE_SOURCE = ("cleanup.policy", "max.message.bytes", "retention.bytes", "retention.ms")
"""Kept also where they come from the source's brokers: else a copy would hold less, or refuse records."""
_STAMPS = ("message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
"""Not kept: the records have their timestamps already."""
_ANY_MS = str((1 << 63) - 1)


def make_mirrors(
    source: Admin,
    target: Admin,
    topics: Iterable[TopicInfo],
    names: Mapping[str, str],
    made: Mapping[str, str],
    checkpoint: str,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Make the topics that are not there, and partitions that are new; the ids of all by name.

    `made`: those of an earlier run, whose query has this checkpoint.  Raises ConfigError for one that is not this
    mirror's, BarnabasError where the checkpoint is gone, KafkaError.
    """
    ids = {}
    for topic in topics:
        name, count = names[topic.name], len(topic.partitions)
        try:
            there = target.describe_topic(name)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            if name in made:
                raise _deleted(name) from error
            target.create_topic(name, partitions=count, configs=_configs(source, topic.name, say))
            there = target.describe_topic(name)
        if name in made and made[name] != str(there.id):
            raise _deleted(name)
        if name not in made:
            _check_empty(target, topic.name, name)
        if len(there.partitions) < count:
            target.add_partitions(name, count)
        ids[name] = str(there.id)
    check_goes_on(target, checkpoint, made)
    return ids


def make_map(target: Admin, name: str) -> None:
    """The topic of the offset map; it keeps everything, for a group may be far behind."""
    try:
        target.create_topic(name, partitions=1, configs={"retention.ms": "-1", "cleanup.policy": "delete"})
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def _configs(source: Admin, topic: str, say: Callable[[str], None]) -> dict[str, str]:
    try:
        effective = {one.name: one.value for one in source.configs("topic", topic) if one.value is not None}
        kept = own_configs(source, topic)
    except KafkaError as error:
        say(f"the configs of {topic} cannot be seen, its copy keeps records for ever: {error}")
        return {"retention.ms": "-1"}
    kept |= {name: effective[name] for name in _LIKE_THE_SOURCE if name in effective}
    for name in _STAMPS:
        kept.pop(name, None)
    return kept | dict.fromkeys(_STAMPS[1:], _ANY_MS) | {_STAMPS[0]: "CreateTime"}


def _check_empty(target: Admin, topic: str, name: str) -> None:
    if has_records(target, name):
        raise ConfigError(
            f"the topic {name} has records already, and not of this mirror",
            next_step=f"mirror to another one: --rename {topic}=OTHER, or name the directory of its mirror",
        )


def _deleted(name: str) -> ConfigError:
    return ConfigError(
        f"the topic {name} was deleted since this mirror began",
        next_step="mirror from the start: name another directory, and delete the other copies",
    )
