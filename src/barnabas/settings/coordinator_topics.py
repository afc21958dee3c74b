"""The topics in which coordinators keep their state, and the settings by which a broker counts their partitions.

A broker of Apache Kafka takes the count from the topic when it starts, and from its own setting where there is no
topic yet.  It keeps to that until its next start: if another broker makes the topic with another count meanwhile,
its groups are not found, and its transactions not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

__all__ = ["ASKED", "COUNT_SETTINGS", "KAFKAS_COUNT", "is_ours", "kafkas_counts", "properties_for"]

COUNT_SETTINGS = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}
KAFKAS_COUNT = 50
_OURS = "barnabas.fast.fencing"
ASKED = (*COUNT_SETTINGS.values(), _OURS)
"""Settings that tell a broker's counts and its kind: one of Apache Kafka has no setting of ours."""


def is_ours(told: Mapping[str, str | None]) -> bool:
    """Return whether a broker that tells these settings runs Barnabas."""
    return _OURS in told


def kafkas_counts(told: Mapping[str, str | None]) -> dict[str, int]:
    """Return the count of each topic by the settings of a broker of Apache Kafka; nothing for one of ours."""
    if is_ours(told):
        return {}
    given = {topic: told.get(name) or "" for topic, name in COUNT_SETTINGS.items()}
    return {topic: int(count) for topic, count in given.items() if count.isdecimal()}


def properties_for(counts: Mapping[str, int]) -> str:
    """Return the settings that say these counts, as one writes them into a broker's file."""
    return " and ".join(f"{COUNT_SETTINGS[topic]}={count}" for topic, count in sorted(counts.items()))
