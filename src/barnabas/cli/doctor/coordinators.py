"""Looking for brokers that count the partitions of the coordinators' topics otherwise than the topics do."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cli.doctor.findings import Findings
from barnabas.settings.coordinator_topics import COUNT_SETTINGS, KAFKAS_COUNT, properties_for

__all__ = ["examine_counts"]

_CHECK = "coordinators"


def examine_counts(
    topics: Mapping[str, int], kafkas: Mapping[int, Mapping[str, int]], found: Findings
) -> None:
    """Say where a broker of Apache Kafka may count otherwise: `topics` has the partitions of those that exist.

    `kafkas` has the settings of each such broker.  Kafka's own count is nothing to tell.
    """
    counts = {name: topics[name] for name in COUNT_SETTINGS if name in topics}
    shown = ", ".join(f"{name} has {count} partitions" for name, count in sorted(counts.items()))
    others = [
        broker
        for broker, told in sorted(kafkas.items())
        if any(told.get(name, count) != count for name, count in counts.items())
    ]
    if others:
        who = ", ".join(map(str, others))
        found.warn(
            _CHECK,
            f"{shown}; by their settings brokers of Apache Kafka expect other counts ({who}): whichever of them "
            "ran when the topics were made finds no groups and loads no transactions",
            f"set {properties_for(counts)} in the file of each, and start it again",
        )
    elif any(count != KAFKAS_COUNT for count in counts.values()):
        found.ok(_CHECK, f"{shown}; a broker of Apache Kafka should have {properties_for(counts)}")
