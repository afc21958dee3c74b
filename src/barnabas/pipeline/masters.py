"""Spark on other machines: which address of this one they can reach, and whether they can run what we send.

A master that is not `local` has workers with a Python and packages of their own.  Both are looked at once, when
the session starts: a query would fail late, in a task, and with a page of Java.
"""

from __future__ import annotations

import re
import socket
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from barnabas.errors import BarnabasError, ConfigError
from barnabas.extras import to_install
from barnabas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

__all__ = ["Probed", "check_master", "check_workers", "complaint", "is_local", "own_address"]

_ANSWER_S = 5.0
_WORKER_S = 60.0
_LOOK_S = 0.2
_ELSEWHERE = ("192.0.2.1", 9)
"""An address of documentation: nothing is sent to it, only the route to it is asked for."""
_THREADS = r"(\d+|\*)"
_KINDS = re.compile(
    rf"local(\[\s*{_THREADS}\s*(,\s*\d+\s*)?\])?|local-cluster\[.*\]|spark://.*|yarn|k8s://.+", re.DOTALL
)
"""What spark-submit takes; with anything else Java ends before PySpark hears why."""


class Probed(NamedTuple):
    """What a worker says of itself; `error` where it cannot import what a task needs."""

    host: str
    python: str
    version: str
    """Of Barnabas there."""
    error: str | None = None


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine, in processes that Spark itself starts."""
    return master.startswith("local")


def _addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each master in spark://a:1,b:2; none for other kinds."""
    if not master.startswith("spark://"):
        return []
    found = []
    for text in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"//{text}")
            if not parts.hostname or parts.port is None:
                raise ValueError("it has no port")
            found.append((parts.hostname, parts.port))
        except ValueError as error:
            raise ConfigError(
                f"{master} is no address of a master: {error}", next_step="write spark://HOST:7077"
            ) from error
    return found


def own_address(master: str) -> str:
    """The address of this machine on the way to the master, where workers find the driver."""
    for host, port in [*_addresses(master), _ELSEWHERE]:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as sock:
                sock.connect(address)
                return str(sock.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def check_master(master: str) -> None:
    """Whether Spark knows such a master and, a standalone one, it answers.  Raises BarnabasError.

    (Spark itself tries for a minute.)
    """
    if not _KINDS.fullmatch(master):
        raise ConfigError(
            f"{master!r} is no master that Spark knows",
            next_step="write local[*], spark://HOST:7077, yarn or k8s://HOST:PORT",
        )
    failures = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), _ANSWER_S).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    if failures:
        raise BarnabasError(
            f"no Spark master answers: {'; '.join(failures)}",
            next_step="start it, or name another one; without one: master local[*]",
        )


def check_workers(spark: SparkSession) -> None:
    """Whether workers can run our tasks.  Raises BarnabasError, in one line."""
    context = spark.sparkContext
    deadline = time.monotonic() + _WORKER_S
    while int(context._jsc.sc().getExecutorMemoryStatus().size()) < 2:  # (the driver is one)
        if time.monotonic() > deadline:
            raise BarnabasError(
                f"{context.master} gives this application no worker in {_WORKER_S:g} s",
                next_step="see on its page whether workers have a core and spark.executor.memory (1g) free",
            )
        time.sleep(_LOOK_S)

    def probe(_: Iterable[int]) -> Iterator[tuple[str, str, str, str | None]]:
        """Travels whole, for there may be nothing to import it from."""
        import platform
        import sys

        try:
            import pyarrow  # noqa: F401  (is it there?)

            from barnabas.version import __version__ as there

            yield platform.node(), sys.executable, there, None
        except Exception as error:
            yield platform.node(), sys.executable, "", str(error)

    count = max(2, context.defaultParallelism)
    try:
        found = context.parallelize(range(count), count).mapPartitions(probe).collect()
    except Exception as error:
        raise complaint(str(error)) from error
    for one in found:
        check_probed(Probed(*one))


def check_probed(worker: Probed) -> None:
    """Whether a worker has what a task needs, in our version.  Raises BarnabasError."""
    where = f"the worker on {worker.host} ({worker.python})"
    if worker.error is not None:
        raise BarnabasError(
            f"{where} cannot run tasks: {worker.error}",
            next_step=f"{to_install('spark')}, there; or set PYSPARK_PYTHON to an interpreter that has it",
        )
    if worker.version != __version__:
        raise BarnabasError(
            f"{where} has Barnabas {worker.version}, the driver {__version__}",
            next_step="install the same release on all of them",
        )


def complaint(said: str) -> BarnabasError:
    """What to say where workers cannot even start Python; `said` is Spark's page."""
    if program := re.search(r'Cannot run program "([^"]+)"', said):
        return BarnabasError(
            f"Spark's workers have no {program[1]}",
            next_step="set PYSPARK_PYTHON to an interpreter that they and this machine have, such as python3.11",
        )
    if versions := re.search(
        r"Python in worker has different version: (\S+?)\.? than that in driver: (\S+?)[,.]? ", said
    ):
        return BarnabasError(
            f"Spark's workers have Python {versions[1]}, the driver {versions[2]}",
            next_step="set PYSPARK_PYTHON to an interpreter of the same version on all of them",
        )
    first = next((line.strip() for line in said.splitlines() if line.strip()), "no reason given")
    return BarnabasError(f"Spark's workers cannot run Python: {first}")
