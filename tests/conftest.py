"""The fixtures that users get from the wheel (`barnabas.testing.plugin`), for our own tests.

`kafka` is one node for the session, `kafka_node` one for a single test.
"""

from __future__ import annotations

from barnabas.testing.plugin import kafka, kafka_node

__all__ = ["kafka", "kafka_node"]
