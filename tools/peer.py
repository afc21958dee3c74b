"""The Apache Kafka that tests and benchmarks stand beside: `KAFKA_VERSION` (4.4.0), its jars in `KAFKA_LIBS`.

The scripts in `tools/kafka` take the same two variables.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CONFIGS", "KAFKA_LIBS", "KAFKA_VERSION", "PEER", "RELEASE", "SCRIPTS", "has_shell"]

KAFKA_VERSION = os.environ.get("KAFKA_VERSION", "4.4.0")
KAFKA_LIBS = Path(os.environ.get("KAFKA_LIBS") or Path.home() / ".cache" / f"kafka-{KAFKA_VERSION}" / "libs")
PEER = f"Apache Kafka {KAFKA_VERSION}"
SCRIPTS = Path(__file__).parent / "kafka"
CONFIGS = "kafka.admin.ConfigCommand" if KAFKA_VERSION < "4.4" else "org.apache.kafka.tools.ConfigCommand"
"""The class of `kafka-configs.sh`, which 4.4 moved."""
RELEASE = ("--release-version", "4.3") if KAFKA_VERSION < "4.4" else ()
"""Flags that format a cluster of ours which nodes of this Kafka can join."""


def has_shell() -> bool:
    """Return whether Kafka's metadata shell is among its jars: not every release brings it."""
    return any(KAFKA_LIBS.glob("kafka-shell-*.jar"))
