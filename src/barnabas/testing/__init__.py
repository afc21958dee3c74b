"""Real nodes for your tests: `with Cluster() as kafka: Producer(kafka.bootstrap)`.

No container and no JVM: each node is a process of its own in a temporary directory, on ports that are free, ready
in a fraction of a second and gone at the end.  `Cluster(nodes=3)` can be killed, paused, cut and healed node by
node.  With pytest, the fixture `kafka` gives one node for the session.
"""

from __future__ import annotations

from barnabas.testing.cluster import Cluster
from barnabas.testing.node import Node

__all__ = ["Cluster", "Node"]
