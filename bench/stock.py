"""Spark's own Kafka connector: its jars, fetched once, for comparisons with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["connector_jars", "why_no_connector"]

_GET = Path(__file__).parents[1] / "tools" / "spark" / "get-jars.sh"
_LIBS = Path(os.environ.get("SPARK_KAFKA_LIBS", Path.home() / ".cache" / "spark-sql-kafka-4.2.0"))


def why_no_connector() -> str | None:
    """Why the stock connector cannot be had here; None when its jars are there (it fetches them once)."""
    if (_LIBS / ".complete").exists():
        return None
    if not shutil.which("mvn"):
        return "the jars of Spark's Kafka connector come by mvn, which is not on this machine"
    ran = subprocess.run([_GET], check=False, capture_output=True, text=True, timeout=600)
    if ran.returncode:
        last = (ran.stdout + ran.stderr).strip().splitlines()[-1:]
        return f"the jars of Spark's Kafka connector do not resolve: {' '.join(last)}"
    return None


def connector_jars() -> str:
    """For `spark.jars`."""
    return ",".join(str(jar) for jar in sorted(_LIBS.glob("*.jar")))
