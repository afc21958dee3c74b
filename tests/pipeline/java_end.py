"""A test file's Spark ends with its Java: the next file of the same process begins with one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["end", "local_session"]


@contextmanager
def local_session(name: str, warehouse: Path) -> Iterator[Any]:
    """A session on this machine, ended with its Java."""
    from barnabas.pipeline.session import session

    found = session(name, "local[2]", **{"spark.sql.warehouse.dir": str(warehouse)})
    yield found
    end(found)


def end(session: Any) -> None:
    """Stop the session and the Java that PySpark would keep for the next one, with this one's environment."""
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        SparkContext._gateway = SparkContext._jvm = None
