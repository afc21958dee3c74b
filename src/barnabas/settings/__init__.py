"""Every setting of a node and of a topic: the `table`, values as `text`, and what Kafka has `unused` by us."""

from __future__ import annotations

from barnabas.settings.table import (
    KEPT_ONLY,
    MAX_INT,
    MAX_LONG,
    REQUIRED,
    SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    Value,
)

__all__ = ["KEPT_ONLY", "MAX_INT", "MAX_LONG", "REQUIRED", "SETTINGS", "TOPIC_SETTINGS", "Setting", "Value"]
