"""A Spark session that starts on a bare machine: no Java, no jar, no configuration.

`session("my job")` finds a Java (see `java`), binds the driver to this machine only, gives the workers the
Python that runs now and the packages it sees, and turns down what Spark would otherwise log.  Settings given
by keyword win over ours; dots are written as double underscores or in a mapping:

    session("archive", master="local[4]", **{"spark.sql.shuffle.partitions": "8"})

With a master at sc://HOST:15002 the session is one of Spark Connect, and Spark runs there (see `connect`).
With a master on other machines (spark://...) the driver is bound to the address that they reach, workers run the
interpreter that PYSPARK_PYTHON names (this one's path unless set), and whether they can is seen at once.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.errors import BarnabasError
from barnabas.extras import to_install
from barnabas.interpreter import SAFE_PATH
from barnabas.pipeline.connect import connected, is_remote
from barnabas.pipeline.java import cache_directory, find_java, write_once
from barnabas.pipeline.masters import check_master, check_workers, is_local, own_address
from barnabas.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["environment", "session"]

_NEEDED = ("pyspark", "pyarrow", "pandas", "numpy")
_OURS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|key|user.info",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",
}
_SOCKETS = "spark.python.unix.domain.socket.enabled"
_LONGEST_SOCKET_PATH = 103
"""Bytes: what macOS takes; Linux takes 107."""
_FOLDER = "barnabas-spark-"
_SPARKS_SOCKET = "/.01234567-89ab-cdef-0123-456789abcdef.sock"
"""How long the names are that Spark adds."""
# (Spark says in two lines how it changes the level, unless the program that it starts has the same one.)
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""


def environment() -> dict[str, str]:
    """What Spark's own commands (spark-pipelines, start-connect-server.sh) have to find in their environment.

    Raises BarnabasError where there is no Java.
    """
    return {
        "JAVA_HOME": find_java().path,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **safe_path(os.getcwd()),
    }


def safe_path(folder: str) -> dict[str, str]:
    """Return the environment in which a Python that starts in `folder` finds its own modules.

    Spark's Pythons look into the folder first, and jobs rely on that.  Where a file there has the name of one of
    Python's modules, they would not start: only then the folder is left out.
    """
    names = {os.path.splitext(name)[0] for name in os.listdir(folder)}
    return {SAFE_PATH: "1"} if names & sys.stdlib_module_names else {}


def session(app: str, master: str = "local[*]", **conf: str) -> SparkSession:
    """Start (or get) a Spark session.

    Raises BarnabasError, with what to install, when PySpark or Java is missing, no master answers, or workers
    cannot run our tasks.
    """
    if is_remote(master):
        return connected(app, master, {name.replace("__", "."): value for name, value in conf.items()})
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BarnabasError(
            f"Spark needs Python packages that are not installed: {', '.join(missing)}",
            next_step=to_install("spark"),
        )
    java = find_java()
    os.environ["JAVA_HOME"] = java.path
    local = is_local(master)
    address = "127.0.0.1" if local else own_address(master)
    check_master(master)
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", address)
    _show_workers_our_packages()

    from pyspark.sql import SparkSession

    bound = {"spark.driver.host": address, "spark.driver.bindAddress": address}
    given = {name.replace("__", "."): value for name, value in conf.items()}
    lines = lines_to_workers() if local and _SOCKETS not in given else {}
    settings = _OURS | bound | lines | given
    quiet = f"-Dlog4j2.configurationFile=file:{_logging_file()}"
    options = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{quiet} {options}".strip()
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment(safe_path(os.getcwd())):  # (Java starts here, and hands it to Spark's Pythons)
        spark = builder.getOrCreate()
    if not local:
        try:
            check_workers(spark)
        except BaseException:
            spark.stop()
            raise
    return spark


@contextlib.contextmanager
def _environment(added: dict[str, str]) -> Iterator[None]:
    """Add to the environment of processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _show_workers_our_packages() -> None:
    """Workers import this package by name; run from a source tree, they need to be told where it is."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    known = os.environ.get("PYTHONPATH", "")
    if here not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (here, known) if part)


@functools.cache
def lines_to_workers() -> dict[str, str]:
    """Settings for Unix sockets between Spark and its Python workers, which cost less than TCP for large rows.

    Spark asks nobody who connects to these sockets for a secret: their folder is this user's alone.
    """
    longest = f"{tempfile.gettempdir()}/{_FOLDER}12345678{_SPARKS_SOCKET}"
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(longest)) > _LONGEST_SOCKET_PATH:
        return {}
    try:
        folder, _ = scratch_directory(_FOLDER)
    except OSError:  # such a folder cannot be made, or held, in this directory for temporary files
        return {}
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {
        _SOCKETS: "true",
        "spark.python.unix.domain.socket.dir": folder,
        "spark.python.daemon.module": "barnabas.pipeline.worker_daemon",
    }


def _logging_file() -> str:
    """The file that turns Spark's log down; read by Java once, at its start."""
    path = os.path.join(cache_directory(os.environ), "spark-logging.properties")
    write_once(path, _LOGGING)
    return path
