"""A real node for your tests: `with Cluster() as kafka: Producer(kafka.bootstrap)`.

No container and no JVM: a process of its own in a temporary directory, on ports that are free, ready in a
fraction of a second and gone at the end.  With pytest, the fixture `kafka` gives one for the session.
"""

from __future__ import annotations

from barnabas.testing.cluster import Cluster

__all__ = ["Cluster"]
