"""Sessions through Spark Connect: the Spark runs elsewhere, this process needs neither Java nor Spark's jars.

What reads and writes topics runs in the server's Python, so Barnabas has to be installed there.  Whether it is, is
looked at once, when the session starts.
"""

from __future__ import annotations

import importlib.util
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from barnabas.errors import BarnabasError, ConfigError
from barnabas.extras import to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["connected", "is_remote"]

_NEEDED = ("pyspark", "pandas", "pyarrow", "grpc", "grpc_status", "google.rpc", "zstandard")
_PORT = 15002
_ANSWER_S = 5.0
_OURS = {"spark.sql.session.timeZone": "UTC", "spark.sql.python.filterPushdown.enabled": "true"}


def is_remote(master: str) -> bool:
    """Whether it is the address of a Connect server."""
    return master.startswith("sc://")


def connected(app: str, address: str, conf: dict[str, str]) -> SparkSession:
    """A session at sc://HOST:15002.  Raises BarnabasError, in one line."""
    missing = [name for name in _NEEDED if not _is_installed(name)]
    if missing:
        raise BarnabasError(
            f"Spark Connect needs Python packages that are not installed: {', '.join(missing)}",
            next_step=to_install("connect"),
        )
    _check_answers(address)

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(address).appName(app)
    for name, value in (_OURS | conf).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    _check_source(spark, address)
    return spark


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _check_answers(address: str) -> None:
    """Spark itself tries for minutes."""
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host, port = None, _PORT
    if not host:
        raise ConfigError(
            f"{address[:200]} is no address of a Connect server", next_step="write sc://HOST:15002"
        )
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError as error:
        raise BarnabasError(
            f"no Spark Connect server answers at {host}:{port}: {error.strerror or error}",
            next_step="start it (start-connect-server.sh), or name another one",
        ) from None


def _check_source(spark: SparkSession, address: str) -> None:
    """Whether the server knows our format: without options it complains of them, and in our words."""
    try:
        spark.read.format("barnabas").load().schema  # noqa: B018 (that asks the server)
    except Exception as error:
        if "subscribe" in str(error):
            return
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise BarnabasError(
                f'the Spark at {address.partition(";")[0]} has no format("barnabas")',
                next_step=f"{to_install('spark')}, there, where the server's PYSPARK_PYTHON finds it",
            ) from None
        raise
