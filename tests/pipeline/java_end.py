"""A test file's Spark ends with its Java: the next file of the same process begins with one of its own."""

from __future__ import annotations

from typing import Any

__all__ = ["end"]


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
