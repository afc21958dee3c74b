"""A Spark Connect server on this machine, started as its users start it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from barnabas.pipeline.session import environment
from barnabas.testing.cluster import free_ports

__all__ = ["connect_server"]


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Its address, sc://..."""
    port = free_ports(1)
    script = Path(pyspark.__file__).parent / "sbin" / "start-connect-server.sh"
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    log = folder / "connect.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [script, "--master", "local[2]", *arguments],
            stdout=out,
            stderr=out,
            env={**os.environ, **environment(), "SPARK_NO_DAEMONIZE": "1"},
            cwd=folder,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
