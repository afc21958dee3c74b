"""Every setting of a node (`table`) and of a topic (`topics`), values as `text`, and Kafka's that are `unused`."""

from __future__ import annotations

from barnabas.settings.setting import MAX_INT, MAX_LONG, REQUIRED, Setting, Value
from barnabas.settings.table import SETTINGS
from barnabas.settings.topics import KEPT_ONLY, TOPIC_SETTINGS

__all__ = ["KEPT_ONLY", "MAX_INT", "MAX_LONG", "REQUIRED", "SETTINGS", "TOPIC_SETTINGS", "Setting", "Value"]
